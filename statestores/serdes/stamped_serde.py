"""The serde of a value behind its timestamp: what window stores of a topology keep."""

import struct
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from statestores.errors import SerializationError
from statestores.serdes.arrow_columns import cut_at, joined_fields, map_chunks, pyarrow
from statestores.serdes.int64_serde import int64
from statestores.serdes.refusals import refused_value
from statestores.spi.records import TimestampedValue, new_tuple
from statestores.spi.serde import EvolvingSerde, Serde, why_unreadable

V = TypeVar("V")

STAMPED = "stamped-"
"""What the name begins with; that of the value's serde follows."""

_TIME = struct.Struct(">q")


@dataclass(frozen=True)
class StampedSerde(Generic[V]):
    """A value behind its timestamp: eight bytes, big-endian (KIP-258)."""

    inner: Serde[V]
    """The serde of the value."""

    sorted = False

    @property
    def name(self) -> str:
        """The name in stored form."""
        return f"{STAMPED}{self.inner.name}"

    def why_unreadable(self, written: str) -> str | None:
        """Return what the value's serde says of that in *written* (SRD-40)."""
        if isinstance(self.inner, EvolvingSerde) and written.startswith(STAMPED):
            return why_unreadable(self.inner, written.removeprefix(STAMPED))
        return f"is {written!r}, expected {self.name!r}"

    def encode(self, value: TimestampedValue[V]) -> bytes:
        """Return the stamp and the bytes of the value."""
        try:
            stamp = _TIME.pack(value[1] or 0)
        except (TypeError, IndexError, struct.error) as error:
            raise refused_value(self.name, value, "a value and its time") from error
        return stamp + self.inner.encode(value[0])

    def decode(self, data: bytes) -> TimestampedValue[V]:
        """Return the value with its stamp."""
        if len(data) < _TIME.size:
            raise SerializationError(f"{data!r} is no stamped value: it has no eight bytes of time")
        parts = self.inner.decode(data[8:]), _TIME.unpack_from(data)[0]
        return new_tuple(TimestampedValue, parts)

    def encode_array(self, values: Any) -> Any:
        """Return a column of bytes from one of structs of value and time, as `decode_array` gives.

        Raises:
            SerializationError: It is of other structs, or a value or a time is missing.
            CapabilityNotSupportedError: The serde of the value writes no columns.
        """
        return map_chunks(self._encode_chunk, values, pyarrow().binary())

    def _encode_chunk(self, array: Any) -> Any:
        fields = {"value": self.inner.encode_array, "timestamp_ms": int64.encode_array}
        return joined_fields(array, fields, self.name, (1, 0))

    def decode_array(self, data: Any) -> Any:
        """Return a column of structs of value and time.

        Raises:
            SerializationError: A value is no stamped one.
        """

        def chunk(array: Any) -> Any:
            times, values = cut_at(array, _TIME.size)
            return pyarrow().StructArray.from_arrays(
                [self.inner.decode_array(values), int64.decode_array(times)],
                fields=list(self.arrow_type()),
                mask=array.is_null(),
            )

        return map_chunks(chunk, data, self.arrow_type())

    def arrow_type(self) -> Any:
        """Return the type of the structs."""
        return pyarrow().struct(
            [("value", self.inner.arrow_type()), ("timestamp_ms", pyarrow().int64())]
        )
