"""Reads of a database, by any number of threads: the engine's, and those of its snapshots."""

import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Concatenate, ParamSpec, TypeVar

from statestores.spi import EngineReader
from statestores_sqlite.database import Database
from statestores_sqlite.readers import Reader
from statestores_sqlite.row_cursor import RowCursor

P = ParamSpec("P")
R = TypeVar("R")


class SQLReads(EngineReader):
    """The reading half: each read takes a `Reader`, and gives it back."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reader = database.reader
        self._cursors: weakref.WeakSet[RowCursor] = weakref.WeakSet()
        self._cursors_lock = Lock()
        self._reading = True

    @abstractmethod
    def _take(self) -> Reader:
        """Return a reader that nobody else uses until it is given back; else it is closed."""

    @abstractmethod
    def _give(self, reader: Reader) -> None:
        """Take *reader* back."""

    @abstractmethod
    def _lose(self, reader: Reader) -> None:
        """Take *reader* back after a failure."""

    def get(self, key: bytes) -> bytes | None:
        return self._read(self._reader.get, key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._read(self._reader.get_many, keys)

    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        return self._read(self._reader.edge, start, stop, reverse=False)

    def last(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        return self._read(self._reader.edge, start, stop, reverse=True)

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        cursor = self._open_cursor(start, stop, reverse=reverse)
        with self._cursors_lock:
            reading = self._reading
            self._cursors.add(cursor)
        if not reading:  # closed since the cursor was opened
            cursor.close()
        return cursor.rows(self._database.errors, self._database.translated)

    @abstractmethod
    def _open_cursor(self, start: bytes, stop: bytes | None, *, reverse: bool) -> RowCursor:
        """Open a scan."""

    def _read(
        self, read: Callable[Concatenate[Reader, P], R], *arguments: P.args, **options: P.kwargs
    ) -> R:
        """Return what *read* returns, with a reader of its own."""
        reader = self._take()
        try:
            result = read(reader, *arguments, **options)
        except self._database.errors as error:
            self._lose(reader)
            raise self._database.translated(error) from error
        except BaseException:
            self._lose(reader)
            raise
        self._give(reader)
        return result

    def _stop_scans(self) -> None:
        """Let every open scan end with an error at its next step, and every new one immediately."""
        with self._cursors_lock:
            self._reading = False
            cursors = list(self._cursors)
        for cursor in cursors:
            cursor.close()
