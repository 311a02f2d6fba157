"""MessagePack values."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from statestores.serdes.arrow_columns import as_binary, is_binary, map_chunks, map_values, pyarrow
from statestores.serdes.optional_packages import require
from statestores.serdes.refusals import refused_bytes, refused_value

_EXPECTED: Final = "dict, list, str, bytes, int of 64 bits, float, bool, msgpack.Timestamp"


@dataclass(frozen=True, slots=True)
class MsgpackSerde:
    """MessagePack: JSON's types and bytes, smaller and without a text form (SRD-16).

    Takes what reads back as itself: no tuples, no subclasses. Dicts keep their order, so two that
    are equal may differ in their bytes; as keys, that makes them two. In Arrow, a column of bytes
    *is* MessagePack; a column of any other type holds values (SRD-20).
    """

    name: str = field(default="msgpack", init=False)
    sorted: bool = field(default=False, init=False)

    def encode(self, value: Any) -> bytes:
        if value is None:
            raise refused_value(self.name, value, _EXPECTED)
        try:
            # Not a shared Packer, which is faster: a serde may be used by several threads. `packb`
            # makes one as well, and passes its options on as a dictionary.
            data: bytes = _msgpack().Packer(strict_types=True).pack(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise refused_value(self.name, value, f"{_EXPECTED}; {error}") from error
        return data

    def decode(self, data: bytes) -> Any:
        msgpack = _msgpack()
        try:
            value = msgpack.unpackb(data, strict_map_key=False)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            reason = str(error) or type(error).__name__
            raise refused_bytes(self.name, data, f"they are not MessagePack, {reason}") from error
        if value is None:
            raise refused_bytes(self.name, data, "nil stands for no value, and this is one")
        return value

    def encode_array(self, values: Any) -> Any:
        return map_chunks(self._encode_chunk, values, self.arrow_type())

    def _encode_chunk(self, array: Any) -> Any:
        if is_binary(array.type):
            return self._decode_chunk(array)
        return map_values(self.encode, array, self.arrow_type())

    def decode_array(self, data: Any) -> Any:
        return map_chunks(self._decode_chunk, data, self.arrow_type())

    def _decode_chunk(self, array: Any) -> Any:
        """Return *array* as it is, once it is certain that it is MessagePack."""
        binary = as_binary(array, self.name)
        for data in binary.to_pylist():
            if data is not None:
                self.decode(data)
        return binary

    def arrow_type(self) -> Any:
        return pyarrow().binary()


msgpack = MsgpackSerde()
"""What MessagePack can say."""


@cache
def _msgpack() -> Any:
    return require("msgpack", purpose="the serde 'msgpack'", extra="serdes")
