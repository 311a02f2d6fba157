"""SQLite's database in a file."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from shutil import rmtree
from typing import Any, cast
from urllib.parse import quote
from weakref import WeakMethod, finalize
from zlib import crc32

from sqlalchemy import create_engine
from sqlalchemy.engine import Connection
from sqlalchemy.pool import NullPool

from statestores.errors import (
    InvalidArgumentError,
    StateStoreError,
    StorageError,
    StoreCorruptedError,
    UnsupportedFormatError,
)
from statestores.files.directory_lock import DirectoryLock
from statestores.files.durable_directory import make_durable
from statestores.files.plain_files import check_plain_files
from statestores.spi import Durability, MemoryShare, WriteBatch
from statestores_sqlite.clean_close import SEAL, break_seal, is_sealed, seal
from statestores_sqlite.database import Database
from statestores_sqlite.failures import driver_error, translated
from statestores_sqlite.file_readers import CheckedReader, SQLiteReader
from statestores_sqlite.inspection import TABLE, check_length, check_rows, check_structure, damaged
from statestores_sqlite.log_limit import LogLimit
from statestores_sqlite.needed_log import NeededLog, check_log, keep_log, log_of, unmark_copy
from statestores_sqlite.options import SQLiteOptions
from statestores_sqlite.statements import Statements, create_table

FILE = "engine.db"
"""The name of the database inside the engine's directory."""

_PLAIN_FORMAT = 1
"""The layout of keys and values alone, which every release reads and writes."""

_CHECKED_FORMAT = 2
"""The layout in which each row has a checksum. Older releases refuse it by its number, and change
nothing."""

_APPLICATION_ID = 0x53545300
"""Together with a format above 1 it is stored as SQLite's ``application_id``. The format alone is
its ``user_version``. So a format that this release does not know and a flipped bit look
different."""

_BUSY_SECONDS = 5.0
"""How long to wait for a program that writes to the file without statestores' lock."""

_SYNCHRONOUS = {Durability.POWER_LOSS: "FULL", Durability.PROCESS_CRASH: "NORMAL"}
"""In the WAL mode, FULL waits for the log at each commit. NORMAL waits before pages move from the
log to the file, so a power failure loses the last commits but never damages the file. OFF could
damage it."""


