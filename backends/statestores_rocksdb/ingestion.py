"""Sorted files that are written beside the database and taken in as a whole."""

import logging
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Self, cast

from rocksdict import (
    IngestExternalFileOptions,
    Options,
    Rdict,
    SstFileWriter,
    WriteBatch,
    WriteOptions,
)

from statestores.errors import InvalidArgumentError, StorageError
from statestores_rocksdb.failures import fail, says_out_of_order

_LOG = logging.getLogger(__name__)

_PREFIX = "ingestion-"
_FILE_BYTES = 64 * 1024 * 1024
"""Size of one file, as large as those that compaction writes: it rewrites whole files."""
_PAIRS_PER_CHECK = 4096
"""Pairs between two checks of the size of the file."""


class SortedFiles:
    """Files of pairs in key order that RocksDB does not know yet.

    They lie in the database's directory, so that taking them in is a rename. Their names mean
    nothing to RocksDB; the next opening removes what a crash left.
    """

    def __init__(self, directory: Path, options: Options) -> None:
        self._directory = directory
        self._options = options
        self._paths: list[str] = []
        self._writer: SstFileWriter | None = None
        """The file that is being written."""

    def write(self, pairs: Iterable[tuple[bytes, bytes]]) -> Self:
        """Write *pairs* to files.

        Raises:
            InvalidArgumentError: The keys do not ascend.
            InvalidTypeError: A key or value is not bytes.
            StorageError: The disk is full or failed.
        """
        rows = iter(pairs)
        previous: bytes | None = None
        try:
            for first in rows:
                some = chain((first,), islice(rows, _PAIRS_PER_CHECK))
                if self._writer is None:  # the driver knows one file
                    _refuse_disorder(first[0], previous)
                previous = self._write_some(some, previous)
            self._finish_file(0)
        except Exception as error:  # noqa: BLE001  # the driver raises the class itself
            fail(error, f"write sorted files to {str(self._directory)!r}")
        return self

    def _write_some(self, pairs: Iterable[tuple[bytes, bytes]], previous: bytes | None) -> bytes:
        """Write *pairs*, one at least, after the key *previous*, and return the last key.

        The driver refuses what is not bytes, and a key that does not follow the one before it in
        the file: to look at each before it does takes a tenth of the time.
        """
        writer = self._writer or self._next_file()
        key = previous
        try:
            for key, value in pairs:
                writer[key] = value
                previous = key
        except Exception as error:
            if says_out_of_order(error):
                _refuse_disorder(key, previous)
            raise
        finally:
            del writer  # or the traceback of an error keeps the file open
        self._finish_file(_FILE_BYTES)
        return cast("bytes", key)

    def move_into(self, database: Rdict) -> None:
        """Make all pairs visible together, and durable.

        Two empty batches enclose them in the write-ahead log. The first waits for the disk, so that
        a power failure cannot keep these pairs and lose earlier commits; and it begins a new log if
        one is due. So the second, which notes the sequence numbers that the ingestion has taken,
        is in the same log: between two logs it would look as if a part was missing.
        """
        waiting = WriteOptions()
        waiting.sync = True
        try:
            database.write(WriteBatch(raw_mode=True), waiting)
            if self._paths:
                moving = IngestExternalFileOptions()
                moving.set_move_files(v=True)
                database.ingest_external_file(self._paths, moving)
        except Exception as error:  # noqa: BLE001  # the driver raises the class itself
            fail(error, f"ingest {len(self._paths)} sorted files")
        if self._paths:
            _note_numbers(database)

    def remove(self) -> None:
        """Remove the files that were not taken in."""
        self._writer = None
        _remove(Path(path) for path in self._paths)

    def _next_file(self) -> SstFileWriter:
        self._paths.append(str(self._directory / f"{_PREFIX}{len(self._paths):06}"))
        writer = SstFileWriter(self._options)
        writer.open(self._paths[-1])
        self._writer = writer
        return writer

    def _finish_file(self, least_bytes: int) -> None:
        """Finish the file that is being written, if it has *least_bytes*."""
        if self._writer is None or self._writer.file_size() < least_bytes:
            return
        self._writer.finish()
        self._writer = None


def _note_numbers(database: Rdict) -> None:
    """Note in the log which sequence numbers an ingestion has taken.

    The pairs are visible and durable by then, so an error here is none of the ingestion, and a
    caller would take it for a refusal. After it RocksDB writes to this log no more, and a log that
    it begins is not behind it: what it holds is in tables first.
    """
    try:
        database.write(WriteBatch(raw_mode=True))
    except Exception as error:  # noqa: BLE001  # the driver raises the class itself
        _LOG.warning(
            "the RocksDB database in %r has taken sorted files in, and its log has no room left: "
            "%s; the next write says so too",
            database.path(),
            error,
        )


def _refuse_disorder(key: object, previous: bytes | None) -> None:
    """Accept a *key* that comes after *previous*, if there is one.

    Raises:
        InvalidArgumentError: It does not.
    """
    if previous is not None and isinstance(key, bytes) and key <= previous:
        raise InvalidArgumentError(
            f"ingested keys must ascend strictly, got {key!r} after {previous!r}; sort them and "
            "keep the last pair of each key"
        )


def remove_left_files(directory: Path) -> None:
    """Remove what an unfinished ingestion has left in *directory*.

    Raises:
        StorageError: A file cannot be removed.
    """
    _remove(directory.glob(f"{_PREFIX}*"))


def _remove(paths: Iterable[Path]) -> None:
    try:
        for path in paths:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot remove {error.filename!r}: {error.strerror or error}; check the rights"
        ) from error
