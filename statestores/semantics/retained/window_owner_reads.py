"""What the owner of a window store reads from memory: pending rows, and committed ones by start.

A range of one key is read like that where all rows are known (`named_spans`), which are those of
the newest windows. Where some would have to come from the engine, its seek is most of a short
range, and it is asked for all of them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable
from typing import Any, ClassVar, cast

from statestores.semantics.every_kind.arguments import (
    MAX_TIME_MS,
    check_key,
    check_reverse,
    check_time,
)
from statestores.semantics.every_kind.engine_store import FEW_ROWS
from statestores.semantics.retained.named_starts import NOT_KEPT
from statestores.semantics.retained.owner_reads import ABSENT
from statestores.semantics.retained.rows import SUFFIX_BYTES, unnumbered_key, unpack_time_from
from statestores.semantics.retained.rows_by_start import RowsByStart
from statestores.semantics.retained.store import EngineRetainedStore
from statestores.semantics.retained.window_reads import WindowReads
from statestores.semantics.rows.layout import DATA
from statestores.spi.records import WindowRecord, new_tuple

_MOST_STARTS = 64
"""With more starts in a range, or pending, the engine finds those that a key has faster."""

_TIME_AT = -8
"""Where the time of a row without a number begins."""


class OwnerWindowReads(EngineRetainedStore, WindowReads):
    """The reads of a window store by its owner."""

    _few_fetched: ClassVar[int] = FEW_ROWS
    _has_number: bool
    _by_start: RowsByStart
    _committed: dict[int, dict[bytes, bytes | None]]
    """Committed rows by the span of their start, without those that have expired."""

    _by_committed_start: RowsByStart
    """Others by their start and key."""

    _committed_starts: list[int]
    """The starts of these, ascending."""

    _span_ms: int

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:  # noqa: C901  # a call is a tenth
        if type(key) is not bytes or type(start_ms) is not int or not 0 <= start_ms <= MAX_TIME_MS:
            check_key(key)
            check_time("start_ms", start_ms)
        if self._has_number:
            return super().fetch(key, start_ms)
        # `_visible_value`, written out: its calls are a tenth of a fetch. A store that is closed
        # refuses to say whether something is pending.
        found, data_key = None, b""
        if self._by_start and start_ms in self._by_start and key in self._by_start[start_ms]:
            found = self._by_start[start_ms][key]
        elif self._pending and (data_key := unnumbered_key(key, start_ms)) in self._pending:
            found = self._pending[data_key]
        elif start_ms > self._horizon:
            if start_ms in self._by_committed_start:
                found = self._by_committed_start[start_ms].get(key, NOT_KEPT)
                if found is not NOT_KEPT:
                    return found
            if not data_key:
                data_key = (
                    DATA + key.replace(b"\x00", b"\x00\xff") + start_ms.to_bytes(SUFFIX_BYTES)
                )
            if self._committed:
                rows = self._committed.get(start_ms // self._span_ms)
                found = rows.get(data_key, NOT_KEPT) if rows else NOT_KEPT
                if found is not NOT_KEPT:
                    return found
            self._engine_gets += 1
            return self._engine_get(data_key)
        if start_ms > self._horizon:
            return found
        self._below_horizon += 1
        return None

    def _known_values(
        self, keys: list[bytes], data_keys: list[bytes], times_ms: list[int]
    ) -> list[Any] | None:
        found = super()._known_values(keys, data_keys, times_ms)
        nothing: dict[bytes, bytes | None] = {}
        if (by_start := self._by_start) and found is not None:
            rows = [by_start.get(start_ms, nothing) for start_ms in times_ms]
            found = [
                waiting.get(key, each) for waiting, key, each in zip(rows, keys, found, strict=True)
            ]
        if self._committed or self._by_committed_start:
            kept: list[Any] = self._spans.kept_values(keys, data_keys, times_ms)
            kept = [ABSENT if each is NOT_KEPT else each for each in kept]
            if found is None:
                return kept
            found = [
                other if each is ABSENT else each for each, other in zip(found, kept, strict=True)
            ]
        return found

    def _records_of(
        self, key: bytes, first_ms: int | None, last_ms: int | None, *, reverse: bool
    ) -> Generator[WindowRecord[bytes, bytes], None, None]:
        low_ms = self._horizon + 1
        if first_ms is not None and first_ms > low_ms:
            low_ms = first_ms
        elif low_ms < 0:
            low_ms = 0
        # A store that is closed refuses to say how many starts wait.
        if low_ms < self._spans.whole_from_ms or len(self._by_start) > _MOST_STARTS:
            return super()._records_of(key, first_ms, last_ms, reverse=reverse)
        high_ms = MAX_TIME_MS if last_ms is None else last_ms
        starts = self._committed_starts
        first, last = bisect_left(starts, low_ms), bisect_right(starts, high_ms)
        if high_ms < low_ms or last - first > _MOST_STARTS:
            return super()._records_of(key, first_ms, last_ms, reverse=reverse)
        if reverse is not False:
            check_reverse(reverse)
        found: list[tuple[int, bytes]] = []
        committed = self._by_committed_start
        for start_ms in starts[first:last]:
            value = committed[start_ms].get(key)
            if value is not None:
                found.append((start_ms, value))
        if self._pending or self._by_start:
            found = self._with_pending(key, low_ms, high_ms, found)
        if reverse:
            found.reverse()
        return self._records_found(key, found)

    def _with_pending(
        self, key: bytes, low_ms: int, high_ms: int, found: list[tuple[int, bytes]]
    ) -> list[tuple[int, bytes]]:
        """Return starts and values *found* of *key* within both times, with what is pending."""
        newest: dict[int, bytes | None] = dict(found)
        if self._pending:
            prefix = DATA + key.replace(b"\x00", b"\x00\xff")
            start = prefix + low_ms.to_bytes(SUFFIX_BYTES)
            stop = prefix + (high_ms + 1).to_bytes(SUFFIX_BYTES)
            rows = self._of_keys.slice(prefix, start, stop, reverse=False)
            if rows is None:
                rows = self._buffer.slice(start, stop, reverse=False)
            for data_key, value in rows:
                newest[unpack_time_from(data_key, _TIME_AT)[0]] = value
        for start_ms, waiting in self._by_start.items():
            if low_ms <= start_ms <= high_ms and key in waiting:
                newest[start_ms] = waiting[key]
        return [
            (start_ms, value) for start_ms, value in sorted(newest.items()) if value is not None
        ]

    def _records_found(
        self, key: bytes, found: Iterable[tuple[int, bytes]]
    ) -> Generator[WindowRecord[bytes, bytes], None, None]:
        """Yield the windows of *key* with the starts and values *found*, while it is open."""
        size_ms, new = self._window_size_ms, new_tuple
        record = cast("type[WindowRecord[bytes, bytes]]", WindowRecord)
        for start_ms, value in found:
            if not self._open:
                self.check_open()
            end_ms = start_ms + size_ms
            if end_ms > MAX_TIME_MS:  # noqa: PLR1730  # a call costs a tenth
                end_ms = MAX_TIME_MS
            yield new(record, (key, start_ms, end_ms, value))
        self.check_open()
