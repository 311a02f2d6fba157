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

from statestores.arrow.engine_rows import EncodeChanges, changes_encoder
from statestores.arrow.progress import Meter
from statestores.arrow.restore_mark import restore_mark
from statestores.arrow.restore_plan import RestorePlan
from statestores.arrow.snapshot_reader import Snapshot
from statestores.arrow.tail import concat
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

_CHUNK_BYTES = 64 * 1024 * 1024
"""Bytes of columns between two commits: they are copied once or twice while they are sorted."""


class BulkRestore:
    """The bulk path into one store."""

    def __init__(self, store: EngineStore[Any, Any], encode: EncodeChanges) -> None:
        """Restore into *store* what *encode* encodes."""
        self._store = store
        self._encode = encode
        # 64-bit offsets, since the changes of many frames may exceed 2 GiB.
        self._schema = pa.schema(
            [
                field.with_type(pa.large_binary()) if pa.types.is_binary(field.type) else field
                for field in change_schema(store.specification.kind)
            ]
        )
        self._chunk: list[pa.RecordBatch] = []
        self._chunk_rows = self._chunk_bytes = 0
        self._deletes = False
        self._is_empty = False
        self._lowest_ms = MAX_TIME_MS

    @classmethod
    def into(cls, store: StateStore, plan: RestorePlan) -> "BulkRestore | None":
        """Return the bulk path for *plan* into *store*; ``None`` where there is none."""
        begins = plan.committed is None or plan.start_over
        if not isinstance(store, EngineStore) or not (begins or plan.rows >= LEAST_ROWS):
            return None
        encode = changes_encoder(store.specification)
        return None if encode is None else cls(store, encode)

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
        for first in pieces:
            encoded = map(self._encode_content, _until_full(first, pieces, limit))
            rows = SortedRows(rows=chain.from_iterable(each.rows for each in encoded))
            store.commit_rows(rows, {}, durability=Durability.PROCESS_CRASH)
            self._is_empty = False
            reach("restore.chunk")
        store.advance_position(snapshot.manifest.position)
        reach("restore.loaded")
        stream_time_ms = snapshot.manifest.stream_time_ms
        highest_ms = NO_STREAM_TIME if stream_time_ms is None else stream_time_ms
        seen = SortedRows(highest_ms=highest_ms, lowest_ms=self._lowest_ms)
        store.commit_rows(seen, {**snapshot.manifest.offsets, mark: None})
        reach("restore.completed")

    def _encode_content(self, rows: pa.RecordBatch) -> SortedRows:
        """Encode a piece of a snapshot, and see its lowest time."""
        encoded = self._encode(rows, True)  # noqa: FBT003  # content has no deletions
        self._lowest_ms = min(self._lowest_ms, encoded.lowest_ms)
        return encoded

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
        self._is_empty = self._is_empty or (plan.committed is None and plan.snapshot is None)
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
                    self._take()  # what waits goes with the rest
                    store.truncate()
                    self._is_empty = True
                else:
                    if self._chunk_rows > APPLIED_ROWS and self._has_to_delete(frame.batch):
                        self._commit(reached)  # which has not, or it would not be so large
                    self._add(frame.batch)
                store.advance_position(frame.position)
                reached = {plan.partition: frame.last_offset}
                meter.add(frame.batch.num_rows, frame.batch.nbytes)
                if self._is_full(min(limit, APPLIED_ROWS) if self._deletes else limit):
                    self._commit(reached)
        # As durable as the store's commits are, and so everything before it is.
        if self._chunk:
            store.commit_rows(self._encoded(), reached)
        else:
            store.commit(reached)

    def _default_rows(self) -> int:
        return INGESTED_ROWS if self._store.ingests else APPLIED_ROWS

    def _commit(self, reached: Mapping[TopicPartition, int]) -> None:
        """Commit what waits, on the way to more."""
        self._store.commit_rows(self._encoded(), reached, durability=Durability.PROCESS_CRASH)
        self._is_empty = False
        reach("restore.replayed")

    def _has_to_delete(self, changes: pa.RecordBatch) -> bool:
        """Return whether *changes* delete what may be there.

        Sorted files cannot, so the chunk becomes a batch: one that must not be large.
        """
        return bool(not self._is_empty and changes.column("value").null_count)

    def _add(self, rows: pa.RecordBatch) -> None:
        columns = [rows.column(field.name).cast(field.type) for field in self._schema]
        self._chunk.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._chunk_rows += rows.num_rows
        self._chunk_bytes += rows.nbytes
        self._deletes = self._deletes or self._has_to_delete(rows)

    def _is_full(self, batch_rows: int) -> bool:
        return self._chunk_rows >= batch_rows or self._chunk_bytes >= _CHUNK_BYTES

    def _encoded(self) -> SortedRows:
        """Return what waits, encoded, and wait for nothing any more."""
        return self._encode(concat(self._take(), self._schema), self._is_empty)

    def _take(self) -> list[pa.RecordBatch]:
        chunk = self._chunk
        self._chunk = []
        self._chunk_rows = self._chunk_bytes = 0
        self._deletes = False
        return chunk


def _pieces(snapshot: Snapshot, batch_rows: int, meter: Meter) -> Iterator[pa.RecordBatch]:
    """Yield the rows of *snapshot* in pieces of up to *batch_rows*, and count them."""
    for batch in snapshot.batches():
        for start in range(0, batch.num_rows, batch_rows):
            rows = batch.slice(start, batch_rows)
            yield rows
            meter.add(rows.num_rows, rows.nbytes)


def _until_full(
    first: pa.RecordBatch, rest: Iterator[pa.RecordBatch], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield *first* and what follows it in *rest* until they are enough for a commit."""
    yield first
    rows, size = first.num_rows, first.nbytes
    while rows < batch_rows and size < _CHUNK_BYTES and (piece := next(rest, None)) is not None:
        yield piece
        rows += piece.num_rows
        size += piece.nbytes
