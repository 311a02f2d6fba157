"""SQLite's database in a file."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from shutil import rmtree
from typing import cast
from urllib.parse import quote

from sqlalchemy import create_engine
from sqlalchemy.engine import Connection
from sqlalchemy.pool import NullPool

from statestores.errors import (
    InvalidArgumentError,
    StorageError,
    StoreCorruptedError,
    UnsupportedFormatError,
)
from statestores.semantics.directory_lock import DirectoryLock
from statestores.spi import Durability, MemoryShare, WriteBatch
from statestores_sqlite.database import Database
from statestores_sqlite.failures import driver_error
from statestores_sqlite.log_limit import LogLimit
from statestores_sqlite.options import SQLiteOptions
from statestores_sqlite.readers import DriverRows, Reader
from statestores_sqlite.statements import create_table

FILE = "engine.db"
"""The name of the database inside the engine's directory."""

_TABLE = "pairs"
_FORMAT = 1
"""The number of this layout, stored as SQLite's ``user_version``."""

_WRITE_FORMAT = f"PRAGMA user_version = {_FORMAT}"

_BUSY_SECONDS = 5.0
"""How long to wait for a program that writes to the file without statestores' lock."""

_SYNCHRONOUS = {Durability.POWER_LOSS: "FULL", Durability.PROCESS_CRASH: "NORMAL"}
"""In the WAL mode, FULL waits for the log at each commit. NORMAL waits before pages move from the
log to the file, so a power failure loses the last commits and never damages. OFF could damage."""


class SQLiteReader(Reader):
    """A connection that reads the file."""

    def _find(self, keys: list[bytes]) -> list[tuple[bytes, bytes]]:
        # The last, shorter query would have to be compiled for each number of keys: its marks are
        # filled up to a power of two by repeating a key.
        marks = 1 << (len(keys) - 1).bit_length()
        query = f"SELECT key, value FROM {_TABLE} WHERE key IN ({','.join('?' * marks)})"  # noqa: S608
        found: list[tuple[bytes, bytes]] = self._cursor.execute(
            query, keys + keys[-1:] * (marks - len(keys))
        ).fetchall()
        return found

    def freeze(self) -> None:
        self._connection.execute("BEGIN")
        # The first read decides what the transaction sees. Not of the table, of which a part may
        # be damaged.
        self._connection.execute("SELECT 1 FROM sqlite_schema").close()

    def thaw(self) -> None:
        self._connection.rollback()

    def rows(self, start: bytes, stop: bytes | None, *, reverse: bool) -> DriverRows:
        # The first step is made here, and an unfinished query keeps its view of the file.
        rows: DriverRows = self._connection.execute(
            *self._statements.rows(start, stop, reverse=reverse)
        )
        return rows