class SQLiteFile(Database):
    """A database file in a directory of its own, with SQLite's write-ahead log beside it."""

    mark = "?"
    reader: type[SQLiteReader]
    has_checksums: bool
    """Whether each row has one: the file says so, and a new one the options."""

    def __init__(self, directory: Path, options: SQLiteOptions) -> None:
        """Lock the directory, and open or create the file in it."""
        self._file = directory / FILE
        self._memory: MemoryShare | None = None
        # SQLAlchemy keeps a pool alive while one of its connections is in use. A strong reference
        # would keep the lock, too, when an interrupt comes before anybody has something to close.
        connect = WeakMethod(self._connect)
        engine = create_engine(
            "sqlite+pysqlite://",
            creator=lambda: connect()(),  # type: ignore[misc]  # noqa: PLW0108  # alive: it asks for one
            poolclass=NullPool,
            pool_reset_on_return=None,  # a connection is closed, not used by somebody else
        )
        super().__init__(directory, engine)
        check_plain_files(directory, SEAL)
        self._lock = DirectoryLock.acquire(directory)
        try:
            self._options, self._memory = options.within_budget()
            _prepare(self._file)
            sealed = is_sealed(self._file)
            if not sealed:
                check_log(self._file)
            self._writer = self._open_writer(sealed=sealed)
        except BaseException as error:
            self._lock.release()
            self._release_memory()
            if isinstance(error, OSError) and not isinstance(error, StateStoreError):
                raise StorageError(
                    f"cannot open {str(self._file)!r}: {error}; check the rights and the disk"
                ) from error
            raise
        self._synchronous: Durability | None = None
        # What an earlier process has applied may not be on disk yet.
        self._owing = True

    def _connect(self) -> sqlite3.Connection:
        """Open a connection of the driver, for SQLAlchemy."""
        connection = sqlite3.connect(
            # As a URI, in which no directory's name means something else; and so as not to create a
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

    def _open_writer(self, *, sealed: bool) -> Connection:
        """Open the connection that writes, and create the table, or check what is there."""
        writer, had_log = None, log_of(self._file).exists()
        try:
            writer = self._engine.connect()
            with writer.begin():
                mode = writer.exec_driver_sql("PRAGMA journal_mode = WAL").scalar_one()
                self._check_journal(mode)
                # A pysqlite connection, which `_connect` has made.
                self._driver = cast("sqlite3.Connection", writer.connection.driver_connection)
                self._log_limit = LogLimit(self._file, self._options.wal_bytes, self._driver)
                # On macOS, what the disk reports without it may still be in its cache (ASM-1).
                writer.exec_driver_sql("PRAGMA fullfsync = ON")
                check_length(self._file, writer)
            with writer.begin():
                self._settle_format(writer)
            if self.has_checksums and not sealed:
                check_structure(self._file, writer)
                with closing(self.open_reader()) as reader:
                    check_rows(cast("CheckedReader", reader))  # since there are checksums
            break_seal(self._file)
            self._needed_log = NeededLog(self._file, self._driver)
            finalize(self, self._needed_log.forget)
            # A file without checksums has no mark. An older release leaves it when it closes the
            # file, and a file that has no seal either would look like one without its log.
            self._to_be_marked = self.has_checksums
        except BaseException as error:
            if writer is not None:
                writer.close()
            if had_log:
                keep_log(self._file)  # SQLite may have moved it, and the file has its mark
            if isinstance(error, self.errors):
                raise self.translated(error) from driver_error(error)
            raise
        return writer

    def _check_journal(self, mode: str) -> None:
        if mode != "wal":
            raise StorageError(
                f"SQLite cannot keep a write-ahead log in {self.path!r}, its journal mode stays "
                f"{mode!r}; use a local file system"
            )

    def _settle_format(self, writer: Connection) -> None:
        """Create the table in a new file, and take the format of one that exists."""
        stored = writer.exec_driver_sql("PRAGMA user_version").scalar_one()
        application = writer.exec_driver_sql("PRAGMA application_id").scalar_one()
        if (stored, application) == (0, 0):
            if writer.exec_driver_sql("SELECT count(*) FROM sqlite_schema").scalar_one():
                raise damaged(self._file, "its header names no format")
            stored = _CHECKED_FORMAT if self._options.checksums else _PLAIN_FORMAT
            writer.exec_driver_sql("BEGIN")
            if stored == _CHECKED_FORMAT:
                application = _APPLICATION_ID + stored
                writer.exec_driver_sql(f"PRAGMA application_id = {application}")
            writer.exec_driver_sql(f"PRAGMA user_version = {stored}")
            create_table(writer, TABLE, checksums=stored == _CHECKED_FORMAT)
        elif (stored, application) == (_PLAIN_FORMAT, 0):
            create_table(writer, TABLE)  # a crash may have come before it
        elif application != _APPLICATION_ID + stored:
            raise damaged(self._file, f"its header has format {stored!r} of {application:#x}")
        elif stored != _CHECKED_FORMAT:
            raise UnsupportedFormatError(
                f"{str(self._file)!r} has format {stored!r}, and this release knows up to "
                f"{_CHECKED_FORMAT}; open it with the release that wrote it"
            )
        self.has_checksums = stored == _CHECKED_FORMAT
        self._statements = Statements(TABLE, self.mark, checksums=self.has_checksums)
        self.reader = CheckedReader if self.has_checksums else SQLiteReader
        self._write_format = f"PRAGMA user_version = {stored}"

    def open_reader(self) -> SQLiteReader:
        try:
            proxy = self._engine.raw_connection()
            proxy.cursor().execute("PRAGMA query_only = ON").close()
        except self.errors as error:
            raise self.translated(error) from driver_error(error)
        return self.reader(proxy, self._statements, self.path)

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        deletes = [(key,) for key, value in batch.items() if value is None]
        pairs = [(key, value) for key, value in batch.items() if value is not None]
        puts: list[Any] = pairs
        if self.has_checksums:
            puts = [(key, value, crc32(value, crc32(key))) for key, value in pairs]
        wait, owing, self._owing = durability is Durability.POWER_LOSS, self._owing, True
        driver = self._driver  # SQLAlchemy, at an interrupt, leaves the transaction open
        try:
            # What an error or an interrupt has left of a batch: nobody else has seen it.
            driver.rollback()
            if self._to_be_marked:
                self._to_be_marked = not self._needed_log.mark()
            if self._synchronous is not durability:
                # Outside a transaction: sqlite3 begins one at the first change.
                driver.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}").close()
                self._synchronous = durability
            if deletes:
                driver.executemany(self._statements.delete, deletes).close()
            if puts:
                driver.executemany(self._statements.upsert, puts).close()
            if wait and owing and not batch:
                # Without a change SQLite waits for nothing. This writes what is there already.
                driver.execute(self._write_format).close()
            driver.commit()
        except sqlite3.Error as error:
            raise self.translated(error) from error
        self._owing = not wait
        self._log_limit.keep(len(batch))

    def copy_to(self, target: Path) -> None:
        """Write a compact copy of the file as an engine in the new directory *target*.

        It is made under another name and then renamed, so half a copy is never taken for a whole
        one.
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
            unmark_copy(partial / FILE)
            for path in (partial / FILE, partial):
                make_durable(path)
            partial.rename(target)
            make_durable(target.parent)
        except OSError as error:
            raise StorageError(
                f"cannot write a checkpoint to {str(target)!r}: {error.strerror or error}; check "
                "the path, the rights and the space on the disk"
            ) from error
        except self.errors as error:
            raise self.translated(error) from driver_error(error)
        finally:
            rmtree(partial, ignore_errors=True)

    def translated(self, error: Exception) -> StateStoreError:
        return translated(error, self.path)

    def close(self) -> None:
        # Each step may be repeated: what is closed has no rows to seal.
        try:
            sealing = self.has_checksums and self._has_rows()
            unmarked = self._needed_log.unmark()
            self._writer.close()
            if not unmarked:
                self._needed_log.keep()
            if sealing:
                seal(self._file)
        except self.errors as error:
            raise self.translated(error) from driver_error(error)
        finally:
            self._lock.release()
            self._release_memory()

    def _has_rows(self) -> bool:
        """Whether there is anything to seal.

        A store has a row from its beginning. An empty file was made in place of a lost one, before
        the opening was refused: whoever puts the lost one back must not find it denied.
        """
        any_row = f"SELECT 1 FROM {TABLE} LIMIT 1"  # noqa: S608  # a name of ours
        try:
            self._driver.rollback()  # this connection would see what is left of a batch
            return self._writer.exec_driver_sql(any_row).first() is not None
        except self.errors:  # a file that cannot be read is not sealed
            return False

    def _release_memory(self) -> None:
        if self._memory is not None:
            self._memory.release()


def _prepare(file: Path) -> None:
    """Make sure that *file* is there, unless its log shows that it was lost.

    Beside an empty database file, SQLite removes a log as a leftover, with all that is in it.
    """
    log = log_of(file)
    if not (file.exists() and file.stat().st_size) and log.exists() and log.stat().st_size:
        raise StoreCorruptedError(
            f"{str(file)!r} is gone or empty, and its log {log.name!r} is not; restore the store "
            "from a snapshot or its changelog"
        )
    file.touch()
