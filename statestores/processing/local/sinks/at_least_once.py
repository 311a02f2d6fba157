"""A function as a sink. What it does cannot be taken back, so records may come to it twice."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from statestores.errors import InvalidTypeError
from statestores.processing.local.sinks.sink import Delivery, LocalSink, SinkWriter
from statestores.processing.local.topics import StoredRecord
from statestores.processing.record import Record
from statestores.processing.serdes import decoded
from statestores.processing.topic import Topic
from statestores.tasks.commits.task_outputs import OutputFiles


@dataclass(frozen=True)
class AtLeastOnce(LocalSink):
    """Calls a function for each record of the topic, in the order of each partition.

    After a crash it is called again for records since the last commit. Partition and offset tell
    whether it was: who writes them down with what it does has each record once.
    """

    function: Callable[[StoredRecord[Any, Any]], object]
    """What is called, on the thread of the sink's task."""

    def writer(self, topic: Topic[Any, Any], state: str) -> SinkWriter:
        """Make what calls it."""
        if not callable(self.function):
            raise InvalidTypeError(f"AtLeastOnce takes a function, got {self.function!r}")
        return _Caller(topic, self.function)


class _Caller:
    """Calls the function at once; nothing is left for the commit but the position."""

    def __init__(
        self, topic: Topic[Any, Any], function: Callable[[StoredRecord[Any, Any]], object]
    ) -> None:
        self._key, self._value, self._function = topic.key, topic.value, function

    has_pending = False

    def is_due(self, wall_ms: int) -> bool:  # the protocol's
        """At every interval of the runner."""
        return True

    def deliver(self, delivery: Delivery, wall_ms: int) -> None:  # the protocol's
        """Call the function."""
        partition, offset, (key, value, time_ms, headers) = delivery
        record: Record[Any, Any] = Record(
            decoded(self._key, key), decoded(self._value, value), time_ms, headers
        )
        self._function(StoredRecord(partition, offset, record))

    def record(self) -> OutputFiles:
        """Nothing is written."""
        return {}

    def publish(self, files: OutputFiles) -> None:
        """Nothing is to be seen."""

    def forget(self) -> None:
        """Nothing waits."""