class SQLiteFile(Database):
    """A database file in a directory of its own, with SQLite's write-ahead log beside it."""

    mark = "?"

    def __init__(self, directory: Path, options: SQLiteOptions) -> None:
        """Lock the directory, and open or create the file in it."""
        self._file = directory / FILE
        self._options = options
        self._memory: MemoryShare | None = None
        engine = create_engine(
            "sqlite+pysqlite://",
            creator=self._connect,
            poolclass=NullPool,
            pool_reset_on_return=None,  # a connection is closed, and not used by somebody else
        )
        super().__init__(directory, engine, _TABLE)
        self._lock = DirectoryLock.acquire(directory)
        try:
            self._options, self._memory = options.within_budget()
            _prepare(self._file)
            self._writer = self._open_writer()
        except BaseException:
            self._lock.release()
            self._release_memory()
            raise
        self._synchronous: Durability | None = None
        # What an earlier process has applied may not be on disk yet.
        self._uncommitted = True

    def _connect(self) -> sqlite3.Connection:
        """Open a connection of the driver, for SQLAlchemy."""
        connection = sqlite3.connect(
            # As a URI, in which no name of a directory means something else; and not to create a
            # file where somebody has just removed one.
            f"file:{quote(str(self._file.absolute()))}?mode=rw",
            uri=True,
            timeout=_BUSY_SECONDS,
            check_same_thread=False,
        )
        try:
            connection.execute(f"PRAGMA cache_size = -{self._options.cache_bytes // 1024}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_writer(self) -> Connection:
        """Open the connection that writes, and create the table."""
        try:
            writer = self._engine.connect()
        except self.errors as error:
            raise self.translated(error) from driver_error(error)
        try:
            with writer.begin():
                mode = writer.exec_driver_sql("PRAGMA journal_mode = WAL").scalar_one()
                self._check_journal(mode)
                # A pysqlite connection, which `_connect` has made.
                driver = cast("sqlite3.Connection", writer.connection.driver_connection)
                self._log_limit = LogLimit(self._file, self._options.wal_bytes, driver)
                # On macOS, what the disk reports without it may still be in its cache (ASM-1).
                writer.exec_driver_sql("PRAGMA fullfsync = ON")
                self._check_format(writer)
            with writer.begin():
                create_table(writer, _TABLE)
        except self.errors as error:
            writer.close()
            raise self.translated(error) from driver_error(error)
        except OSError as error:
            writer.close()
            raise StorageError(
                f"cannot look at {str(self._file)!r}: {error.strerror or error}; check the rights "
                "and the disk"
            ) from error
        except BaseException:
            writer.close()
            raise
        return writer

    def _check_journal(self, mode: str) -> None:
        if mode != "wal":
            raise StorageError(
                f"SQLite cannot keep a write-ahead log in {self.path!r}, its journal mode stays "
                f"{mode!r}; use a local file system"
            )

    def _check_format(self, writer: Connection) -> None:
        """Write the format's number into a new file, and refuse one that is not known."""
        stored = writer.exec_driver_sql("PRAGMA user_version").scalar_one()
        if stored == 0:
            writer.exec_driver_sql(_WRITE_FORMAT)
        elif stored != _FORMAT:
            raise UnsupportedFormatError(
                f"{str(self._file)!r} has format {stored!r}, and this release knows {_FORMAT}; "
                "open it with the release that wrote it"
            )

    def open_reader(self) -> SQLiteReader:
        try:
            proxy = self._engine.raw_connection()
            proxy.cursor().execute("PRAGMA query_only = ON").close()
        except self.errors as error:
            raise self.translated(error) from driver_error(error)
        return SQLiteReader(proxy, self._statements)

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        puts, deletes = [], []
        for key, value in batch.items():
            if value is None:
                deletes.append((key,))
            else:
                puts.append((key, value))
        wait = durability is Durability.POWER_LOSS
        try:
            with self._writer.begin():
                write = self._writer.exec_driver_sql
                if self._synchronous is not durability:
                    # Outside a transaction: sqlite3 begins one at the first change.
                    write(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")
                    self._synchronous = durability
                if deletes:
                    write(self._statements.delete, deletes)
                if puts:
                    write(self._statements.upsert, puts)
                if wait and self._uncommitted and not batch:
                    # Without a change SQLite would not wait for what it wrote before. This writes
                    # what is there already.
                    write(_WRITE_FORMAT)
        except self.errors as error:
            raise self.translated(error) from driver_error(error)
        self._uncommitted = not wait and (self._uncommitted or bool(batch))
        self._log_limit.keep(len(batch))

    def copy_to(self, target: Path) -> None:
        """Write a compact copy of the file as an engine in the new directory *target*.

        It is made under another name and then renamed, so a half copy is never taken for a whole.
        """
        if os.path.lexists(target):
            raise InvalidArgumentError(
                f"a checkpoint needs a new directory, and {str(target)!r} exists; choose another"
            )
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        try:
            partial.mkdir(parents=True)
            with closing(self._engine.raw_connection()) as proxy:
                proxy.cursor().execute("VACUUM INTO ?", (str(partial / FILE),)).close()
            for path in (partial / FILE, partial):
                _commit(path)
            partial.rename(target)
            _commit(target.parent)
        except OSError as error:
            raise StorageError(
                f"cannot write a checkpoint to {str(target)!r}: {error.strerror or error}; check "
                "the path, the rights and the space on the disk"
            ) from error
        except self.errors as error:
            raise self.translated(error) from driver_error(error)
        finally:
            rmtree(partial, ignore_errors=True)

    def close(self) -> None:
        self._writer.close()
        self._lock.release()
        self._release_memory()

    def _release_memory(self) -> None:
        if self._memory is not None:
            self._memory.release()


def _prepare(file: Path) -> None:
    """Make sure that *file* is there, unless its log shows that it was lost.

    Beside an empty database file, SQLite removes a log as left over, with all that is in it.
    """
    log = file.with_name(f"{file.name}-wal")
    try:
        lost = not (file.exists() and file.stat().st_size) and log.exists() and log.stat().st_size
        if not lost:
            file.touch()
    except OSError as error:
        raise StorageError(
            f"cannot create {str(file)!r}: {error.strerror or error}; check the path and the rights"
        ) from error
    if lost:
        raise StoreCorruptedError(
            f"{str(file)!r} is gone or empty, and its log {log.name!r} is not; restore the store "
            "from a snapshot or its changelog"
        )


def _commit(path: Path) -> None:
    """Wait until the file or directory at *path* is on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
