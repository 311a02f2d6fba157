"""Suppression: the updates of a row wait, and only the last of them comes out (KIP-328)."""

from dataclasses import dataclass
from typing import Any, Literal

from statestores.errors import ProcessingError
from statestores.processing.change import Change
from statestores.processing.operators.operator import Operator, TaskServices
from statestores.processing.operators.tables import Lookup, MakeLookup
from statestores.processing.record import Record
from statestores.processing.serdes import RecordCodec, decoded, encoded, time_bytes
from statestores.processing.windows import Form, Windows
from statestores.spi import TimestampedValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """Until when the updates of a row wait."""

    wait_ms: int | None = None
    """For so long after its first update, by stream time."""

    windows: Windows | None = None
    """Until its window is closed."""

    max_rows: int | None = None
    """Until so many rows wait: one more sends out the oldest, or fails."""

    when_full: Literal["emit", "fail"] = "emit"
    """What to do with one more."""

    @property
    def form(self) -> Form:
        """By which time updates are queued, and when windows close: another one would mix them."""
        if self.windows is None:
            return (("until", "time"),)
        return ("until", "closed"), *self.windows.form, ("grace_ms", self.windows.grace_ms)


class Suppress(Operator):
    """Keeps the last update of each row until its time has come."""

    def __init__(self, suppression: Suppression, codec: RecordCodec, store: str) -> None:
        """Updates wait in the store of bytes *store*."""
        self.suppression = suppression
        self.codec = codec
        self.store = store

    def open(self, task: TaskServices) -> None:
        """Take the store and the time, and count what waits."""
        self._store = task.store(self.store)
        self._queue = task.time_queue(self.store)
        self._time = task.observed_time(self.name)
        self._count = sum(1 for _ in self._queue.rows())

    def receive(self, item: Change) -> None:
        """Let it wait, and give on what need not wait any longer."""
        observed = self._time
        observed.now_ms = max(observed.now_ms, item.time_ms)
        self._let_wait(item)
        self._give_out(self._over_ms(observed.now_ms))
        most = self.suppression.max_rows
        if most is not None:
            while self._count > most:
                if self.suppression.when_full == "fail":
                    raise ProcessingError(
                        f"{self.name!r} holds {self._count} rows, and {most} may wait; raise "
                        "max_rows, or let it emit the oldest with when_full='emit'"
                    )
                self._give_out_first()

    def lookup_of(self, parent: MakeLookup) -> MakeLookup:
        """Return the lookup of the rows as they have come out: while one waits, as it was before.

        The time of what it was before is not kept: it is as if there were none.
        """

        def make(task: TaskServices) -> Lookup:
            get, store, queue = parent(task), task.store(self.store), task.time_queue(self.store)

            def look(key: Any) -> TimestampedValue[Any] | None:
                name = encoded(self.codec.key, key) or b""
                kept = store.get(b"k" + name)
                content = None if kept is None else queue.get(int.from_bytes(kept, "big"), name)
                if content is None:
                    return get(key)
                old = decoded(self.codec.value, self.codec.decode(content)[1].piece())
                return None if old is None else TimestampedValue(old, None)

            return look

        return make

    def _over_ms(self, now_ms: int) -> int:
        """Return the last queued time that need not wait any longer."""
        windows, wait_ms = self.suppression.windows, self.suppression.wait_ms
        if windows is not None:
            return now_ms - windows.closes_after_ms(0) - 1
        return -1 if wait_ms is None else now_ms - wait_ms

    def _let_wait(self, item: Change) -> None:
        name = encoded(self.codec.key, item.key) or b""
        marker = b"k" + name
        kept = self._store.get(marker)
        first_old = item.old
        if kept is None:
            is_final = self.suppression.windows is not None
            queued_ms = item.key.end_ms if is_final else item.time_ms
        else:
            queued_ms = int.from_bytes(kept, "big")
            before = self._queue.get(queued_ms, name)
            if before is not None:
                first_old = decoded(self.codec.value, self.codec.decode(before)[1].piece())
        record = Record(item.key, item.new, item.time_ms, item.headers)
        content = self.codec.encode(record, first_old)  # what fails by now does not wait
        if kept is None:
            self._count += 1
            self._store.put(marker, time_bytes(queued_ms))
        self._queue.put(queued_ms, name, content)

    def _give_out(self, over_ms: int) -> None:
        for _, name, content in self._queue.pop_until(over_ms):
            self._give(name, content)

    def _give_out_first(self) -> None:
        for queued_ms, name, content in self._queue.rows():
            self._queue.head_ms = queued_ms
            self._queue.remove(queued_ms, name)
            self._give(name, content)
            return

    def _give(self, name: bytes, content: bytes) -> None:
        self._store.put(b"k" + name, None)
        self._count -= 1
        record, more = self.codec.decode(content)
        old: Any = decoded(self.codec.value, more.piece())
        # A window that has been merged away has no final result.
        if record.value is not None or self.suppression.windows is None:
            self.forward(Change(record.key, record.value, old, record.time_ms, record.headers))
