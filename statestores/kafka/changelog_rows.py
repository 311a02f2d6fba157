"""Changes of a store as the records that Kafka Streams writes into changelog topics (KFK-10).

========================  =======================================  ============  =================
kind                      key                                      value         timestamp
========================  =======================================  ============  =================
key-value                 key                                      value         time of the task
timestamped key-value     key                                      value         the value's
versioned                 key                                      value         the version's
window                    key, start (int64), sequence (int32)     value         time of the task
window of stamped values  the same                                 without stamp the stamp
session                   key, end (int64), start (int64)          value         time of the task
========================  =======================================  ============  =================

Numbers are big-endian. A deletion is a record without value. What is no time of a Kafka record, 0
and the unknown among them, is in the header `TIME_HEADER`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from struct import Struct
from typing import Any, NamedTuple, TypeAlias

from statestores.errors import ChangelogCorruptedError
from statestores.serdes.stamped_serde import StampedSerde
from statestores.spi import Changes, StoreSpecification

_TIME = Struct(">q")
_WINDOW = Struct(">qi")
_SESSION = Struct(">qq")
_SEQUENCE_MASK = (1 << 31) - 1
UNKNOWN_TIME = -1
"""Kafka's time of a value of which nobody knows one."""


class ChangelogRow(NamedTuple):
    """One record of a changelog topic."""

    key: bytes
    """Its key."""

    value: bytes | None
    """Its value; ``None`` deletes."""

    time_ms: int
    """Its timestamp; `UNKNOWN_TIME` where there is none."""


Pack: TypeAlias = Callable[[Changes, int], Iterator[ChangelogRow]]
Unpack: TypeAlias = Callable[[Sequence[ChangelogRow]], Changes]


class RowFormat:
    """How the changes of one store become records, and back."""

    def __init__(self, specification: StoreSpecification[Any, Any]) -> None:
        """Choose by the kind of the store."""
        self._name = specification.name
        self._pack: Pack
        self._unpack: Unpack
        kind = specification.kind
        if kind.has_history:
            self._pack, self._unpack = _pack_versions, _unpack_versions
        elif kind.order and kind.order[-1].is_time:
            self._pack, self._unpack = _pack_sessions, _unpack_sessions
        elif kind.order:
            stamped = isinstance(specification.value, StampedSerde)
            self._pack = _pack_stamped_windows if stamped else _pack_windows
            counted = keeps_duplicates(specification)
            self._unpack = lambda rows: _unpack_windows(rows, stamped=stamped, counted=counted)
        elif kind.numbers:
            self._pack, self._unpack = _pack_timestamped, _unpack_timestamped
        else:
            self._pack, self._unpack = _pack_plain, _unpack_plain

    def rows(self, changes: Changes, now_ms: int) -> Iterator[ChangelogRow]:
        """Iterate over *changes* as records; what has no time of its own has *now_ms*."""
        return self._pack(changes, now_ms)

    def changes(self, rows: Sequence[ChangelogRow]) -> Changes:
        """Return what `rows` gave, in its order.

        Raises:
            ChangelogCorruptedError: A record is none of such a store.
        """
        try:
            return self._unpack(rows)
        except (ValueError, IndexError) as error:
            raise ChangelogCorruptedError(
                f"the changelog topic of {self._name!r} has a record that is none of such a "
                f"store: {error}; something else writes to the topic, or the store has another "
                "kind than before"
            ) from error


def keeps_duplicates(specification: StoreSpecification[Any, Any]) -> bool:
    """Whether a store keeps several values of a window, told apart by their numbers."""
    return bool(getattr(specification, "retain_duplicates", False))


def _pack_plain(changes: Changes, now_ms: int) -> Iterator[ChangelogRow]:
    return map(ChangelogRow, changes.keys, changes.values, repeat(now_ms))


def _unpack_plain(rows: Sequence[ChangelogRow]) -> Changes:
    return Changes([row.key for row in rows], [row.value for row in rows])


def _pack_timestamped(changes: Changes, now_ms: int) -> Iterator[ChangelogRow]:
    for key, value, stamp in zip(
        changes.keys, changes.values, changes.timestamps_ms or (), strict=True
    ):
        if value is None:
            yield ChangelogRow(key, None, now_ms)
        else:
            yield ChangelogRow(key, value, UNKNOWN_TIME if stamp is None else stamp)


def _unpack_timestamped(rows: Sequence[ChangelogRow]) -> Changes:
    stamps = [None if row.value is None or row.time_ms < 0 else row.time_ms for row in rows]
    return Changes([row.key for row in rows], [row.value for row in rows], timestamps_ms=stamps)


def _pack_versions(changes: Changes, now_ms: int) -> Iterator[ChangelogRow]:
    return map(ChangelogRow, changes.keys, changes.values, changes.times_ms or ())


def _unpack_versions(rows: Sequence[ChangelogRow]) -> Changes:
    keys, values, times = _columns(rows)
    return Changes(keys, values, times)


def _pack_windows(changes: Changes, now_ms: int) -> Iterator[ChangelogRow]:
    return map(ChangelogRow, _window_keys(changes), changes.values, repeat(now_ms))


def _pack_stamped_windows(changes: Changes, now_ms: int) -> Iterator[ChangelogRow]:
    for key, value in zip(_window_keys(changes), changes.values, strict=True):
        if value is None:
            yield ChangelogRow(key, None, now_ms)
        else:
            yield ChangelogRow(key, value[8:], _TIME.unpack_from(value)[0])


def _window_keys(changes: Changes) -> Iterable[bytes]:
    numbers = repeat(0) if changes.sequences is None else changes.sequences
    for key, start, number in zip(changes.keys, changes.times_ms or (), numbers, strict=False):
        yield key + _WINDOW.pack(start, number & _SEQUENCE_MASK)


def _unpack_windows(rows: Sequence[ChangelogRow], *, stamped: bool, counted: bool) -> Changes:
    keys, starts, numbers = [], [], []
    for row in rows:
        start, number = _tail(_WINDOW, row.key)
        keys.append(row.key[: -_WINDOW.size])
        starts.append(start)
        numbers.append(number)
    values = [
        _TIME.pack(max(row.time_ms, 0)) + row.value
        if stamped and row.value is not None
        else row.value
        for row in rows
    ]
    return Changes(keys, values, starts, sequences=numbers if counted else None)


def _pack_sessions(changes: Changes, now_ms: int) -> Iterator[ChangelogRow]:
    ends, starts = changes.end_times_ms or (), changes.times_ms or ()
    for key, value, start, end in zip(changes.keys, changes.values, starts, ends, strict=True):
        yield ChangelogRow(key + _SESSION.pack(end, start), value, now_ms)


def _unpack_sessions(rows: Sequence[ChangelogRow]) -> Changes:
    keys, starts, ends = [], [], []
    for row in rows:
        end, start = _tail(_SESSION, row.key)
        keys.append(row.key[: -_SESSION.size])
        starts.append(start)
        ends.append(end)
    return Changes(keys, [row.value for row in rows], starts, ends)


def _tail(form: Struct, key: bytes) -> tuple[int, int]:
    """Return the two numbers at the end of *key*."""
    if len(key) < form.size:
        raise ValueError(f"{key!r} is shorter than {form.size} bytes")
    first, second = form.unpack_from(key, len(key) - form.size)
    if first < 0 or second < 0:
        raise ValueError(f"{key!r} ends with a negative number")
    return first, second


def _columns(
    rows: Sequence[ChangelogRow],
) -> tuple[list[bytes], list[bytes | None], list[int]]:
    return [row.key for row in rows], [row.value for row in rows], [row.time_ms for row in rows]
