"""The content of a partition by its files: a snapshot, the changes after it, and what is shown."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
from statestores.spi.specification import StoreSpecification


@dataclass(frozen=True, slots=True)
class Replay:
    """The content of a partition at one offset: a snapshot, and the changes after it."""

    tail: Tail
    """The changes; the next ones may be added."""

    snapshot: Snapshot | None
    """What they come after."""

    keys: KeySelection
    """The keys that are there."""

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
        """Yield the rows in key order; of versions also those that say that a key was deleted."""
        return self.tail.merge(_stored(self.snapshot, self.keys))

    def shown(
        self, as_of_ms: int | None = None, *, history: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that a read shows: of versions those of one time, or the *history*."""
        horizon_ms = self.tail.horizon_ms if isinstance(self.tail, VersionedTail) else None
        return shown_rows(self.rows(), horizon_ms, as_of_ms, history=history)


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
