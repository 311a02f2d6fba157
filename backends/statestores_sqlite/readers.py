"""Connections that read, and the pool of those that are idle.

Reads go to the driver's cursor. Through SQLAlchemy each would cost five to eight times as much.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from statestores.errors import StoreClosedError
from statestores_sqlite.statements import Statements

_KEYS_IN_ONE_QUERY = 500


class DriverRows(Protocol):
    """The part that is used of a driver's cursor that has executed a query."""

    def fetchmany(self, size: int) -> Sequence[tuple[bytes, bytes]]:
        """Return the next rows, fewer than *size* only at the end."""

    def close(self) -> None:
        """Give up the rows that were not fetched."""


class Reader(ABC):
    """One connection that reads, used by one thread at a time."""

    def __init__(self, connection: Any, statements: Statements) -> None:
        """Take over *connection*, of either driver."""
        self._connection = connection
        self._statements = statements
        self._cursor = self._connection.cursor()

    def get(self, key: bytes) -> bytes | None:
        """Return the value of *key*."""
        self._cursor.execute(self._statements.get, (key,))
        row = self._cursor.fetchone()
        return None if row is None else row[0]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of *keys*, a few hundred in one query."""
        found: dict[bytes, bytes] = {}
        wanted = list(dict.fromkeys(keys))
        for begin in range(0, len(wanted), _KEYS_IN_ONE_QUERY):
            found.update(self._find(wanted[begin : begin + _KEYS_IN_ONE_QUERY]))
        return [found.get(key) for key in keys]

    def edge(
        self, start: bytes, stop: bytes | None, *, reverse: bool
    ) -> tuple[bytes, bytes] | None:
        """Return the lowest pair of the range, or in reverse the highest."""
        self._cursor.execute(*self._statements.edge(start, stop, reverse=reverse))
        pair: tuple[bytes, bytes] | None = self._cursor.fetchone()
        return pair

    def count(self, start: bytes, stop: bytes | None) -> int:
        """Return the number of keys in the range."""
        self._cursor.execute(*self._statements.count(start, stop))
        return int(self._cursor.fetchone()[0])

    @abstractmethod
    def _find(self, keys: list[bytes]) -> list[tuple[bytes, bytes]]:
        """Return the pairs of those *keys* that are there, in any order."""

    @abstractmethod
    def freeze(self) -> None:
        """Let every read from now on see the content of this moment."""

    @abstractmethod
    def thaw(self) -> None:
        """Let every read see the content of its own moment again."""

    @abstractmethod
    def rows(self, start: bytes, stop: bytes | None, *, reverse: bool) -> DriverRows:
        """Return the rows of the range, frozen at this call, to be fetched bit by bit.

        Requires: the reader is frozen, or does nothing else until the rows are closed.
        """

    def close(self) -> None:
        """Close the connection."""
        # A statement that has met damage would keep the file open for as long as its cursor lives.
        self._cursor.close()
        self._connection.close()


class ReaderPool:
    """Readers that nobody uses at the moment, the last used on top.

    There are never more readers than reads at one moment, so there is no limit to wait for. The
    list needs no lock: its ``pop`` and ``append`` are atomic.
    """

    def __init__(
        self,
        open_reader: Callable[[], Reader],
        closed: Callable[[], StoreClosedError],
        errors: tuple[type[Exception], ...],
    ) -> None:
        self._open_reader = open_reader
        self._errors = errors
        self._closed = closed
        self._idle: list[Reader] = []
        self._is_closed = False

    def take(self) -> Reader:
        """Return a reader for a read, a scan or a snapshot.

        Raises:
            StoreClosedError: The pool is closed.
        """
        if self._is_closed:
            raise self._closed()
        try:
            return self._idle.pop()
        except IndexError:
            return self._open_reader()

    def give(self, reader: Reader) -> None:
        """Take *reader* back."""
        self._idle.append(reader)
        if self._is_closed:
            self._close_idle()

    def give_after(self, reader: Reader, end: Callable[[], None]) -> None:
        """Take *reader* back when *end* has ended what it did.

        Where that fails the connection is lost, which its user has noticed or did not live to see.
        """
        try:
            end()
        except self._errors:
            reader.close()
        else:
            self.give(reader)

    def close(self) -> None:
        """Close the idle readers now, and each other one when it is given back. Idempotent."""
        self._is_closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while True:
            try:
                reader = self._idle.pop()
            except IndexError:
                return
            reader.close()
