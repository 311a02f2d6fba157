"""The SQLite engine, and the same engine on a PostgreSQL server."""

import sqlite3
import weakref
from collections.abc import Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import ClassVar, Self, cast

from statestores.errors import StoreMismatchError
from statestores.files.local_path import engine_directory
from statestores.spi import Capabilities, Durability, Engine, WriteBatch, parse_options
from statestores_sqlite.database import Database
from statestores_sqlite.failures import missing_package
from statestores_sqlite.options import PostgreSQLOptions, SQLiteOptions
from statestores_sqlite.readers import Reader, ReaderPool
from statestores_sqlite.reads import SQLReads
from statestores_sqlite.row_cursor import RowCursor
from statestores_sqlite.snapshot import SQLiteSnapshot
from statestores_sqlite.sqlite_file import FILE, SQLiteFile
from statestores_sqlite.table_file import has_table, is_there


class SQLiteEngine(SQLReads, Engine):
    """A SQLite database in a directory, or with the option ``url`` a table on a server."""

    name: ClassVar[str] = "sqlite"
    capabilities: ClassVar[Capabilities] = Capabilities(
        persistent=True, durable_commit=True, detects_corruption=True, native_checkpoint=True
    )

    def __init__(self, database: Database) -> None:
        """Take over an open *database*; callers use `open`."""
        super().__init__(database)
        self._pool = ReaderPool(database.open_reader, database.closed, database.errors)
        self._snapshots: weakref.WeakSet[SQLiteSnapshot] = weakref.WeakSet()
        self._snapshots_lock = Lock()

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        """Open the database: a `PostgreSQLEngine` with the option ``url``, or where one was."""
        directory = engine_directory(path)
        if has_table(directory) or any(name.lower() == "url" for name in options or {}):
            return cast("Self", PostgreSQLEngine.open(path, options))
        file = SQLiteFile(directory, parse_options(SQLiteOptions, options))
        return cls(file) if file.has_checksums else cast("Self", PlainSQLiteEngine(file))

    @property
    def is_open(self) -> bool:
        return self._reading

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        if not self._reading:
            raise self._database.closed()
        self._database.apply(batch, durability)

    def snapshot(self) -> SQLiteSnapshot:
        with self._snapshots_lock:
            snapshot = SQLiteSnapshot(self._database, self._pool)
            self._snapshots.add(snapshot)
        return snapshot

    def approximate_num_keys(self, start: bytes, stop: bytes | None = None) -> int:
        """Count the keys: exact, and inside the database."""
        return self._read(self._reader.count, start, stop)

    def checkpoint(self, path: str | PathLike[str]) -> None:
        """Copy the engine's present state into the new directory *path*, without its free space.

        Reads and batches go on meanwhile. It costs as much as writing the data once.

        Raises:
            StoreClosedError: The engine is closed.
            InvalidArgumentError: There is something at *path*.
            StorageError: The copy cannot be written.
        """
        if not self._reading:
            raise self._database.closed()
        self._database.copy_to(Path(path))

    @classmethod
    def driver(cls) -> str | None:
        return f"SQLite {sqlite3.sqlite_version}"

    def close(self) -> None:
        # Each step may be repeated, so that an interrupted close can be repeated too.
        self._stop_scans()
        with self._snapshots_lock:  # the pool has no reader for a snapshot that comes later
            self._pool.close()
            snapshots = list(self._snapshots)
        for snapshot in snapshots:
            snapshot.close()
        self._database.close()

    def _take(self) -> Reader:
        return self._pool.take()

    def _give(self, reader: Reader) -> None:
        self._pool.give(reader)

    def _lose(self, reader: Reader) -> None:
        # Whatever the failure was, a new connection is sure not to share it.
        reader.close()

    def _open_cursor(self, start: bytes, stop: bytes | None, *, reverse: bool) -> RowCursor:
        reader = self._take()
        try:
            rows = reader.rows(start, stop, reverse=reverse)
        except self._database.errors as error:
            self._lose(reader)
            raise self._database.translated(error) from error
        finish = partial(self._pool.give_after, reader, rows.close)
        return RowCursor(rows, Lock(), finish, self._database.closed)


class PlainSQLiteEngine(SQLiteEngine):
    """The same engine on a file without checksums: an older one, or one created so by choice."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        persistent=True, durable_commit=True, native_checkpoint=True
    )


class PostgreSQLEngine(SQLiteEngine):
    """The same engine, with its pairs in a table of a PostgreSQL server.

    The directory holds the lock and the name of the table.
    """

    name: ClassVar[str] = "postgresql"
    # An entry of the index must fit a third of a page; what compresses may be longer.
    capabilities: ClassVar[Capabilities] = Capabilities(
        persistent=True, durable_commit=True, max_key_bytes=2_600
    )

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        directory = engine_directory(path)
        if is_there(directory / FILE):
            raise StoreMismatchError(
                f"the engine in {str(directory)!r} has its pairs in a SQLite file; open it without "
                "the option 'url', or choose another directory"
            )
        try:
            # Only those who use a server need it: SQLAlchemy takes twice as long to load as all
            # that a file needs.
            from statestores_sqlite.postgresql_table import PostgreSQLTable  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise missing_package(error) from error
        return cls(PostgreSQLTable(directory, parse_options(PostgreSQLOptions, options)))

    @classmethod
    def driver(cls) -> str | None:
        return None  # there are no files
