"""Where a restore puts what it reads: a store, by the fastest way that it has.

`statestores.arrow.restore` has the one loop over snapshot and changelog, and decides where a commit
stands; a sink decides how large it may become. Both ways make the same commits: a prefix of the
changelog with its offset in the same batch or sorted file, or rows of a snapshot under the mark. So
a restore can be interrupted and called again, by either of them.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

import pyarrow as pa

from statestores.arrow.schemas import changes_from_rows, row_schema
from statestores.changelog.frame import Frame
from statestores.failpoints import reach
from statestores.spi.durability import Durability
from statestores.spi.offsets import TopicPartition
from statestores.spi.stores.store import StateStore

BATCH_ROWS = 65_536
"""Rows between two commits, where they are put one by one."""

_BATCH_BYTES = 64 * 1024 * 1024  # of pending writes: large values are committed earlier


class Sink(Protocol):
    """A store that is being restored."""

    @property
    def piece_rows(self) -> int:
        """How many rows of a snapshot it takes at a time, at most."""
        ...

    def load(self, pieces: Iterator[pa.RecordBatch], stream_time_ms: int | None) -> None:
        """Put *pieces*, the rows of a snapshot in their order, into the empty store.

        Those not committed yet when it returns, and *stream_time_ms*, come with the
        next `commit`.
        """
        ...

    def takes(self, frame: Frame) -> bool:
        """Return whether *frame* may wait with the others, or a commit must come before it."""
        ...

    def replay(self, frame: Frame) -> None:
        """Take the changes of the next *frame* of a changelog; they wait for a commit."""
        ...

    def truncate(self) -> None:
        """Empty the store, and forget what waits."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether so much waits that it is time for a commit."""
        ...

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | None],
        durability: Durability | None = None,
    ) -> None:
        """Commit what waits together with *offsets* and the store's position."""
        ...


class RecordSink:
    """Puts record by record: into another author's store, or a few records into one with rows."""

    def __init__(self, store: StateStore, batch_rows: int | None) -> None:
        """Commit after *batch_rows* rows, or as many as are usual."""
        self._store = store
        self._batch_rows = batch_rows or BATCH_ROWS
        self._waiting = 0

    @property
    def piece_rows(self) -> int:
        """The rows between two commits."""
        return self._batch_rows

    def load(self, pieces: Iterator[pa.RecordBatch], stream_time_ms: int | None) -> None:
        """Load *pieces*, and commit whenever there are enough."""
        store = self._store
        # Also when there are no rows: the stream time of a store may outlive them.
        nothing = changes_from_rows(row_schema(store.specification.kind).empty_table())
        store.load(nothing, stream_time_ms=stream_time_ms)
        for rows in pieces:
            store.load(changes_from_rows(rows), stream_time_ms=stream_time_ms)
            self._waiting += rows.num_rows
            if self.is_full:
                self.commit({}, Durability.PROCESS_CRASH)
                reach("restore.chunk")

    def takes(self, frame: Frame) -> bool:
        """Return that it may: deletions are pending writes like any other."""
        del frame
        return True

    def replay(self, frame: Frame) -> None:
        """Take the changes of *frame*."""
        self._store.replay(frame.changes)
        self._waiting += frame.batch.num_rows

    def truncate(self) -> None:
        """Empty the store."""
        self._store.truncate()  # what waits goes with it
        self._waiting = 0

    @property
    def is_full(self) -> bool:
        """Whether there are as many rows as were asked for, or many bytes."""
        return self._waiting >= self._batch_rows or self._store.uncommitted_bytes >= _BATCH_BYTES

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | None],
        durability: Durability | None = None,
    ) -> None:
        """Commit the pending writes."""
        self._store.commit(offsets, durability=durability)
        self._waiting = 0
