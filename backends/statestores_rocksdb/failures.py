"""What the driver raises, translated into the project's errors.

rocksdict knows two classes: `DbClosedError`, and plain ``Exception`` with the text of RocksDB's
status, which begins with the status code ("Corruption: ...", "IO error: ..."). The texts matched
here are those of RocksDB 9 and 10; an unknown text is a `StorageError`. What the driver itself does
with files, such as looking for stored options when it opens, raises ``OSError``.
"""

from typing import NoReturn

from rocksdict import DbClosedError

from statestores.errors import (
    CommitInDoubtError,
    InvalidTypeError,
    StateStoreError,
    StorageError,
    StoreClosedError,
    StoreCorruptedError,
    StoreLockedError,
)
from statestores.files.directory_lock import says_held

_RESTORE = "restore the store from its changelog or a snapshot"

_FAILED_WAITS = ("While fdatasync:", "While fsync:")
"""How RocksDB says that what it has written may not be on the disk. A later write is refused with
the same words, so it is in doubt as well, which is true: the log may end with it or not."""


def fail(error: Exception, action: str) -> NoReturn:
    """Raise what *error*, raised by the driver while it tried to *action*, means to a caller.

    An exception that is not the driver's is raised unchanged.
    """
    text = str(error)
    if isinstance(error, DbClosedError) or is_borrow_conflict(error):
        raise StoreClosedError(f"cannot {action}: the RocksDB engine is closed") from error
    if isinstance(error, KeyError | ValueError) and "only support bytes" in text:
        raise InvalidTypeError(f"cannot {action}: keys and values must be bytes") from error
    # The driver reads some files itself, outside RocksDB, and so do we.
    of_the_system = isinstance(error, OSError) and not isinstance(error, StateStoreError)
    if type(error) is not Exception and not of_the_system:
        raise error
    if text.startswith("Corruption"):
        raise StoreCorruptedError(
            f"cannot {action}: the files are damaged ({text}); {_RESTORE}"
        ) from error
    if text.startswith("IO error: No such file"):
        # The directory is there, or opening it would have failed earlier.
        raise StoreCorruptedError(
            f"cannot {action}: a file of the database is missing ({text}); {_RESTORE}"
        ) from error
    is_of_lock = text.startswith("IO error: While lock file") and says_held(text)
    if is_of_lock or text.startswith("IO error: lock hold by"):
        raise StoreLockedError(
            f"cannot {action}: another program has the database open ({text}); close it there first"
        ) from error
    if any(failed in text for failed in _FAILED_WAITS):
        raise CommitInDoubtError(
            f"cannot {action}: {text}; nobody knows what is on the disk, and what is counts: close "
            "the store and open it again, which finds out"
        ) from error
    raise StorageError(
        f"cannot {action}: {text}; check the disk's space and health and the rights, then open the "
        "engine again"
    ) from error


def is_borrow_conflict(error: Exception) -> bool:
    """Whether a call met `Rdict.close` on another thread, which the driver reports like this."""
    return type(error) is RuntimeError and str(error).startswith("Already")


def says_out_of_order(error: Exception) -> bool:
    """Whether a sorted file did not take a key, since it does not follow the one before it."""
    return type(error) is Exception and "ascending order" in str(error)
