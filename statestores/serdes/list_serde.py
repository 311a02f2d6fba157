"""Lists as Kafka writes them: of values of one serde, with nulls (KIP-466)."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from statestores.serdes.arrow_columns import as_binary, map_chunks, pyarrow
from statestores.serdes.refusals import refused_bytes, refused_column, refused_value
from statestores.serdes.uuid_serde import UUID_BYTES
from statestores.spi.serde import EvolvingSerde, Serde, why_unreadable

T = TypeVar("T")

LISTS: Final = "list:"
"""What the name begins with; that of the values' serde follows."""

_FIXED: Final = {"int64": 8, "float64": 8, "uuid": UUID_BYTES}
"""The sizes of values that are written without their size, by the name of their serde."""

_FIXED_SIZE, _ANY_SIZE = b"\x00", b"\x01"
_INT = struct.Struct(">i")
_NULL: Final = -1


@dataclass(frozen=True, slots=True)
class ListSerde(Generic[T]):
    """A list of values of *inner*, in which ``None`` is null: Kafka's list serde (SRD-31).

    Not sorted. Values of `int64`, `float64` and `uuid` are written one after the other, with the
    places of nulls before them; all others each after its size.
    """

    inner: Serde[T]
    """The serde of the values."""

    sorted: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        return f"{LISTS}{self.inner.name}"

    def why_unreadable(self, written: str) -> str | None:
        if isinstance(self.inner, EvolvingSerde) and written.startswith(LISTS):
            return why_unreadable(self.inner, written.removeprefix(LISTS))
        return f"is {written!r}, expected {self.name!r}"

    def encode(self, value: Sequence[T | None]) -> bytes:
        if type(value) is not list:
            raise refused_value(self.name, value, "a list")
        return self._joined([None if each is None else self.inner.encode(each) for each in value])

    def decode(self, data: bytes) -> list[T | None]:
        return [None if each is None else self.inner.decode(each) for each in self._parts(data)]

    def _joined(self, parts: Sequence[bytes | None]) -> bytes:
        """Return the bytes of a list whose values have the bytes *parts*."""
        if self.inner.name in _FIXED:
            nulls = [place for place, part in enumerate(parts) if part is None]
            head = [_FIXED_SIZE, _INT.pack(len(nulls)), *map(_INT.pack, nulls)]
            return b"".join([*head, _INT.pack(len(parts)), *(part for part in parts if part)])
        sized = (
            _INT.pack(_NULL) if part is None else _INT.pack(len(part)) + part for part in parts
        )
        return b"".join([_ANY_SIZE, _INT.pack(len(parts)), *sized])

    def _parts(self, data: bytes) -> list[bytes | None]:
        """Return the bytes of each value.

        Raises:
            SerializationError: *data* is no list of such values.
        """
        try:
            parts = list(self._cut(data))
        except (struct.error, TypeError, IndexError, ValueError) as error:
            reason = "they are no list of Kafka's, or have been cut"
            raise refused_bytes(self.name, data, reason) from error
        # One list has one form: what is cut, has more behind it, or has nulls out of order differs.
        if self._joined(parts) != data:
            raise refused_bytes(self.name, data, "they are no list of Kafka's, or go on behind it")
        return parts

    def _cut(self, data: bytes) -> Iterator[bytes | None]:
        at = 1
        size = _FIXED.get(self.inner.name)
        nulls: set[int] = set()
        if data[:1] != (_ANY_SIZE if size is None else _FIXED_SIZE):
            raise ValueError(data[:1])
        if size is not None:
            (count,) = _INT.unpack_from(data, at)
            nulls = {_INT.unpack_from(data, at + 4 + 4 * each)[0] for each in range(count)}
            at += 4 + 4 * count
        (length,) = _INT.unpack_from(data, at)
        at += 4
        if not 0 <= length <= len(data):
            raise ValueError(length)
        for place in range(length):
            own = size
            if own is None:
                (own,) = _INT.unpack_from(data, at)
                at += 4
            if place in nulls or own == _NULL:
                yield None
                continue
            if own < 0 or at + own > len(data):
                raise ValueError(own)
            yield data[at : at + own]
            at += own

    def encode_array(self, values: Any) -> Any:
        return map_chunks(self._encode_chunk, values, pyarrow().binary())

    def _encode_chunk(self, array: Any) -> Any:
        pa = pyarrow()
        if pa.types.is_null(array.type):
            return array.cast(pa.binary())
        if not pa.types.is_list(array.type) and not pa.types.is_large_list(array.type):
            raise refused_column(self.name, array.type, "lists")
        parts = iter(self.inner.encode_array(array.flatten()).to_pylist())
        lengths = array.value_lengths().to_pylist()
        rows = [
            None if length is None else self._joined([next(parts) for _ in range(length)])
            for length in lengths
        ]
        return pa.array(rows, pa.binary())

    def decode_array(self, data: Any) -> Any:
        return map_chunks(self._decode_chunk, data, self.arrow_type())

    def _decode_chunk(self, array: Any) -> Any:
        pa = pyarrow()
        rows = [
            None if row is None else self._parts(row)
            for row in as_binary(array, self.name).to_pylist()
        ]
        offsets: list[int | None] = []
        flat: list[bytes | None] = []
        for row in rows:
            offsets.append(None if row is None else len(flat))
            flat.extend(row or ())
        offsets.append(len(flat))
        values = self.inner.decode_array(pa.array(flat, pa.binary()))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)

    def arrow_type(self) -> Any:
        return pyarrow().list_(self.inner.arrow_type())


def list_of(inner: Serde[T]) -> ListSerde[T]:
    """Return the serde of lists of values of *inner*: ``list_of(ss.utf8)``."""
    return ListSerde(inner)
