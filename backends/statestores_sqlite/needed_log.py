"""A mark in a SQLite file that is not whole without its log.

SQLite opens a file beside which there is no log with what had been moved to it, and says nothing:
of a copy of `engine.db` alone, or of a directory whose log somebody has removed, all that was
committed since would be gone. So from the first batch until the file is closed there is a view in
it that nobody reads: in the file itself, and not in the log alone. The connection that writes
removes it before it is closed, as SQLite then removes the log; also when nobody closes it.

A log is *there* also when it is empty: so it is cut, and a power failure may leave it so.
"""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from statestores.errors import StoreCorruptedError

_MARK = "needs_its_log"
_FIND = f"SELECT 1 FROM sqlite_schema WHERE name = '{_MARK}'"  # noqa: S608  # a name of ours


class NeededLog:
    """The log of one open file, and the mark in the file."""

    __slots__ = ("_driver", "_file", "_is_marked", "_process")

    def __init__(self, file: Path, driver: sqlite3.Connection) -> None:
        """Look for the mark of *file*, through the connection that is to write."""
        self._file, self._driver = file, driver
        self._process = os.getpid()
        # Of a process that has died: who moves its log has to remove its mark.
        self._is_marked = driver.execute(_FIND).fetchone() is not None

    def mark(self) -> bool:
        """Mark the file; return whether that is in the file, durably, and not in its log alone.

        It is not while somebody reads what was there before: to be repeated.

        Requires: no transaction is open.
        """
        self._is_marked = True
        self._driver.execute(f"CREATE VIEW IF NOT EXISTS {_MARK} AS SELECT 1").close()
        busy, pages, moved = self._driver.execute("PRAGMA wal_checkpoint").fetchone()
        return not busy and pages == moved

    def unmark(self) -> bool:
        """Remove the mark if there is one; return whether there is none any more.

        To be called before the connection is closed, which may remove the log.
        """
        # A child that was forked has a copy of the connection, and not the file.
        if not self._is_marked or self._process != os.getpid():
            return True
        try:
            self._driver.rollback()
            # The rest before: were the process to die while SQLite moves the change, a mark that
            # was moved first would say that all of it is there.
            self._driver.execute("PRAGMA wal_checkpoint").close()
            self._driver.execute(f"DROP VIEW IF EXISTS {_MARK}").close()
        except sqlite3.Error:
            return False
        self._is_marked = False
        return True

    def keep(self) -> None:
        """Have a log beside a file whose mark could not be removed: for that there was no room."""
        keep_log(self._file)
        self._is_marked = False

    def forget(self) -> None:
        """Do all of it, for an engine that nobody closes: it is collected, or the process ends."""
        unmarked = self.unmark()
        if self._process != os.getpid():
            return
        self._driver.close()
        if not unmarked:
            self.keep()


def unmark_copy(file: Path) -> None:
    """Remove the mark of *file*, a whole copy that nobody has seen and that is not yet durable."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = OFF").close()
        connection.execute("PRAGMA synchronous = OFF").close()
        connection.execute(f"DROP VIEW IF EXISTS {_MARK}").close()


def check_log(file: Path) -> None:
    """Raise when *file* needs a log that is not there; nothing is changed, and no log made.

    Requires: *file* is not sealed. A release that knows no mark may have sealed it with one.

    Raises:
        StoreCorruptedError: The log is missing.
    """
    log = log_of(file)
    if log.exists():
        return
    address = f"file:{quote(str(file.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            marked = connection.execute(_FIND).fetchone()
    except sqlite3.Error:
        return  # whoever opens it to write meets the same, and says what it is
    if marked:
        raise StoreCorruptedError(
            f"{str(file)!r} was not closed, and its log {log.name!r} is missing, in which the last "
            "batches are; put the log back beside the file, or restore the store from a snapshot "
            "or its changelog"
        )


def keep_log(file: Path) -> None:
    """Have a log beside *file*, if only an empty one. Requires: SQLite has moved what was in it."""
    with suppress(OSError):  # the next opening misses it then, and whoever reads that puts one back
        log_of(file).touch()


def log_of(file: Path) -> Path:
    """Return the path of the log of *file*."""
    return file.with_name(f"{file.name}-wal")
