"""What duckdb raises, in the words of `statestores.errors`."""

import duckdb
from statestores.errors import (
    CommitInDoubtError,
    StateStoreError,
    StorageError,
    StoreClosedError,
    StoreCorruptedError,
    StoreLockedError,
    UnsupportedFormatError,
)

DRIVER_ERRORS: tuple[type[Exception], ...] = (duckdb.Error,)
"""The root of what duckdb raises."""

_DAMAGE = (
    "corrupt",
    "checksum",
    "replaying wal",
    "deserialize",
    "not a valid duckdb database",
    "transaction is aborted",
    "could not read enough bytes",
)
"""How DuckDB speaks of damage, in lower case. Its classes do not tell it from other failures. A
snapshot is a transaction, and one that has met damage says that it is aborted at each later read;
and a file that was cut is shorter than it says."""

_LOCKED = "could not set lock on file"

_OTHER_RELEASE = ("different duckdb version", "newer version", "storage version")


def translated(error: Exception, path: str) -> StateStoreError:
    """Return the error to raise for duckdb's *error*, met with the database at *path*."""
    said = str(error)
    small = said.lower()
    # In a file that was written by us, a release that is not known is one that was never written.
    if any(words in small for words in _OTHER_RELEASE):
        return UnsupportedFormatError(
            f"the file in {path!r} was written by another release of DuckDB: {said!r}; open it "
            "with that release"
        )
    internal = isinstance(error, duckdb.InternalError | duckdb.FatalException)
    if internal or any(words in small for words in _DAMAGE):
        return StoreCorruptedError(
            f"the file in {path!r} is damaged, or is not DuckDB's: {said!r}; restore the store "
            "from a snapshot or its changelog"
        )
    if _LOCKED in small:
        return StoreLockedError(
            f"{path!r} is open in a program that uses DuckDB without statestores; close it there "
            f"first: {said!r}"
        )
    return StorageError(
        f"DuckDB cannot read or write in {path!r}: {said!r}; check the rights, the space on the "
        "disk, and the option 'memory_bytes'"
    )


def not_committed(error: Exception, path: str) -> StateStoreError:
    """Return the error to raise for duckdb's *error*, met while a batch was written.

    DuckDB undoes what it could not write to its log. When that fails as well it gives the database
    up, and only opening it again tells whether the batch is there (ENG-39).
    """
    if isinstance(error, duckdb.FatalException):
        return CommitInDoubtError(
            f"DuckDB gave the database in {path!r} up while it wrote: {str(error)!r}; close the "
            "store and open it again: what it holds then is what counts"
        )
    return translated(error, path)


def closed(path: str) -> StoreClosedError:
    """Return the error for a call on a closed engine, snapshot or iterator."""
    return StoreClosedError(f"the engine at {path!r}, or the snapshot of it, is closed; open anew")


def forked(path: str, pid: int) -> StoreClosedError:
    """Return the error for a call in a child of the process *pid*, which opened the engine."""
    return StoreClosedError(
        f"the engine at {path!r} belongs to process {pid}, of which this one is a fork; open "
        "engines after forking"
    )
