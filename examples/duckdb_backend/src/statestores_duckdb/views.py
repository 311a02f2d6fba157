"""What is read of one moment: a connection in a transaction, and the statements on it."""

from collections.abc import Callable, Iterator, Sequence
from threading import RLock

from duckdb import DuckDBPyConnection

_FIRST_PAGE_ROWS = 8
_PAGE_GROWTH = 8
_LARGEST_PAGE_ROWS = 4_096
_PAGE_BYTES = 1024 * 1024
"""About how much a page is to hold. It is a guess from the page before: SQL has no such limit."""

_GET = "select value from pairs where key = $1"
_GET_MANY = "select key, value from pairs where key in (select unnest($1::blob[]))"
_COUNT = "select count(*) from pairs where {}"
_PAGE = "select key, value from pairs where {} order by key {} limit {}"


class View:
    """The pairs as of one moment, on a connection of its own.

    Invariant: the connection is used only under the lock, one query at a time, and each query is
    fetched whole: another one on the same connection would end it.
    """

    def __init__(self, connection: DuckDBPyConnection, check_open: Callable[[], None]) -> None:
        """Take over *connection*; *check_open* raises once the database is closed."""
        self._connection = connection
        self._check_open = check_open
        self._lock = RLock()  # the collector may close a view while its connection is used

    def freeze(self) -> None:
        """Let every read from now on see the content of this moment."""
        # A transaction begins with its first look at the table, not with `begin`.
        self._query("begin transaction read only; select 1 from pairs limit 1", ())

    def thaw(self) -> None:
        """Let every read see the content of its own moment again."""
        with self._lock:
            self._check_open()
            self._connection.execute("rollback")

    def get(self, key: bytes) -> bytes | None:
        """Return the value of *key*."""
        rows = self._query(_GET, (key,))
        return rows[0][0] if rows else None

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of *keys* in one query."""
        found = dict(self._query(_GET_MANY, (list(dict.fromkeys(keys)),)))
        return [found.get(key) for key in keys]

    def edge(
        self, start: bytes, stop: bytes | None, *, reverse: bool
    ) -> tuple[bytes, bytes] | None:
        """Return the lowest pair of the range, or in reverse the highest."""
        page = self._page(*_bounds(start, stop), reverse=reverse, rows=1)
        return page[0] if page else None

    def count(self, start: bytes, stop: bytes | None) -> int:
        """Return how many keys the range has."""
        condition, values = _bounds(start, stop)
        (row,) = self._query(_COUNT.format(condition), values)
        return int(row[0])

    def pages(
        self, start: bytes, stop: bytes | None, *, reverse: bool
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield the pairs of the range, a page at a time. Requires: the view is frozen."""
        condition, values = _bounds(start, stop)
        size = _FIRST_PAGE_ROWS
        while page := self._page(condition, values, reverse=reverse, rows=size):
            yield page
            if len(page) < size:
                return
            last = page[-1][0]
            if reverse:
                condition, values = "key >= $1 and key < $2", (start, last)
            elif stop is None:
                condition, values = "key > $1", (last,)
            else:
                condition, values = "key > $1 and key < $2", (last, stop)
            taken = sum(len(key) + len(value) for key, value in page)
            fitting = _PAGE_BYTES * len(page) // (taken + 1)
            size = max(1, min(size * _PAGE_GROWTH, _LARGEST_PAGE_ROWS, fitting))

    def close(self) -> None:
        """Close the connection; a query under way in another thread ends first."""
        with self._lock:
            self._connection.close()

    def _page(
        self, condition: str, values: tuple[bytes, ...], *, reverse: bool, rows: int
    ) -> list[tuple[bytes, bytes]]:
        order = "desc" if reverse else "asc"
        return self._query(_PAGE.format(condition, order, rows), values)

    def _query(self, statement: str, values: Sequence[object]) -> list[tuple[bytes, bytes]]:
        with self._lock:
            self._check_open()
            return self._connection.execute(statement, values).fetchall()


def _bounds(start: bytes, stop: bytes | None) -> tuple[str, tuple[bytes, ...]]:
    """Return the condition of ``start <= key < stop``, and its values."""
    return ("key >= $1", (start,)) if stop is None else ("key >= $1 and key < $2", (start, stop))
