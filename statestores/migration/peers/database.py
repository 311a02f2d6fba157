"""A database that no program has open, of RocksDB or SQLite, read without touching it."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from statestores.errors import StorageError, StoreCorruptedError
from statestores.migration.programs_lock import hold_shared
from statestores.migration.rocksdb_files import RocksDBFiles


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


def sqlite_rows(
    path: Path, statement: str, *values: object, damaged: str, remedy: str = ""
) -> Iterator[Any]:
    """Yield the rows that *statement* selects from the SQLite database *path*, opened to read.

    Raises:
        StoreCorruptedError: It is *damaged*, as the message says, with the *remedy*.
        StorageError: It cannot be read.
    """
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            yield from database.execute(statement, values)
    except sqlite3.OperationalError as error:
        raise StorageError(f"cannot read {str(path)!r}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise StoreCorruptedError(f"{str(path)!r} {damaged}: {error}{remedy}") from error
