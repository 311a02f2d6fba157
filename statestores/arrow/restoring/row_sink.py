"""The restore of many rows at once: columns are folded, sorted, encoded, and committed as rows.

What differs from a restore record by record is the way to the engine: not through a dictionary of
pending writes, but in the order of keys, which engines take several times faster.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Self

import pyarrow as pa

from statestores.arrow.restoring.plan import RestorePlan
from statestores.arrow.restoring.waiting_changes import WaitingChanges
from statestores.arrow.row_batches import even_batches
from statestores.arrow.rows import encoder_of
from statestores.arrow.rows.encoder import RowEncoder
from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.changelog.frame import Frame
from statestores.changelog.rows import change_schema
from statestores.failpoints import reach
from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.every_kind.engine_store import EngineStore
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.spi.durability import Durability
from statestores.spi.offsets import TopicPartition
from statestores.spi.stores.store import StateStore

INGESTED_ROWS = 1 << 20
"""Rows between two commits, for an engine that takes sorted files: few and large ones."""

APPLIED_ROWS = 65_536
"""The same for an engine that takes batches, which are dictionaries in memory."""

LEAST_ROWS = 65_536
"""Fewer changes to a store that has rows are put one by one: no sorted file is made for them."""

_CHUNK_BYTES = 48 * 1024 * 1024
"""Bytes of columns that wait for a commit: they are copied once or twice while they are sorted."""


class RowSink:
    """Commits encoded rows into one store."""

    def __init__(
        self,
        store: EngineStore[Any, Any],
        encoder: RowEncoder,
        batch_rows: int | None,
        *,
        is_empty: bool,
    ) -> None:
        """Restore into *store*, which *is_empty* or has rows, what *encoder* makes rows of."""
        self._store = store
        self._encoder = encoder
        self._is_empty = is_empty
        self._batch_rows = batch_rows or (INGESTED_ROWS if store.ingests else APPLIED_ROWS)
        # Runs of rows are in memory together, and so have less of it each.
        self._chunk_bytes = _CHUNK_BYTES // encoder.runs
        self._waiting = WaitingChanges(
            change_schema(store.specification.kind), self._chunk_bytes, encoder
        )
        self._loaded: SortedRows | None = None

    @classmethod
    def into(cls, store: StateStore, plan: RestorePlan, batch_rows: int | None) -> Self | None:
        """Return the sink for *plan* into *store*; ``None`` where it goes record by record."""
        begins = plan.committed is None or plan.start_over
        if not (begins or plan.rows >= LEAST_ROWS):
            return None
        return cls.of(store, batch_rows, is_empty=begins)

    @classmethod
    def of(cls, store: StateStore, batch_rows: int | None = None, *, is_empty: bool) -> Self | None:
        """Return the sink into *store*, which *is_empty* or has rows.

        ``None`` if it is another author's, or of a kind whose changes are put one by one.
        """
        below = store_of_bytes(store)
        if not isinstance(below, EngineStore):
            return None
        encoder = encoder_of(below)
        return None if encoder is None else cls(below, encoder, batch_rows, is_empty=is_empty)

    @property
    def piece_rows(self) -> int:
        """The rows between two commits."""
        return self._batch_rows

    def load(self, pieces: Iterator[pa.RecordBatch], stream_time_ms: int | None) -> None:
        """Commit the rows of *pieces*; their bounds, and stream time, come with the last commit."""
        if self._encoder.runs > 1:
            # The ends of versions are not taken from the file, but from the rows that follow.
            pieces = even_batches(pieces, batch_rows=self._batch_rows)
        lowest_ms, next_number = MAX_TIME_MS, 0

        def seen(part: SortedRows) -> SortedRows:
            nonlocal lowest_ms, next_number
            lowest_ms = min(lowest_ms, part.lowest_ms)
            next_number = max(next_number, part.next_number)
            return part

        for first in pieces:
            chunk = _until_full(first, pieces, self._batch_rows, self._chunk_bytes)
            for parts in self._encoder.content(chunk):
                # A file of rows alone lies beside the others, and need not be merged with them. So
                # the mark is there already, and the bounds come with the last commit.
                run = SortedRows(rows=chain.from_iterable(seen(part).rows for part in parts))
                self._store.commit_rows(run, {}, durability=Durability.PROCESS_CRASH)
            self._is_empty = False
            reach("restore.chunk")
        self._loaded = SortedRows(
            highest_ms=NO_STREAM_TIME if stream_time_ms is None else stream_time_ms,
            lowest_ms=lowest_ms,
            next_number=next_number,
        )

    def takes(self, frame: Frame) -> bool:
        """Return whether it deletes no more than what waits does, or little waits."""
        return self.has_room_for(frame.batch)

    def has_room_for(self, changes: pa.RecordBatch) -> bool:
        """Return whether *changes* delete no more than what waits does, or little waits."""
        # What waits deletes nothing, or it would not be so large: it can be a sorted file.
        return self._waiting.rows <= APPLIED_ROWS or not self._has_to_delete(changes)

    def replay(self, frame: Frame) -> None:
        """Take the changes of *frame*."""
        self.add(frame.batch)

    def add(self, changes: pa.RecordBatch) -> None:
        """Take *changes*, columns of the kind's change schema; they wait for a commit."""
        self._waiting.add(changes, deletes=self._has_to_delete(changes))

    @property
    def waiting_bytes(self) -> int:
        """The bytes of the columns that wait for a commit."""
        return self._waiting.bytes

    def truncate(self) -> None:
        """Empty the store: then nothing need be deleted."""
        self._waiting.clear()  # it goes with the rest
        self._store.truncate()
        self._is_empty = True

    @property
    def is_full(self) -> bool:
        """Whether enough rows or bytes wait; the bytes may be folded first."""
        rows = self._batch_rows
        if self._waiting.deletes:
            rows = min(rows, APPLIED_ROWS)
        return self._waiting.is_full(rows, is_empty=self._is_empty)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | None],
        durability: Durability | None = None,
    ) -> None:
        """Commit what waits as encoded rows, and remove what has expired by them."""
        store = self._store
        rows, self._loaded = self._loaded, None
        if self._waiting.rows:
            rows = self._waiting.take(is_empty=self._is_empty)
            self._is_empty = False
        if rows is None:
            store.commit(offsets, durability=durability)
            return
        store.commit_rows(rows, offsets, durability=durability)
        # About as many as were put, if that many have expired: space stays bounded.
        while store.owes_removals:
            store.commit({}, durability=Durability.PROCESS_CRASH)

    def _has_to_delete(self, changes: pa.RecordBatch) -> bool:
        """Return whether *changes* delete what may be there.

        Sorted files cannot, so the chunk becomes a batch: one that must not be large.
        """
        may_delete = self._encoder.deletes and not self._is_empty
        return may_delete and bool(changes.column("value").null_count)


def _until_full(
    first: pa.RecordBatch, rest: Iterator[pa.RecordBatch], batch_rows: int, batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield *first* and what follows it in *rest* until they are enough for a commit."""
    yield first
    rows, size = first.num_rows, first.nbytes
    while rows < batch_rows and size < batch_bytes and (piece := next(rest, None)) is not None:
        yield piece
        rows += piece.num_rows
        size += piece.nbytes
