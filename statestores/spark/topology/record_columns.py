"""Records as Spark has them on their way through a topology, and where they belong.

Key, value and headers are the bytes of a topic (PRC-48), so that what goes from one part of a
topology to the next is what any other runner would have in a topic.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statestores.changelog.rows import RECORD_ROWS
from statestores.partitioning import partitioner_by_name
from statestores.processing.columns.column import Numbers
from statestores.processing.runtime.head_times import HeadTime
from statestores.processing.runtime.row_order import Block, Lot, times_of
from statestores.spark.hash_placement import with_places
from statestores.spark.stateful_functions.plan import CHANNEL_COLUMN
from statestores.spi import TopicPartition

ARRIVAL_COLUMN = "arrival"
"""In what order rows came, before they were sent to their partitions."""

EMITTED_ROWS = pa.schema(
    [pa.field(CHANNEL_COLUMN, pa.string(), nullable=False), *(field for field in RECORD_ROWS)]
)
"""A record, and the topic that it is for."""

ARRIVED_ROWS = EMITTED_ROWS.append(pa.field(ARRIVAL_COLUMN, pa.int64(), nullable=False))
"""A record that a part of a topology is given."""

RECORD_DDL = (
    f"{CHANNEL_COLUMN} string not null, key binary, value binary, timestamp long not null, "
    "headers binary"
)
"""`EMITTED_ROWS`, in Spark's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlacement:
    """How the records of one topic are placed."""

    partitions: int
    """How many partitions the topic has."""

    partitioner: str
    """The name of the function from key bytes to a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlacement:
    """Which task of a part gets a record. Made to be sent to tasks."""

    topics: Mapping[str, TopicPlacement]
    """The topics that the part reads."""

    partitions: int
    """How many tasks it has."""

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield *batches* with their places; records without key are dealt out in turn."""
        for batch in batches:
            if batch.num_rows:
                yield with_places(batch, pa.array(self._chosen(batch)), self.partitions)

    def _chosen(self, batch: pa.RecordBatch) -> Numbers:
        names, keys = batch.column(CHANNEL_COLUMN), batch.column("key")
        arrival = batch.column(ARRIVAL_COLUMN).to_numpy()
        without = keys.is_null().to_numpy(zero_copy_only=False)
        chosen: Numbers = np.zeros(batch.num_rows, np.int64)
        for name in names.unique().to_pylist():
            topic = self.topics[name]
            partitioner = partitioner_by_name(topic.partitioner)
            at = pc.equal(names, name).to_numpy(zero_copy_only=False)
            own = keys.filter(pa.array(at)).cast(pa.binary()).fill_null(b"")
            placed = partitioner.partition_array(own, topic.partitions).to_numpy()
            chosen[at] = np.where(without[at], arrival[at] % topic.partitions, placed)
        return chosen


def in_time_order(
    rows: pa.Table, times: Mapping[str, HeadTime], partition: int, firsts: Mapping[str, int]
) -> Block:
    """Return the rows of one task in one micro-batch, in the order in which it takes them.

    That is the order of time; of equal times, the order of the topics in *times*, and then that in
    which the rows came. The offsets of each topic begin with that in *firsts*.

    Requires: there are rows.
    """
    lots, sorting = [], []
    for number, (topic, time_of) in enumerate(times.items()):
        own = rows.filter(pc.equal(rows[CHANNEL_COLUMN], topic)).combine_chunks()
        if not own.num_rows:
            continue
        records = own.select(RECORD_ROWS.names).cast(RECORD_ROWS).to_batches()[0]
        at = times_of(time_of, records)
        arrival = own[ARRIVAL_COLUMN].to_numpy()
        order = np.lexsort((arrival, at))
        first = firsts[topic]
        lot = Lot(
            TopicPartition(topic, partition),
            range(first, first + own.num_rows),
            records.take(pa.array(order)),
            at[order],
        )
        sorting.append((lot.times, np.full(own.num_rows, number), np.arange(own.num_rows)))
        lots.append(lot)
    at, topic_rank, place = (np.concatenate(each) for each in zip(*sorting, strict=True))
    lot_numbers = np.repeat(np.arange(len(lots)), [len(lot.offsets) for lot in lots])
    return Block(tuple(lots), lot_numbers[np.lexsort((place, topic_rank, at))])


def for_topic(topic: str, records: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield *records* as rows for *topic*."""
    for batch in records:
        names = pa.repeat(pa.scalar(topic, pa.string()), batch.num_rows)
        yield pa.RecordBatch.from_arrays([names, *batch.columns], schema=EMITTED_ROWS)
