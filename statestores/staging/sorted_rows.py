"""Rows on their way into a snapshot: sorted by the task that has them, in files as snapshots have.

Where the rows of a partition come from one task, or those of each task have keys of their own,
these files become the snapshot's as they are. Otherwise whoever publishes merges them. What a task
holds is bounded: sorted runs wait on the disk of its machine until it has all of its rows.

Only key-value stores, with or without timestamps: what a change of another kind does depends on
the times of all others in its partition.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.file_access import reporting
from statestores.arrow.progress import Meter
from statestores.arrow.row_batches import even_parts
from statestores.arrow.rows import tail_of
from statestores.arrow.rows.spilled_runs import SpilledRuns
from statestores.arrow.rows.tail import Tail
from statestores.arrow.schemas import row_schema
from statestores.arrow.snapshots.data_files import BYTES_PER_FILE, ROWS_PER_FILE, write_files
from statestores.arrow.snapshots.manifest import FileEntry
from statestores.changelog import change_schema
from statestores.errors import StoreCorruptedError
from statestores.failpoints import reach
from statestores.files.durable_directory import make_directory, make_durable
from statestores.files.local_path import local_path
from statestores.files.scratch_directory import scratch_directory
from statestores.generations import current_home, place_in_root
from statestores.partitioning import partitioner_by_name
from statestores.spi import kinds
from statestores.spi.specification import StoreSpecification
from statestores.staging.staged_rows import PartitionedRows, staged_size
from statestores.staging.write_intent import check_write_id, write_directory

SORTED_KINDS: Final = frozenset({kinds.KEY_VALUE, kinds.TIMESTAMPED_KEY_VALUE})
"""The kinds whose rows tasks can sort without knowing those of others."""

_SPILL_BYTES: Final = 32 * 1024 * 1024
"""Rows that a task holds before it sorts them into files; several times as much is in use."""

_DELETED: Final = "deleted.arrow"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedPart:
    """What one attempt of a task has for one partition: each key once, in key order."""

    partition: int
    """The partition."""

    directory: str
    """Where the files are, inside the directory of the write."""

    files: tuple[FileEntry, ...]
    """The files, as a snapshot's manifest describes them; none where everything is deleted."""

    first_key: bytes
    """The lowest key that the files have."""

    last_key: bytes
    """The highest one."""

    deleted: int
    """How many keys the task deletes, which a task before may have put."""

    stream_time_ms: int | None
    """The highest timestamp of the task's rows, if the kind has one."""

    @property
    def rows(self) -> int:
        """How many rows the files have."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRows:
    """What one attempt of one task has staged, sorted. Small; made to be sent to whoever builds."""

    write_id: str
    """The write to which the rows belong."""

    parts: tuple[SortedPart, ...]
    """What there is for each partition."""

    generation: int
    """The generation of partitions beside which the files lie."""


class SortedStager(PartitionedRows):
    """Splits the rows of a task by partition, and sorts those of each."""

    def __init__(
        self,
        root: str | PathLike[str],
        specification: StoreSpecification[Any, Any],
        partitions: int,
        write_id: str,
        attempt: str,
        *,
        scratch: str | None = None,
        spill_bytes: int = _SPILL_BYTES,
    ) -> None:
        """Stage for the write *write_id*; *attempt* is a name that nobody else uses.

        Sorted runs wait in a new directory inside *scratch*, by default the system's for temporary
        files. The store need not exist yet, and is of one of the `SORTED_KINDS`.
        """
        super().__init__(
            change_schema(specification.kind),
            partitioner_by_name(specification.partitioner),
            partitions,
            spill_bytes=spill_bytes,
        )
        home = current_home(local_path(root, "root"), specification.name)
        self._directory = write_directory(home, write_id)
        self._generation = place_in_root(home)[2]
        self._write_id = write_id
        self._attempt = check_write_id(attempt)
        self._specification = specification
        self._tails: dict[int, Tail] = {}
        self._ends = False
        self._held = ExitStack()
        self._scratch_parent = scratch

    def __enter__(self) -> Self:
        self._scratch = self._held.enter_context(scratch_directory(self._scratch_parent))
        return self

    def __exit__(self, *raised: object) -> None:
        self._held.close()

    def finish(self) -> SortedRows:
        """Write what there is for each partition, and return what it is; all of it is durable.

        Raises:
            StorageError: A file cannot be written.
        """
        self._ends = True
        self._spill()
        parts = [
            part
            for number in sorted(self._tails)
            if (part := self._part(number, self._tails.pop(number))) is not None
        ]
        if parts:
            with reporting("write into", self._directory):
                make_durable(self._directory)
            reach("stage.files-durable")
        return SortedRows(write_id=self._write_id, parts=tuple(parts), generation=self._generation)

    def _write(self, partition: int, rows: pa.Table, indices: np.ndarray) -> None:
        """Sort the *rows* at *indices*; until the last ones come, onto the disk."""
        tail = self._tails.get(partition)
        if tail is None:
            tail = self._tails[partition] = tail_of(self._specification)
            if not self._ends:
                runs = self._scratch / str(partition)
                with reporting("write into", runs):
                    runs.mkdir()
                tail.spill(SpilledRuns(runs, 1))  # everything is a run until the end
        for batch in rows.take(pa.array(indices)).combine_chunks().to_batches():
            tail.add(batch)

    def _part(self, partition: int, tail: Tail) -> SortedPart | None:
        """Write the files of one partition."""
        name = f"{self._attempt}-{partition}"
        directory = self._directory / name
        with reporting("write into", directory):
            make_directory(directory)
            with _Puts(directory, row_schema(self._specification.kind), tail.changes()) as puts:
                files = write_files(
                    directory,
                    self._specification.kind,
                    even_parts(puts),
                    ROWS_PER_FILE,
                    BYTES_PER_FILE,
                    Meter(None),
                )
                entries = tuple(files)
            make_durable(directory)
        if not entries and not puts.deleted:
            return None
        return SortedPart(
            partition=partition,
            directory=name,
            files=entries,
            first_key=puts.first_key,
            last_key=puts.last_key,
            deleted=puts.deleted,
            stream_time_ms=getattr(tail, "stream_time_ms", None),
        )


class _Puts:
    """The rows that changes put, in key order; what they delete goes into a file of its own."""

    def __init__(
        self, directory: Path, schema: pa.Schema, changes: Iterator[pa.RecordBatch]
    ) -> None:
        self._path = directory / _DELETED
        self._schema = schema
        self._changes = changes
        self._held = ExitStack()
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self.first_key = self.last_key = b""
        self.deleted = self.rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._held.close()
        if self.deleted:
            make_durable(self._path)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._changes:
            is_put = pc.is_valid(batch.column("value"))
            rows = batch.filter(is_put)
            if rows.num_rows < batch.num_rows:
                self._delete(batch.filter(pc.invert(is_put)))
            if not rows.num_rows:
                continue
            keys = rows.column("key")
            if not self.rows:
                self.first_key = keys[0].as_py()
            self.rows += rows.num_rows
            self.last_key = keys[-1].as_py()
            yield _cast(rows, self._schema)

    def _delete(self, changes: pa.RecordBatch) -> None:
        if self._writer is None:
            file = self._held.enter_context(pa.OSFile(str(self._path), "wb"))
            self._writer = self._held.enter_context(pa.ipc.new_stream(file, changes.schema))
        self._writer.write_batch(changes)
        self.deleted += changes.num_rows


def check_sorted(write: Path, parts: Iterable[SortedPart]) -> None:
    """Accept *parts* of the write in the directory *write* whose files are there, and whole.

    They are not read: whoever wrote them waited for the disk, and who reads a snapshot checks it.

    Raises:
        StoreNotFoundError: One is not there.
        StoreCorruptedError: One has another size.
        StorageError: One cannot be looked at.
    """
    for part in parts:
        for file in part.files:
            path = write / part.directory / file.name
            size = staged_size(path)
            if size != file.bytes:
                raise StoreCorruptedError(
                    f"the staged file {str(path)!r} has {size} bytes, expected {file.bytes}; write "
                    "it again"
                )
        if part.deleted:
            staged_size(write / part.directory / _DELETED)


def sorted_streams(write: Path, part: SortedPart) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield the changes of *part*, which the directory *write* has, as streams in key order.

    Raises:
        StorageError: A file cannot be read.
    """
    for file in part.files:
        yield _batches_of(write / part.directory / file.name)
    if part.deleted:
        yield _deletions_in(write / part.directory / _DELETED)


def _batches_of(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file."""
    with reporting("read", path), pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as rows:
        for number in range(rows.num_record_batches):
            yield rows.get_batch(number)


def _deletions_in(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the deletions of one file."""
    with reporting("read", path), pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as rows:
        yield from rows


def _cast(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return *rows* with the types of *schema*."""
    columns = [rows.column(field.name).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
