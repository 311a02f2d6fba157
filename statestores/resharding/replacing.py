"""A store's content made of what tasks have staged, as snapshots, and counting at once.

No changelog has these rows, and no engine: the new partitions are the next generation of the store,
as a reshard makes it (RSH-4), each a snapshot and an empty changelog after it. Where tasks have
sorted their rows and none has keys between those of another, their files are the snapshot's.
"""

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias
from uuid import uuid4

import pyarrow as pa

from statestores.arrow.file_access import reporting
from statestores.arrow.progress import Meter
from statestores.arrow.row_batches import even_parts
from statestores.arrow.rows import tail_of
from statestores.arrow.rows.aligned import aligned
from statestores.arrow.rows.spilled_runs import SpilledRuns
from statestores.arrow.snapshots.adopted_files import adopt_files
from statestores.arrow.snapshots.snapshot import SnapshotContent, write_content
from statestores.changelog import FileChangelog, change_schema, changelog_partition
from statestores.failpoints import reach
from statestores.files.durable_directory import make_durable
from statestores.generations import refuse_staged_before
from statestores.resharding.left_over import remove_left_over
from statestores.resharding.next_generation import next_generation, note_batches
from statestores.resharding.refusals import refuse_recorded_batches
from statestores.spi.offsets import Position
from statestores.spi.specification import StoreSpecification
from statestores.staging.next_sequence import numbers_duplicates
from statestores.staging.recorded_commits import refuse_recorded_commits
from statestores.staging.sorted_rows import SortedPart, SortedRows, check_sorted, sorted_streams
from statestores.staging.staged_rows import StagedFile, in_frames, staged_batches
from statestores.staging.staged_write import Publisher, StagedRows
from statestores.staging.write_intent import with_sequences, write_directory
from statestores.state_root import PartitionDirectory, StateRoot

MEMORY_BYTES: Final = 256 * 1024 * 1024
"""About as much memory as the rows of all partitions that are made at a time may take."""

_AT_A_TIME: Final = 2
_PART_OF_MEMORY: Final = 4

Rows: TypeAlias = SortedRows | StagedRows
"""What a task has staged: sorted, or in the order of its rows."""


def replace_content(
    root: StateRoot,
    store: str,
    write_id: str,
    staged: Sequence[Rows],
    publisher: Publisher,
    *,
    memory_bytes: int = MEMORY_BYTES,
) -> None:
    """Have *store* hold what is *staged* and nothing else, all of its partitions at one moment.

    Rows of one key count in the order of *staged*, rows of kinds with a retention in order of time.
    *publisher* keeps everybody else from writing. What was there goes, once nobody needs it.

    Raises:
        InvalidArgumentError: A task or a query has recorded a commit that the store lacks.
        StoreReshardedError: The partitions were replaced since the rows were staged.
        StoreNotFoundError: A staged file is not there.
        StateStoreError: What is staged cannot be read, or the partitions not be written; the store
            is as it was.
    """
    entry, batches = root.store(store), publisher.batches
    refuse_recorded_commits(root.path)
    refuse_recorded_batches(root.path, store, batches)
    write = write_directory(root.home(store), write_id)
    sorted_parts = [part for rows in staged if isinstance(rows, SortedRows) for part in rows.parts]
    refuse_staged_before(
        root.home(store),
        (
            each.generation
            for each in staged
            if (each.parts if isinstance(each, SortedRows) else each.files)
        ),
    )
    check_sorted(write, sorted_parts)
    with next_generation(root, store, entry.partitions) as (home, scratch):
        new = [
            _NewPartition(
                number=number,
                specification=entry.specification,
                offset=max(publisher.end_offsets.values()),
                write=write,
                scratch=scratch,
                sorted_parts=tuple(part for part in sorted_parts if part.partition == number),
                files=tuple(
                    file
                    for rows in staged
                    if isinstance(rows, StagedRows)
                    for file in rows.files
                    if file.partition == number
                ),
                memory_bytes=memory_bytes // _AT_A_TIME // _PART_OF_MEMORY,
            )
            for number in range(entry.partitions)
        ]
        with ThreadPoolExecutor(_AT_A_TIME, "statestores-replace") as pool:
            made = list(pool.map(_NewPartition.make, new))
        with reporting("write into", home):
            for number, path in enumerate(made):
                path.rename(home / str(number))
            make_durable(home)
        note_batches(home, batches, write_id)
    reach("reshard.noted")


