"""Which rows a task takes next when its records are columns: those that `RecordOrder` would take.

A partition comes up again and again while its next record is no later than the others' first ones.
So a record is as late as the latest of those that wait in front of it, and a stable sort by that
gives the order of a whole block: up to where a partition has nothing more at hand, and may turn out
to have had an earlier one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from statestores.errors import InvalidArgumentError
from statestores.processing.columns.column import Numbers
from statestores.processing.record import RawRecord
from statestores.processing.record_rows import batch_records, record_batch
from statestores.processing.runtime.head_times import HeadTime, own_stamp
from statestores.processing.runtime.partition_lags import PartitionLags
from statestores.spi import TopicPartition

_LAST_MS = (1 << 63) - 1


class Lot(NamedTuple):
    """Rows of one partition, in the order of their offsets."""

    partition: TopicPartition
    """Where they are from."""

    offsets: Sequence[int]
    """Their offsets."""

    batch: pa.RecordBatch
    """The records, with the columns of a log of records (PRC-48)."""

    times: Numbers
    """By what time each is ordered."""

    def part(self, start: int, stop: int) -> "Lot":
        """Return the rows from *start* to *stop*, the latter excluded."""
        return Lot(
            self.partition,
            self.offsets[start:stop],
            self.batch.slice(start, stop - start),
            self.times[start:stop],
        )


class Block(NamedTuple):
    """Rows of several partitions, and the order in which they come up."""

    lots: tuple[Lot, ...]
    """The rows of each partition."""

    order: Numbers
    """For each row of the block the place of its lot: of each lot, the next one comes up."""


class RowOrder:
    """The rows of one task that wait, at most one lot for each partition."""

    def __init__(self, partitions: Iterable[TopicPartition], *, max_task_idle_ms: int = 0) -> None:
        """Begin with nothing that waits; *max_task_idle_ms* is that of `PartitionLags`."""
        self._waiting: dict[TopicPartition, Lot | None] = dict.fromkeys(partitions)
        self._lags = PartitionLags(self._waiting, max_task_idle_ms)

    def buffer(self, lot: Lot) -> None:
        """Have *lot* wait. Requires: nothing else of its partition waits."""
        self._waiting[lot.partition] = lot if len(lot.offsets) else None
        self._lags.buffered(lot.partition, len(lot.offsets), len(lot.offsets))

    def set_lag(self, partition: TopicPartition, records: int | None) -> None:
        """Say how many records *partition* has beyond those that wait, if it is known."""
        self._lags.set(partition, records)

    def buffered(self, partition: TopicPartition) -> int:
        """Return how many rows of *partition* wait."""
        lot = self._waiting[partition]
        return 0 if lot is None else len(lot.offsets)

    def is_ready(self, wall_ms: int) -> bool:
        """Whether the task may take a row now: one is there, and it waits for no other."""
        empty = [partition for partition, lot in self._waiting.items() if lot is None]
        if len(empty) == len(self._waiting):
            return False
        return not empty or not self._lags.waits_for(empty, wall_ms)

    def block(self, limit: int) -> Block:
        """Return up to *limit* rows that come up before a partition has no more at hand.

        They wait until they are removed. Requires: one waits.
        """
        lots = [lot for lot in self._waiting.values() if lot is not None]
        order = np.repeat(np.arange(len(lots)), [len(lot.offsets) for lot in lots])
        if len(lots) > 1:
            late = np.concatenate([np.maximum.accumulate(lot.times) for lot in lots])
            sorting = np.argsort(late, kind="stable")  # of equal ones, what was named first
            order = order[sorting]
            ends = np.cumsum([len(lot.offsets) for lot in lots]) - 1
            first_end = np.isin(sorting, ends).argmax()
            order = order[: first_end + 1]
        order = order[:limit]
        counts = np.bincount(order, minlength=len(lots)).tolist()
        taken = [(lot.part(0, count), count) for lot, count in zip(lots, counts, strict=True)]
        present = np.cumsum([count > 0 for _, count in taken]) - 1
        return Block(tuple(lot for lot, count in taken if count), present[order])

    def remove(self, partition: TopicPartition, count: int) -> None:
        """Have the first *count* rows of *partition* wait no longer."""
        lot = self._waiting[partition]
        if lot is not None and count:
            rest = lot.part(count, len(lot.offsets))
            self._waiting[partition] = rest if len(rest.offsets) else None


def times_of(time_of: HeadTime, batch: pa.RecordBatch) -> Numbers:
    """Return by what time each record of *batch* is ordered."""
    if time_of is own_stamp:
        stamps: Numbers = batch.column(2).to_numpy()
        return stamps
    found = [min(max(time_of(record), -_LAST_MS), _LAST_MS) for record in batch_records(batch)]
    return np.array(found, np.int64)


def block_of(
    records: Sequence[tuple[str, RawRecord]],
    places: Mapping[str, TopicPartition],
    firsts: Mapping[TopicPartition, int],
    times: Mapping[str, HeadTime],
) -> Block | None:
    """Return *records*, each with its topic, as a block that comes up in their order.

    *places* are the partitions of the topics, and *firsts* the offsets with which these begin.
    ``None`` if one of the records is none that a log can hold.
    """
    numbers = {topic: number for number, topic in enumerate(places)}
    lots = []
    for topic, place in places.items():
        several = [record for each, record in records if each == topic]
        try:
            batch = record_batch(several)
        except InvalidArgumentError:
            return None
        offsets = range(firsts[place], firsts[place] + len(several))
        lots.append(Lot(place, offsets, batch, times_of(times[topic], batch)))
    return Block(tuple(lots), np.array([numbers[topic] for topic, _ in records], np.int64))
