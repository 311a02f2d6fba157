"""What stores return and exchange: versions, put results, and batches of changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")

new_tuple = tuple.__new__
"""``new_tuple(VersionedRecord, (value, from, to))`` makes a named tuple in a third of the time that
its class takes, whose ``__new__`` is a Python function: for reads and operators, which make one for
each row or record."""


class VersionedRecord(NamedTuple, Generic[V]):
    """One version of one key: a value and the half-open time ``[valid_from_ms, valid_to_ms)``.

    A named tuple, because reads make one for each result: a frozen dataclass takes twice as long.
    """

    value: V
    """Never ``None``: a deletion ends a version and is not one."""

    valid_from_ms: int
    """The timestamp with which the version was put."""

    valid_to_ms: int | None = None
    """The timestamp of the next version or deletion; ``None`` while the version is the latest."""


class TimestampedValue(NamedTuple, Generic[V]):
    """A value and the timestamp with which it was put."""

    value: V
    """Never ``None``."""

    timestamp_ms: int | None
    """``None`` when nobody knows it: the value is older than the timestamps of its store (TKV-6),
    or comes from a Kafka store that had none. Such a value never expires."""


class WindowRecord(NamedTuple, Generic[K, V]):
    """One value of one key in the half-open window ``[start_ms, end_ms)``."""

    key: K
    """The key."""

    start_ms: int
    """When the window starts: what it was put with."""

    end_ms: int
    """The start and the store's window size, at most 2**63 - 1."""

    value: V
    """Never ``None``."""


class SessionRecord(NamedTuple, Generic[K, V]):
    """One value of one key in the session from *start_ms* to *end_ms*, both inclusive."""

    key: K
    """The key."""

    start_ms: int
    """When the session starts."""

    end_ms: int
    """When it ends; equal to its start for a session of one event."""

    value: V
    """Never ``None``."""


@dataclass(frozen=True, slots=True)
class PutResult:
    """What became of a put into a versioned store (VRS-1)."""

    accepted: bool
    """``False`` when the timestamp is older than the history retention: nothing was stored."""

    valid_to_ms: int | None = None
    """The timestamp of the next newer version or deletion of the key; ``None`` when the put is
    the latest, or was not accepted."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one store in columns of equal length, in an order in which they can be replayed.

    The pending writes of a commit, one frame of a changelog and a chunk of a snapshot are all
    `Changes`: the first two are replayed, in order, and the last is loaded.
    """

    keys: Sequence[bytes]
    """The keys."""

    values: Sequence[bytes | None]
    """The new values; ``None`` deletes."""

    times_ms: Sequence[int] | None = None
    """Versioned stores: when each version starts; window and session stores: when the window or
    session starts. ``None`` for key-value stores."""

    end_times_ms: Sequence[int] | None = None
    """Session stores: when each session ends, inclusive. ``None`` for other kinds."""

    sequences: Sequence[int] | None = None
    """Window stores that retain duplicates: the number of each value, which tells it from the
    others of its window and orders them. ``None`` for other stores."""

    timestamps_ms: Sequence[int | None] | None = None
    """Timestamped key-value stores: the timestamp of each value; ``None`` in it for a value that
    has none, and for a deletion. ``None`` for other stores."""

    def __len__(self) -> int:
        return len(self.keys)
