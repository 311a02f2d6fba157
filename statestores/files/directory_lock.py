"""An exclusive lock on a directory that says who holds it.

An engine's own lock file answers "no" without a name. This one holds the owner's process id and
host and the time, for the message of `StoreLockedError` (ENG-1). The kernel releases it when the
process dies, so a lock is never stale (ASM-3).
"""

import errno
import fcntl
import json
import os
from datetime import UTC, datetime
from io import FileIO
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Self

from statestores.errors import StoreLockedError
from statestores.files.durable_directory import make_directory
from statestores.files.failures import storage_error
from statestores.spi.forking import disown_after_fork

LOCK_FILE = "OWNER.lock"
"""The name of the lock file inside the directory."""

_SIGNATURE_BYTES = 4096

_ATTEMPTS = 10
"""How often the directory is made that somebody removes before the file is in it."""


class Signature(NamedTuple):
    """What an owner has written into its lock file, as an object of JSON."""

    pid: int
    """Its process id."""

    host: str
    """The name of its machine."""

    since: str
    """When it took the lock, in ISO 8601."""


class _LockFile(FileIO):
    """A file that the collector closes without a warning.

    An interrupt can come before whoever opens a store has anything to close.
    """

    def __del__(self) -> None:
        self.close()


class DirectoryLock:
    """The exclusive lock on one directory, held from `acquire` to `release`."""

    __slots__ = ("__weakref__", "_file", "_path")

    def __init__(self, path: Path, file: FileIO) -> None:
        self._path = path
        self._file = file
        disown_after_fork(self)

    @classmethod
    def acquire(cls, directory: str | PathLike[str]) -> Self:
        """Lock *directory*, creating it when it is missing.

        The lock is that of the file of this name: not of one that its owner has removed, with the
        directory or under another name of it, since it was opened.

        Raises:
            StoreLockedError: It is locked, by another process or by another handle in this one.
            StorageError: The directory or its lock file cannot be created.
        """
        path = Path(directory) / LOCK_FILE
        while True:
            file = _opened(path)
            try:
                if _lock(path, file):
                    _sign(path, file)
                    return cls(path, file)
            except BaseException:
                file.close()
                raise
            file.close()  # who had the lock has just removed the directory

    def release(self) -> None:
        """Give the lock up. Idempotent. The file stays: removing it would race with an opener."""
        # The file knows whether it is closed, so that no interrupt can come in between.
        self._file.close()

    def disown(self) -> None:
        """Drop a forked child's copy of the descriptor: the parent's alone holds the lock then."""
        self.release()


def says_held(text: str) -> bool:
    """Return whether *text*, of a driver that could not get its own lock, says that it is held.

    There may also be no locks left, which is a shortage like others (ENG-28).
    """
    return any(os.strerror(each) in text for each in (errno.EAGAIN, errno.EACCES))


def is_open_at(path: Path, descriptor: int) -> bool:
    """Return whether the file that *descriptor* has open is the one that *path* names.

    Raises:
        OSError: It cannot be told.
    """
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except (FileNotFoundError, NotADirectoryError):
        return False


def _opened(path: Path) -> FileIO:
    """Open the lock file at *path*, made if need be, as its directory is.

    Raises:
        StorageError: It cannot be made.
    """
    attempts = 0
    while True:
        attempts += 1
        try:
            make_directory(path.parent)
            return _LockFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+")
        except FileNotFoundError as error:
            if attempts == _ATTEMPTS:
                raise storage_error("create", path, error) from error
        except OSError as error:
            raise storage_error("create", path, error) from error


def _lock(path: Path, file: FileIO) -> bool:
    """Lock *file*; return whether it still is the one at *path*."""
    descriptor = file.fileno()
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return is_open_at(path, descriptor)
    except BlockingIOError as error:
        raise StoreLockedError(
            f"{str(path.parent)!r} is open {_owner(descriptor)}; close it there first, or read a "
            "snapshot"
        ) from error
    except OSError as error:
        raise storage_error("lock", path, error) from error


def _sign(path: Path, file: FileIO) -> None:
    """Write into *file* who holds the lock."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    owner = Signature(os.getpid(), os.uname().nodename, since)
    try:
        os.ftruncate(file.fileno(), 0)
        os.pwrite(file.fileno(), json.dumps(owner._asdict()).encode(), 0)
    except OSError as error:
        raise storage_error("write", path, error) from error


def read_signature(descriptor: int) -> Signature | None:
    """Return who has signed the lock file that *descriptor* has open.

    ``None`` means that nobody has: an owner is signing right now, or has died before it did.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        signed = json.loads(os.pread(descriptor, _SIGNATURE_BYTES, 0))
        return Signature(int(signed["pid"]), str(signed["host"]), str(signed["since"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _owner(descriptor: int) -> str:
    """Return in words who holds the lock."""
    try:
        owner = read_signature(descriptor)
    except OSError as error:
        return f"elsewhere, by an owner whose name cannot be read ({error.strerror or error})"
    if owner is None:
        return "elsewhere, by an owner that has not signed yet"
    return f"in process {owner.pid} on {owner.host!r} since {owner.since}"
