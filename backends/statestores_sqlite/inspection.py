"""What is checked in a SQLite file when it is opened."""

import sqlite3
from pathlib import Path

from statestores.errors import StoreCorruptedError
from statestores_sqlite.file_readers import CheckedReader
from statestores_sqlite.statements import CHECKSUM

TABLE = "pairs"
"""The table of a file."""

_COLUMNS = ["key", "value", CHECKSUM]
_ROWS_AT_ONCE = 1_000


def damaged(file: Path, reason: str) -> StoreCorruptedError:
    """Return the error for *file*."""
    return StoreCorruptedError(
        f"{str(file)!r} is damaged: {reason}; restore the store from a snapshot or its changelog"
    )


def check_length(file: Path, writer: sqlite3.Connection) -> None:
    """Raise when *file* ends before its last page does. Requires: *writer* has written nothing.

    SQLite rounds up, and takes the missing part of the last page for zeros. What is missing beside
    a log may be in the log.

    Raises:
        StoreCorruptedError: It does.
    """
    log = file.with_name(f"{file.name}-wal")
    if log.exists() and log.stat().st_size:
        return
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = writer.execute("PRAGMA page_size").fetchone()
    length = file.stat().st_size
    if length < pages * page_bytes:
        raise damaged(file, f"it has {length} of {pages * page_bytes} bytes")


def check_structure(file: Path, writer: sqlite3.Connection) -> None:
    """Raise when the pages of *file*, or of its log, do not make up the table.

    It finds rows that are gone, which no checksum reveals.

    Raises:
        StoreCorruptedError: They do not.
    """
    columns = [row[1] for row in writer.execute(f"PRAGMA table_info({TABLE})")]
    if columns != _COLUMNS:
        raise damaged(file, f"its table has the columns {columns}")
    (found,) = writer.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise damaged(file, found)


def check_rows(reader: CheckedReader) -> None:
    """Read every row, which compares its checksum and refuses a key that is no longer of bytes.

    Such a key sorts before all others. `check_structure` does not see it, and a search that meets
    it goes past the keys on one side, whatever it looks for.

    Raises:
        StoreCorruptedError: One is not right.
    """
    rows = reader.every_row()
    while rows.fetchmany(_ROWS_AT_ONCE):
        pass
