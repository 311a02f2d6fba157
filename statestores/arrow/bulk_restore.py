"""The restore of many rows at once: columns are folded, sorted, encoded, and committed as rows.

Each commit is what the record path's is, a prefix of the changelog with its offset in the same
batch or sorted file, or rows of a snapshot under the mark. So it can be interrupted and called
again, by either path. What differs is the way to the engine: not through a dictionary of pending
writes, but in the order of keys, which engines take several times faster.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from typing import Any

import pyarrow as pa

from statestores.arrow.progress import Meter
from statestores.arrow.restore_mark import restore_mark
from statestores.arrow.restore_plan import RestorePlan
from statestores.arrow.row_batches import even_batches
from statestores.arrow.rows import encoder_of
from statestores.arrow.rows.encoder import RowEncoder
from statestores.arrow.snapshot_reader import Snapshot
from statestores.arrow.waiting_changes import WaitingChanges
from statestores.changelog.contract import ReadOnlyChangelog
from statestores.changelog.frame import FrameKind
from statestores.changelog.rows import change_schema
from statestores.failpoints import reach
from statestores.semantics.arguments import MAX_TIME_MS
from statestores.semantics.engine_store import EngineStore
from statestores.semantics.progress import NO_STREAM_TIME
from statestores.semantics.sorted_rows import SortedRows
from statestores.spi.durability import Durability
from statestores.spi.offsets import TopicPartition
from statestores.spi.store import StateStore

INGESTED_ROWS = 1 << 20
"""Rows between two commits, for an engine that takes sorted files: few and large ones."""

APPLIED_ROWS = 65_536
"""The same for an engine that takes batches, which are dictionaries in memory."""

LEAST_ROWS = 65_536
"""Fewer changes to a store that has rows are put one by one: no sorted file is made for them."""

_CHUNK_BYTES = 48 * 1024 * 1024
"""Bytes of columns that wait for a commit: they are copied once or twice while they are sorted."""


class BulkRestore:
    """The bulk path into one store."""

    def __init__(self, store: EngineStore[Any, Any], encoder: RowEncoder) -> None:
        """Restore into *store* what *encoder* makes rows of."""
        self._store = store
        self._encoder = encoder
        # Runs of rows are in memory together, and so have less of it each.
        self._chunk_bytes = _CHUNK_BYTES // encoder.runs
        self._waiting = WaitingChanges(
            change_schema(store.specification.kind),
            self._chunk_bytes,
            encoder,
        )
        self._is_empty = False
        self._lowest_ms = MAX_TIME_MS
        self._next_number = 0

    @classmethod
    def into(cls, store: StateStore, plan: RestorePlan) -> "BulkRestore | None":
        """Return the bulk path for *plan* into *store*; ``None`` where there is none."""
        begins = plan.committed is None or plan.start_over
        if not isinstance(store, EngineStore) or not (begins or plan.rows >= LEAST_ROWS):
            return None
        encoder = encoder_of(store)
        if encoder is None:
            return None
        bulk = cls(store, encoder)
        bulk._is_empty = begins and plan.snapshot is None  # its own
        return bulk

    def load(self, snapshot: Snapshot, batch_rows: int | None, meter: Meter) -> None:
        """Load *snapshot* into the empty store; the last commit brings the offsets."""
        store = self._store
        mark = restore_mark(store.specification)
        # The mark is committed first, and stays: a file of rows alone lies beside the others,
        # and need not be merged with them.
        store.commit({mark: snapshot.offset})
        self._is_empty = True
        limit = batch_rows or self._default_rows()
        pieces = _pieces(snapshot, limit, meter)
        if self._encoder.runs > 1:
            # The ends of versions are not taken from the file, but from the rows that follow.
            pieces = even_batches(pieces, batch_rows=limit)
        for first in pieces:
            chunk = _until_full(first, pieces, limit, self._chunk_bytes)
            for parts in self._encoder.content(chunk):
                rows = chain.from_iterable(self._seen(part).rows for part in parts)
                # Their bounds come with the last commit: see above.
                store.commit_rows(SortedRows(rows=rows), {}, durability=Durability.PROCESS_CRASH)
            self._is_empty = False
            reach("restore.chunk")
        store.advance_position(snapshot.manifest.position)
        reach("restore.loaded")
        stream_time_ms = snapshot.manifest.stream_time_ms
        highest_ms = NO_STREAM_TIME if stream_time_ms is None else stream_time_ms
        seen = SortedRows(
            highest_ms=highest_ms, lowest_ms=self._lowest_ms, next_number=self._next_number
        )
        store.commit_rows(seen, {**snapshot.manifest.offsets, mark: None})
        reach("restore.completed")

    def _seen(self, rows: SortedRows) -> SortedRows:
        """Take note of the bounds of *rows*."""
        self._lowest_ms = min(self._lowest_ms, rows.lowest_ms)
        self._next_number = max(self._next_number, rows.next_number)
        return rows

    def replay(
        self,
        changelog: ReadOnlyChangelog,
        plan: RestorePlan,
        batch_rows: int | None,
        meter: Meter,
    ) -> None:
        """Replay the frames of *changelog* that *plan* names; each commit brings its offset."""
        store = self._store
        limit = batch_rows or self._default_rows()
        reached: dict[TopicPartition, int] = {}
        # To the end, and not to `plan.stop`: a commit that reaches over it would be cut in two.
        frames = changelog.read(plan.start)
        with ExitStack() as stack:
            if isinstance(frames, Generator):
                stack.callback(frames.close)
            for frame in frames:
                if frame.last_offset >= plan.stop:
                    break
                if frame.kind is FrameKind.CLEAR:
                    self._waiting.clear()  # it goes with the rest
                    store.truncate()
                    self._is_empty = True
                else:
                    deletes = self._has_to_delete(frame.batch)
                    if deletes and self._waiting.rows > APPLIED_ROWS:
                        self._commit(reached)  # which has not, or it would not be so large
                    self._waiting.add(frame.batch, deletes=deletes)
                store.advance_position(frame.position)
                reached = {plan.partition: frame.last_offset}
                meter.add(frame.batch.num_rows, frame.batch.nbytes, frame.last_offset)
                rows = min(limit, APPLIED_ROWS) if self._waiting.deletes else limit
                if self._waiting.is_full(rows, is_empty=self._is_empty):
                    self._commit(reached)
        # As durable as the store's commits are, and so everything before it is.
        if self._waiting.rows:
            store.commit_rows(self._waiting.take(is_empty=self._is_empty), reached)
            self._remove_expired()
        else:
            store.commit(reached)

    def _default_rows(self) -> int:
        return INGESTED_ROWS if self._store.ingests else APPLIED_ROWS

    def _commit(self, reached: Mapping[TopicPartition, int]) -> None:
        """Commit what waits, on the way to more."""
        self._store.commit_rows(
            self._waiting.take(is_empty=self._is_empty),
            reached,
            durability=Durability.PROCESS_CRASH,
        )
        self._is_empty = False
        reach("restore.replayed")
        self._remove_expired()

    def _remove_expired(self) -> None:
        """Remove about as many rows as were put, if so many have expired: space stays bounded."""
        store = self._store
        while store.owes_removals:
            store.commit({}, durability=Durability.PROCESS_CRASH)

    def _has_to_delete(self, changes: pa.RecordBatch) -> bool:
        """Return whether *changes* delete what may be there.

        Sorted files cannot, so the chunk becomes a batch: one that must not be large.
        """
        may_delete = self._encoder.deletes and not self._is_empty
        return may_delete and bool(changes.column("value").null_count)


def _pieces(snapshot: Snapshot, batch_rows: int, meter: Meter) -> Iterator[pa.RecordBatch]:
    """Yield the rows of *snapshot* in pieces of up to *batch_rows*, and count them."""
    for batch in snapshot.batches():
        for start in range(0, batch.num_rows, batch_rows):
            rows = batch.slice(start, batch_rows)
            yield rows
            meter.add(rows.num_rows, rows.nbytes)


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
