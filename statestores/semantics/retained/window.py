"""The window store over an engine, and its facades: rows whose time is the window's start."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, ClassVar, cast

from statestores.errors import InvalidArgumentError
from statestores.semantics.every_kind.arguments import (
    MAX_TIME_MS,
    check_key,
    check_key_range,
    check_keys,
    check_lengths,
    check_time,
    check_time_range,
    check_times,
    check_value,
    check_values,
    isolation_of,
)
from statestores.semantics.every_kind.engine_store import EngineStore
from statestores.semantics.retained.reads import (
    CommittedRetained,
    RetainedReads,
    Uncommitted,
    UncommittedRetained,
    new_record,
)
from statestores.semantics.retained.rows import (
    SUFFIX_BYTES,
    RetainedRows,
    Row,
    unnumbered_key,
    unpack_time_from,
)
from statestores.semantics.retained.store import EngineRetainedStore, times_of
from statestores.semantics.rows.layout import DATA
from statestores.semantics.rows.row_cache import DEFAULT_READ_CACHE_BYTES
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine
from statestores.spi.records import Changes, WindowRecord
from statestores.spi.stores.store import Isolation, Values
from statestores.spi.stores.window import ReadOnlyWindowStore, WindowStore
from statestores.spi.values import as_list
from statestores.spi.window_specification import Window


class WindowReads(RetainedReads, ReadOnlyWindowStore[bytes, bytes]):
    """The reads of a window store, for the owner and for facades alike."""

    _window_size_ms: int

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        if type(key) is not bytes:
            check_key(key)
        if type(start_ms) is not int or not 0 <= start_ms <= MAX_TIME_MS:
            check_time("start_ms", start_ms)
        if not self._rows.has_number:
            return self._visible_value(unnumbered_key(key, start_ms), start_ms)
        rows = self._visible_rows(key, key, start_ms, start_ms, reverse=True)
        return next((value for _, value in rows), None)

    def fetch_range(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[WindowRecord[bytes, bytes]]:
        if type(key) is not bytes:
            check_key(key)
        check_time_range(first_ms, last_ms)
        rows = self._visible_rows(key, key, first_ms, last_ms, reverse=reverse)
        return self._owner.count_iterator(self._records(rows, key))

    def fetch_all(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[WindowRecord[bytes, bytes]]:
        check_time_range(first_ms, last_ms)
        check_key_range(first_key, last_key)
        rows = self._visible_rows(first_key, last_key, first_ms, last_ms, reverse=reverse)
        return self._owner.count_iterator(self._records(rows))

    def _records(
        self, rows: Iterable[Row], key: bytes | None = None
    ) -> Generator[WindowRecord[bytes, bytes], None, None]:
        """Yield *rows*, which are of *key* if it is given, as long as the store is open."""
        owner, of, size_ms = self._owner, self._rows, self._window_size_ms
        key_of, time_at, time_of = of.key_of, -of.time_from_end, unpack_time_from
        new, at_most = new_record, MAX_TIME_MS
        record = cast("type[WindowRecord[bytes, bytes]]", WindowRecord)
        for data_key, value in rows:
            if not owner._open:  # noqa: SLF001  # `is_open` is a call, for each row
                owner.check_open()
            (start_ms,) = time_of(data_key, time_at)
            end_ms = start_ms + size_ms
            if end_ms > at_most:  # noqa: PLR1730  # a call costs a tenth
                end_ms = at_most
            yield new(record, (key or key_of(data_key), start_ms, end_ms, value))
        owner.check_open()


class CommittedWindows(CommittedRetained, WindowReads):
    """A window store as its last commit left it."""

    def __init__(
        self,
        store: EngineStore[Any, Any],
        engine: Engine,
        rows: RetainedRows,
        specification: Window[Any, Any],
    ) -> None:
        super().__init__(store, engine, rows, specification.retention_ms)
        self._window_size_ms = specification.window_size_ms


class UncommittedWindows(UncommittedRetained, WindowReads):
    """A window store with the writer's pending windows."""

    def __init__(
        self,
        store: EngineStore[Any, Any],
        engine: Engine,
        rows: RetainedRows,
        specification: Window[Any, Any],
        uncommitted: Uncommitted,
    ) -> None:
        super().__init__(store, engine, rows, specification.retention_ms, uncommitted)
        self._window_size_ms = specification.window_size_ms


