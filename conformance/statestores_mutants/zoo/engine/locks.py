"""Engines that open what they should not, and lock too little or too long."""

import fcntl
import gc
import os
import socket
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import ClassVar, Self, cast
from weakref import WeakSet

from statestores.errors import StoreLockedError
from statestores.files.directory_lock import DirectoryLock
from statestores.spi import parse_options
from statestores_memory import MemoryOptions
from statestores_mutants.file_engine import FileEngine
from statestores_mutants.registry import mutant


class _OwnLock:
    """A lock of the mutant's own, in the place of `DirectoryLock`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory

    def release(self) -> None:
        """Give the lock up, if there is one."""

    @classmethod
    def acquire(cls, directory: Path) -> DirectoryLock:
        """Lock *directory*."""
        # It has the one method that the engine calls.
        return cast("DirectoryLock", cls(directory))


@mutant("ENG-1")
class NobodyLocks(FileEngine):
    """There is no lock.

    Imitates engines whose files may be opened by two processes at once (robinhood/faust #184).
    """

    @classmethod
    def acquire_lock(cls, directory: Path) -> DirectoryLock:
        if directory.exists() and not directory.is_dir():
            return super().acquire_lock(directory)
        return _OwnLock.acquire(directory)


class _ProcessLock(_OwnLock):
    _held: ClassVar[set[Path]] = set()

    def __init__(self, directory: Path) -> None:
        if directory in self._held:
            raise StoreLockedError(f"open in process {os.getpid()} on {socket.gethostname()}")
        super().__init__(directory)
        self._held.add(directory)

    def release(self) -> None:
        self._held.discard(self.directory)


@mutant("ENG-1")
class LockOfOneProcess(FileEngine):
    """Other handles of the process are kept out, other processes are not.

    Imitates a lock in memory, such as a module's set of open paths.
    """

    @classmethod
    def acquire_lock(cls, directory: Path) -> DirectoryLock:
        return _ProcessLock.acquire(directory)


class _RecordLock(_OwnLock):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._file = os.open(directory / "LOCK", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(self._file, 100, 0).decode()
            os.close(self._file)
            raise StoreLockedError(f"open in process {owner}") from error
        os.pwrite(self._file, b"%d" % os.getpid(), 0)

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@mutant("ENG-1")
class LockOfOtherProcesses(FileEngine):
    """Other processes are kept out, another handle of the same process is not.

    Imitates POSIX record locks, which belong to a process, and are lost when it closes any
    descriptor of the file.
    """

    @classmethod
    def acquire_lock(cls, directory: Path) -> DirectoryLock:
        return _RecordLock.acquire(directory)


class _FileLock(_OwnLock):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._path = directory / "LOCK"
        owner = f"{os.getpid()} on {socket.gethostname()}"
        try:
            with self._path.open("x") as file:
                file.write(owner)
        except FileExistsError as error:
            raise StoreLockedError(f"open in process {self._path.read_text()}") from error

    def release(self) -> None:
        self._path.unlink(missing_ok=True)


@mutant("ENG-1")
class LockOutlivesItsOwner(FileEngine):
    """The lock is a file that exists, and it exists after the owner was killed.

    Imitates PID files: quixio/quix-streams #1131, a store that nobody has open and nobody can open.
    """

    @classmethod
    def acquire_lock(cls, directory: Path) -> DirectoryLock:
        return _FileLock.acquire(directory)


@mutant("ENG-1")
class LockWithoutAName(FileEngine):
    """The error of a lock that is taken says nothing about its owner.

    Imitates "Resource temporarily unavailable" (facebook/rocksdb #908, penumbra-zone/penumbra
    #601).
    """

    @classmethod
    def acquire_lock(cls, directory: Path) -> DirectoryLock:
        try:
            return super().acquire_lock(directory)
        except StoreLockedError as error:
            raise StoreLockedError("resource temporarily unavailable") from error


@mutant("ENG-19")
class LockIsNotReleased(FileEngine):
    """The lock is released when the engine is collected as garbage, and not by `close`.

    Imitates handles that live as long as their object (faust-streaming/faust #91, #92).
    """

    def release_lock(self) -> None:
        """Leave it to the garbage collector."""

    def __del__(self) -> None:
        self.directory_lock.release()


@mutant("ENG-19")
class OpenScanKeepsTheLock(FileEngine):
    """The lock is kept after `close` for as long as a scan is alive.

    Imitates RocksDB, whose live iterators keep the database open behind `close`.
    """

    def __init__(self, directory: Path, lock: DirectoryLock) -> None:
        self._scans: WeakSet[object] = WeakSet()
        super().__init__(directory, lock)

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        scan = super().scan(start, stop, reverse=reverse)
        self._scans.add(scan)
        return scan

    def release_lock(self) -> None:
        gc.collect()
        if not self._scans:
            super().release_lock()

    def __del__(self) -> None:
        self.directory_lock.release()


@mutant("ENG-19", "ENG-13")
class RefusedOptionKeepsTheLock(FileEngine):
    """An opening that is refused for its options leaves the directory locked.

    Imitates a lock that is taken before the arguments are judged.
    """

    _left: ClassVar[list[DirectoryLock]] = []

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        lock = cls.acquire_lock(Path(path))
        cls._left.append(lock)
        parse_options(MemoryOptions, options)
        cls._left.remove(lock)
        try:
            return cls(Path(path), lock)
        except BaseException:
            lock.release()
            raise


@mutant("ENG-13")
class UnknownOptionsAreIgnored(FileEngine):
    """An option that does not exist is not noticed.

    Imitates `options.get(...)`: SPARK-56461, a checksum switch that silently had no effect.
    """

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        return super().open(path)


@mutant("ENG-17")
class ParentsAreNotMade(FileEngine):
    """The directory is made, those above it are not.

    Imitates `os.mkdir`.
    """

    @classmethod
    def acquire_lock(cls, directory: Path) -> DirectoryLock:
        if not directory.parent.is_dir():
            raise StoreLockedError(f"there is no {str(directory.parent)!r}")
        return super().acquire_lock(directory)


@mutant("ENG-17")
class PathsArePatterns(FileEngine):
    """A path is unquoted, as an address is.

    Imitates `file:` addresses, by which SQLite takes ``?``, ``#`` and ``%`` for its own.
    """

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        return super().open(str(path).partition("?")[0].replace("%20", " "), options)


@mutant("ENG-15")
class FilesBesideTheDirectory(FileEngine):
    """A file is written beside the directory.

    Imitates a `.checkpoint` in the parent: moving the directory leaves it behind.
    """

    def __init__(self, directory: Path, lock: DirectoryLock) -> None:
        super().__init__(directory, lock)
        directory.with_suffix(".checkpoint").touch()


@mutant("ENG-28", raises=OSError)
class DriverErrorsComeThrough(FileEngine):
    """An error of the operating system leaves the engine as it is.

    Imitates KAFKA-20396 and Oxen-AI/Oxen PR 822: callers match the texts of errors.
    """

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        Path(path).mkdir(parents=True, exist_ok=True)
        return super().open(path, options)
