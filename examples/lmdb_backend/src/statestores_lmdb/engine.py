"""The LMDB engine, through the package lmdb."""

import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import ClassVar, Self

from statestores.errors import InvalidArgumentError, InvalidTypeError, StorageError
from statestores.files.directory_lock import DirectoryLock
from statestores.spi import Capabilities, Durability, Engine, WriteBatch, parse_options

from statestores_lmdb.database import Database, View
from statestores_lmdb.options import LMDBOptions
from statestores_lmdb.reads import LMDBReads
from statestores_lmdb.snapshot import LMDBSnapshot


class LMDBEngine(LMDBReads, Engine):
    """An LMDB environment in a directory."""

    name: ClassVar[str] = "lmdb"
    # LMDB has no checksums, so detects_corruption stays false; and a sorted load is one more batch.
    capabilities: ClassVar[Capabilities] = Capabilities(
        persistent=True, durable_commit=True, native_checkpoint=True
    )

    def __init__(self, database: Database, lock: DirectoryLock) -> None:
        """Take over an open *database*; callers use `open`."""
        super().__init__(database)
        self._lock = lock

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        chosen = parse_options(LMDBOptions, options)
        if not os.fspath(path):
            raise StorageError("the path of an LMDB engine is empty; expected a directory")
        directory = Path(path)
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

    def snapshot(self) -> LMDBSnapshot:
        self._check_open()
        with self._database.gate:
            return LMDBSnapshot(self._database, self._database.view())

    def checkpoint(self, path: str | PathLike[str]) -> None:
        """Copy the engine's present state into the new directory *path*, without its free space.

        Reads and batches go on meanwhile. It costs as much as writing the data once.

        Raises:
            StoreClosedError: The engine is closed.
            InvalidArgumentError: There is something at *path*.
            StorageError: The copy cannot be written.
        """
        self._check_open()
        self._database.copy_to(Path(path))

    def close(self) -> None:
        # Each step may be repeated, so that a close that was interrupted can be.
        self._database.close()
        self._lock.release()

    def _check_open(self) -> None:
        self._database.check_open()

    def _view(self) -> View:
        return self._database.view()


def _check_batch(batch: WriteBatch) -> None:
    """Refuse before the transaction begins what LMDB would refuse inside it, in its own words.

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
