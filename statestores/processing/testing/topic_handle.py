"""One topic of a test driver: what goes in, and what has come out."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from statestores.errors import InvalidArgumentError
from statestores.processing.record import Headers, RawRecord, Record, check_headers
from statestores.processing.serdes import decoded, encoded
from statestores.processing.topic import Topic


class TopicHandle:
    """Pipes records into a topic of the topology, or reads what it has written to one."""

    def __init__(
        self,
        topic: Topic[Any, Any],
        take: Callable[[str, int | None, RawRecord], None] | None,
        settle: Callable[[], None],
    ) -> None:
        """Give records to *take*, if the topology reads it. *settle* processes what waits."""
        self.topic = topic
        self._take = take
        self._settle = settle
        self._written: deque[RawRecord] = deque()
        self._last_ms = 0

    def pipe(
        self,
        value: Any,
        key: Any = None,
        *,
        time_ms: int | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Append a record, and process it with all that follows from it.

        Without *time_ms*, it has the time of the one piped before.
        """
        check_headers(headers)
        self._last_ms = self._last_ms if time_ms is None else time_ms
        raw: RawRecord = Record(
            encoded(self.topic.key, key), encoded(self.topic.value, value), self._last_ms, headers
        )
        self.pipe_bytes(raw, partition=partition)

    def pipe_all(self, records: Iterable[Record[Any, Any]]) -> None:
        """Append several records."""
        for record in records:
            self.pipe(record.value, record.key, time_ms=record.time_ms, headers=record.headers)

    def pipe_bytes(self, record: RawRecord, *, partition: int | None = None) -> None:
        """Append a record as it lies in the topic: also one that its serdes cannot read.

        Raises:
            InvalidArgumentError: The topology does not read the topic, or it has no such partition.
            ProcessingError: An operator failed, or the topology feeds itself without end.
            StoreClosedError: The driver is closed.
        """
        if self._take is None:
            raise InvalidArgumentError(
                f"nothing reads {self.topic.name!r}; pipe into a source of the topology"
            )
        self._take(self.topic.name, partition, record)

    def read(self) -> Record[Any, Any]:
        """Remove and return the oldest record that has been written and not been read.

        Raises:
            InvalidArgumentError: There is none.
        """
        self._settle()
        if not self._written:
            raise InvalidArgumentError(
                f"nothing more has been written to {self.topic.name!r}; look with is_empty"
            )
        return self._decoded(self._written.popleft())

    def read_all(self) -> list[Record[Any, Any]]:
        """Remove and return all that has been written and not been read."""
        self._settle()
        records = [self._decoded(record) for record in self._written]
        self._written.clear()
        return records

    def read_bytes(self) -> list[RawRecord]:
        """Remove and return the same as it lies in the topic."""
        self._settle()
        records = list(self._written)
        self._written.clear()
        return records

    @property
    def is_empty(self) -> bool:
        """Whether all that has been written has been read."""
        self._settle()
        return not self._written

    def write(self, record: RawRecord) -> None:
        """Take what the topology writes; for the driver."""
        self._written.append(record)

    def _decoded(self, raw: RawRecord) -> Record[Any, Any]:
        key = decoded(self.topic.key, raw.key)
        return Record(key, decoded(self.topic.value, raw.value), raw.time_ms, raw.headers)
