"""Reads: the same for the engine, as of now, and for its snapshots, as of then."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from statestores.spi import EngineReader

from statestores_duckdb.database import Database, Hold
from statestores_duckdb.failures import DRIVER_ERRORS, translated
from statestores_duckdb.views import View

P = ParamSpec("P")
R = TypeVar("R")


class DuckDBReads(EngineReader):
    """The reading half. Every call of a read into the driver is within `_caught`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @abstractmethod
    def _check_open(self) -> None:
        """Raise `StoreClosedError` once this engine or snapshot cannot be read any more."""

    @abstractmethod
    def _take(self) -> View:
        """Return what is read."""

    @abstractmethod
    def _give(self, view: View, *, failed: bool) -> None:
        """Take *view* back after a read."""

    @abstractmethod
    def _hold(self) -> Hold:
        """Return what a scan reads."""

    def get(self, key: bytes) -> bytes | None:
        return self._read(View.get, key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._read(View.get_many, keys)

    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        return self._read(View.edge, start, stop, reverse=False)

    def last(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        return self._read(View.edge, start, stop, reverse=True)

    def approximate_num_keys(self, start: bytes, stop: bytes | None = None) -> int:
        """Count the keys: exact, and inside the database."""
        return self._read(View.count, start, stop)

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        # No generator function: the view is held from the call on, not from the first step.
        return self._rows(self._caught(self._hold), start, stop, reverse=reverse)

    def _rows(
        self, hold: Hold, start: bytes, stop: bytes | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the range; *hold* is let go when the iterator is."""
        self._check_open()
        pages = hold.view().pages(start, stop, reverse=reverse)
        while page := self._caught(next, pages, None):
            for pair in page:
                # Also what was read ahead is not given out by what is closed.
                hold.view()
                yield pair
        hold.view()

    def _read(
        self, read: Callable[Concatenate[View, P], R], *arguments: P.args, **options: P.kwargs
    ) -> R:
        """Return what *read* returns for a view of this moment."""
        view = self._caught(self._take)
        try:
            result = self._caught(read, view, *arguments, **options)
        except BaseException:
            self._give(view, failed=True)
            raise
        self._give(view, failed=False)
        return result

    def _caught(self, call: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
        """Return what *call* returns; what the driver raises is translated."""
        try:
            return call(*arguments, **options)
        except DRIVER_ERRORS as error:
            # DuckDB raises when another thread has closed the connection meanwhile.
            self._check_open()
            raise translated(error, self._database.path) from error