class EngineWindowStore(EngineRetainedStore, WindowReads, WindowStore[bytes, bytes]):
    """A window store of bytes over any engine."""

    _times_bytes: ClassVar[int] = 8

    def __init__(
        self,
        engine: Engine,
        specification: Window[bytes, bytes],
        durability: Durability,
        memory_bytes: int = DEFAULT_READ_CACHE_BYTES,
    ) -> None:
        """Remember names of rows in up to *memory_bytes*."""
        has_number = specification.retain_duplicates
        rows = RetainedRows(has_number=has_number)
        # A duplicate is a row of its own, which is put once.
        remembered_bytes = None if has_number else memory_bytes
        retention_ms = specification.retention_ms
        super().__init__(engine, specification, durability, rows, retention_ms, remembered_bytes)
        self._window = specification
        self._window_size_ms = specification.window_size_ms

    # Writes.

    def put(self, key: bytes, value: bytes | None, window_start_ms: int) -> bool:
        if type(key) is not bytes:
            check_key(key)
        if value is not None and type(value) is not bytes:
            check_value(value)
        if type(window_start_ms) is not int or not 0 <= window_start_ms <= MAX_TIME_MS:
            check_time("window_start_ms", window_start_ms)
        if self._rows.has_number:
            return self._put_checked(key, value, window_start_ms)
        # `_put_checked`, written out: its calls are a third of a put.
        if window_start_ms <= self._horizon:
            self.check_open()
            self._dropped += self._put_step
            return False
        data_key = DATA + key.replace(b"\x00", b"\x00\xff") + window_start_ms.to_bytes(SUFFIX_BYTES)
        self._pending[data_key] = value
        if window_start_ms > self._stream_time:
            self._advance_stream_time(window_start_ms)
        size = len(key) + self._times_bytes
        self._uncommitted_bytes += size if value is None else size + len(value)
        self._puts += self._put_step
        return True

    def put_many(
        self, keys: Values[bytes], values: Values[bytes | None], window_starts_ms: Values[int]
    ) -> int:
        self.check_open()
        key_list, value_list = as_list("keys", keys), as_list("values", values)
        starts = as_list("window_starts_ms", window_starts_ms)
        check_lengths(keys=key_list, values=value_list, window_starts_ms=starts)
        check_keys(key_list)
        check_values(value_list)
        check_times("window_starts_ms", starts)
        return self._put_columns(key_list, value_list, starts)

    def _put_columns(self, keys: list[bytes], values: list[bytes | None], starts: list[int]) -> int:
        """Put columns that were checked, as one where none of it can be too late."""
        if self._rows.has_number or not self._takes_all(starts):
            return sum(map(self._put_checked, keys, values, starts))
        data_keys = [
            DATA + key.replace(b"\x00", b"\x00\xff") + start_ms.to_bytes(SUFFIX_BYTES)
            for key, start_ms in zip(keys, starts, strict=True)
        ]
        return self._put_rows(data_keys, values, starts, sum(map(len, keys)))

    def _put_checked(self, key: bytes, value: bytes | None, start_ms: int) -> bool:
        size = len(key) + self._times_bytes
        if not self._rows.has_number:
            return self._put(unnumbered_key(key, start_ms), value, start_ms, size)
        if value is None:
            self.check_open()
            return False
        data_key = self._rows.data_key(key, start_ms, self._next_sequence)
        accepted = self._put(data_key, value, start_ms, size)
        if accepted:
            self._next_sequence += 1
        return accepted

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyWindowStore[bytes, bytes]:
        self.check_open()
        if isolation_of(isolation) is Isolation.READ_COMMITTED:
            return CommittedWindows(self, self._engine, self._rows, self._window)
        return UncommittedWindows(
            self, self._engine, self._rows, self._window, self.uncommitted_rows
        )

    # Changes.

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
        keys, values = as_list("keys", changes.keys), as_list("values", changes.values)
        check_keys(keys)
        check_values(values)
        starts = times_of("times_ms", self.name, changes.times_ms)
        if changes.end_times_ms is not None:
            raise InvalidArgumentError(
                f"the changes carry the ends of sessions, and {self.name!r} is a window store"
            )
        if not self._rows.has_number:
            if changes.sequences is not None:
                raise InvalidArgumentError(
                    f"the changes carry sequences, and {self.name!r} retains no duplicates"
                )
            check_lengths(keys=keys, values=values, times_ms=starts)
            return keys, values, starts, []
        carried = changes.sequences if keys else []
        sequences = times_of("sequences", self.name, carried)
        check_lengths(keys=keys, values=values, times_ms=starts, sequences=sequences)
        if None in values:
            raise InvalidArgumentError(
                f"the changes carry a deletion, and {self.name!r} retains duplicates: it has none"
            )
        return keys, values, starts, sequences

    def _take_note_of(self, numbers: list[int]) -> None:
        self._next_sequence = max(self._next_sequence, max(numbers, default=-1) + 1)
