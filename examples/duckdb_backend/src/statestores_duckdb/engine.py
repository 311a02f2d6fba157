"""The DuckDB engine, through the package duckdb."""

import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import ClassVar, Self

from statestores.errors import InvalidArgumentError, InvalidTypeError, StorageError
from statestores.files.directory_lock import DirectoryLock
from statestores.files.plain_files import check_plain_files
from statestores.spi import Capabilities, Durability, Engine, WriteBatch, parse_options

from statestores_duckdb.database import REFUSED_IN_PATHS, Database, Hold, check_path
from statestores_duckdb.options import DuckDBOptions
from statestores_duckdb.reads import DuckDBReads
from statestores_duckdb.snapshot import DuckDBSnapshot
from statestores_duckdb.views import View


class DuckDBEngine(DuckDBReads, Engine):
    """A DuckDB file in a directory, with the pairs in one table."""

    name: ClassVar[str] = "duckdb"
    # Blocks of the file and entries of the log have checksums. A copy of the file needs a moment
    # without readers, and a sorted load is one more batch: neither is promised.
    capabilities: ClassVar[Capabilities] = Capabilities(
        persistent=True,
        durable_commit=True,
        detects_corruption=True,
        refused_in_paths=REFUSED_IN_PATHS,
    )

    def __init__(self, database: Database, lock: DirectoryLock) -> None:
        """Take over an open *database*; callers use `open`."""
        super().__init__(database)
        self._lock = lock

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        chosen = parse_options(DuckDBOptions, options)
        if not os.fspath(path):
            raise StorageError("the path of a DuckDB engine is empty; expected a directory")
        directory = Path(path)
        check_path(directory)
        # DuckDB gives a process that opens a file twice the same database; the lock says no.
        check_plain_files(directory)  # DuckDB would wait for whoever writes into a pipe
        lock = DirectoryLock.acquire(directory)
        try:
            return cls(Database(directory, chosen), lock)
        except BaseException:
            lock.release()
            raise

    @property
    def is_open(self) -> bool:
        return self._database.is_open

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        """Apply all of *batch*, or nothing; whatever the durability, it waits for the disk."""
        self._check_open()
        _check_batch(batch)
        if batch:
            self._database.write(batch)

    def snapshot(self) -> DuckDBSnapshot:
        return DuckDBSnapshot(self._database, self._caught(self._hold))

    def close(self) -> None:
        # Each step may be repeated, so that a close that was interrupted can be.
        self._database.close()
        self._lock.release()

    def _check_open(self) -> None:
        self._database.check_open()

    def _take(self) -> View:
        return self._database.take()

    def _give(self, view: View, *, failed: bool) -> None:
        if failed:
            self._database.lose(view)
        else:
            self._database.give(view)

    def _hold(self) -> Hold:
        return self._database.hold()


def _check_batch(batch: WriteBatch) -> None:
    """Refuse a batch that DuckDB would take otherwise than it is meant.

    Raises:
        InvalidTypeError: A key is not bytes, or a value neither bytes nor ``None``.
        InvalidArgumentError: A key is empty.
    """
    for key, value in batch.items():
        if type(key) is not bytes:
            raise InvalidTypeError(f"a key must be bytes, got {key!r}")
        if value is not None and type(value) is not bytes:
            raise InvalidTypeError(f"the value of {key!r} must be bytes or None, got {value!r}")
        if not key:
            raise InvalidArgumentError("a key must have at least one byte, got b''")
