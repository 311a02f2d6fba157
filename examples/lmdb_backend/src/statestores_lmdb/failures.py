"""What lmdb raises, in the words of `statestores.errors`."""

import lmdb
from statestores.errors import (
    InvalidArgumentError,
    StateStoreError,
    StorageError,
    StoreClosedError,
    StoreCorruptedError,
    UnsupportedFormatError,
)

_DAMAGED = (lmdb.CorruptedError, lmdb.InvalidError, lmdb.PageNotFoundError, lmdb.PanicError)


def translated(error: lmdb.Error, path: str) -> StateStoreError:
    """Return the error to raise for lmdb's *error*, met with the environment at *path*."""
    said = str(error)
    if isinstance(error, lmdb.BadValsizeError):
        return InvalidArgumentError(
            f"LMDB does not take this pair: {said!r}; a value may have 4,294,967,295 bytes"
        )
    if isinstance(error, lmdb.VersionMismatchError):
        return UnsupportedFormatError(
            f"the file in {path!r} was written by another release of LMDB: {said!r}; open it with "
            "that release"
        )
    if isinstance(error, _DAMAGED):
        return StoreCorruptedError(
            f"the file in {path!r} is damaged, or is not LMDB's: {said!r}; restore the store from "
            "a snapshot or its changelog"
        )
    if isinstance(error, lmdb.ReadersFullError):
        return StorageError(
            f"too many commits of {path!r} are held open: {said!r}; close scans and snapshots, or "
            "open the engine with a larger 'max_views'"
        )
    return StorageError(
        f"LMDB cannot read or write in {path!r}: {said!r}; check the rights and the space on the "
        "disk"
    )


def closed(path: str) -> StoreClosedError:
    """Return the error for a call on a closed engine, snapshot or iterator."""
    return StoreClosedError(f"the engine at {path!r}, or the snapshot of it, is closed; open anew")


def forked(path: str, pid: int) -> StoreClosedError:
    """Return the error for a call in a child of the process *pid*, which opened the engine."""
    return StoreClosedError(
        f"the engine at {path!r} belongs to process {pid}, of which this one is a fork; open "
        "engines after forking"
    )
