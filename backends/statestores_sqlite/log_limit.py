"""How large SQLite's write-ahead log grows beside the database file.

The commit that finds the log too long moves its pages to the file, and the next one writes the log
anew from its beginning. SQLite alone would do so at a fixed length, and keep the log's file as long
as it ever was: a small database would lie beside a log several times its size.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

_SHARE = 4
"""The log may be as long as the database file divided by this."""

_LEAST_BYTES = 2 * 1024 * 1024
"""A shorter log is moved so often that commits of a row slow down: by a sixth with 1 MiB, by a
twentieth with this."""

_SLACK = 4
"""The log is cut when it is over the limit by the limit divided by this. One made by small commits
is not: it is written anew from its beginning, which is cheaper than growing again."""

_CHANGES_PER_LOOK = 64
"""Changes, or commits, between two checks of the files. Each takes some microseconds."""


class LogLimit:
    """The limit of the log of one open database. It follows the size of the file."""

    __slots__ = (
        "_changes",
        "_cut_bytes",
        "_driver",
        "_file",
        "_limit_bytes",
        "_log",
        "_most_bytes",
    )

    def __init__(self, file: Path, most_bytes: int, driver: sqlite3.Connection) -> None:
        """Limit the log of *file* to *most_bytes* or less, through the connection that writes."""
        self._file, self._log = str(file), f"{file}-wal"
        self._most_bytes = most_bytes
        self._driver = driver
        self._changes = 0
        self._limit_bytes = self._cut_bytes = 0
        self._follow()

    def keep(self, changes: int) -> None:
        """Cut the log if *changes* have made it too long. Requires: no transaction is open.

        Nobody waits for it. What an open scan or snapshot still reads stays in the log, and the
        next commit looks again. It cannot fail either: the commit before it is done, and a log that
        cannot be moved now, because the disk is full, merely stays as it is.
        """
        self._changes += changes + 1
        if self._changes < _CHANGES_PER_LOOK:
            return
        self._changes = 0
        with suppress(OSError, sqlite3.Error):
            self._follow()
            if self._bytes_of(self._log) > self._cut_bytes:
                self._cut()

    @staticmethod
    def _bytes_of(file: str) -> int:
        return os.stat(file).st_size  # noqa: PTH116  # a third of the time that a `Path` takes

    def _cut(self) -> None:
        """Move the log to the file, and cut it to nothing, as far as nobody reads it."""
        (wait_ms,) = self._driver.execute("PRAGMA busy_timeout").fetchone()
        self._driver.execute("PRAGMA busy_timeout = 0").close()
        try:
            self._driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
        finally:
            self._driver.execute(f"PRAGMA busy_timeout = {wait_ms}").close()

    def _follow(self) -> None:
        """Set a new limit when the file's size has changed by a quarter or more."""
        share = self._bytes_of(self._file) // _SHARE
        limit = min(self._most_bytes, max(_LEAST_BYTES, share))
        if self._limit_bytes * 3 // 4 <= limit <= self._limit_bytes * 5 // 4:
            return
        self._limit_bytes, self._cut_bytes = limit, limit + limit // _SLACK
        (page_bytes,) = self._driver.execute("PRAGMA page_size").fetchone()
        pages = max(1, limit // page_bytes)
        self._driver.execute(f"PRAGMA wal_autocheckpoint = {pages}").close()
        self._driver.execute(f"PRAGMA journal_size_limit = {limit}").close()
