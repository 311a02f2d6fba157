"""The lock by which another program says that it runs, held while its files are read."""

import fcntl
import os
from pathlib import Path

from statestores.errors import StorageError, StoreLockedError


def hold_shared(lock: Path) -> int | None:
    """Return a descriptor that holds the file *lock*, shared; ``None`` without such a file.

    Java, RocksDB and LevelDB take locks of this kind. A shared one needs no right to write, and the
    program cannot start while it is held.

    Raises:
        StoreLockedError: The program holds it.
        StorageError: The file cannot be opened.
    """
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"cannot open {str(lock)!r}: {error.strerror or error}") from error
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError | PermissionError):
            raise StoreLockedError(
                f"the application of {str(lock.parent)!r} is running; stop it, or read a copy of "
                "its directory that was made while it was stopped"
            ) from error
        raise StorageError(f"cannot lock {str(lock)!r}: {error.strerror or error}") from error
    return descriptor
