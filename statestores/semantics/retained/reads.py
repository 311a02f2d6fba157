"""What the reads of window and session stores are made of, for the owner and for facades.

A kind writes its reads once, over the two methods of `RetainedReads`: the owner answers them from
its engine and its pending rows, a facade from the engine alone, or from both.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from itertools import chain
from typing import Any

from statestores.semantics.every_kind.arguments import MAX_TIME_MS, check_reverse
from statestores.semantics.every_kind.engine_store import EngineStore
from statestores.semantics.every_kind.facade import TimedFacade, UncommittedTimedFacade
from statestores.semantics.retained.progress import read_retained_progress
from statestores.semantics.retained.rows import RetainedRows, Row
from statestores.semantics.rows.content_chunks import until_closed
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.semantics.rows.write_buffer import merge, rows_between
from statestores.spi.engine import Engine, EngineReader, EngineSnapshot

PendingRows = dict[bytes, bytes | None]

Uncommitted = Callable[[], tuple[PendingRows, int]]
"""Returns the pending rows, live, and their stream time."""

_ABSENT = object()

ROWS_AHEAD = 32
"""Rows of a range that are read at the call. A range with fewer needs no iterator."""


def visible_times(first_ms: int | None, last_ms: int | None, horizon_ms: int) -> tuple[int, int]:
    """Return what is visible of an inclusive range of times: the lowest and the highest."""
    low_ms = max(0, horizon_ms + 1)
    return (
        low_ms if first_ms is None or first_ms < low_ms else first_ms,
        MAX_TIME_MS if last_ms is None else last_ms,
    )


def without_expired(
    values: list[bytes | None], times_ms: list[int], horizon_ms: int
) -> tuple[list[bytes | None], int]:
    """Return *values* with ``None`` for those of a time up to *horizon_ms*, and their number."""
    if not times_ms or min(times_ms) > horizon_ms:
        return values, 0
    visible = [time_ms > horizon_ms for time_ms in times_ms]
    kept = [
        value if is_visible else None for value, is_visible in zip(values, visible, strict=True)
    ]
    return kept, visible.count(False)


class RetainedReads(ABC):
    """A window or session store, or a facade of one, as its reads see it."""

    _rows: RetainedRows
    _retention_ms: int
    count_iterator: Callable[[Generator[Any, None, None]], Generator[Any, None, None]]
    """As of the store itself."""

    @property
    @abstractmethod
    def _owner(self) -> EngineStore[Any, Any]:
        """The store itself, which ends the iterators when it is closed."""

    @abstractmethod
    def _visible_value(self, data_key: bytes, time_ms: int) -> bytes | None:
        """Return the value of the row *data_key*, whose time is *time_ms*, if visible."""

    @abstractmethod
    def _visible_values(
        self, keys: list[bytes], data_keys: list[bytes], times_ms: list[int]
    ) -> list[bytes | None]:
        """Return the values of rows that are visible, ``None`` for the others, all of one instant.

        The rows of *keys* have the *data_keys*, and are of *times_ms*.
        """

    @abstractmethod
    def _visible_rows(
        self,
        first_key: bytes | None,
        last_key: bytes | None,
        first_ms: int | None,
        last_ms: int | None,
        *,
        reverse: bool,
    ) -> Iterable[Row]:
        """Return the visible rows within both inclusive ranges, in order, frozen at the call.

        Whoever goes through them looks before each step whether the store is open: the first of
        them have been read.
        """

    def _visible_rows_of(
        self, key: bytes, first_ms: int | None, last_ms: int | None, *, reverse: bool
    ) -> Iterable[Row]:
        """Return what `_visible_rows` does, of one *key*."""
        return self._visible_rows(key, key, first_ms, last_ms, reverse=reverse)

    def _selected(
        self,
        reader: EngineReader,
        bounds: tuple[bytes, bytes],
        overlay: list[tuple[bytes, bytes | None]],
        times_ms: tuple[int, int] | None,
        *,
        reverse: bool,
    ) -> tuple[Iterable[Row], bool]:
        """Return the rows of *reader* under *overlay*, and whether some are still to be read.

        They are from *bounds*, and of *times_ms* where these do not follow from the bounds.
        """
        # Most ranges are short, and then this is one call of the engine and no iterator.
        ahead, others = reader.scan_ahead(*bounds, ROWS_AHEAD, reverse=reverse)
        rows: Iterable[Row] = ahead if others is None else chain(ahead, others)
        if overlay:
            rows = merge(iter(rows), overlay, reverse=reverse)
        if times_ms is not None:
            rows = self._rows.within(rows, *times_ms)
        return rows, others is not None


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
        self.count_iterator = store.count_iterator

    @property
    def _owner(self) -> EngineStore[Any, Any]:
        return self._store

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

    def _visible_values(
        self, keys: list[bytes], data_keys: list[bytes], times_ms: list[int]
    ) -> list[bytes | None]:
        self._store.check_open()
        snapshot, stream_time, pending = self._frozen()
        with snapshot:
            values = snapshot.get_many(data_keys)
        if pending:
            values = list(map(pending.get, data_keys, values))
        values, hidden = without_expired(values, times_ms, stream_time - self._retention_ms)
        self._store.count_below_horizon(hidden)
        return values

    def _visible_rows(
        self,
        first_key: bytes | None,
        last_key: bytes | None,
        first_ms: int | None,
        last_ms: int | None,
        *,
        reverse: bool,
    ) -> Iterable[Row]:
        check_reverse(reverse)
        self._store.check_open()
        snapshot, stream_time, pending = self._frozen()
        is_unread = False
        try:
            horizon = stream_time - self._retention_ms
            times = low_ms, high_ms = visible_times(first_ms, last_ms, horizon)
            if high_ms <= horizon:
                self._store.count_below_horizon()
            start, stop = self._rows.bounds(first_key, last_key, low_ms, high_ms)
            rows, is_unread = self._selected(
                snapshot,
                (start, stop),
                rows_between(pending, start, stop, reverse=reverse) if pending else [],
                None if first_key is not None and first_key == last_key else times,
                reverse=reverse,
            )
        finally:
            if not is_unread:
                snapshot.close()
        return until_closed(snapshot, iter(rows)) if is_unread else rows

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