def remove_replaced(root: StateRoot, store: str) -> None:
    """Remove what `replace_content` has replaced, and what the tasks had staged for it.

    Raises:
        StoreLockedError: Somebody publishes; the next reshard or `replace_content` removes it.
        StorageError: It cannot be removed.
    """
    remove_left_over(root, store)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewPartition:
    """One partition to make."""

    number: int
    specification: StoreSpecification[Any, Any]
    offset: int
    write: Path
    scratch: Path
    sorted_parts: tuple[SortedPart, ...]
    files: tuple[StagedFile, ...]
    memory_bytes: int

    def make(self) -> Path:
        """Make it; return the directory where it is, all of it on disk."""
        directory = PartitionDirectory(self.scratch / f"to-{self.number}-{uuid4().hex}")
        in_order = self._own_keys()
        if in_order is not None:
            adopt_files(
                directory.snapshots,
                self._content(iter(()), self._stream_time_ms),
                [
                    (self.write / part.directory / f.name, f)
                    for part in in_order
                    for f in part.files
                ],
            )
        elif self.sorted_parts:
            self._write(directory, self._merged(), self._stream_time_ms)
        else:
            with tempfile.TemporaryDirectory(prefix="runs-", dir=self.scratch) as runs:
                tail = tail_of(self.specification)
                tail.spill(SpilledRuns(Path(runs), max(1, self.memory_bytes)))
                for batch in self._changes():
                    tail.add(batch)
                self._write(directory, tail.merge(()), getattr(tail, "stream_time_ms", None))
        FileChangelog.create(
            directory.changelog,
            self.specification.kind,
            first_offset=self.offset + 1,
            partition=changelog_partition(self.specification.name, self.number),
        ).close()
        return directory.path

    @property
    def _stream_time_ms(self) -> int | None:
        times = [each.stream_time_ms for each in self.sorted_parts]
        return max((time for time in times if time is not None), default=None)

    def _own_keys(self) -> list[SortedPart] | None:
        """Return the parts in the order of their keys, if each has keys of its own, and no more.

        Deletions may be of keys that a task before has put, and what has expired by the stream time
        of all tasks is not for a snapshot.
        """
        parts = sorted(self.sorted_parts, key=lambda part: part.first_key)
        if (
            not parts
            or getattr(self.specification, "ttl_ms", None) is not None
            or any(part.deleted for part in parts)
            or any(one.last_key >= other.first_key for one, other in pairwise(parts))
        ):
            return None
        return parts

    def _merged(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the sorted parts, of each key that of the last part."""
        streams = [
            stream for part in self.sorted_parts for stream in sorted_streams(self.write, part)
        ]
        for step in aligned(streams):
            tail = tail_of(self.specification, stream_time_ms=self._stream_time_ms)
            for batches in step:
                for batch in batches:
                    tail.add(batch)
            yield from tail.merge(())

    def _changes(self) -> Iterator[pa.RecordBatch]:
        """Yield the staged changes as a log would have them."""
        schema = change_schema(self.specification.kind)
        batches = in_frames(staged_batches(self.write, self.files, schema), schema)
        sequence = 0
        for batch in batches:
            if numbers_duplicates(self.specification):
                yield with_sequences(batch, sequence)
                sequence += batch.num_rows
            else:
                yield batch

    def _write(
        self,
        directory: PartitionDirectory,
        rows: Iterator[pa.RecordBatch],
        stream_time_ms: int | None,
    ) -> None:
        """Write *rows* as the snapshot."""
        # The stream time is known when all rows have been added, which is before the first comes.
        content = self._content(rows, stream_time_ms)
        write_content(directory.snapshots, content, meter=Meter(None))

    def _content(
        self, rows: Iterator[pa.RecordBatch], stream_time_ms: int | None
    ) -> SnapshotContent:
        logged = changelog_partition(self.specification.name, self.number)
        return SnapshotContent(
            specification=self.specification,
            partition=logged,
            offsets={logged: self.offset},
            position=Position(),
            stream_time_ms=stream_time_ms,
            parts=even_parts(rows),
        )
