"""SQLite's database in a file."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from shutil import rmtree
from typing import Any, cast
from urllib.parse import quote
from weakref import finalize
from zlib import crc32

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
from statestores_sqlite.failures import translated
from statestores_sqlite.file_readers import CheckedReader, SQLiteReader
from statestores_sqlite.inspection import TABLE, check_length, check_rows, check_structure, damaged
from statestores_sqlite.log_limit import LogLimit
from statestores_sqlite.needed_log import NeededLog, check_log, keep_log, log_of, unmark_copy
from statestores_sqlite.options import SQLiteOptions
from statestores_sqlite.statements import CHECKSUM, Statements

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


_MARK = "?"
_STATEMENTS = {has: Statements(TABLE, _MARK, checksums=has) for has in (False, True)}
"""By whether rows have checksums. They say nothing of the file."""


_COLUMNS = ('"key" BLOB NOT NULL', "value BLOB NOT NULL")
_CREATE_TABLE = {
    has: f"CREATE TABLE IF NOT EXISTS {TABLE} (\n\t"
    + ", \n\t".join((*_COLUMNS, *checksum, 'PRIMARY KEY ("key")'))
    # The rows lie in the tree of the key: one descent for each read instead of two.
    + "\n)\n WITHOUT ROWID\n\n"
    for has, checksum in ((False, ()), (True, (f"{CHECKSUM} BIGINT NOT NULL",)))
}
"""The statement by whether rows have checksums. SQLite keeps its text in the file."""


class SQLiteFile(Database):
    """A database file in a directory of its own, with SQLite's write-ahead log beside it."""

    mark = _MARK
    reader: type[SQLiteReader]
    has_checksums: bool
    """Whether each row has one: the file says so, and a new one the options."""

    def __init__(self, directory: Path, options: SQLiteOptions) -> None:
        """Lock the directory, and open or create the file in it."""
        self._file = directory / FILE
        self._memory: MemoryShare | None = None
        super().__init__(directory, (sqlite3.Error,))
        check_plain_files(directory, SEAL)
        self._lock = DirectoryLock.acquire(directory)
        try:
            self._options, self._memory = options.within_budget()
            is_new = _prepare(self._file)
            is_whole = is_sealed(self._file) or is_new  # a seal denies a new one in its place
            if not is_whole:
                check_log(self._file)
            self._driver = self._open_writer(is_whole=is_whole)
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

    def _connect(self, *, to_read: bool = False) -> sqlite3.Connection:
        """Open a connection to the file, which has to be there; one *to_read* writes nothing."""
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
            if to_read:
                connection.execute("PRAGMA query_only = ON").close()
            return connection  # noqa: TRY300  # an interrupt may come before it
        except BaseException:
            connection.close()
            raise

    def _open_writer(self, *, is_whole: bool) -> sqlite3.Connection:
        """Open the connection that writes, and create the table, or check what is there.

        Unless it *is_whole*: the file is sealed, or there was none.
        """
        writer, had_log = None, log_of(self._file).exists()
        try:
            writer = self._connect()
            (mode,) = writer.execute("PRAGMA journal_mode = WAL").fetchone()
            self._check_journal(mode)
            self._log_limit = LogLimit(self._file, self._options.wal_bytes, writer)
            # On macOS, what the disk reports without it may still be in its cache (ASM-1).
            writer.execute("PRAGMA fullfsync = ON").close()
            check_length(self._file, writer)
            with writer:
                self._settle_format(writer)
            if self.has_checksums and not is_whole:
                check_structure(self._file, writer)
                with closing(self.open_reader()) as reader:
                    check_rows(cast("CheckedReader", reader))  # since there are checksums
            break_seal(self._file)
            self._needed_log = NeededLog(self._file, writer)
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
                raise self.translated(error) from error
            raise
        return writer

    def _check_journal(self, mode: str) -> None:
        if mode != "wal":
            raise StorageError(
                f"SQLite cannot keep a write-ahead log in {self.path!r}, its journal mode stays "
                f"{mode!r}; use a local file system"
            )

    def _settle_format(self, writer: sqlite3.Connection) -> None:
        """Create the table in a new file, and take the format of one that exists."""
        (stored,) = writer.execute("PRAGMA user_version").fetchone()
        (application,) = writer.execute("PRAGMA application_id").fetchone()
        if (stored, application) == (0, 0):
            if writer.execute("SELECT count(*) FROM sqlite_schema").fetchone() != (0,):
                raise damaged(self._file, "its header names no format")
            stored = _CHECKED_FORMAT if self._options.checksums else _PLAIN_FORMAT
            writer.execute("BEGIN").close()
            if stored == _CHECKED_FORMAT:
                application = _APPLICATION_ID + stored
                writer.execute(f"PRAGMA application_id = {application}").close()
            writer.execute(f"PRAGMA user_version = {stored}").close()
            self._create_table(writer, checksums=stored == _CHECKED_FORMAT)
        elif (stored, application) == (_PLAIN_FORMAT, 0):
            self._create_table(writer, checksums=False)  # a crash may have come before it
        elif application != _APPLICATION_ID + stored:
            raise damaged(self._file, f"its header has format {stored!r} of {application:#x}")
        elif stored != _CHECKED_FORMAT:
            raise UnsupportedFormatError(
                f"{str(self._file)!r} has format {stored!r}, and this release knows up to "
                f"{_CHECKED_FORMAT}; open it with the release that wrote it"
            )
        self.has_checksums = stored == _CHECKED_FORMAT
        self._statements = _STATEMENTS[self.has_checksums]
        self.reader = CheckedReader if self.has_checksums else SQLiteReader
        self._write_format = f"PRAGMA user_version = {stored}"

    @staticmethod
    def _create_table(writer: sqlite3.Connection, *, checksums: bool) -> None:
        writer.execute(_CREATE_TABLE[checksums]).close()

    def open_reader(self) -> SQLiteReader:
        try:
            return self.reader(self._connect(to_read=True), self._statements, self.path)
        except self.errors as error:
            raise self.translated(error) from error

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        deletes = [(key,) for key, value in batch.items() if value is None]
        pairs = [(key, value) for key, value in batch.items() if value is not None]
        puts: list[Any] = pairs
        if self.has_checksums:
            puts = [(key, value, crc32(value, crc32(key))) for key, value in pairs]
        wait, owing, self._owing = durability is Durability.POWER_LOSS, self._owing, True
        driver = self._driver
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
            with closing(self._connect()) as connection:
                connection.execute("VACUUM INTO ?", (str(partial / FILE),)).close()
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
            raise self.translated(error) from error
        finally:
            rmtree(partial, ignore_errors=True)

    def translated(self, error: Exception) -> StateStoreError:
        return translated(error, self.path)

    def close(self) -> None:
        # Each step may be repeated: what is closed has no rows to seal.
        try:
            sealing = self.has_checksums and self._has_rows()
            unmarked = self._needed_log.unmark()
            self._driver.close()
            if not unmarked:
                self._needed_log.keep()
            if sealing:
                seal(self._file)
        except self.errors as error:
            raise self.translated(error) from error
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
            return self._driver.execute(any_row).fetchone() is not None
        except self.errors:  # a file that cannot be read is not sealed
            return False

    def _release_memory(self) -> None:
        if self._memory is not None:
            self._memory.release()


def _prepare(file: Path) -> bool:
    """Make sure that *file* is there, unless its log shows that it was lost.

    Return whether there was none, or one that SQLite has not begun.

    Beside an empty database file, SQLite removes a log as a leftover, with all that is in it.
    """
    log = log_of(file)
    is_new = not (file.exists() and file.stat().st_size)
    if is_new and log.exists() and log.stat().st_size:
        raise StoreCorruptedError(
            f"{str(file)!r} is gone or empty, and its log {log.name!r} is not; restore the store "
            "from a snapshot or its changelog"
        )
    file.touch()
    return is_new
