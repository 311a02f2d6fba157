"""Committing what tasks have staged in an object store: one put, all of it or nothing.

The staged objects are the data: nothing is copied, and folding takes them into segments later. Two
kinds of write are the exception, and are staged once more, in order, by whoever commits: rows of
kinds with a retention whose times overlap between tasks, and retained duplicates, whose numbers
nobody else can know.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, TypeAlias

import pyarrow as pa

from statestores.arrow.snapshots.choice import SnapshotChoice
from statestores.arrow.snapshots.object_snapshots import ObjectSnapshots
from statestores.changelog import Frame, FrameKind, change_schema, changelog_partition
from statestores.changelog.file_log import wall_clock_ms
from statestores.changelog.frame_bodies import BodyWriter
from statestores.changelog.options import Compression
from statestores.changelog.rows import order_column
from statestores.errors import ChangelogCorruptedError, CommitConflictError
from statestores.failpoints import reach
from statestores.object_log import ObjectLog
from statestores.object_log.changelog import unique_id
from statestores.object_log.documents import Batch, Staged
from statestores.object_log.driver import run
from statestores.object_log.view import View
from statestores.object_log.writes import (
    Accept,
    AcceptBatches,
    commit_staged,
    refuse_voided,
    stage,
    staged_as,
)
from statestores.spi.specification import StoreSpecification
from statestores.staging.next_sequence import next_sequence, numbers_duplicates
from statestores.staging.staged_objects import (
    ObjectStager,
    StagedObject,
    StagedObjects,
    staged_batches,
    staged_frame,
)
from statestores.staging.staged_rows import in_frames, merged_by_time
from statestores.staging.write_intent import StreamBatch, with_sequences

_ATTEMPTS = 8
"""How often duplicates are numbered anew because another write has come first."""

Parts: TypeAlias = dict[int, list[Staged]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectWrite:
    """A write of a store in an object store, ready to be committed."""

    log: ObjectLog
    """The log of the store, which exists."""

    specification: StoreSpecification[Any, Any]
    """What the store is."""

    staged: Sequence[StagedObjects]
    """What the tasks have staged, in the order of their rows."""

    overwrite: bool = False
    """Whether it replaces what is there."""

    batch: StreamBatch | None = None
    """The batch of a stream that it is."""

    accept: Accept | None = None
    """What refuses ends of partitions; all partitions are watched then."""

    accept_batches: AcceptBatches | None = None
    """What refuses the last batch of each stream that the store has."""

    def commit(self) -> bool:
        """Commit it; return ``False`` for a batch that has been applied before.

        Rows of one key are applied in the order of `staged`; versions, windows and sessions in the
        order of their times.

        Raises:
            StoreLockedError: A partition has an owner; nothing was committed.
            CommitConflictError: `accept` refuses what is there, or a vacuum has voided what was
                staged; nothing was committed.
            CommitInDoubtError: Nobody can tell. A batch may be committed again.
            StateStoreError: The log cannot be read; nothing was committed.
        """
        try:
            return self._commit_staged()
        except ChangelogCorruptedError:  # also where what is staged was removed, as it may be then
            view = self.log.view(range(self.log.partitions))
            refuse_voided(self.log.names, view, {each.staged.id for each in self._objects})
            raise

    def _commit_staged(self) -> bool:
        """Commit it, staged anew where that is needed."""
        if self._numbers_duplicates:
            return self._commit_duplicates()
        if not self._objects and not self.overwrite and self.batch is None:
            return True
        parts = self._cleared()
        for number, objects in self._by_partition().items():
            parts.setdefault(number, []).extend(
                each.staged for each in self._in_order(number, objects)
            )
        return self._commit(parts, self.accept)

    @property
    def _numbers_duplicates(self) -> bool:
        return numbers_duplicates(self.specification) and bool(self._objects)

    @property
    def _objects(self) -> list[StagedObject]:
        return [each for task in self.staged for each in task.objects]

    def _commit(self, parts: Parts, accept: Accept | None) -> bool:
        """Have *parts* count."""
        batch = None if self.batch is None else Batch(self.batch.stream, self.batch.number)
        reach("objects.write.checked")
        steps = commit_staged(
            self.log.names,
            f"commit-{unique_id()}",
            parts,
            batch=batch,
            watched=() if accept is None else range(self.log.partitions),
            accept=accept,
            accept_batches=self.accept_batches,
            at_ms=wall_clock_ms(),
        )
        applied = run(steps, self.log.storage) is not None
        reach("objects.write.committed")
        return applied

    def _by_partition(self) -> dict[int, list[list[StagedObject]]]:
        """Return the sorted runs of each partition, in the order of their rows."""
        runs: dict[int, list[list[StagedObject]]] = {}
        for task in self.staged:
            ordered = sorted(task.objects, key=_place)  # stable
            for (number, _), objects in groupby(ordered, key=_place):
                runs.setdefault(number, []).append(list(objects))
        return runs

    def _cleared(self) -> Parts:
        """Return a clear for each partition, if this replaces what is there."""
        if not self.overwrite:
            return {}
        schema = change_schema(self.specification.kind)
        bodies = BodyWriter(schema, Compression.LZ4)
        data = staged_frame(bodies, FrameKind.CLEAR, None)
        begun = self.log.begin_write(unique_id())
        parts: Parts = {}
        for number in range(self.log.partitions):
            run(stage(self.log.names, begun, number, data), self.log.storage)
            parts[number] = [staged_as(begun, data, "a clear")]
        return parts

    def _in_order(self, number: int, runs: list[list[StagedObject]]) -> list[StagedObject]:
        """Return the objects of a partition in the order in which they are applied."""
        if order_column(change_schema(self.specification.kind)) is None or len(runs) == 1:
            return [each for objects in runs for each in objects]
        ordered = sorted(runs, key=lambda objects: (objects[0].first, objects[-1].last))
        if all(
            (before[-1].last or 0) < (after[0].first or 0) for before, after in pairwise(ordered)
        ):
            return [each for objects in ordered for each in objects]
        stager = ObjectStager(self.log, self.specification)
        stager.add_sorted(number, self._merged(runs))
        return list(stager.finish().objects)

    def _merged(self, runs: list[list[StagedObject]]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of *runs* in order of time."""
        schema = change_schema(self.specification.kind)
        batches = [staged_batches(self.log, objects) for objects in runs]
        time = order_column(schema)
        if time is not None:
            return in_frames(merged_by_time(batches, schema, time), schema)
        return in_frames((batch for each in batches for batch in each), schema)

    def _commit_duplicates(self) -> bool:
        """Commit rows that are numbered after those that are there, whatever comes in between."""
        runs = self._by_partition()
        cleared = self._cleared()
        for attempt in range(_ATTEMPTS):
            view = self.log.view(range(self.log.partitions))
            ends = {number: view.parts[number].end for number in runs}
            parts = {number: list(some) for number, some in cleared.items()}
            stager = ObjectStager(self.log, self.specification)
            for number, some in runs.items():
                sequence = 0 if self.overwrite else self._next_sequence(view, number)
                stager.add_sorted(number, _numbered(self._merged(some), sequence))
            for each in stager.finish().objects:
                parts.setdefault(each.partition, []).append(each.staged)
            gate = _Unmoved(None if self.overwrite else ends, self.accept)
            try:
                return self._commit(parts, gate)
            except CommitConflictError:
                if not gate.moved or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError  # the last attempt returns or raises

    def _next_sequence(self, view: View, number: int) -> int:
        """Return a number above that of every duplicate that *view* has (WIN-21).

        The log has all of them, unless the store was resharded: then a snapshot comes before it.
        """
        part, choice = view.parts[number], SnapshotChoice(None, {})
        if part.begin:
            snapshots = ObjectSnapshots(log=self.log, log_id=view.checkpoint.log, partition=number)
            choice = snapshots.newest_valid(to_offset=part.end - 1)
        reader = self.log.reader_at(view, number)

        def frames_from(start: int) -> Iterable[Frame]:
            return reader.read_seen(start, part.end)

        logged = changelog_partition(self.specification.name, number)
        return next_sequence(choice, part.begin, frames_from, logged)


class _Unmoved:
    """Accepts ends of partitions that are as they were when duplicates were numbered."""

    def __init__(self, ends: Mapping[int, int] | None, accept: Accept | None) -> None:
        self._ends = ends
        self._accept = accept
        self.moved = False

    def __call__(self, found: Mapping[int, int]) -> None:
        if self._accept is not None:
            self._accept(found)
        for number, end in (self._ends or {}).items():
            if found[number] != end:
                self.moved = True
                raise CommitConflictError(
                    f"another write to partition {number} has come first {_ATTEMPTS} times, and "
                    "each time its duplicates had to be numbered anew; nothing was committed; try "
                    "again"
                )


def _place(each: StagedObject) -> tuple[int, int]:
    return (each.partition, each.run)


def _numbered(batches: Iterable[pa.RecordBatch], sequence: int) -> Iterator[pa.RecordBatch]:
    """Yield *batches* with sequences from *sequence* on."""
    for batch in batches:
        yield with_sequences(batch, sequence)
        sequence += batch.num_rows
