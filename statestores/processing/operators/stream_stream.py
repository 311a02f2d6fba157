"""Joins of two streams: records of one key that are close enough in time.

Each side keeps its records in a window store. Those that may come out alone wait in a queue until
nothing on time can match them any more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from statestores.processing.operators.operator import Operator, TaskServices
from statestores.processing.operators.table_joins import How
from statestores.processing.operators.time_queue import NEVER
from statestores.processing.record import Record
from statestores.processing.serdes import RecordCodec, encoded, time_bytes

LEFT, RIGHT = b"\x01", b"\x00"
"""How the names of what waits begin, by their sides."""

_NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinWindow:
    """How far apart two records may be."""

    before_ms: int
    """How much earlier than the left record the right one may be."""

    after_ms: int
    """How much later."""

    grace_ms: int
    """How late a record may come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJoin:
    """What both sides of a join have in common."""

    name: str
    """The join's name: both sides observe time under it."""

    joiner: Callable[[Any, Any], Any]
    """From the values of both sides to that of the result."""

    how: How
    """Which sides come out alone."""

    window: JoinWindow
    """How far apart two records may be."""

    left_store: str
    """The window store of left records."""

    right_store: str
    """The window store of right records."""

    waiting: str | None
    """The store of records that may come out alone; ``None`` for an inner join."""

    left_codec: RecordCodec
    """How left records wait."""

    right_codec: RecordCodec
    """How right records wait."""


class StreamJoinSide(Operator):
    """One side of a join of streams."""

    def __init__(self, join: StreamJoin, *, is_left: bool) -> None:
        """Take one side of *join*."""
        window = join.window
        self.join = join
        self.is_left = is_left
        self.comes_alone = join.how == "outer" or (join.how == "left" and is_left)
        other_comes_alone = join.how == "outer" or (join.how == "left" and not is_left)
        self.removes_waiting = other_comes_alone
        self.before_ms = window.before_ms if is_left else window.after_ms
        self.after_ms = window.after_ms if is_left else window.before_ms
        self._spreads = {
            LEFT: window.after_ms + window.grace_ms,
            RIGHT: window.before_ms + window.grace_ms,
        }

    def open(self, task: TaskServices) -> None:
        """Take the stores and the time that both sides share."""
        join = self.join
        own, other = join.left_store, join.right_store
        if not self.is_left:
            own, other = other, own
        self._own, self._other = task.store(own), task.store(other)
        self._codec = join.left_codec if self.is_left else join.right_codec
        self._time = task.observed_time(join.name)
        self._drop, self._fail_one = task.drop, task.fail_one
        self._waiting = None if join.waiting is None else task.store(join.waiting)
        self._queue = None if join.waiting is None else task.time_queue(join.waiting)

    def receive(self, item: Record[Any, Any]) -> None:
        """Match it with what the other side has, and keep it for what is to come."""
        key, value, time_ms, _ = item
        observed = self._time
        observed.now_ms = now_ms = max(observed.now_ms, time_ms)
        if time_ms == now_ms:
            self._give_out_alone(now_ms)
        if key is None and value is not None and self.comes_alone:
            self.forward(item.with_value(self._joined(value, None)))
            return
        if key is None or value is None:
            self._drop(self.name, "null-key" if key is None else "null-value", item)
            return
        if self._queue is None and time_ms + self.after_ms + self.join.window.grace_ms < now_ms:
            self._drop(self.name, "late", item)
            return
        if not self._match(item) and self.comes_alone:
            if time_ms + self.after_ms < now_ms:
                self.forward(item.with_value(self._joined(value, None)))
            else:
                self._wait(item)
        self._own.put(key, value, time_ms)

    def _match(self, item: Record[Any, Any]) -> bool:
        """Give on each match, the earliest first; return whether there was one."""
        key, value, time_ms, headers = item
        # As in Kafka Streams: a reach that would end before the epoch ends at it.
        first_ms, last_ms = max(0, time_ms - self.before_ms), max(0, time_ms + self.after_ms)
        if first_ms > last_ms:
            return False
        matched = False
        for _, other_ms, _, other in list(self._other.fetch_range(key, first_ms, last_ms)):
            joined = self._joined(value, other)  # one that fails has matched nobody
            matched = True
            if self.removes_waiting and self._queue is not None:
                self._forget(key, other_ms)
            self.forward(Record(key, joined, max(time_ms, other_ms), headers))
        return matched

    def _joined(self, this: Any, other: Any) -> Any:
        return self.join.joiner(this, other) if self.is_left else self.join.joiner(other, this)

    def _wait(self, item: Record[Any, Any]) -> None:
        if self._queue is not None and self._waiting is not None:
            kept = self._waiting.get(b"n")
            number = 0 if kept is None else int.from_bytes(kept, "big") + 1
            self._waiting.put(b"n", time_bytes(number))
            side = LEFT if self.is_left else RIGHT
            name = side + (encoded(self._codec.key, item.key) or b"") + time_bytes(number)
            self._queue.put(item.time_ms, name, self._codec.encode(item))

    def _forget(self, key: Any, time_ms: int) -> None:
        """Remove the other side's records of a key and time: they have a match."""
        if self._queue is not None:
            beginning = (RIGHT if self.is_left else LEFT) + (encoded(self._codec.key, key) or b"")
            size = len(beginning) + _NUMBER_BYTES
            for name in list(self._queue.named(time_ms, beginning, size)):
                self._queue.remove(time_ms, name)

    def _give_out_alone(self, now_ms: int) -> None:
        """Give on the records that nothing on time can match any more, the earliest first."""
        queue, spreads = self._queue, self._spreads
        least_ms = min(spreads.values())
        if queue is None or queue.head_ms + least_ms >= now_ms:
            return
        over, head_ms = [], NEVER
        for time_ms, name, content in queue.rows():
            if time_ms + spreads[name[:1]] < now_ms:
                over.append((time_ms, name, content))
            else:
                head_ms = min(head_ms, time_ms)
            if time_ms + least_ms >= now_ms:
                break
        queue.head_ms = head_ms
        for time_ms, name, content in over:
            queue.remove(time_ms, name)
            is_left = name[:1] == LEFT
            codec = self.join.left_codec if is_left else self.join.right_codec
            try:
                record, _ = codec.decode(content)
                pair = (record.value, None) if is_left else (None, record.value)
                self.forward(record.with_value(self.join.joiner(*pair)))
            except Exception as error:  # noqa: BLE001  # the others have to come out as well
                self._fail_one(self.name, error)
