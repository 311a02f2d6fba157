"""Changes on their way into an object store: objects that are the data once an entry names them.

A task puts its rows as frames of the changelog, each of one partition, under ids that nobody else
has. They are small enough to be read whole, and for kinds with a retention in order of time. What a
job that died has staged stays until a vacuum voids it: nobody but the root log can tell that it
will never count.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.row_batches import BATCH_BYTES, BATCH_ROWS
from statestores.changelog import FrameKind, change_schema
from statestores.changelog.contract import NO_POSITION
from statestores.changelog.file_log import wall_clock_ms
from statestores.changelog.frame_bodies import BodyWriter
from statestores.changelog.next_frame import next_frame
from statestores.changelog.options import Compression
from statestores.changelog.rows import order_column
from statestores.failpoints import reach
from statestores.object_log import ObjectLog
from statestores.object_log.changelog import unique_id
from statestores.object_log.documents import Staged
from statestores.object_log.driver import run
from statestores.object_log.writes import stage, staged_as
from statestores.partitioning import partitioner_by_name
from statestores.spi.specification import StoreSpecification
from statestores.staging.staged_rows import SPILL_BYTES, PartitionedRows

_ORDERED_BYTES = 4 * 1024 * 1024
"""Bytes of an object whose rows may be merged by time, when one of each task is in memory."""

_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedObject:
    """One object that a task has staged."""

    partition: int
    """The partition to which all of its rows belong."""

    staged: Staged
    """How an entry of the root log names it."""

    run: int
    """Which of the sorted runs of its task it belongs to."""

    first: int | None
    """The lowest time of its rows, for kinds that are appended in order of time."""

    last: int | None
    """The highest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedObjects:
    """What one attempt of one task has staged. Small; made to be sent to whoever commits."""

    objects: tuple[StagedObject, ...]
    """The objects, in the order of their rows."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(each.staged.span for each in self.objects)


def staged_frame(bodies: BodyWriter, kind: FrameKind, batch: pa.RecordBatch | None) -> bytes:
    """Return a frame that gets its offsets, and its time, when an entry names it."""
    return next_frame(bodies, kind, batch, NO_POSITION, 0, wall_clock_ms()).stored()


class ObjectStager(PartitionedRows):
    """Splits rows by partition and puts them as objects."""

    def __init__(
        self,
        log: ObjectLog,
        specification: StoreSpecification[Any, Any],
        *,
        begun: str | None = None,
        only: int | None = None,
        spill_bytes: int = SPILL_BYTES,
    ) -> None:
        """Stage for *log*, which need not exist yet, under ids that begin with *begun*.

        By default that is the id of a write that begins now. All rows belong to the partition
        *only*, if that is said.

        Raises:
            ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
        """
        schema = change_schema(specification.kind)
        partitioner = partitioner_by_name(specification.partitioner)
        super().__init__(schema, partitioner, log.partitions, only=only, spill_bytes=spill_bytes)
        self._log = log
        self._begun = log.begin_write(unique_id()) if begun is None else begun
        self._bodies = BodyWriter(schema, Compression.LZ4)
        self._order = order_column(schema)
        self._most_bytes = BATCH_BYTES if self._order is None else _ORDERED_BYTES
        self._objects: list[StagedObject] = []
        self._frames: list[tuple[StagedObject, bytes]] = []
        self._runs = 0

    def finish(self) -> StagedObjects:
        """Stage what is left, and return what there is.

        Raises:
            CommitInDoubtError, StorageError: It cannot be staged.
        """
        self._spill()
        reach("objects.staged")
        return StagedObjects(objects=tuple(self._objects))

    def add_sorted(self, partition: int, batches: Iterable[pa.RecordBatch]) -> None:
        """Stage *batches* of *partition* as one run, in the order that they are in.

        Raises:
            CommitInDoubtError, StorageError: They cannot be staged.
        """
        for batch in batches:
            self._take(partition, batch)
            self._put()
        self._runs += 1

    def _spill(self) -> None:
        super()._spill()
        self._put()
        self._runs += 1

    def _write(self, partition: int, rows: pa.Table, indices: np.ndarray) -> None:
        for start in range(0, len(indices), BATCH_ROWS):
            part = rows.take(pa.array(indices[start : start + BATCH_ROWS]))
            for batch in part.combine_chunks().to_batches():
                for piece in _pieces(batch, self._most_bytes):
                    self._take(partition, piece)
            if len(self._frames) >= _AT_ONCE:
                self._put()

    def _take(self, partition: int, batch: pa.RecordBatch) -> None:
        """Make a frame of *batch*."""
        data = staged_frame(self._bodies, FrameKind.CHANGES, batch)
        number = len(self._objects) + len(self._frames)
        first = last = None
        if self._order is not None:
            times = pc.min_max(batch.column(self._order)).as_py()
            first, last = times["min"], times["max"]
        staged = staged_as(f"{self._begun}-{number}", data, "a staged frame")
        made = StagedObject(
            partition=partition, staged=staged, run=self._runs, first=first, last=last
        )
        self._frames.append((made, data))

    def _put(self) -> None:
        """Put the frames that wait, several at once."""
        frames, self._frames = self._frames, []
        if not frames:
            return
        names, storage = self._log.names, self._log.storage

        def put(made: tuple[StagedObject, bytes]) -> None:
            each, data = made
            run(stage(names, each.staged.id, each.partition, data), storage)

        with ThreadPoolExecutor(min(len(frames), _AT_ONCE)) as threads:
            for _ in threads.map(put, frames):
                pass
        self._objects += [each for each, _ in frames]


def stage_objects(
    log: ObjectLog, specification: StoreSpecification[Any, Any], changes: Iterable[pa.RecordBatch]
) -> StagedObjects:
    """Put *changes* where a commit finds them; nothing of the store changes.

    *changes* have the columns of the store's changelog, as bytes. The store need not exist yet.

    Raises:
        InvalidArgumentError, InvalidTypeError: The changes cannot be changes of the store.
        CommitInDoubtError, StorageError: They cannot be staged.
    """
    stager = ObjectStager(log, specification)
    for batch in changes:
        stager.add(batch)
    return stager.finish()


def staged_batches(log: ObjectLog, objects: Sequence[StagedObject]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of *objects*, one object after the other.

    Raises:
        ChangelogCorruptedError, StorageError: One cannot be read.
    """
    for each in objects:
        for frame in log.staged_frames(each.staged, each.partition):
            yield frame.batch


def _pieces(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield *batch* in pieces of about *most_bytes*, by the mean size of its rows."""
    count = max(1, -(-batch.nbytes // most_bytes))
    rows = max(1, -(-batch.num_rows // count))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
