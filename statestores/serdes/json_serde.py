"""JSON values."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from statestores.serdes.arrow_columns import as_binary, is_text, map_chunks, map_values, pyarrow
from statestores.serdes.canonical_json import LEAVES, is_plain, read, write
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
            # The first step of `is_plain`, written out: most values are flat, and a call for each
            # costs as much as its text.
            if type(value) is dict:
                plain = True
                for child in value.values():  # each of them, since it refuses as well
                    if type(child) not in LEAVES and not is_plain(child, depth=1):
                        plain = False
                if not plain:
                    return write(value)
            elif type(value) not in LEAVES and not is_plain(value):
                return write(value)
            # A copy, without the newline: orjson leaves a text of 80 bytes in 4 KiB of memory, and
            # a store holds values until it commits. Holding many is six times as fast with it.
            return _codec.dumps(value, None, _codec.options)[:-1]
        except (TypeError, ValueError) as error:
            raise refused_value(self.name, value, f"{_EXPECTED}; {error}") from error

    def decode(self, data: bytes) -> Any:
        try:
            value = _codec.loads(data)
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


class _Codec:
    """The fastest functions there are to write plain values, each with a newline, and to read.

    Which these are is found out by the first call, so that nothing is imported before. Each call
    after it finds the function itself: to ask a cache for it takes a fifth of reading a value.
    """

    __slots__ = ("dumps", "loads", "options")

    dumps: Callable[[Any, None, int], bytes]
    loads: Callable[[Any], Any]

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Find out anew, at the next call."""
        self.options = 0
        self.dumps, self.loads = self._dumps_first, self._loads_first

    def choose(self) -> None:
        """Find out."""
        try:
            orjson = import_module("orjson")
        except ModuleNotFoundError as error:
            if error.name != "orjson":
                raise
            self.dumps, self.loads = _write_line, read
            return
        self.options = orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE  # before who needs them
        self.dumps, self.loads = orjson.dumps, orjson.loads

    def _dumps_first(self, value: Any, _default: None, _options: int) -> bytes:
        self.choose()
        return self.dumps(value, None, self.options)

    def _loads_first(self, data: Any) -> Any:
        self.choose()
        return self.loads(data)


def _write_line(value: Any, _default: None, _options: int) -> bytes:
    return write(value) + b"\n"


_codec = _Codec()
