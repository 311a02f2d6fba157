"""Merging updates of whole numbers by Arrow columns, without an object for each row (KVS-19).

It gives what the rows give one by one, or ``None`` where it cannot say: of few rows, of nulls, of
other numbers than int64 holds, and of sums that may leave it. Then the rows are merged one by one.
"""

from dataclasses import dataclass
from typing import Any

from statestores.serdes.arrow_columns import is_arrow, numpy, pyarrow
from statestores.serdes.int64_serde import Int64Serde
from statestores.spi.serde import Serde
from statestores.spi.stores.merging import Merge

LEAST_ROWS = 1_000
"""Below, lists are faster."""

_WIDTH_BYTES = 8
_SAFE = float(1 << 62)
_BEGINS: dict[Merge, int] = {
    Merge.SUM: 0,
    Merge.LEAST: (1 << 63) - 1,
    Merge.GREATEST: -(1 << 63),
}
"""What a key without a value begins with, so that it has that of its rows in the end."""


@dataclass(frozen=True, slots=True)
class NumberColumns:
    """Rows of whole numbers by key."""

    keys: list[bytes]
    """Each key once, in the order in which they first occur."""

    _merge: Merge
    _codes: Any
    """For each row, the place of its key."""

    _numbers: Any
    """For each row, its value."""

    def are_as_many(self, times: Any) -> bool:
        """Return whether *times* has a timestamp for each row."""
        return len(times) == len(self._numbers) and bool((times >= 0).all())

    def merged(self, present: list[bytes | None]) -> list[bytes] | None:
        """Return what each key has in the end, *present* being what it has now."""
        np = numpy()
        begin = _BEGINS[self._merge].to_bytes(_WIDTH_BYTES, signed=True)
        stored = [begin if data is None else data for data in present]
        if set(map(len, stored)) != {_WIDTH_BYTES}:
            return None
        numbers = np.frombuffer(b"".join(stored), ">i8").astype(np.int64)
        if self._merge is Merge.SUM:
            if _size(numbers).max() + _size(self._numbers).sum() >= _SAFE:
                return None
            np.add.at(numbers, self._codes, self._numbers)
        elif self._merge is Merge.LEAST:
            np.minimum.at(numbers, self._codes, self._numbers)
        else:
            np.maximum.at(numbers, self._codes, self._numbers)
        data = numbers.astype(">i8").tobytes()
        return [data[at : at + _WIDTH_BYTES] for at in range(0, len(data), _WIDTH_BYTES)]

    def latest(self, times: Any, seen: list[int | None]) -> list[int]:
        """Return the highest of *times*, one of each row, and of what each key has *seen*."""
        np = numpy()
        highest = np.array([-1 if each is None else each for each in seen], np.int64)
        np.maximum.at(highest, self._codes, times)
        found: list[int] = highest.tolist()
        return found


def number_columns(
    merge: Merge, serdes: tuple[Serde[Any], Serde[Any]], keys: Any, values: Any
) -> NumberColumns | None:
    """Return Arrow columns by key; *serdes* are those of keys and values.

    Raises:
        SerializationError: The keys are not of their serde's type.
    """
    key_serde, value_serde = serdes
    if (
        type(value_serde) is not Int64Serde
        or not is_arrow(keys)
        or len(keys) < LEAST_ROWS
        or len(keys) != len(values)
        or keys.null_count
    ):
        return None
    numbers = whole_numbers(values)
    if numbers is None:
        return None
    found = _whole(key_serde.encode_array(keys)).dictionary_encode()
    return NumberColumns(found.dictionary.to_pylist(), merge, found.indices.to_numpy(), numbers)


def whole_numbers(column: Any) -> Any:
    """Return an Arrow column of int64 without nulls as numpy has it, and ``None`` for others."""
    if not is_arrow(column) or column.type != pyarrow().int64() or column.null_count:
        return None
    return _whole(column).to_numpy()


def _whole(column: Any) -> Any:
    """Return a column as one array."""
    pa = pyarrow()
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _size(numbers: Any) -> Any:
    """Return how large numbers are, whatever their sign."""
    np = numpy()
    return np.abs(numbers.astype(np.float64))
