"""Parquet files as a source: a record for each row. A file does not change once it is there."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from statestores.errors import StoreCorruptedError
from statestores.processing.local.sources.file_reader import (
    FileProgress,
    FileReader,
    check_same,
    proof_of,
)
from statestores.processing.local.sources.file_set import FileSet, FoundFile
from statestores.processing.local.sources.file_source import FileSource
from statestores.processing.local.sources.record_fields import RecordFields
from statestores.processing.local.sources.source import (
    Place,
    SourceOutput,
    SourceReader,
)
from statestores.processing.topic import Topic
from statestores.spi import KeyValueStore

_SUFFIXES = (".parquet",)
_BATCH_ROWS = 10_000


@dataclass(frozen=True)
class ParquetFiles(FileSource):
    """The rows of a Parquet file, of those in a directory (``*.parquet``), or of a pattern.

    A row is a dict of its columns. New files are found, and come after those that are there; write
    them under another name, or elsewhere, and rename them when they are complete.
    """

    def reader(
        self, topic: Topic[Any, Any], store: KeyValueStore[str, Any], output: SourceOutput
    ) -> SourceReader:
        """Open it, where the last commit has left each file."""
        fields = self.fields(topic)
        return _RowReader(FileSet(self.path, _SUFFIXES), store, output, fields)


class _RowReader(FileReader):
    """Reads rows, a batch at a time."""

    def __init__(
        self,
        files: FileSet,
        store: KeyValueStore[str, Any],
        output: SourceOutput,
        fields: RecordFields,
    ) -> None:
        super().__init__(files, store, output)
        self._fields = fields
        self._rows: Iterator[dict[str, Any]] = iter(())
        self._file: pq.ParquetFile | None = None
        self._opened: pa.OSFile | None = None

    def open_file(self, file: FoundFile, progress: FileProgress) -> None:
        """Open *file* behind the rows that were taken."""
        with file.path.open("rb") as raw:
            if progress.byte and file.size != progress.byte:
                raise StoreCorruptedError(
                    f"{str(file.path)!r} has {file.size} bytes, and had {progress.byte} when it "
                    "was read: a Parquet file does not change; new files need new names"
                )
            check_same(file.path, raw, progress, file.size)
            if not progress.byte:
                progress.checksum = proof_of(raw, file.size)
        opened = self._opened = pa.OSFile(str(file.path))
        try:
            self._file = pq.ParquetFile(opened)
        except pa.ArrowException as error:
            raise _unreadable(file, error) from error
        progress.byte = file.size
        self._rows = _rows_from(self._file, file, progress.next)

    def read_file(self, file: FoundFile, progress: FileProgress, limit: int) -> tuple[int, bool]:
        """Take up to *limit* rows."""
        source, output, fields, done = str(file.path), self.output, self._fields, 0
        while done < limit:
            row = next(self._rows, None)
            if row is None:
                return done, True
            place = Place(source, progress.next, name=file.name)
            try:
                record = fields.record(row, output.wall_ms)
            except Exception as error:  # noqa: BLE001  # selectors may raise anything
                output.refuse(error, place)
            else:
                output.take(record, place)
            progress.next += 1
            done += 1
        return done, False

    def close_file(self) -> None:
        """Close the file."""
        self._rows = iter(())
        self._file = None
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _rows_from(file: pq.ParquetFile, found: FoundFile, first: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of *file* from the row *first* on; whole row groups before it are not read."""
    before = 0
    try:
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if before + count > first:
                skip = max(0, first - before)
                for batch in file.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group]):
                    if skip < batch.num_rows:
                        yield from batch.slice(skip).to_pylist()
                    skip = max(0, skip - batch.num_rows)
            before += count
    except pa.ArrowException as error:
        raise _unreadable(found, error) from error


def _unreadable(found: FoundFile, error: pa.ArrowException) -> StoreCorruptedError:
    return StoreCorruptedError(
        f"{str(found.path)!r} is no Parquet file that can be read ({error}); put it back from a "
        "copy, or move it away"
    )
