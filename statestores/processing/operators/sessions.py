"""Session windows: records that come close enough become one, and a record may join two."""

from typing import TYPE_CHECKING, Any, cast

from statestores.processing.change import Change
from statestores.processing.operators.operator import TaskServices
from statestores.processing.operators.windowed import WindowedOperator
from statestores.processing.record import Record
from statestores.processing.serdes import time_bytes
from statestores.processing.stores import value_serde
from statestores.processing.windows import SessionWindows
from statestores.serdes import float64, int64, int64_sorted, raw, utf8
from statestores.serdes.windowed_serde import Windowed
from statestores.spi import SessionRecord

if TYPE_CHECKING:
    from collections.abc import Callable

_FIXED = (float64, int64, int64_sorted, raw, utf8)
"""Serdes of values that nothing changes in place."""


class SessionWindowed(WindowedOperator):
    """Sessions of each key, in a session store; queued by their ends, then by their starts."""

    windows: SessionWindows

    def open(self, task: TaskServices) -> None:
        """Take the merger."""
        super().open(task)
        self._merge = cast("Callable[[Any, Any], Any]", self.fold.merge)
        serde = value_serde(self._store.specification)
        self._encode, self._decode = serde.encode, serde.decode
        # A function may change in place what it is given, and what it was is told afterwards.
        self._is_told_of_copies = self._queue is None and not any(serde is each for each in _FIXED)

    def end_of(self, queued_ms: int) -> int:
        """Return the end: sessions are queued by it."""
        return queued_ms

    def give_out(self, queued_ms: int, name: bytes) -> None:
        """Forward what the store has of the session."""
        start_ms, key = int.from_bytes(name[:8], "big"), self._key.decode(name[8:])
        aggregate = self._store.fetch_session(key, start_ms, queued_ms)
        if aggregate is not None:
            window = Windowed(key, start_ms, queued_ms)
            self.forward(Change(window, self._result(aggregate), None, queued_ms))

    def add(self, item: Record[Any, Any], value: Any, now_ms: int) -> None:
        """Merge the open sessions within the gap, and add the record to what they become."""
        key, _, time_ms, headers = item
        gap_ms, closes_after_ms = self.windows.gap_ms, self.windows.closes_after_ms
        start_ms = end_ms = time_ms
        aggregate = self.fold.initial()
        merged = []
        for session in self._store.find_sessions(key, max(0, time_ms - gap_ms), time_ms + gap_ms):
            if closes_after_ms(session.end_ms) >= now_ms:
                merged.append(self._copied(session) if self._is_told_of_copies else session)
                start_ms, end_ms = min(start_ms, session.start_ms), max(end_ms, session.end_ms)
                aggregate = self._merge(aggregate, session.value)
        if closes_after_ms(end_ms) < now_ms:
            self._drop(self.name, "late", item)
            return
        aggregate = self.fold.add(aggregate, value)
        self._store.put(key, start_ms, end_ms, aggregate)  # what fails by now has merged nothing
        if (start_ms, end_ms) != (time_ms, time_ms):
            for session in merged:
                is_same = (session.start_ms, session.end_ms) == (start_ms, end_ms)
                if not is_same:
                    self._store.remove(key, session.start_ms, session.end_ms)
                self._forget(key, session.start_ms, session.end_ms, session.value, item)
            old = None
        else:
            old = merged[0].value if merged else None
        if self._queue is not None:
            self._queue.put(end_ms, time_bytes(start_ms) + self._key.encode(key), b"")
        else:
            new, before = self._result(aggregate), self._result(old)
            window = Windowed(key, start_ms, end_ms)
            self.forward(Change(window, new, before, end_ms, headers))

    def _copied(self, session: SessionRecord[Any, Any]) -> SessionRecord[Any, Any]:
        return session._replace(value=self._decode(self._encode(session.value)))

    def _forget(
        self, key: Any, start_ms: int, end_ms: int, aggregate: Any, item: Record[Any, Any]
    ) -> None:
        """Let go of a session that has become a part of another."""
        if self._queue is not None:
            self._queue.remove(end_ms, time_bytes(start_ms) + self._key.encode(key))
        else:
            window = Windowed(key, start_ms, end_ms)
            self.forward(Change(window, None, self._result(aggregate), end_ms, item.headers))
