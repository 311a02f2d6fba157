"""What plyvel raises, translated into the errors of `statestores.errors`."""

import re

from statestores.errors import (
    CommitInDoubtError,
    StateStoreError,
    StorageError,
    StoreClosedError,
    StoreCorruptedError,
    StoreLockedError,
)
from statestores.files.directory_lock import says_held
from statestores_leveldb.binding import plyvel

_CUT_OFF = re.compile(r"\.(ldb|sst): Invalid argument$")
"""A read past the end of a sorted file, which is shorter than the manifest says. To LevelDB it is
an I/O error."""

DRIVER_ERRORS: tuple[type[Exception], ...] = (plyvel.Error, RuntimeError)
"""What plyvel's calls raise. The ``RuntimeError`` says that the database, snapshot or iterator is
closed, and nothing else."""


def translated(error: Exception, path: str) -> StateStoreError:
    """Return the error to raise for plyvel's *error*, met with the database at *path*."""
    if isinstance(error, RuntimeError):
        return closed(path)
    said = _text_of(error)
    if isinstance(error, plyvel.CorruptionError) or _CUT_OFF.search(said):
        return StoreCorruptedError(
            f"the files in {path!r} are damaged: {said!r}; restore the store from a snapshot or "
            "its changelog"
        )
    # LevelDB's own lock is held: an I/O error that only its text distinguishes.
    is_held = "already held by process" in said or says_held(said)
    if isinstance(error, plyvel.IOError) and said.startswith("IO error: lock ") and is_held:
        return StoreLockedError(
            f"{path!r} is open in a program that uses LevelDB without statestores, so its process "
            f"id is not known; close it there first: {said!r}"
        )
    return StorageError(
        f"LevelDB cannot read or write in {path!r}: {said!r}; check the rights and the space on "
        "the disk"
    )


def in_doubt(error: Exception, path: str) -> CommitInDoubtError:
    """Return the error for a batch that is in LevelDB's log, but perhaps not on the disk."""
    return CommitInDoubtError(
        f"LevelDB cannot make durable what it has written in {path!r}: {_text_of(error)!r}; nobody "
        "knows what is on the disk, and what is counts: close the store and open it again"
    )


def closed(path: str) -> StoreClosedError:
    """Return the error for a call on a closed engine, snapshot or iterator."""
    return StoreClosedError(f"the engine at {path!r}, or the snapshot of it, is closed; open anew")


def _text_of(error: Exception) -> str:
    """Return what LevelDB says; plyvel passes it on as bytes."""
    return b"".join(error.args).decode(errors="replace")
