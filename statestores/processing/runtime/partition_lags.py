"""How much the partitions of a task lag behind, and whether it waits for an empty one (PRC-11)."""

from collections.abc import Iterable
from dataclasses import dataclass

from statestores.spi import TopicPartition


@dataclass(slots=True)
class _Lag:
    records: int | None = None
    """How many records the partition has beyond those that are buffered; ``None``: not known."""

    idle_since_ms: int | None = None
    """Since when the task waits for it."""


class PartitionLags:
    """The partitions of one task, as far as waiting for them goes."""

    def __init__(self, partitions: Iterable[TopicPartition], max_task_idle_ms: int) -> None:
        """Know of no lag yet.

        With *max_task_idle_ms* of 0, the task waits only for partitions that are known to have more
        records. Negative: it waits for none.
        """
        self._lags = {partition: _Lag() for partition in partitions}
        self._max_idle_ms = max_task_idle_ms

    def buffered(self, partition: TopicPartition, added: int, waiting: int) -> None:
        """Note that *added* records of a partition have been buffered, and that *waiting* wait."""
        lag = self._lags[partition]
        if lag.records is not None:
            lag.records = max(0, lag.records - added)
        if waiting:
            lag.idle_since_ms = None

    def set(self, partition: TopicPartition, records: int | None) -> None:
        """Say how many records *partition* has beyond those that are buffered, if it is known."""
        self._lags[partition].records = records

    def waits_for(self, empty: Iterable[TopicPartition], wall_ms: int) -> bool:
        """Whether a task that has a record waits for one of its *empty* partitions.

        It does for one that has more to come, however long, and for one of which that is not known
        for `max_task_idle_ms`.
        """
        if self._max_idle_ms < 0:
            return False
        for partition in empty:
            lag = self._lags[partition]
            if lag.records:
                return True
            if self._max_idle_ms > 0:
                if lag.idle_since_ms is None:
                    lag.idle_since_ms = wall_ms
                if wall_ms - lag.idle_since_ms < self._max_idle_ms:
                    return True
        return False
