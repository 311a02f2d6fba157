"""What SQLite raises, translated into `statestores.errors`."""

import sqlite3

from statestores.errors import (
    CommitInDoubtError,
    InvalidArgumentError,
    MissingDriverError,
    StateStoreError,
    StorageError,
    StoreClosedError,
    StoreCorruptedError,
    StoreLockedError,
)

_PRIMARY_CODE = 0xFF
"""SQLite's extended codes have the primary code in their lowest byte."""

_NO_FORMAT = "unsupported file format"
"""The number of the schema's format is none of SQLite's four; this error has no code of its own."""

_FAILED_WAITS = frozenset({sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC})
"""What SQLite has written to its log may be on the disk or not. A crash now would bring it back."""

DAMAGE = (
    StoreCorruptedError,
    (
        "the database of {path!r} is damaged: {said!r}; restore the store from a snapshot or its "
        "changelog"
    ),
)
_LOCKED = (
    StoreLockedError,
    (
        "the database in {path!r} is being written by a program that uses SQLite without "
        "statestores: {said!r}; end its transaction first"
    ),
)
_TOO_LONG = (
    InvalidArgumentError,
    "SQLite does not take this pair: {said!r}; key and value together may have 1,000,000,000 bytes",
)
_OTHERS = (
    StorageError,
    "SQLite cannot read or write in {path!r}: {said!r}; check the rights and the space on the disk",
)
_MEANINGS: dict[int | str, tuple[type[StateStoreError], str]] = {
    _NO_FORMAT: DAMAGE,
    sqlite3.SQLITE_CORRUPT: DAMAGE,
    sqlite3.SQLITE_NOTADB: DAMAGE,
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_TOOBIG: _TOO_LONG,
}
"""What SQLite's primary codes mean to a caller, and what to do."""


def translated(error: Exception, path: str) -> StateStoreError:
    """Return the error to raise for *error*, met with the file of the engine at *path*."""
    said = str(error).strip()
    # An error that the sqlite3 module itself found has no code.
    extended = getattr(error, "sqlite_errorcode", 0)
    if extended in _FAILED_WAITS:
        return CommitInDoubtError(
            f"SQLite cannot make durable what it has written in {path!r}: {said!r}; nobody knows "
            "what is on the disk, and what is counts: close the store and open it again"
        )
    code = extended & _PRIMARY_CODE
    kind, text = _MEANINGS.get(said if said == _NO_FORMAT else code, _OTHERS)
    return kind(text.format(path=path, said=said))


def closed(path: str) -> StoreClosedError:
    """Return the error for a call on a closed engine, snapshot or iterator."""
    return StoreClosedError(f"the engine at {path!r}, or the snapshot of it, is closed; open anew")


def missing_package(error: ModuleNotFoundError) -> MissingDriverError:
    """Return the error for a package that a server needs, and a file does not."""
    return MissingDriverError(
        f"a PostgreSQL server needs the package {error.name!r}, which is not installed; try: "
        "pip install 'statestores[postgresql]'"
    )
