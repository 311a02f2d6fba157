"""A RocksDB database that no program has open, read without touching it."""

import os
from pathlib import Path
from typing import ClassVar

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
