"""What the reads of window and session stores are made of, for the owner and for facades.

A kind writes its reads once, over the two methods of `RetainedReads`: the owner answers them from
its engine and its pending rows, a facade from the engine alone, or from both.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from typing import Any

from statestores.semantics.every_kind.arguments import MAX_TIME_MS, check_reverse
from statestores.semantics.every_kind.engine_store import EngineStore
from statestores.semantics.every_kind.facade import TimedFacade, UncommittedTimedFacade
from statestores.semantics.retained.progress import read_retained_progress
from statestores.semantics.retained.rows import RetainedRows, Row
from statestores.semantics.rows.content_chunks import until_closed
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.semantics.rows.write_buffer import merge, rows_between
from statestores.spi.engine import Engine, EngineSnapshot

PendingRows = dict[bytes, bytes | None]

Uncommitted = Callable[[], tuple[PendingRows, int]]
"""Returns the pending rows, live, and their stream time."""

_ABSENT = object()


class RetainedReads(ABC):
    """A window or session store, or a facade of one, as its reads see it."""

    _rows: RetainedRows
    _retention_ms: int

    @abstractmethod
    def _visible_value(self, data_key: bytes, time_ms: int) -> bytes | None:
        """Return the value of the row *data_key*, whose time is *time_ms*, if visible."""

    @abstractmethod
    def _visible_rows(
        self,
        first_key: bytes | None,
        last_key: bytes | None,
        first_ms: int | None,
        last_ms: int | None,
        *,
        reverse: bool,
    ) -> Generator[Row, None, None]:
        """Return the visible rows within both inclusive ranges, in order, frozen at the call.

        The next step after the store was closed raises `StoreClosedError`.
        """


class RetainedSelection:
    """The rows that a read asks for, at the current horizon."""

    __slots__ = (
        "_first_ms",
        "_is_one_key",
        "_last_ms",
        "_rows",
        "is_below_horizon",
        "start",
        "stop",
    )

    def __init__(
        self,
        rows: RetainedRows,
        keys: tuple[bytes | None, bytes | None],
        times_ms: tuple[int | None, int | None],
        horizon_ms: int,
    ) -> None:
        first_ms, last_ms = times_ms
        self._first_ms = max(first_ms or 0, horizon_ms + 1)
        self._last_ms = MAX_TIME_MS if last_ms is None else last_ms
        self.is_below_horizon = self._last_ms <= horizon_ms
        self._is_one_key = keys[0] is not None and keys[0] == keys[1]
        self._rows = rows
        self.start, self.stop = rows.bounds(*keys, self._first_ms, self._last_ms)

    def of(self, rows: Iterator[Row]) -> Generator[Row, None, None]:
        """Yield those of *rows*, which are from `start` to `stop`, that are asked for."""
        if self._is_one_key:
            yield from rows
        else:
            yield from self._rows.within(rows, self._first_ms, self._last_ms)


class CommittedRetained(RetainedReads, TimedFacade):
    """A window or session store as its last commit left it.

    An iterator reads a snapshot of the engine, and takes stream time from there too. It never
    waits for the writer.
    """

    def __init__(
        self, store: EngineStore[Any, Any], engine: Engine, rows: RetainedRows, retention_ms: int
    ) -> None:
        super().__init__(store, engine)
        self._rows = rows
        self._retention_ms = retention_ms

    def _stream_time(self) -> int:
        return read_retained_progress(self._engine).stream_time_ms

    def _visible_value(self, data_key: bytes, time_ms: int) -> bytes | None:
        # The row first: what is visible at a later stream time was so when it was read.
        value = self._engine.get(data_key)
        stream_time = read_retained_progress(self._engine).stream_time_ms
        if time_ms > stream_time - self._retention_ms:
            return value
        self._store.count_below_horizon()
        return None

    def _visible_rows(
        self,
        first_key: bytes | None,
        last_key: bytes | None,
        first_ms: int | None,
        last_ms: int | None,
        *,
        reverse: bool,
    ) -> Generator[Row, None, None]:
        check_reverse(reverse)
        self._store.check_open()
        snapshot, stream_time, pending = self._frozen()
        selection = RetainedSelection(
            self._rows,
            (first_key, last_key),
            (first_ms, last_ms),
            stream_time - self._retention_ms,
        )
        if selection.is_below_horizon:
            self._store.count_below_horizon()
        start, stop = selection.start, selection.stop
        chosen = rows_between(pending, start, stop, reverse=reverse)
        stored = snapshot.scan(start, stop, reverse=reverse)
        rows = merge(stored, chosen, reverse=reverse)
        return selection.of(self._store.while_open(until_closed(snapshot, rows)))

    def _frozen(self) -> tuple[EngineSnapshot, int, PendingRows]:
        """Return a snapshot, to be closed by the caller, stream time, and rows to lay over it."""
        snapshot = self._engine.snapshot()
        return snapshot, read_retained_progress(snapshot).stream_time_ms, {}


class UncommittedRetained(UncommittedTimedFacade, CommittedRetained):
    """A window or session store with the writer's pending rows, which iterators copy."""

    _uncommitted: Uncommitted

    def __init__(
        self,
        store: EngineStore[Any, Any],
        engine: Engine,
        rows: RetainedRows,
        retention_ms: int,
        uncommitted: Uncommitted,
    ) -> None:
        super().__init__(store, engine, rows, retention_ms)
        self._uncommitted = uncommitted

    def _visible_value(self, data_key: bytes, time_ms: int) -> bytes | None:
        pending, _ = self._uncommitted()
        value = pending.get(data_key, _ABSENT)
        if value is _ABSENT:
            value = self._engine.get(data_key)
        _, stream_time = self._uncommitted()
        if time_ms <= stream_time - self._retention_ms:
            self._store.count_below_horizon()
            return None
        return value  # type: ignore[return-value]  # a row's value by now

    def _frozen(self) -> tuple[EngineSnapshot, int, PendingRows]:
        def look() -> tuple[EngineSnapshot, int, PendingRows]:
            live, stream_time = self._uncommitted()
            pending = live.copy()
            return self._engine.snapshot(), stream_time, pending

        snapshot, stream_time, pending = self._of_one_commit(
            look, discard=lambda found: found[0].close()
        )
        # A put adds its row first, and then moves stream time.
        reached = max(map(self._rows.time_of, pending), default=NO_STREAM_TIME)
        return snapshot, max(stream_time, reached), pending
