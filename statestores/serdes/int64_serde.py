"""Whole numbers of 64 bits, once as Kafka writes them and once in an order that means something."""

import struct
from dataclasses import dataclass, field
from typing import Any, Final

from statestores.serdes.arrow_columns import map_chunks, pyarrow
from statestores.serdes.eight_byte_columns import from_bytes, to_bytes
from statestores.serdes.refusals import not_eight_bytes, refused_column, refused_value

_SIGN: Final = 1 << 63
_EXPECTED: Final = "an int from -2**63 to 2**63 - 1"

_pack_signed = struct.Struct(">q").pack
_unpack_signed = struct.Struct(">q").unpack
_pack_unsigned = struct.Struct(">Q").pack
_unpack_unsigned = struct.Struct(">Q").unpack


@dataclass(frozen=True, slots=True)
class Int64Serde:
    """Eight bytes, big-endian, two's complement: Kafka's Long serde (SRD-12).

    Not sorted: the bytes of negative numbers come after those of positive ones.
    """

    name: str = field(default="int64", init=False)
    sorted: bool = field(default=False, init=False)

    def encode(self, value: int) -> bytes:
        if type(value) is not int:
            _check_int(self.name, value)
        try:
            return _pack_signed(value)
        except struct.error as error:
            raise refused_value(self.name, value, _EXPECTED) from error

    def decode(self, data: bytes) -> int:
        try:
            number: int = _unpack_signed(data)[0]
        except (struct.error, TypeError, BufferError) as error:
            raise not_eight_bytes(self.name, data) from error
        return number

    def encode_array(self, values: Any) -> Any:
        return map_chunks(self._encode_chunk, values, pyarrow().binary())

    def _encode_chunk(self, array: Any) -> Any:
        return to_bytes(_as_int64(self, array), self.name, lambda numbers: numbers.astype(">i8"))

    def decode_array(self, data: Any) -> Any:
        return map_chunks(self._decode_chunk, data, self.arrow_type())

    def _decode_chunk(self, array: Any) -> Any:
        return from_bytes(
            array, self.name, ">i8", lambda numbers: numbers.astype("=i8"), self.decode
        )

    def arrow_type(self) -> Any:
        return pyarrow().int64()


@dataclass(frozen=True, slots=True)
class SortedInt64Serde:
    """Eight bytes, big-endian, the sign bit flipped: the bytes sort as the numbers do (SRD-13)."""

    name: str = field(default="int64_sorted", init=False)
    sorted: bool = field(default=True, init=False)

    def encode(self, value: int) -> bytes:
        if type(value) is not int:
            _check_int(self.name, value)
        try:
            return _pack_unsigned(value + _SIGN)
        except struct.error as error:
            raise refused_value(self.name, value, _EXPECTED) from error

    def decode(self, data: bytes) -> int:
        try:
            shifted: int = _unpack_unsigned(data)[0]
        except (struct.error, TypeError, BufferError) as error:
            raise not_eight_bytes(self.name, data) from error
        return shifted - _SIGN

    def encode_array(self, values: Any) -> Any:
        return map_chunks(self._encode_chunk, values, pyarrow().binary())

    def _encode_chunk(self, array: Any) -> Any:
        return to_bytes(
            _as_int64(self, array),
            self.name,
            lambda numbers: (numbers.view("=u8") ^ _SIGN).astype(">u8"),
        )

    def decode_array(self, data: Any) -> Any:
        return map_chunks(self._decode_chunk, data, self.arrow_type())

    def _decode_chunk(self, array: Any) -> Any:
        return from_bytes(
            array,
            self.name,
            ">u8",
            lambda numbers: (numbers.astype("=u8") ^ _SIGN).view("=i8"),
            self.decode,
        )

    def arrow_type(self) -> Any:
        return pyarrow().int64()


int64 = Int64Serde()
"""``int`` as Kafka's Long. For values, and for keys that Kafka clients read or partition by."""

int64_sorted = SortedInt64Serde()
"""``int`` in order. For keys that `range` reads."""


def _check_int(serde: str, value: object) -> None:
    """Accept subclasses of ``int``, such as enums, but not ``bool``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise refused_value(serde, value, _EXPECTED)


def _as_int64(serde: Int64Serde | SortedInt64Serde, array: Any) -> Any:
    """Return *array*, of whole numbers of any width, as int64."""
    pa = pyarrow()
    if not pa.types.is_integer(array.type) and not pa.types.is_null(array.type):
        raise refused_column(serde.name, array.type, "whole numbers")
    try:
        return array.cast(pa.int64())
    except pa.ArrowInvalid as error:
        # Only uint64 has numbers that do not fit, and these are its highest.
        highest = pa.compute.max(array).as_py()
        raise refused_value(serde.name, highest, _EXPECTED) from error
