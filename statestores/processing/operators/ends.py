"""Where records enter and leave a task: sources, sinks, and the ends of repartition topics."""

from typing import TYPE_CHECKING, Any

from statestores.errors import InvalidTimeError
from statestores.processing.change import Change
from statestores.processing.fields import Selector, selector
from statestores.processing.operators.operator import Operator, TaskServices
from statestores.processing.record import RawRecord, Record, check_headers
from statestores.processing.topic import Topic
from statestores.spi.records import new_tuple

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_TIME_MS = (1 << 63) - 1


class Source(Operator):
    """Turns the bytes of a topic into records."""

    def __init__(
        self,
        topic: Topic[Any, Any],
        time: Selector | None = None,
        *,
        use_partition_time: bool = False,
    ) -> None:
        """Read *topic*; *time* says when a record happened, if it is not the record's own stamp.

        With *use_partition_time*, a record without a time that could be one has the highest of
        its partition so far.
        """
        self.topic = topic
        self.time: Callable[[Record[Any, Any]], Any] | None = (
            None if time is None else selector(time)
        )
        self.use_partition_time = use_partition_time
        self.is_plain = time is None and not use_partition_time
        """Whether a record's time is its own stamp, if that is one."""
        self._decode_key, self._decode_value = topic.key.decode, topic.value.decode

    def open(self, task: TaskServices) -> None:
        """Remember the highest time of the partition, where it may be needed."""
        self._partition_time = (
            task.observed_time(f"{self.name}-partition") if self.use_partition_time else None
        )

    def decode(self, raw: RawRecord) -> Record[Any, Any]:
        """Return the record of *raw*, at its time.

        Raises:
            SerializationError: Key or value are not what the serdes read.
            InvalidTimeError: It has no time from 0 to 2**63 - 1.
        """
        key, value, time_ms, headers = raw
        record: Record[Any, Any] = new_tuple(
            Record,
            (
                None if key is None else self._decode_key(key),
                None if value is None else self._decode_value(value),
                time_ms,
                headers,
            ),
        )
        if self.is_plain and type(time_ms) is int and 0 <= time_ms <= _MAX_TIME_MS:
            return record
        if self.time is not None:
            time_ms = self.time(record)
            record = Record(record.key, record.value, time_ms, headers)
        seen = self._partition_time
        if type(time_ms) is not int or not 0 <= time_ms <= _MAX_TIME_MS:
            if seen is not None and seen.now_ms >= 0:
                return record.with_time(seen.now_ms)
            raise InvalidTimeError(
                f"a record's time is an int from 0 to 2**63 - 1, in milliseconds, got {time_ms!r}; "
                "give the stream a time=, or use_partition_time=True"
            )
        if seen is not None and time_ms > seen.now_ms:
            seen.now_ms = time_ms
        return record

    def receive(self, item: Record[Any, Any]) -> None:
        """Give on what was decoded."""
        self.forward(item)


class Sink(Operator):
    """Turns records into the bytes of a topic, and emits them."""

    def __init__(self, topic: Topic[Any, Any]) -> None:
        """Write *topic*."""
        self.topic = topic
        self._encode_key, self._encode_value = topic.key.encode, topic.value.encode

    def open(self, task: TaskServices) -> None:
        """Emit through the task."""
        self._emit = task.emitter(self.topic.name)

    def receive(self, item: Record[Any, Any]) -> None:
        """Encode and emit."""
        key, value, time_ms, headers = item
        if headers != ():
            check_headers(headers)
        self._emit(
            (
                None if key is None else self._encode_key(key),
                None if value is None else self._encode_value(value),
                time_ms,
                headers,
            )
        )

    def receive_change(self, item: Change) -> None:
        """Encode and emit the record that `ToStream` would make of a change."""
        key, new, _, time_ms, headers, _ = item
        if headers != ():
            check_headers(headers)
        self._emit(
            (
                None if key is None else self._encode_key(key),
                None if new is None else self._encode_value(new),
                time_ms,
                headers,
            )
        )


class RepartitionSink(Sink):
    """Writes a repartition topic: a record without key has no partition to go to (PRC-31)."""

    def open(self, task: TaskServices) -> None:
        """Count what is dropped."""
        super().open(task)
        self._task = task

    def receive(self, item: Record[Any, Any]) -> None:
        """Encode and emit, or drop."""
        key, value, time_ms, headers = item
        if key is None:
            self._task.drop(self.name, "null-key", item)
            return
        if headers != ():
            check_headers(headers)
        data = None if value is None else self._encode_value(value)
        self._emit((self._encode_key(key), data, time_ms, headers))
