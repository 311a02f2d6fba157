"""A frozen view of a database: a connection that stays in one transaction."""

import weakref
from contextlib import suppress
from functools import partial
from threading import Lock

from statestores.spi import EngineSnapshot
from statestores_sqlite.database import Database
from statestores_sqlite.readers import DriverRows, Reader, ReaderPool
from statestores_sqlite.reads import SQLReads
from statestores_sqlite.row_cursor import RowCursor


class SQLiteSnapshot(SQLReads, EngineSnapshot):
    """What the engine held at `SQLiteEngine.snapshot`.

    The lock is for the engine: it may be closed, and the snapshot with it, while the snapshot is
    read in another thread.
    """

    def __init__(self, database: Database, pool: ReaderPool) -> None:
        """Take a reader of *pool* for the lifetime of the snapshot."""
        super().__init__(database)
        self._lock = Lock()
        self._frozen = pool.take()
        try:
            self._frozen.freeze()
        except database.errors as error:
            self._frozen.close()
            raise database.translated(error) from error
        # Even when the snapshot is merely forgotten.
        self._release = weakref.finalize(self, pool.give_after, self._frozen, self._frozen.thaw)
        self._release.atexit = False

    def _take(self) -> Reader:
        self._lock.acquire()
        if not self._reading:
            self._lock.release()
            raise self._database.closed()
        return self._frozen

    def _give(self, reader: Reader) -> None:
        self._lock.release()

    def _lose(self, reader: Reader) -> None:
        self._lock.release()

    def _open_cursor(self, start: bytes, stop: bytes | None, *, reverse: bool) -> RowCursor:
        rows = self._read(lambda reader: reader.rows(start, stop, reverse=reverse))
        # The scan needs the transaction, so it keeps the snapshot alive.
        finish = partial(_forget, self, rows)
        return RowCursor(rows, self._lock, finish, self._database.closed)

    def close(self) -> None:
        self._stop_scans()
        with self._lock:
            self._release()


def _forget(snapshot: SQLiteSnapshot, rows: DriverRows) -> None:
    """Give up *rows*, unless the connection is lost and has done so."""
    with suppress(*snapshot._database.errors):  # noqa: SLF001  # a part of the class
        rows.close()
