"""Which record a task takes next: the one with the least time at the head of its partitions.

Offsets of a partition are never reordered. While a partition is empty, another's record may turn
out to have been too early, so a task may wait for it (KIP-353, KIP-695).
"""

from collections import deque
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from statestores.errors import InvalidArgumentError
from statestores.processing.runtime.partition_lags import PartitionLags
from statestores.spi import TopicPartition

T = TypeVar("T")


class Waiting(NamedTuple, Generic[T]):
    """A record that waits in a buffer."""

    time_ms: int
    """Its time."""

    item: T
    """The record."""


class NextRecord(NamedTuple, Generic[T]):
    """The record that is next."""

    partition: TopicPartition
    """Where it is from."""

    item: T
    """The record."""

    stream_time_ms: int
    """Stream time, it included."""

    lateness_ms: int
    """How far behind stream time it is."""


class RecordOrder(Generic[T]):
    """The buffers of one task."""

    def __init__(
        self,
        partitions: Iterable[TopicPartition],
        *,
        max_task_idle_ms: int = 0,
        stream_time_ms: int = -1,
    ) -> None:
        """Begin with empty buffers; *max_task_idle_ms* is that of `PartitionLags`."""
        self._buffers: dict[TopicPartition, deque[Waiting[T]]] = {
            partition: deque() for partition in partitions
        }
        self._lags = PartitionLags(self._buffers, max_task_idle_ms)
        self.stream_time_ms = stream_time_ms

    def buffer(self, partition: TopicPartition, records: Iterable[tuple[int, T]]) -> None:
        """Add *records* with their times behind those of *partition* that wait.

        Raises:
            InvalidArgumentError: The task has no such partition.
        """
        if partition not in self._buffers:
            raise InvalidArgumentError(
                f"the task does not read {partition}; it reads: "
                f"{', '.join(map(str, self._buffers))}"
            )
        waiting = self._buffers[partition]
        before = len(waiting)
        waiting.extend(Waiting(time_ms, item) for time_ms, item in records)
        self._lags.buffered(partition, len(waiting) - before, len(waiting))

    def set_lag(self, partition: TopicPartition, records: int | None) -> None:
        """Say how many records *partition* has beyond those that are buffered, if it is known."""
        self._lags.set(partition, records)

    def buffered(self, partition: TopicPartition) -> int:
        """Return how many records of *partition* wait."""
        return len(self._buffers[partition])

    def is_ready(self, wall_ms: int) -> bool:
        """Whether the task may take a record now: one is there, and it waits for no other."""
        if not any(self._buffers.values()):
            return False
        empty = [partition for partition, waiting in self._buffers.items() if not waiting]
        return not empty or not self._lags.waits_for(empty, wall_ms)

    def take(self) -> NextRecord[T] | None:
        """Remove and return the record with the least time at a head; ``None`` without any.

        Of equal ones, that of the partition that was named first.
        """
        chosen: TopicPartition | None = None
        least = 0
        for partition, waiting in self._buffers.items():
            if waiting and (chosen is None or waiting[0].time_ms < least):
                chosen, least = partition, waiting[0].time_ms
        if chosen is None:
            return None
        time_ms, item = self._buffers[chosen].popleft()
        self.stream_time_ms = max(self.stream_time_ms, time_ms)
        return NextRecord(chosen, item, self.stream_time_ms, self.stream_time_ms - time_ms)
