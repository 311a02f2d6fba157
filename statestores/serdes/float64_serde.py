"""Floating-point numbers of 64 bits."""

import struct
from dataclasses import dataclass, field
from typing import Any, Final

from statestores.serdes.arrow_columns import map_chunks, map_values, numpy, pyarrow
from statestores.serdes.eight_byte_columns import from_bytes, to_bytes
from statestores.serdes.refusals import not_eight_bytes, refused_column, refused_value

_EXPECTED: Final = "a float, or an int that a float holds exactly"

_pack = struct.Struct(">d").pack
_unpack = struct.Struct(">d").unpack

NAN_BYTES: Final = bytes.fromhex("7ff8000000000000")
"""The NaN that is written: Java writes this one too, whatever it has computed."""


@dataclass(frozen=True, slots=True)
class Float64Serde:
    """Eight bytes, big-endian, IEEE 754: Kafka's Double serde (SRD-14).

    Not sorted: negative numbers come after positive ones, in reverse. As keys, 0.0 and -0.0 are
    two, and NaN is one, whichever of its bits a computation has given. An ``int`` is accepted where
    a type checker accepts it, if nothing is lost.
    """

    name: str = field(default="float64", init=False)
    sorted: bool = field(default=False, init=False)

    def encode(self, value: float) -> bytes:
        if type(value) is not float:
            value = self._as_float(value)
        return _pack(value) if value == value else NAN_BYTES  # noqa: PLR0124  # what NaN is not

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
        return to_bytes(self._as_float64(array), self.name, _big_endian)

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


def _big_endian(numbers: Any) -> Any:
    """Return a numpy array of floats as what is written of them."""
    np = numpy()
    written = numbers.astype(">f8")
    odd = np.isnan(written)
    if odd.any():
        written.view(">u8")[odd] = int.from_bytes(NAN_BYTES)
    return written


float64 = Float64Serde()
"""``float`` as Kafka's Double. For values."""
