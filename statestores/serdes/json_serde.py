"""JSON values."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, Final

from statestores.serdes.arrow_columns import as_binary, is_text, map_chunks, map_values, pyarrow
from statestores.serdes.canonical_json import is_plain, read, write
from statestores.serdes.refusals import refused_bytes, refused_value

_EXPECTED: Final = "dict with str keys, list, str, int, float, bool"


@dataclass(frozen=True, slots=True)
class JsonSerde:
    """JSON in canonical form: equal values of equal types give equal bytes (SRD-15).

    Takes what reads back as itself: no tuples, no keys but ``str``, no NaN, no integers beyond 64
    bits. ``null`` is allowed inside a value but not as one: a store expresses absence itself. In
    Arrow, a column of text *is* JSON text; a column of any other type holds values (SRD-20).

    With orjson installed it is several times as fast; the bytes are the same.
    """

    name: str = field(default="json", init=False)
    sorted: bool = field(default=False, init=False)

    def encode(self, value: Any) -> bytes:
        if value is None:
            raise refused_value(self.name, value, _EXPECTED)
        try:
            return _codec()[0](value) if is_plain(value) else write(value)
        except (TypeError, ValueError) as error:
            raise refused_value(self.name, value, f"{_EXPECTED}; {error}") from error

    def decode(self, data: bytes) -> Any:
        try:
            value = _codec()[1](data)
        except (ValueError, TypeError, RecursionError) as error:
            raise refused_bytes(self.name, data, f"they are not JSON, {error}") from error
        if value is None:
            raise refused_bytes(self.name, data, "null stands for no value, and this is one")
        return value

    def encode_array(self, values: Any) -> Any:
        return map_chunks(self._encode_chunk, values, pyarrow().binary())

    def _encode_chunk(self, array: Any) -> Any:
        encode = self._encode_text if is_text(array.type) else self.encode
        return map_values(encode, array, pyarrow().binary())

    def _encode_text(self, text: str) -> bytes:
        """Return the canonical form of a JSON text."""
        return self.encode(self.decode(text.encode()))

    def decode_array(self, data: Any) -> Any:
        return map_chunks(self._decode_chunk, data, self.arrow_type())

    def _decode_chunk(self, array: Any) -> Any:
        return map_values(self._decode_text, as_binary(array, self.name), self.arrow_type())

    def _decode_text(self, data: bytes) -> bytes:
        """Return *data* as it is, once it is certain that it is JSON."""
        self.decode(data)
        return data

    def arrow_type(self) -> Any:
        return pyarrow().string()


json = JsonSerde()
"""What JSON can say, in canonical form."""


@cache
def _codec() -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """Return the fastest functions available to write plain values and to read."""
    try:
        orjson = import_module("orjson")
    except ModuleNotFoundError as error:
        if error.name != "orjson":
            raise
        return write, read
    dumps, options = orjson.dumps, orjson.OPT_SORT_KEYS

    def write_plain(value: Any) -> bytes:
        # A copy: orjson leaves a text of 80 bytes in 4 KiB of memory, and a store holds values
        # until it commits. Holding many is six times as fast with it. Joining two parts is
        # cheapest: joining one would give that part itself.
        return b"".join((dumps(value, None, options), b""))

    return write_plain, orjson.loads
