"""Who holds the lock on a directory, found out without asking for the lock.

Whoever tries to take a lock in order to see whether it is held keeps its owner out meanwhile. What
follows only reads: the name that an owner has signed with, and the kernel's list of locks.
"""

import os
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from statestores.errors import StorageError
from statestores.files.directory_lock import LOCK_FILE, read_signature

_KERNEL_LOCKS = Path("/proc/locks")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOwner:
    """The last one that locked a directory."""

    pid: int
    """Its process id."""

    host: str
    """The name of its machine."""

    since: str
    """When it took the lock, in ISO 8601."""

    holds: bool | None
    """Whether it still holds the lock; ``None`` when nobody here can tell: it is on another
    machine, or the system lists no locks."""


def lock_owner(directory: str | PathLike[str]) -> LockOwner | None:
    """Return the last owner of *directory*; ``None`` when nobody has signed for it.

    Raises:
        StorageError: The file cannot be read.
    """
    path = Path(directory) / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    try:
        inode = os.fstat(descriptor).st_ino
        owner = read_signature(descriptor)
    except OSError as error:
        raise StorageError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    finally:
        os.close(descriptor)
    if owner is None:
        return None
    is_here = owner.host == os.uname().nodename
    return LockOwner(**owner._asdict(), holds=_is_held(inode) if is_here else None)


def _is_held(inode: int) -> bool | None:
    """Return whether somebody has locked the file *inode*; ``None`` if the kernel does not say.

    The number of the device is not compared: file systems in layers tell another one.
    """
    try:
        lines = _KERNEL_LOCKS.read_text("ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        # 1: FLOCK ADVISORY WRITE 4711 fe:00:1234 0 EOF; one that waits has an arrow before FLOCK
        if fields[1:2] == ["FLOCK"] and fields[5].rpartition(":")[2] == str(inode):
            return True
    return False
