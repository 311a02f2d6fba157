"""Floating-point numbers of 64 bits."""

import struct
from dataclasses import dataclass, field
from typing import Any, Final

from statestores.serdes.arrow_columns import map_chunks, map_values, pyarrow
from statestores.serdes.eight_byte_columns import from_bytes, to_bytes
from statestores.serdes.refusals import not_eight_bytes, refused_column, refused_value

_EXPECTED: Final = "a float, or an int that a float holds exactly"

_pack = struct.Struct(">d").pack
_unpack = struct.Struct(">d").unpack


@dataclass(frozen=True, slots=True)
class Float64Serde:
    """Eight bytes, big-endian, IEEE 754: Kafka's Double serde (SRD-14).

    Not sorted: negative numbers come after positive ones, in reverse. As keys, 0.0 and -0.0 are
    two. An ``int`` is accepted where a type checker accepts it, if nothing is lost.
    """

    name: str = field(default="float64", init=False)
    sorted: bool = field(default=False, init=False)

    def encode(self, value: float) -> bytes:
        return _pack(value if type(value) is float else self._as_float(value))

    def _as_float(self, value: object) -> float:
        """Return a number as the float that equals it."""
        if isinstance(value, float):
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            raise refused_value(self.name, value, _EXPECTED)
        try:
            number = float(value)
        except OverflowError as error:
            raise refused_value(self.name, value, _EXPECTED) from error
        if number != value:
            raise refused_value(self.name, value, _EXPECTED)
        return number

    def decode(self, data: bytes) -> float:
        try:
            number: float = _unpack(data)[0]
        except (struct.error, TypeError, BufferError) as error:
            raise not_eight_bytes(self.name, data) from error
        return number

    def encode_array(self, values: Any) -> Any:
        return map_chunks(self._encode_chunk, values, pyarrow().binary())

    def _encode_chunk(self, array: Any) -> Any:
        return to_bytes(self._as_float64(array), self.name, lambda numbers: numbers.astype(">f8"))

    def _as_float64(self, array: Any) -> Any:
        """Return *array*, of numbers of any width, as float64."""
        pa = pyarrow()
        types = pa.types
        if not (
            types.is_floating(array.type)
            or types.is_integer(array.type)
            or types.is_null(array.type)
        ):
            raise refused_column(self.name, array.type, "numbers")
        try:
            return array.cast(pa.float64())
        except pa.ArrowInvalid:
            # Arrow refuses every whole number from 2**53 on, even those that a float holds.
            return map_values(self._as_float, array, pa.float64())

    def decode_array(self, data: Any) -> Any:
        return map_chunks(self._decode_chunk, data, self.arrow_type())

    def _decode_chunk(self, array: Any) -> Any:
        return from_bytes(
            array, self.name, ">f8", lambda numbers: numbers.astype("=f8"), self.decode
        )

    def arrow_type(self) -> Any:
        return pyarrow().float64()


float64 = Float64Serde()
"""``float`` as Kafka's Double. For values."""
