"""Aggregates by window: what windows of all kinds share, and tumbling and hopping ones."""

from abc import abstractmethod
from typing import Any

from statestores.processing.change import Change
from statestores.processing.operators.fold import Fold
from statestores.processing.operators.operator import Operator, TaskServices
from statestores.processing.operators.tables import Lookup, MakeLookup
from statestores.processing.record import Headers, Record
from statestores.processing.serdes import time_bytes
from statestores.processing.stores import key_serde
from statestores.processing.windows import Emission, SlidingWindows, TimeWindows, Windows
from statestores.serdes import raw
from statestores.serdes.windowed_serde import Windowed
from statestores.spi import Session, TimestampedValue, Window


class WindowedOperator(Operator):
    """Observes time, drops what is without key or value, and closes windows.

    What a window gives when it is closed comes out before the record that closes it is added: so no
    store has let go of it yet, however far stream time has jumped (PRC-22).
    """

    def __init__(
        self, windows: Windows, fold: Fold, emission: Emission, store: str, pending: str | None
    ) -> None:
        """Fold by *fold* into *store*; *pending* holds the windows that are not closed yet."""
        self.windows = windows
        self.fold = fold
        self.emission = emission
        self.store = store
        self.pending = pending

    def open(self, task: TaskServices) -> None:
        """Take the stores and the time."""
        self._task = task
        self._store = task.store(self.store)
        serde = self._store.specification.key
        self._key = raw if serde is None else serde
        # By the store: cogrouped streams have one, and close its windows together.
        self._time = task.observed_time(self.store)
        self._drop = task.drop
        self._queue = None if self.pending is None else task.time_queue(self.pending)
        if self.emission.idle_ms is not None:
            task.on_wall_clock(self._when_idle)

    def receive(self, item: Record[Any, Any]) -> None:
        """Move time on, close what it closes, add the record."""
        key, value, time_ms, _ = item
        if key is None:
            self._drop(self.name, "null-key", item)
            return
        observed = self._time
        observed.now_ms = max(observed.now_ms, time_ms)
        observed.arrived_ms = self._task.wall_ms
        if self._queue is not None:
            self._close(observed.now_ms)
        if value is not None and self.fold.select is not None:
            value = self.fold.select(item)
        if value is None:
            self._drop(self.name, "null-value", item)
            return
        self.add(item, value, observed.now_ms)

    @abstractmethod
    def add(self, item: Record[Any, Any], value: Any, now_ms: int) -> None:
        """Fold *value* into the windows that *item* is in and that are open at *now_ms*."""

    @abstractmethod
    def end_of(self, queued_ms: int) -> int:
        """Return the end of the window that is queued at a time."""

    @abstractmethod
    def give_out(self, queued_ms: int, name: bytes) -> None:
        """Forward the result of a window that is closed."""

    def _close(self, now_ms: int) -> None:
        queue = self._queue
        if queue is None or self.windows.closes_after_ms(self.end_of(queue.head_ms)) >= now_ms:
            return
        spread = self.windows.closes_after_ms(self.end_of(0))
        for queued_ms, name, _ in queue.pop_until(now_ms - spread - 1):
            self.give_out(queued_ms, name)

    def _when_idle(self, wall_ms: int) -> None:
        """Close everything when nothing has come for long enough."""
        idle_ms, observed, queue = self.emission.idle_ms, self._time, self._queue
        if idle_ms is None or queue is None or wall_ms - observed.arrived_ms < idle_ms:
            return
        last_ms = queue.last_ms()
        if last_ms is not None:
            closing_ms = self.windows.closes_after_ms(self.end_of(last_ms)) + 1
            observed.now_ms = max(observed.now_ms, closing_ms)
            self._close(observed.now_ms)

    def _result(self, aggregate: Any) -> Any:
        result = self.fold.result
        return aggregate if result is None or aggregate is None else result(aggregate)


class StampedWindows(WindowedOperator):
    """Windows of a fixed length, in a window store of stamped values; queued by their starts."""

    windows: TimeWindows | SlidingWindows

    def open(self, task: TaskServices) -> None:
        """Take the store's methods, once."""
        super().open(task)
        self._fetch, self._put = self._store.fetch, self._store.put
        self._size_ms = self.windows.store_size_ms

    def end_of(self, queued_ms: int) -> int:
        """Return the start and the length."""
        return queued_ms + self.windows.store_size_ms

    def give_out(self, queued_ms: int, name: bytes) -> None:
        """Forward what the store has of the window."""
        key = self._key.decode(name)
        stored = self._fetch(key, queued_ms)
        if stored is not None:
            window = Windowed(key, queued_ms, queued_ms + self._size_ms)
            self.forward(Change(window, self._result(stored[0]), None, stored[1]))

    def update(
        self,
        key: Any,
        start_ms: int,
        stored: TimestampedValue[Any] | None,
        value: Any,
        time_ms: int,
        headers: Headers,
    ) -> None:
        """Fold *value* into the window of *key* that holds *stored*."""
        old = None
        if stored is None:
            new = self.fold.add(self.fold.initial(), value)
            self._enqueue(key, start_ms)
        else:
            old, seen_ms = stored
            new = self.fold.add(old, value)
            if seen_ms is not None and seen_ms > time_ms:
                time_ms = seen_ms
        self.keep(key, start_ms, new, old, time_ms, headers)

    def keep(
        self, key: Any, start_ms: int, new: Any, old: Any, time_ms: int, headers: Headers
    ) -> None:
        """Store an aggregate, and forward it if updates come out."""
        stamped = None if new is None else TimestampedValue(new, time_ms)
        self._put(key, stamped, start_ms)
        if self._queue is None:
            window = Windowed(key, start_ms, start_ms + self._size_ms)
            self.forward(Change(window, self._result(new), self._result(old), time_ms, headers))

    def _enqueue(self, key: Any, start_ms: int) -> None:
        if self._queue is not None:
            self._queue.put(start_ms, self._key.encode(key), b"")


class TimeWindowed(StampedWindows):
    """Tumbling and hopping windows."""

    windows: TimeWindows

    def add(self, item: Record[Any, Any], value: Any, now_ms: int) -> None:
        """Fold it into each open window that it is in, the earliest first."""
        key, _, time_ms, headers = item
        first_open_ms = now_ms - self.windows.closes_after_ms(self._size_ms)
        for start_ms in self.windows.starts(time_ms):
            if start_ms < first_open_ms:
                self._drop(self.name, "late", item)
            else:
                self.update(key, start_ms, self._fetch(key, start_ms), value, time_ms, headers)


def window_lookup(store: Window[Any, Any] | Session[Any, Any], pending: str | None) -> MakeLookup:
    """Return what finds the windows of *store* that have come out: none that is *pending* still."""
    is_session, serde = isinstance(store, Session), key_serde(store)

    def make(task: TaskServices) -> Lookup:
        kept = task.store(store.name)
        queue = None if pending is None else task.time_queue(pending)

        def look(key: Windowed[Any]) -> TimestampedValue[Any] | None:
            inner, start_ms, end_ms = key.key, key.start_ms, key.end_ms
            if is_session:
                aggregate = kept.fetch_session(inner, start_ms, end_ms)
                found = None if aggregate is None else TimestampedValue(aggregate, end_ms)
                queued_ms, name = end_ms, time_bytes(start_ms)
            else:
                found = kept.fetch(inner, start_ms)
                queued_ms, name = start_ms, b""
            if found is None or queue is None:
                return found
            return found if queue.get(queued_ms, name + serde.encode(inner)) is None else None

        return look

    return make
