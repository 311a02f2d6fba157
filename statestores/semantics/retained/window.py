"""The window store over an engine: rows whose time is the window's start."""

from collections.abc import Sequence
from typing import ClassVar

from statestores.semantics.every_kind.arguments import (
    MAX_TIME_MS,
    check_key,
    check_keys,
    check_lengths,
    check_time,
    check_value,
    check_values,
    distinct_times,
    isolation_of,
)
from statestores.semantics.retained.checked_changes import columns_of_windows
from statestores.semantics.retained.column_rows import ColumnRows, RetainedBatch
from statestores.semantics.retained.reads import PendingRows
from statestores.semantics.retained.rows import SUFFIX_BYTES, RetainedRows, unnumbered_key
from statestores.semantics.retained.rows_by_start import (
    PendingWindows,
    RowsByStart,
    changes_of,
    columns_of,
    flat_rows,
    starts_of,
)
from statestores.semantics.retained.window_owner_reads import OwnerWindowReads
from statestores.semantics.retained.window_reads import (
    CommittedWindows,
    UncommittedWindows,
)
from statestores.semantics.rows.closed_rows import ClosedRows
from statestores.semantics.rows.layout import DATA
from statestores.semantics.rows.row_cache import DEFAULT_READ_CACHE_BYTES
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine
from statestores.spi.records import Changes
from statestores.spi.stores.store import Isolation, Values
from statestores.spi.stores.window import ReadOnlyWindowStore, WindowStore
from statestores.spi.values import as_list
from statestores.spi.window_specification import Window

_FEWEST_AT_ONCE = 8
"""Fewer rows of one start are not worth a dictionary of it."""

_FEW_ROWS = 16
"""So many pending rows, of starts that did not come again at once, join the others as they are."""

_MOST_STARTS = 64
"""So many starts are remembered of puts that became rows, and of columns: hopping windows take
turns."""

_OFTEN = 2
"""A start that comes so often, on average, is packed once for all of its rows."""


