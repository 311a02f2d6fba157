"""One task of the local runner: its stores, its place in its topics, and the runtime over them."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from statestores.processing.error_policy import ErrorPolicy
from statestores.processing.local.consumer import Consumer
from statestores.processing.local.outputs import TopicOutputs
from statestores.processing.local.topics import AnyTopic
from statestores.processing.runtime import (
    LEAST_COLUMN_ROWS,
    LEAST_RUN_ROWS,
    RecordOrder,
    TaskCounts,
    TaskRuntime,
    head_times,
)
from statestores.processing.runtime.node_meters import NEVER_COLUMNS, NodeMeters
from statestores.processing.runtime.row_order import Lot, RowOrder, times_of
from statestores.processing.topology import SubTopology
from statestores.spi import TopicPartition
from statestores.spi.closing import Closing
from statestores.spi.metrics.metric import Metrics
from statestores.tasks import Task

if TYPE_CHECKING:
    from statestores.processing.record import RawRecord

_POLL_ROWS = 10_000
"""How many records of a partition are at hand at most."""


class LocalTask(Closing):
    """Takes records in the order of their times, and commits. One thread at a time uses it."""

    def __init__(
        self,
        part: SubTopology,
        task: Task,
        topics: Mapping[str, AnyTopic],
        outputs: TopicOutputs,
        *,
        wall_ms: int,
        errors: ErrorPolicy,
        max_task_idle_ms: int,
        global_stores: Mapping[str, Any],
        is_detailed: bool = False,
        least_column_rows: int = LEAST_COLUMN_ROWS,
        least_run_rows: int = LEAST_RUN_ROWS,
        cache_max_bytes: int = 0,
    ) -> None:
        """Go on where the stores of *task* are; each step is measured if *is_detailed*."""
        self.part = part
        self.task = task
        self.stores = {store.name: task.store(store.name) for store in part.stores}
        self.uncommitted = 0
        """How many records were processed since the last commit."""
        self._outputs = outputs
        outputs.begin_after(task.position.get(outputs.mark, 0))
        reflected = task.position
        self._consumers = {
            place: Consumer(
                place,
                topics[place.topic].logs[place.partition],
                task.next_offset(place) if place in reflected else None,
            )
            for place in _places(part, task.id.partition, topics)
        }
        self.committed = {place: reader.next_offset for place, reader in self._consumers.items()}
        """Up to which offset, exclusive, each partition is committed; any thread may read it."""
        tags = {"task-id": str(task.id)}
        self._nodes = NodeMeters(tags) if is_detailed else None
        self.runtime = TaskRuntime(
            part if self._nodes is None else self._nodes.measured(part),
            task.id.partition,
            self.stores,
            outputs,
            wall_ms=wall_ms,
            errors=errors,
            global_stores=global_stores,
            tags=tags,
            least_column_rows=least_column_rows if self._nodes is None else NEVER_COLUMNS,
            least_run_rows=least_run_rows if self._nodes is None else NEVER_COLUMNS,
            cache_max_bytes=cache_max_bytes,
        )
        self.meter = self.runtime.meter
        """What the task measures."""
        if self._nodes is not None:
            self._nodes.wall_ms = lambda: self.runtime.wall_ms
        self._source_names = {node.reads.name: node.name for node in part.sources if node.reads}
        self._times = head_times(part)
        self._order: RecordOrder[tuple[int, RawRecord]] = RecordOrder(
            self._consumers,
            max_task_idle_ms=max_task_idle_ms,
            stream_time_ms=self.runtime.stream_time_ms,
        )
        self._rows = RowOrder(self._consumers, max_task_idle_ms=max_task_idle_ms)
        self.takes_rows = any(self.runtime.takes_rows(place.topic) for place in self._consumers)
        """Whether it takes all records that are there at once: as columns, where that can be."""
        places = list(self._consumers)
        self._alone = places[0] if len(places) == 1 and self.takes_rows else None

    @property
    def counts(self) -> TaskCounts:
        """What the task has counted."""
        return self.runtime.counts

    @property
    def has_uncommitted(self) -> bool:
        """Whether anything happened since the last commit."""
        return bool(
            self.uncommitted
            or self._outputs.has_pending
            or any(store.store.has_pending_writes for store in self.task.stores.values())
        )

    @property
    def commit_requested(self) -> bool:
        """Whether a processor has asked for a commit."""
        return self.runtime.commit_requested

    @property
    def has_waiting(self) -> bool:
        """Whether a record waits that another one may have to come before."""
        order = self._rows if self.takes_rows else self._order
        return any(map(order.buffered, self._consumers))

    def advance(self, wall_ms: int, limit: int) -> int:
        """Move the wall clock, and process up to *limit* records that are there; say how many.

        Raises:
            ProcessingError: One failed, and the policy is to fail.
            StateStoreError: A topic cannot be read.
        """
        self.runtime.advance_wall_clock(wall_ms)
        if self._alone is not None:
            return self._advance_alone(self._alone, wall_ms, limit)
        if self.takes_rows:
            return self._advance_rows(wall_ms, limit)
        for place in self._consumers:
            self._fill(place)
        order, process = self._order, self.runtime.process
        done = 0
        following = None
        while done < limit and not self.runtime.commit_requested and order.is_ready(wall_ms):
            following = order.take()
            if following is None:
                break
            place, (offset, record) = following.partition, following.item
            process(place.topic, place.partition, offset, record)
            done += 1
            if not order.buffered(place):
                self._fill(place)
        self.uncommitted += done
        if following is not None and self._nodes is None:
            came_ms = following.stream_time_ms - following.lateness_ms
            self.meter.arrived(self._source_names[place.topic], wall_ms - came_ms)
        return done

    def _advance_alone(self, place: TopicPartition, wall_ms: int, limit: int) -> int:
        """Process up to *limit* records of the only partition that there is, as a batch."""
        polled = self._consumers[place].poll_rows(limit)
        if polled is None:
            return 0
        offsets, rows = polled
        self.runtime.process_rows(place.topic, place.partition, offsets, rows)
        self.uncommitted += len(offsets)
        if self._nodes is None:
            came_ms = self.runtime.stream_time_ms
            self.meter.arrived(self._source_names[place.topic], wall_ms - came_ms)
        return len(offsets)

    def _advance_rows(self, wall_ms: int, limit: int) -> int:
        """Process up to *limit* records of several partitions, as columns where that can be."""
        order, runtime = self._rows, self.runtime
        for place in self._consumers:
            self._fill_rows(place)
        done = 0
        while done < limit and not runtime.commit_requested and order.is_ready(wall_ms):
            block = order.block(limit - done)
            for lot, count in zip(block.lots, runtime.process_block(block), strict=True):
                order.remove(lot.partition, count)
                done += count
                self._fill_rows(lot.partition)
            last = block.lots[block.order[-1]]
        self.uncommitted += done
        if done and self._nodes is None:
            name = self._source_names[last.partition.topic]
            self.meter.arrived(name, wall_ms - int(last.times[-1]))
        return done

    def metrics(self) -> Metrics:
        """Return what the task, its steps and its stores measure; any thread may ask."""
        nodes = () if self._nodes is None else self._nodes.metrics()
        return (*self.meter.metrics(), *nodes, *self.task.metrics())

    def commit(self) -> bool:
        """Commit what has happened, if anything has: stores, outputs and position as one.

        Raises:
            StateStoreError: See `statestores.tasks.Task.commit`.
        """
        if not self.has_uncommitted:
            self.runtime.commit_requested = False
            return False
        position = self.runtime.prepare_commit()
        if self._outputs.has_pending:
            self._outputs.number += 1
            position[self._outputs.mark] = self._outputs.number
        self.task.commit(position)
        self.runtime.committed()
        self.uncommitted = 0
        for place in self._consumers.keys() & position.keys():
            self.committed[place] = position[place] + 1
        return True

    def commit_when_due(self) -> bool:
        """Commit because the runner's interval is over."""
        return self.commit()

    def close(self) -> None:
        """Close processors and stores; what is not committed is forgotten."""
        with ExitStack() as stack:
            stack.callback(self.task.close)
            for consumer in self._consumers.values():
                stack.callback(consumer.close)
            stack.callback(self.runtime.close)

    def _fill(self, place: TopicPartition) -> None:
        """See that a record of *place* is at hand, if there is one."""
        order, consumer = self._order, self._consumers[place]
        if order.buffered(place):
            return
        polled = consumer.poll()
        if polled:
            time_of = self._times[place.topic]
            order.buffer(place, [(time_of(item[1]), item) for item in polled])
        order.set_lag(place, consumer.behind)

    def _fill_rows(self, place: TopicPartition) -> None:
        """See that rows of *place* are at hand, if there are any."""
        order, consumer = self._rows, self._consumers[place]
        if order.buffered(place):
            return
        polled = consumer.poll_rows(_POLL_ROWS)
        if polled is not None:
            offsets, batch = polled
            order.buffer(Lot(place, offsets, batch, times_of(self._times[place.topic], batch)))
        order.set_lag(place, consumer.behind)


def _places(
    part: SubTopology, partition: int, topics: Mapping[str, AnyTopic]
) -> Iterable[TopicPartition]:
    """Return what a task reads: its partition of each topic; of global tables all of them."""
    for name in dict.fromkeys(topic.name for topic in part.source_topics):
        count = topics[name].partitions
        for number in range(count) if part.is_global else [partition] if partition < count else []:
            yield TopicPartition(name, number)
