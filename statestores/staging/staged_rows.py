"""Changes on their way to several partitions, kept in Arrow files until they are appended.

A task that writes knows only its own rows, and they belong to any partition. It puts them into
files, one partition each; whoever publishes reads the files of all tasks as one sequence, which is
always the same one: in the order of files and rows, and for kinds with a retention in the order of
time, so that no change makes a later one too late.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.file_access import checksum_of, reporting
from statestores.arrow.row_batches import BATCH_BYTES, BATCH_ROWS
from statestores.changelog.rows import check_batch, order_column
from statestores.errors import StoreCorruptedError, StoreNotFoundError
from statestores.failpoints import reach
from statestores.files.durable_directory import make_directory, make_durable
from statestores.files.strict_json import Fields
from statestores.partitioning import Partitioner

SPILL_BYTES = 128 * 1024 * 1024
"""Rows that a task holds before it writes them into files."""

_NAME = re.compile(r"[A-Za-z0-9_-]+\.arrow")

# A reader of versions holds a batch of every file at once, and there may be hundreds of files.
_STORED_ROWS = 8_192
_COMPRESSION = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """One file of changes of one partition, in time order if they have times."""

    name: str
    """The name inside the directory of the write."""

    partition: int
    """The partition to which all of the rows belong."""

    rows: int
    """How many; at least one."""

    bytes: int
    """The size of the file."""

    crc32c: int
    """The CRC32C of all of its bytes."""


def staged_file_from_fields(fields: Fields) -> StagedFile:
    """Return the staged file that a record describes, whose name is one that a writer gives.

    Raises:
        StoreCorruptedError: It describes none.
    """
    fields.only("name", "partition", "rows", "bytes", "crc32c")
    if not _NAME.fullmatch(fields.text("name")):
        fields.refuse("name", "the name of a staged file")
    return StagedFile(
        name=fields.text("name"),
        partition=fields.integer("partition"),
        rows=fields.integer("rows", 1),
        bytes=fields.integer("bytes"),
        crc32c=fields.integer("crc32c", last=0xFFFFFFFF),
    )


class PartitionedRows(ABC):
    """Splits the rows of a task by partition, and has them written when there are enough."""

    def __init__(
        self,
        schema: pa.Schema,
        partitioner: Partitioner,
        partitions: int,
        *,
        only: int | None = None,
        spill_bytes: int = SPILL_BYTES,
    ) -> None:
        """Take rows of *schema*, at most about *spill_bytes* of them at a time.

        All of them belong to the partition *only*, if that is said.
        """
        self._only = only
        self._schema = schema
        self._partitioner = partitioner
        self._partitions = partitions
        self._spill_bytes = spill_bytes
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0

    def add(self, changes: pa.RecordBatch) -> None:
        """Take *changes* with the columns of the store's changelog.

        Raises:
            InvalidTypeError, InvalidArgumentError: They cannot be changes of the store.
            StorageError: A file cannot be written.
        """
        if changes.num_rows:
            self._waiting.append(check_batch(self._schema, changes))
            self._waiting_bytes += changes.nbytes
        if self._waiting_bytes >= self._spill_bytes:
            self._spill()

    def _spill(self) -> None:
        """Have the waiting rows written, each partition's by itself."""
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting, self._waiting_bytes = [], 0
        if self._only is None:
            chosen = self._partitioner.partition_array(rows["key"], self._partitions)
            places = chosen.to_numpy()
        else:
            places = np.full(rows.num_rows, self._only, np.int32)
        # Sorted by partition, and within it by time; what is equal stays in its order.
        time = order_column(self._schema)
        keys = [places] if time is None else [rows[time].to_numpy(), places]
        order = np.lexsort(keys)
        borders = np.searchsorted(places[order], np.arange(self._partitions + 1))
        for partition in np.unique(places).tolist():
            self._write(partition, rows, order[borders[partition] : borders[partition + 1]])

    @abstractmethod
    def _write(self, partition: int, rows: pa.Table, indices: np.ndarray) -> None:
        """Write the *rows* at *indices*, which belong to *partition*, in order of time."""


