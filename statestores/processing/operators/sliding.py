"""Sliding windows: one for each set of records of a key that are close enough (KIP-450).

A record at ``t`` is the last of the window ``[t - d, t]``, and begins the window ``(t, t + d]``.
A window exists as soon as there is a record in it.
"""

from typing import Any

from statestores.processing.operators.windowed import StampedWindows
from statestores.processing.record import Headers, Record
from statestores.processing.windows import SlidingWindows
from statestores.spi import TimestampedValue, WindowRecord


class SlidingWindowed(StampedWindows):
    """Sliding windows of each key, each with its aggregate and the highest time in it."""

    windows: SlidingWindows

    def add(self, item: Record[Any, Any], value: Any, now_ms: int) -> None:
        """Fold it into the windows that it is in, and make those that begin to exist."""
        key, _, time_ms, headers = item
        size_ms = self._size_ms
        if self.windows.closes_after_ms(time_ms + size_ms) < now_ms:
            self._drop(self.name, "late", item)
            return
        self._item, self._value, self._now_ms = item, value, now_ms
        found: list[WindowRecord[Any, TimestampedValue[Any]]] = list(
            self._store.fetch_range(key, max(0, time_ms - 2 * size_ms), time_ms + 1, reverse=True)
        )
        if time_ms < size_ms:
            self._add_early(key, time_ms, headers, found)
        else:
            self._add_usual(key, time_ms, headers, found)

    def _add_usual(
        self,
        key: Any,
        time_ms: int,
        headers: Headers,
        found: list[WindowRecord[Any, TimestampedValue[Any]]],
    ) -> None:
        size_ms = self._size_ms
        after: TimestampedValue[Any] | None = None
        before: TimestampedValue[Any] | None = None
        previous_ms: int | None = None
        has_own = False
        starts = set()
        for window in found:  # the latest first
            starts.add(window.start_ms)
            end_ms = window.start_ms + size_ms
            if window.start_ms > time_ms:
                continue
            if end_ms < time_ms:
                before, previous_ms = window.value, window.value.timestamp_ms
                break
            self._update(key, window.start_ms, window.value, headers)
            if end_ms > time_ms:
                after = after or window.value
                continue
            has_own, previous_ms = True, window.value.timestamp_ms
            if previous_ms is not None and previous_ms >= time_ms:
                return  # a record of this very time has made all windows
        if previous_ms is not None:
            start_ms = previous_ms + 1
            if start_ms not in starts and start_ms + size_ms >= time_ms:
                self._update(key, start_ms, None, headers)
                starts.add(start_ms)
        if not has_own:
            own_ms = time_ms - size_ms
            in_reach = previous_ms is not None and own_ms <= previous_ms
            inherited = before if in_reach else None
            self._make(key, own_ms, inherited, headers, is_there=own_ms in starts)
        if time_ms + 1 not in starts:
            self._make_right(key, time_ms, after, headers)

    def _add_early(
        self,
        key: Any,
        time_ms: int,
        headers: Headers,
        found: list[WindowRecord[Any, TimestampedValue[Any]]],
    ) -> None:
        """Add a record before the first whole window: those share the window from 0."""
        starts = {window.start_ms for window in found}
        shared: TimestampedValue[Any] | None = None
        after: TimestampedValue[Any] | None = None
        previous_ms: int | None = None
        for window in reversed(found):
            if window.start_ms == 0:
                shared = window.value
                if (shared.timestamp_ms or 0) < time_ms:
                    previous_ms = shared.timestamp_ms
            elif window.start_ms <= time_ms:
                after = window.value
                self._update(key, window.start_ms, window.value, headers)
        if after is None and shared is not None and (shared.timestamp_ms or 0) > time_ms:
            after = shared
        if time_ms + 1 not in starts:
            self._make_right(key, time_ms, after, headers)
        if previous_ms is not None and previous_ms + 1 not in starts:
            self._update(key, previous_ms + 1, None, headers)
        self._update(key, 0, shared, headers)

    def _update(
        self, key: Any, start_ms: int, stored: TimestampedValue[Any] | None, headers: Headers
    ) -> None:
        """Fold the value into a window, if that is open."""
        end_ms = start_ms + self._size_ms
        if self.windows.closes_after_ms(end_ms) < self._now_ms:
            self._drop(self.name, "late", self._item)
        else:
            self.update(key, start_ms, stored, self._value, self._item.time_ms, headers)

    def _make(
        self,
        key: Any,
        start_ms: int,
        inherited: TimestampedValue[Any] | None,
        headers: Headers,
        *,
        is_there: bool,
    ) -> None:
        """Make the window that ends with the record; it begins with what is in reach before.

        One that *is_there* was made as that after the record before. It comes out again, as in
        Kafka Streams, and says that it was so.
        """
        made = self._fetch(key, start_ms) if is_there else None
        if made is not None:
            self.keep(key, start_ms, made[0], made[0], made[1] or 0, headers)
            return
        if inherited is None:
            self._update(key, start_ms, None, headers)
        elif self.windows.closes_after_ms(start_ms + self._size_ms) < self._now_ms:
            self._drop(self.name, "late", self._item)
        else:
            new = self.fold.add(inherited.value, self._value)
            self._enqueue(key, start_ms)
            self.keep(key, start_ms, new, None, self._item.time_ms, headers)

    def _make_right(
        self, key: Any, time_ms: int, after: TimestampedValue[Any] | None, headers: Headers
    ) -> None:
        """Make the window that begins just after the record, of what comes after it."""
        if after is not None and (after.timestamp_ms or 0) > time_ms:
            self._enqueue(key, time_ms + 1)
            self.keep(key, time_ms + 1, after.value, None, after.timestamp_ms or 0, headers)
