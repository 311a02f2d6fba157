"""A database that no program has open, of RocksDB or SQLite, read without touching it."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from statestores.errors import StorageError, StoreCorruptedError
from statestores.migration.programs_lock import hold_shared
from statestores.migration.rocksdb_files import RocksDBFiles

_PRIMARY_CODE = 0xFF
"""What of an extended result code of SQLite is its kind."""

_MAKES_FILES = {
    sqlite3.SQLITE_READONLY_DIRECTORY,
    sqlite3.SQLITE_READONLY_CANTINIT,
    sqlite3.SQLITE_READONLY_RECOVERY,
}
"""What it says of a write-ahead log beside which it may not make a file. None is of a journal."""


class IdleRocksDB(RocksDBFiles):
    """An open database whose program cannot open it meanwhile; its rows are as of the opening."""

    purpose: ClassVar[str] = "reading a RocksDB database"
    remedy: ClassVar[str] = "let its application restore it, or take a backup"

    def __init__(self, path: Path) -> None:
        """Open the database in the directory *path*.

        Raises:
            MissingDriverError: The driver is not installed.
            StoreLockedError: A program has it open.
            StoreCorruptedError: The files are damaged or incomplete.
            StorageError: They cannot be read.
        """
        self._held = hold_shared(path / "LOCK")
        try:
            super().__init__(path)
        except BaseException:
            self._let_go()
            raise

    def close(self) -> None:
        """Close the database and let its program open it again. Idempotent."""
        super().close()
        self._let_go()

    def _let_go(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None


@contextmanager
def reading_sqlite(path: Path, *, damaged: str, remedy: str = "") -> Iterator[sqlite3.Connection]:
    """Give a connection that sees the SQLite database *path* as of its first statement.

    So what one statement has checked holds for the next one, also while a program writes.

    Raises:
        StoreCorruptedError: It is *damaged*, as the message says, with the *remedy*.
        StorageError: It cannot be read.
    """
    uri = f"{path.as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as database:
            database.execute("begin")
            yield database
    except sqlite3.OperationalError as error:
        raise StorageError(
            f"cannot read {str(path)!r}: {error}; {_what_to_do(path, error)}"
        ) from error
    except sqlite3.DatabaseError as error:
        raise StoreCorruptedError(f"{str(path)!r} {damaged}: {error}{remedy}") from error


def sqlite_rows(
    path: Path, statement: str, *values: object, damaged: str, remedy: str = ""
) -> Iterator[Any]:
    """Yield the rows that *statement* selects from the SQLite database *path*, opened to read.

    Raises:
        StoreCorruptedError: It is *damaged*, as the message says, with the *remedy*.
        StorageError: It cannot be read.
    """
    with reading_sqlite(path, damaged=damaged, remedy=remedy) as database:
        yield from database.execute(statement, values)


def _what_to_do(path: Path, error: sqlite3.OperationalError) -> str:
    """Return what helps against *error*, which SQLite's text does not say."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None and str(error).startswith("Could not decode"):  # Python's own
        return "import a view that casts that column to blob: bytes are taken as they are"
    if code is not None and (
        code in _MAKES_FILES or code & _PRIMARY_CODE == sqlite3.SQLITE_CANTOPEN
    ):
        return (
            "check the rights; beside a database with a write-ahead log SQLite makes files, so "
            f"take a copy of it, and of {path.name + '-wal'!r} if that is there, to where it may"
        )
    if code is not None and code & _PRIMARY_CODE == sqlite3.SQLITE_READONLY:
        return (
            "its program has died in a transaction, which only a writer takes back; open it once "
            f"with its program, or open a copy of it and of {path.name + '-journal'!r}"
        )
    return "check what is asked for, and that its program is stopped"
