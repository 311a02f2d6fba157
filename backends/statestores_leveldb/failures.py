"""What plyvel raises, in the words of `statestores.errors`."""

import plyvel

from statestores.errors import (
    StateStoreError,
    StorageError,
    StoreClosedError,
    StoreCorruptedError,
    StoreLockedError,
)

DRIVER_ERRORS: tuple[type[Exception], ...] = (plyvel.Error, RuntimeError)
"""What plyvel's calls raise. The ``RuntimeError`` says that the database, snapshot or iterator is
closed, and nothing else."""


def translated(error: Exception, path: str) -> StateStoreError:
    """Return the error to raise for plyvel's *error*, met with the database at *path*."""
    if isinstance(error, RuntimeError):
        return closed(path)
    if isinstance(error, plyvel.CorruptionError):
        return StoreCorruptedError(
            f"the files in {path!r} are damaged: {error}; restore the store from a snapshot or "
            "its changelog"
        )
    if _is_lock_failure(error):
        return StoreLockedError(
            f"{path!r} is open in a program that uses LevelDB without statestores, so its process "
            f"id is not known; close it there first: {error}"
        )
    return StorageError(
        f"LevelDB cannot read or write in {path!r}: {error}; check the rights and the space on "
        "the disk"
    )


def closed(path: str) -> StoreClosedError:
    """Return the error for a call on a closed engine, snapshot or iterator."""
    return StoreClosedError(f"the engine at {path!r}, or the snapshot of it, is closed; open anew")


def _is_lock_failure(error: Exception) -> bool:
    """Whether LevelDB's own lock is held; it is an I/O error that only its text tells apart."""
    return isinstance(error, plyvel.IOError) and str(error).startswith("IO error: lock ")
