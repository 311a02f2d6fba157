"""The content of a partition by its files: a snapshot, the changes after it, and what is shown.

A snapshot may be removed while its rows are read, as a vacuum does. What is there instead gives the
same rows in the same order, so they go on where they were.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.rows import tail_of
from statestores.arrow.rows.spilled_runs import SpilledRuns
from statestores.arrow.rows.tail import Tail
from statestores.arrow.rows.versioned import VersionedTail
from statestores.arrow.schemas import valid_at
from statestores.arrow.snapshots.reader import Snapshot
from statestores.errors import SnapshotCorruptedError, StorageError
from statestores.spi.specification import StoreSpecification

_ATTEMPTS = 10
"""How often rows go on with other files; a reader that is overtaken more often is too slow."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The content of a partition at one offset: a snapshot, and the changes after it."""

    tail: Tail
    """The changes; the next ones may be added."""

    snapshot: Snapshot | None
    """What they come after."""

    keys: KeySelection
    """The keys that are there."""

    again: Callable[[KeySelection], Self] | None = field(default=None, compare=False)
    """Gives the same content, of some keys, from the files that are there by then."""

    @classmethod
    def of(
        cls,
        specification: StoreSpecification[Any, Any],
        snapshot: Snapshot | None,
        keys: KeySelection | None = None,
        runs: SpilledRuns | None = None,
    ) -> Self:
        """Return the content of *snapshot*, with no change after it yet.

        What *runs* do not allow to be held in memory is put there.
        """
        keys = keys or KeySelection()
        stream_time_ms = None if snapshot is None else snapshot.manifest.stream_time_ms
        tail = tail_of(specification, stream_time_ms=stream_time_ms, keys=keys)
        if runs is not None:
            tail.spill(runs)
        return cls(tail, snapshot, keys)

    @property
    def stream_time_ms(self) -> int | None:
        """The highest timestamp of the content; ``None`` without one, and for key-value stores."""
        time_ms: int | None = getattr(self.tail, "stream_time_ms", None)
        return time_ms

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in key order; of versions also those that say that a key was deleted.

        Raises:
            OffsetOutOfRangeError: The snapshot was removed, and nothing else has the content.
            SnapshotCorruptedError, ChangelogCorruptedError, StoreCorruptedError, StorageError:
                Something cannot be read.
        """
        replay, place, left = self, _Place(), _ATTEMPTS
        while True:
            try:
                for batch in replay.tail.merge(_stored(replay.snapshot, replay.keys)):
                    rows = place.behind(batch)
                    if rows.num_rows:
                        yield rows
            except (SnapshotCorruptedError, StorageError):
                snapshot, left = replay.snapshot, left - 1
                if self.again is None or snapshot is None or snapshot.is_there or not left:
                    raise
            else:
                return
            replay = self.again(self.keys.both(place.here()))

    def shown(
        self, as_of_ms: int | None = None, *, history: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that a read shows: of versions those of one time, or the *history*."""
        horizon_ms = self.tail.horizon_ms if isinstance(self.tail, VersionedTail) else None
        return shown_rows(self.rows(), horizon_ms, as_of_ms, history=history)


class _Place:
    """How far rows have been given: the last key, and how many of its rows."""

    def __init__(self) -> None:
        self._key: bytes | None = None
        self._rows = 0
        self._again = 0

    def here(self) -> KeySelection:
        """Return what is still to come, and all of the last key; its rows are left out by count."""
        self._again = self._rows
        return KeySelection(first=self._key)

    def behind(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return what *batch*, the next one, has behind this place, and go there."""
        repeated = min(self._again, batch.num_rows)
        self._again -= repeated
        rows = batch.slice(repeated)
        if rows.num_rows:
            keys = rows.column("key")
            last = keys[-1].as_py()
            same = _at_the_end(keys, last)
            goes_on = last == self._key and same == len(keys)
            self._rows = self._rows + same if goes_on else same
            self._key = last
        return rows


def _at_the_end(keys: pa.Array, key: bytes) -> int:
    """Return how many of *keys*, which are in order, are *key*, the last one."""
    if len(keys) == 1 or keys[-2].as_py() != key:
        return 1
    return len(keys) - int(pc.index(keys, pa.scalar(key, keys.type)).as_py())


def shown_rows(
    batches: Iterable[pa.RecordBatch],
    horizon_ms: int | None,
    as_of_ms: int | None = None,
    *,
    history: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of *batches* that a read shows: as of a time, the latest, or the *history*.

    *horizon_ms* is the stream time minus the retention of versions, and ``None`` for other kinds.
    """
    for batch in batches:
        shown = batch
        if horizon_ms is not None:
            shown = (
                batch.filter(pc.is_valid(batch.column("value")))
                if history
                else valid_at(batch, as_of_ms, horizon_ms)
            )
        if shown.num_rows:
            yield shown


def _stored(snapshot: Snapshot | None, keys: KeySelection) -> Iterator[pa.RecordBatch]:
    """Yield the rows of *snapshot* with the selected *keys*."""
    if snapshot is None:
        return
    yield from snapshot.batches(keys=keys)
