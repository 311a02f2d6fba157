"""Joins of a stream with a table: each record with the row that its key has, or had then."""

from collections.abc import Callable
from typing import Any

from statestores.processing.operators.operator import Operator, TaskServices
from statestores.processing.operators.tables import Lookup, MakeLookup, stored_lookup
from statestores.processing.record import Record
from statestores.processing.serdes import RecordCodec, encoded, time_bytes


class StreamTableJoin(Operator):
    """Joins with the current row; records without value, or without key if inner, are dropped."""

    def __init__(
        self,
        joiner: Callable[[Any, Any], Any],
        table: MakeLookup,
        *,
        is_left_join: bool,
        key: Callable[[Record[Any, Any]], Any] | None = None,
    ) -> None:
        """Join with the rows of *table*, under the key that *key* takes from a record."""
        self.joiner = joiner
        self.table = table
        self.is_left_join = is_left_join
        self.key = key

    def open(self, task: TaskServices) -> None:
        """Take the lookup."""
        self._look: Lookup = self.table(task)
        self._drop, self._fail_one = task.drop, task.fail_one

    def receive(self, item: Record[Any, Any]) -> None:
        """Join it now."""
        if self.can_join(item):
            self.join(item)

    def can_join(self, item: Record[Any, Any]) -> bool:
        """Whether there is something to join; what there is not is dropped."""
        if item.value is None:
            self._drop(self.name, "null-value", item)
        elif item.key is None and self.key is None and not self.is_left_join:
            self._drop(self.name, "null-key", item)
        else:
            return True
        return False

    def join(self, item: Record[Any, Any]) -> None:
        """Give on the record with its row."""
        key = item.key if self.key is None else self.key(item)
        if key is None and not self.is_left_join:
            self._drop(self.name, "null-key", item)
            return
        row = None if key is None else self.row(key, item.time_ms)
        if row is not None or self.is_left_join:
            self.forward(item.with_value(self.joiner(item.value, row)))

    def row(self, key: Any, time_ms: int) -> Any:
        """Return the value of the current row."""
        found = self._look(key)
        return None if found is None else found[0]


class AsOfJoin(StreamTableJoin):
    """Joins with the row that was valid at the record's time, after waiting for late rows.

    A record waits until the stream has come *wait_ms* past it, or not at all if it already has.
    """

    def __init__(
        self,
        joiner: Callable[[Any, Any], Any],
        store: str,
        codec: RecordCodec,
        *,
        is_left_join: bool,
        wait_ms: int,
        waiting: str | None,
        key: Callable[[Record[Any, Any]], Any] | None = None,
        derived: MakeLookup | None = None,
    ) -> None:
        """Join with the versioned store *store*; records wait in the store *waiting*.

        *derived* looks up rows that are made of the store's; by default they are the store's own.
        """
        table = stored_lookup(store, versioned=True) if derived is None else derived
        super().__init__(joiner, table, is_left_join=is_left_join, key=key)
        self.is_derived = derived is not None
        self.store = store
        self.codec = codec
        self.wait_ms = wait_ms
        self.waiting = waiting

    def open(self, task: TaskServices) -> None:
        """Take the stores and the time."""
        super().open(task)
        self._time = task.observed_time(self.name)
        self._queue = None if self.waiting is None else task.time_queue(self.waiting)
        if self.waiting is not None:
            self._numbers = task.store(self.waiting)

    def row(self, key: Any, time_ms: int) -> Any:
        """Return the value of the version that was valid then."""
        found = self._look(key, time_ms)
        return None if found is None else found[0]

    def receive(self, item: Record[Any, Any]) -> None:
        """Join it now, or let it wait; join those whose wait is over."""
        queue, observed = self._queue, self._time
        if queue is None:
            super().receive(item)
            return
        if not self.can_join(item):
            return
        if item.key is None or item.time_ms < observed.now_ms - self.wait_ms:
            self.join(item)
            return
        observed.now_ms = max(observed.now_ms, item.time_ms)
        name = encoded(self.codec.key, item.key) or b""
        queue.put(item.time_ms, name + time_bytes(self._next_number()), self.codec.encode(item))
        for _, _, content in queue.pop_until(observed.now_ms - self.wait_ms):
            try:
                self.join(self.codec.decode(content)[0])
            except Exception as error:  # noqa: BLE001  # the others have left the queue as well
                self._fail_one(self.name, error)

    def _next_number(self) -> int:
        """Return a number above those of all records that have waited."""
        kept = self._numbers.get(b"n")
        number = 0 if kept is None else int.from_bytes(kept, "big") + 1
        self._numbers.put(b"n", time_bytes(number))
        return number