class StagedWriter(PartitionedRows):
    """Splits rows by partition and writes them into files of one directory."""

    def __init__(
        self,
        directory: Path,
        prefix: str,
        schema: pa.Schema,
        partitioner: Partitioner,
        partitions: int,
        *,
        only: int | None = None,
        spill_bytes: int = SPILL_BYTES,
    ) -> None:
        """Write files whose names begin with *prefix*, which nobody else uses."""
        super().__init__(schema, partitioner, partitions, only=only, spill_bytes=spill_bytes)
        self._directory = directory
        self._prefix = prefix
        self._files: list[StagedFile] = []
        self._numbers = count()

    def finish(self) -> tuple[StagedFile, ...]:
        """Write what is left, and return the files, all of them durable.

        Raises:
            StorageError: A file cannot be written.
        """
        self._spill()
        if self._files:
            with reporting("write into", self._directory):
                make_durable(self._directory)
            reach("stage.files-durable")
        return tuple(self._files)

    def _write(self, partition: int, rows: pa.Table, indices: np.ndarray) -> None:
        """Write the *rows* at *indices* into a new file."""
        name = f"{self._prefix}-{next(self._numbers):04d}-{partition}.arrow"
        path = self._directory / name
        with reporting("write", path):
            make_directory(self._directory)
            with (
                pa.OSFile(str(path), "wb") as file,
                pa.ipc.new_file(file, self._schema, options=_COMPRESSION) as writer,
            ):
                for start in range(0, len(indices), _STORED_ROWS):
                    part = rows.take(pa.array(indices[start : start + _STORED_ROWS]))
                    for batch in part.combine_chunks().to_batches():
                        writer.write_batch(batch)
            reach("stage.file-written")
            make_durable(path)
            staged = StagedFile(
                name=name,
                partition=partition,
                rows=len(indices),
                bytes=path.stat().st_size,
                crc32c=checksum_of(path),
            )
        self._files.append(staged)


def check_staged(directory: Path, files: Iterable[StagedFile]) -> None:
    """Read *files* and compare them with their descriptions.

    Raises:
        StoreNotFoundError: One is not there.
        StoreCorruptedError: One is something else.
        StorageError: One cannot be read.
    """
    for file in files:
        path = directory / file.name
        with _reading(path):
            size = path.stat().st_size
            found = checksum_of(path)
        if size != file.bytes or found != file.crc32c:
            raise StoreCorruptedError(
                f"the staged file {str(path)!r} has {size} bytes with the CRC32C {found:08x}, "
                f"expected {file.bytes} with {file.crc32c:08x}; write it again"
            )


def staged_size(path: Path) -> int:
    """Return how many bytes the staged file *path* has.

    Raises:
        StoreNotFoundError: It is not there.
        StorageError: It cannot be looked at.
    """
    with _reading(path):
        return path.stat().st_size


def staged_batches(
    directory: Path, files: Sequence[StagedFile], schema: pa.Schema, *, checked: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of *files*, all of one partition, as one sequence.

    The same files in the same order give the same sequence. Those that the caller has *checked* are
    not read for that again.

    Raises:
        StoreNotFoundError, StoreCorruptedError, StorageError: A file cannot be read.
    """
    if not checked:
        check_staged(directory, files)
    runs = [_batches_of(directory / file.name) for file in files]
    time = order_column(schema)
    if time is not None:
        return merged_by_time(runs, schema, time)
    return (batch for run in runs for batch in run)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Report failures to read the staged file *path*; a missing file is an error of its own."""
    with reporting("read", path):
        try:
            yield
        except FileNotFoundError as error:
            raise StoreNotFoundError(
                f"the staged file {str(path)!r} is not there: either the partitions were replaced "
                "since it was staged, by a reshard or by an overwrite with snapshots, or another "
                "driver of the query has given it up, and the write has to be repeated; or the "
                "state root is not on a file system that all tasks and the driver share"
            ) from error


def _batches_of(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches of one file, which is opened for each: there may be hundreds of files."""
    for number in count():
        with _reading(path), pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as rows:
            if number >= rows.num_record_batches:
                return
            batch = rows.get_batch(number)
        yield batch


def merged_by_time(
    runs: list[Iterator[pa.RecordBatch]], schema: pa.Schema, time: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of *runs*, each in order of *time*, in that order; equal times in run order.

    One batch of each run is in memory. In each step the run whose batch ends first is used up,
    and of the others what comes before that end.
    """
    heads = [next(run, None) for run in runs]
    while any(head is not None for head in heads):
        ends = [
            (head.column(time)[-1].as_py(), number)
            for number, head in enumerate(heads)
            if head is not None
        ]
        end, last = min(ends)
        taken = []
        for number, head in enumerate(heads):
            if head is None:
                continue
            # At the end itself, the runs before the one that is used up come before it.
            before = pc.less_equal if number <= last else pc.less
            rows = pc.sum(before(head.column(time), end)).as_py() or 0
            taken.append(head.slice(0, rows))
            heads[number] = head.slice(rows) if rows < head.num_rows else next(runs[number], None)
        table = pa.Table.from_batches(taken, schema)
        ordered = table.take(pc.sort_indices(table, [(time, "ascending")]))  # stable
        yield from ordered.combine_chunks().to_batches()


def in_frames(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of *batches* in batches that are worth an append of their own."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and (rows + batch.num_rows > BATCH_ROWS or size + batch.nbytes > BATCH_BYTES):
            yield from pa.Table.from_batches(waiting, schema).combine_chunks().to_batches()
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if waiting:
        yield from pa.Table.from_batches(waiting, schema).combine_chunks().to_batches()