class EngineWindowStore(OwnerWindowReads, WindowStore[bytes, bytes]):
    """A window store of bytes over any engine."""

    _times_bytes: ClassVar[int] = 8

    def __init__(
        self,
        engine: Engine,
        specification: Window[bytes, bytes],
        durability: Durability,
        cache_bytes: int = DEFAULT_READ_CACHE_BYTES,
        memory_bytes: int = DEFAULT_READ_CACHE_BYTES,
    ) -> None:
        """Keep values of committed rows in up to *cache_bytes*.

        In *memory_bytes* it remembers the names of rows.
        """
        has_number = specification.retain_duplicates
        rows = RetainedRows(has_number=has_number)
        # A duplicate is a row of its own, which is put once.
        name_bytes = None if has_number else memory_bytes
        retention_ms = specification.retention_ms
        super().__init__(
            engine, specification, durability, rows, retention_ms, name_bytes, cache_bytes
        )
        self._window = specification
        self._window_size_ms = specification.window_size_ms
        self._has_number = has_number
        self._gets_before = 0  # how often the engine had been asked by the last commit
        self._committed = self._spans.rows
        self._by_committed_start = self._spans.starts.rows
        self._committed_starts = self._spans.starts.order
        self._span_ms = self._spans.span_ms
        self._by_start: RowsByStart = {}
        self._newest_rows: dict[bytes, bytes | None] = {}
        self._newest_start: int | None = None
        """The start of `_newest_rows`, which are in `_by_start`; then the put was not too late."""
        self._starts: set[int] = set()
        """Starts of a few puts that became rows, and of columns; the next put with one of them
        begins a dictionary."""
        self._latest_start: int | None = None
        """The start of the last such put that moved stream time."""
        self._is_watched = False
        """Whether a facade may look at pending writes: then all of them are rows at once."""

    # Writes.

    def put(self, key: bytes, value: bytes | None, window_start_ms: int) -> bool:
        if (  # most puts are of the window of the put before
            type(key) is bytes
            and type(value) is bytes
            and type(window_start_ms) is int
            and window_start_ms == self._newest_start
        ):
            self._newest_rows[key] = value
            self._uncommitted_bytes += len(key) + len(value) + 8
            self._puts += 1
            return True
        if type(key) is not bytes:
            check_key(key)
        if value is not None and type(value) is not bytes:
            check_value(value)
        if type(window_start_ms) is not int or not 0 <= window_start_ms <= MAX_TIME_MS:
            check_time("window_start_ms", window_start_ms)
        if self._has_number:
            return self._put_checked(key, value, window_start_ms)
        if window_start_ms <= self._horizon:
            self.check_open()
            self._dropped += 1
            return False
        if window_start_ms > self._stream_time and not self._by_start:
            # `unnumbered_key`, written out. Nothing has this start yet, and perhaps nothing comes
            # with it again.
            escaped = key.replace(b"\x00", b"\x00\xff")
            self._pending[DATA + escaped + window_start_ms.to_bytes(SUFFIX_BYTES)] = value
            self._latest_start = window_start_ms
        else:
            self._put_by_start(key, value, window_start_ms)
        if window_start_ms > self._stream_time:
            self._advance_stream_time(window_start_ms)
        self._uncommitted_bytes += len(key) + (8 if value is None else 8 + len(value))
        self._puts += 1  # what is replayed comes by another way
        return True

    def _put_by_start(self, key: bytes, value: bytes | None, start_ms: int) -> None:
        """Have a window pending under its start, if that comes again, or else as a row."""
        if self._is_watched and self._by_start:
            self._gather()
        rows = self._by_start.get(start_ms)
        starts = self._starts
        if rows is not None:
            rows[key] = value
            # One line: no interrupt in between. And then the look at facades, see `read_only`.
            self._newest_rows, self._newest_start = rows, start_ms
            if self._is_watched:
                self._newest_start = None
        elif self._is_watched or (start_ms != self._latest_start and start_ms not in starts):
            self._pending[unnumbered_key(key, start_ms)] = value
            if len(starts) >= _MOST_STARTS:
                starts.clear()
            starts.add(start_ms)
        else:
            self._by_start[start_ms] = {key: value}

    def _advance_stream_time(self, time_ms: int) -> None:
        self._newest_start = None  # it may be too late from now on
        self._stream_time = time_ms
        self._horizon = time_ms - self._retention_ms

    def _gather(self) -> None:
        self._latest_start = None
        self._starts.clear()  # who reads ranges between puts would have to do this each time
        if self._by_start:
            by_start = self._by_start
            self._newest_start = None
            self._take_rows(flat_rows(self._rows, by_start), (min(by_start), max(by_start)))
            self._by_start = {}

    def put_many(
        self, keys: Values[bytes], values: Values[bytes | None], window_starts_ms: Values[int]
    ) -> int:
        self.check_open()
        key_list, value_list = as_list("keys", keys), as_list("values", values)
        starts = as_list("window_starts_ms", window_starts_ms)
        check_lengths(keys=key_list, values=value_list, window_starts_ms=starts)
        check_keys(key_list)
        check_values(value_list)
        distinct = distinct_times("window_starts_ms", starts)
        return self._put_columns(key_list, value_list, starts, distinct)

    def _put_columns(
        self,
        keys: list[bytes],
        values: list[bytes | None],
        starts: list[int],
        distinct: set[int],
    ) -> int:
        """Put columns that were checked, as one where none of it can be too late."""
        bounds = (min(distinct), max(distinct)) if distinct else (0, 0)
        if not distinct or self._has_number or not self._are_accepted(bounds):
            return sum(map(self._put_checked, keys, values, starts))
        joined = b"".join(keys)
        key_bytes = len(joined)
        if len(distinct) > 1 or len(keys) < _FEWEST_AT_ONCE or self._is_watched:
            self._gather()
            if len(distinct) * _OFTEN > len(keys):
                data_keys = [
                    DATA + key.replace(b"\x00", b"\x00\xff") + start_ms.to_bytes(SUFFIX_BYTES)
                    for key, start_ms in zip(keys, starts, strict=True)
                ]
            else:
                data_keys = self._rows.data_keys(keys, starts, joined=joined)
            return self._put_rows(data_keys, values, bounds, key_bytes)
        start_ms = starts[0]
        columns = zip(keys, values, strict=True)
        rows = self._by_start.get(start_ms)
        if rows is None:
            rows = self._by_start[start_ms] = dict(columns)
        else:
            rows.update(columns)
        remembered = self._starts
        if len(remembered) >= _MOST_STARTS and start_ms not in remembered:
            remembered.clear()
        remembered.add(start_ms)
        return self._count_puts(len(keys), values, start_ms, key_bytes)

    def _put_checked(self, key: bytes, value: bytes | None, start_ms: int) -> bool:
        size = len(key) + self._times_bytes
        if not self._rows.has_number:
            self._gather()
            return self._put(unnumbered_key(key, start_ms), value, start_ms, size)
        if value is None:
            self.check_open()
            return False
        data_key = self._rows.data_key(key, start_ms, self._next_sequence)
        accepted = self._put(data_key, value, start_ms, size)
        if accepted:
            self._next_sequence += 1
        return accepted

    # Reads.

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyWindowStore[bytes, bytes]:
        self.check_open()
        if isolation_of(isolation) is Isolation.READ_COMMITTED:
            return CommittedWindows(self, self._engine, self._rows, self._window)
        # In this order, and `put` in the other: no later put is kept from becoming a row.
        self._is_watched = True
        self._newest_start = None
        return UncommittedWindows(
            self, self._engine, self._rows, self._window, self.uncommitted_rows
        )

    def uncommitted_rows(self) -> tuple[PendingRows, int]:
        by_start, stream_time_ms = self._by_start, self._stream_time
        if by_start:
            return PendingWindows(self._rows, by_start, self._pending), stream_time_ms
        return self._pending, stream_time_ms

    # Changes.

    def pending_changes(self) -> Changes:
        if not self._by_start or len(self._pending) > _FEW_ROWS:
            return super().pending_changes()
        # None of them need become a row for that.
        return changes_of(starts_of(self._rows, self._by_start, self._pending))

    def _changes(
        self,
        keys: list[bytes],
        values: Sequence[bytes | None],
        times_ms: list[int],
        numbers: list[int],
    ) -> Changes:
        sequences = numbers if self._rows.has_number else None
        return Changes(keys, values, times_ms, sequences=sequences)

    def _checked_columns(
        self, changes: Changes
    ) -> tuple[list[bytes], list[bytes | None], list[int], list[int]]:
        return columns_of_windows(changes, self.name, has_number=self._has_number)

    # What the common part asks for.

    def _has_pending_writes(self) -> bool:
        return bool(self._by_start or self._pending)

    def _named_rows(self, horizon_ms: int) -> tuple[RetainedBatch, int, int]:
        # Of those that come by their keys: if they are only written, they take time and memory.
        self._spans.takes_new = self._engine_gets != self._gets_before
        starts = self._starts_to_commit(horizon_ms)
        if starts is None:
            latest_start, remembered = self._latest_start, self._starts.copy()
            found = super()._named_rows(horizon_ms)
            self._latest_start, self._starts = latest_start, remembered  # a commit ends no window
            return found
        columns, keys, values = columns_of(self._rows, starts)
        progress = self._progress
        index, next_group, lowest = self._naming.index_of(
            columns,
            self._uncommitted_bytes,
            horizon_ms,
            progress.stream_time_ms,
            progress.next_group,
        )
        batch = ColumnRows(keys, values)
        batch.update(index)
        return batch, next_group, lowest

    def _starts_to_commit(self, horizon_ms: int) -> RowsByStart | None:
        """Return visible rows by their starts.

        ``None`` if they are not worth it, or windows are deleted.
        """
        if not self._by_start or len(self._pending) > _FEW_ROWS:
            return None
        starts = starts_of(self._rows, self._by_start, self._pending, horizon_ms)
        if not self._naming.has_groups_for(sum(map(len, starts.values()))):
            return None
        return None if any(None in rows.values() for rows in starts.values()) else starts

    def _forget_pending(self, *, committed: bool) -> None:
        self._newest_start = None
        self._by_start = {}
        self._gets_before = self._engine_gets
        super()._forget_pending(committed=committed)

    def _close_pending(self, closed: ClosedRows) -> None:
        self._newest_start = None
        self._by_start = closed
        super()._close_pending(closed)

    def _take_note_of(self, numbers: list[int]) -> None:
        self._next_sequence = max(self._next_sequence, max(numbers, default=-1) + 1)
