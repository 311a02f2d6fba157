"""The records of one task that wait, and how the next of them are processed.

A task that reads one partition takes its records as they come; one that reads several, in the order
of their times (PRC-11). Where what is behind them has columns, all that are at hand are taken at
once, and the runtime chooses by their number (PRC-55).
"""

from collections.abc import Collection
from typing import Protocol

from statestores.processing.record import RawRecord
from statestores.processing.record_rows import record_batch
from statestores.processing.runtime import RecordOrder, TaskRuntime, head_times
from statestores.processing.runtime.row_order import Lot, RowOrder, times_of
from statestores.spi import TopicPartition


class WaitingRecords(Protocol):
    """The buffers of one task."""

    takes_rows: bool
    """Whether all records that are at hand are best given to it at once."""

    def accept(self, place: TopicPartition, offsets: list[int], records: list[RawRecord]) -> None:
        """Have *records* of one partition wait behind those that do; the lists are given away."""

    def count(self, place: TopicPartition) -> int:
        """Return how many records of a partition wait."""

    def set_lag(self, place: TopicPartition, records: int | None) -> None:
        """Say how many records a partition has that have not been accepted, if it is known."""

    def advance(self, wall_ms: int, limit: int, processed: dict[TopicPartition, int]) -> int:
        """Process up to *limit* records; note in *processed* where each partition goes on.

        Return how many it were.

        Raises:
            ProcessingError: One failed, and the policy is to fail.
        """


def waiting_records(
    runtime: TaskRuntime, places: Collection[TopicPartition], max_task_idle_ms: int
) -> WaitingRecords:
    """Return empty buffers of what *runtime* reads: *places*."""
    if len(places) == 1:
        return _OfOnePartition(runtime, *places)
    if any(runtime.takes_rows(place.topic) for place in places):
        return _Rows(runtime, places, max_task_idle_ms)
    return _ByTime(runtime, places, max_task_idle_ms)


class _OfOnePartition:
    def __init__(self, runtime: TaskRuntime, place: TopicPartition) -> None:
        self.takes_rows = runtime.takes_rows(place.topic)
        self._runtime = runtime
        self._place = place
        self._offsets: list[int] = []
        self._records: list[RawRecord] = []

    def accept(self, place: TopicPartition, offsets: list[int], records: list[RawRecord]) -> None:
        self._offsets += offsets
        self._records += records

    def count(self, place: TopicPartition) -> int:
        return len(self._offsets)

    def set_lag(self, place: TopicPartition, records: int | None) -> None:
        """Wait for nobody: there is no other partition."""

    def advance(self, wall_ms: int, limit: int, processed: dict[TopicPartition, int]) -> int:
        offsets, records = self._offsets[:limit], self._records[:limit]
        if not offsets:
            return 0
        done = len(offsets)
        if self.takes_rows:
            self._runtime.process_records(*self._place, offsets, records)
        else:
            done = self._one_by_one(offsets, records)
        if done:
            processed[self._place] = offsets[done - 1] + 1
            del self._offsets[:done], self._records[:done]
        return done

    def _one_by_one(self, offsets: list[int], records: list[RawRecord]) -> int:
        runtime, (topic, partition) = self._runtime, self._place
        done = 0
        for offset, record in zip(offsets, records, strict=True):
            if runtime.commit_requested:
                break
            runtime.process(topic, partition, offset, record)
            done += 1
        return done


class _ByTime:
    takes_rows = False

    def __init__(
        self, runtime: TaskRuntime, places: Collection[TopicPartition], max_task_idle_ms: int
    ) -> None:
        self._runtime = runtime
        self._times = head_times(runtime.part)
        self._order: RecordOrder[tuple[int, RawRecord]] = RecordOrder(
            places, max_task_idle_ms=max_task_idle_ms, stream_time_ms=runtime.stream_time_ms
        )

    def accept(self, place: TopicPartition, offsets: list[int], records: list[RawRecord]) -> None:
        time_of = self._times[place.topic]
        waiting = zip(map(time_of, records), zip(offsets, records, strict=True), strict=True)
        self._order.buffer(place, waiting)

    def count(self, place: TopicPartition) -> int:
        return self._order.buffered(place)

    def set_lag(self, place: TopicPartition, records: int | None) -> None:
        self._order.set_lag(place, records)

    def advance(self, wall_ms: int, limit: int, processed: dict[TopicPartition, int]) -> int:
        order, runtime = self._order, self._runtime
        done = 0
        while done < limit and not runtime.commit_requested and order.is_ready(wall_ms):
            following = order.take()
            if following is None:
                break
            place, (offset, record) = following.partition, following.item
            runtime.process(place.topic, place.partition, offset, record)
            processed[place] = offset + 1
            done += 1
        return done


class _Rows:
    """At most one lot of a partition is in the order; what comes meanwhile is kept behind it."""

    takes_rows = True

    def __init__(
        self, runtime: TaskRuntime, places: Collection[TopicPartition], max_task_idle_ms: int
    ) -> None:
        self._runtime = runtime
        self._times = head_times(runtime.part)
        self._order = RowOrder(places, max_task_idle_ms=max_task_idle_ms)
        self._behind: dict[TopicPartition, tuple[list[int], list[RawRecord]]] = {
            place: ([], []) for place in places
        }
        self._lags: dict[TopicPartition, int | None] = dict.fromkeys(places)

    def accept(self, place: TopicPartition, offsets: list[int], records: list[RawRecord]) -> None:
        behind = self._behind[place]
        behind[0].extend(offsets)
        behind[1].extend(records)
        lag = self._lags[place]
        if lag is not None:
            self._lags[place] = max(0, lag - len(offsets))
        self._fill(place)

    def count(self, place: TopicPartition) -> int:
        return self._order.buffered(place) + len(self._behind[place][0])

    def set_lag(self, place: TopicPartition, records: int | None) -> None:
        self._lags[place] = records
        self._order.set_lag(place, records)

    def advance(self, wall_ms: int, limit: int, processed: dict[TopicPartition, int]) -> int:
        order, runtime = self._order, self._runtime
        done = 0
        while done < limit and not runtime.commit_requested and order.is_ready(wall_ms):
            block = order.block(limit - done)
            for lot, count in zip(block.lots, runtime.process_block(block), strict=True):
                if count:
                    processed[lot.partition] = lot.offsets[count - 1] + 1
                order.remove(lot.partition, count)
                done += count
                self._fill(lot.partition)
        return done

    def _fill(self, place: TopicPartition) -> None:
        """Have what is kept be the next lot of *place*, if none of it is in the order."""
        offsets, records = self._behind[place]
        if not offsets or self._order.buffered(place):
            return
        batch = record_batch(records)
        times = times_of(self._times[place.topic], batch)
        self._order.buffer(Lot(place, offsets, batch, times))
        self._order.set_lag(place, self._lags[place])
        self._behind[place] = [], []
