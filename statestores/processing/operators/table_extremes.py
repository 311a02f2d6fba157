"""The lowest and the highest value of a table's rows, which may go again.

The values of each key lie in a store of their own in their order, with how many rows have each: so
what comes after a value that goes is one read away, however many rows there are.
"""

import math
from struct import Struct
from typing import Any

from statestores.errors import InvalidTypeError, SerializationError
from statestores.processing.change import Change
from statestores.processing.operators.aggregates import TableAggregate
from statestores.processing.operators.fold import Fold
from statestores.processing.operators.operator import TaskServices
from statestores.processing.record import Record
from statestores.processing.serdes import piece
from statestores.processing.stores import key_serde, value_serde
from statestores.serdes import int64_sorted

_FLOAT, _COUNT = Struct(">d"), Struct(">q")
_NEGATIVE = 0x80
_NUMBER, _TEXT, _BYTES = b"\x01", b"\x02", b"\x03"


def order_bytes(value: Any) -> bytes:
    """Return bytes that sort as values do: numbers among each other, text, and bytes.

    Raises:
        SerializationError: It is no number that has a place, such as NaN or one above 64 bits.
        InvalidTypeError: It is of another type.
    """
    if isinstance(value, (int, float)):
        if math.isnan(value):
            raise SerializationError("NaN is neither lower nor higher than a number; filter it out")
        whole = int(value) if math.isfinite(value) and abs(value) < 1 << 63 else 0
        if isinstance(value, int):
            whole = int(value)  # beyond 64 bits it is refused, by the serde
        # Two integers may have one float; of floats that large, each is a whole number.
        return _NUMBER + _sorted_float(float(value)) + int64_sorted.encode(whole)
    if isinstance(value, str):
        return _TEXT + value.encode()
    if isinstance(value, bytes):
        return _BYTES + value
    raise InvalidTypeError(
        f"the lowest and highest of a table are of numbers, texts or bytes, got {value!r}; "
        "aggregate() takes functions of your own"
    )


def _sorted_float(value: float) -> bytes:
    data = _FLOAT.pack(value + 0.0)  # of two zeros, one
    if data[0] & _NEGATIVE:
        return bytes(each ^ 0xFF for each in data)
    return bytes([data[0] | _NEGATIVE]) + data[1:]


class TableExtreme(TableAggregate):
    """Keeps the lowest or the highest of what is taken from the rows of each key (PRC-94)."""

    def __init__(self, fold: Fold, store: str, values: str, *, is_highest: bool) -> None:
        """Keep it in *store*, and all values in the store of bytes *values*."""
        super().__init__(fold, store)
        self.values = values
        self.is_highest = is_highest

    def open(self, task: TaskServices) -> None:
        """Take the stores."""
        super().open(task)
        self._values = task.store(self.values)
        specification = task.store(self.store).specification
        self._key, self._value = key_serde(specification), value_serde(specification)

    def receive(self, item: Record[Any, Any]) -> None:
        """Replace the old value by the new one, and give on what is the lowest or highest now."""
        key, change, time_ms, headers = item
        if key is None:
            self._drop(self.name, "null-key", item)
            return
        before, after = self._sides(item, change)
        group = piece(self._key.encode(key))
        added = taken = None
        try:
            added = None if after is None else self._named(group, after)
        except Exception as error:  # noqa: BLE001  # such a value has no place (PRC-100)
            self._fail_one(self.name, error)
        try:
            taken = None if before is None else self._named(group, before)
        except Exception as error:  # noqa: BLE001  # likewise
            self._forgive(error)
        if added is None and taken is None:
            return
        if taken is not None:
            self._count(taken[0], None, -1)
        if added is not None:
            self._count(*added, 1)
        stored = self._get(key)
        old = None if stored is None else stored[0]
        time_ms = time_ms if stored is None else max(time_ms, stored[1] or 0)
        first = next(iter(self._values.prefix_scan(group, reverse=self.is_highest)), None)
        new = None if first is None else self._value.decode(first[1][_COUNT.size :])
        self._put(key, new, time_ms)
        self.forward(Change(key, new, old, time_ms, headers))

    def _named(self, group: bytes, value: Any) -> tuple[bytes, bytes]:
        """Return the name of *value* in the order of the values of *group*, and its bytes."""
        return group + order_bytes(value), self._value.encode(value)

    def _count(self, name: bytes, value: bytes | None, by: int) -> None:
        """Note that so many more rows have a value; of one that no row has, none go."""
        row = self._values.get(name)
        count = by if row is None else _COUNT.unpack_from(row)[0] + by
        kept = value if row is None else row[_COUNT.size :]
        if count <= 0:
            self._values.put(name, None)
        elif kept is not None:
            self._values.put(name, _COUNT.pack(count) + kept)
