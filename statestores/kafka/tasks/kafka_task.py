"""One task on Kafka: its stores, the records that wait for it, and the runtime over them."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from operator import lt
from time import perf_counter_ns
from typing import Any

from confluent_kafka import Message

from statestores.kafka.messages import offset_of, record_of
from statestores.kafka.tasks.noted_topology import NotedTopology
from statestores.kafka.tasks.task_stores import TaskStores
from statestores.kafka.tasks.task_writer import TaskWriter
from statestores.kafka.tasks.waiting_bytes import WaitingBytes
from statestores.kafka.tasks.waiting_records import waiting_records
from statestores.processing.error_policy import ErrorPolicy
from statestores.processing.runtime import TaskCounts, TaskRuntime
from statestores.processing.runtime.task_meter import TaskMeter
from statestores.processing.topology import Description
from statestores.spi import Position, TopicPartition
from statestores.spi.closing import Closing


class KafkaTask(Closing):
    """Takes records in the order of their times. One thread uses it."""

    def __init__(
        self,
        stores: TaskStores,
        writer: TaskWriter,
        next_offsets: Mapping[TopicPartition, int],
        *,
        description: Description,
        wall_ms: int,
        errors: ErrorPolicy,
        max_task_idle_ms: int,
        global_stores: Mapping[str, Any],
        least_column_rows: int,
        least_run_rows: int,
        cache_max_bytes: int,
    ) -> None:
        """Go on at *next_offsets* over restored *stores*, which the task owns from here on.

        Raises:
            TopologyMismatchError: They are not of the topology of *description* (KFK-53).
        """
        self.stores = stores
        self.part = stores.part
        self._topology = NotedTopology(stores.own, description)
        self.processed = dict(next_offsets)
        """The next offset of each partition after what was processed."""
        self.accepted = dict(next_offsets)
        """The next offset of each partition after what waits or was processed."""
        self.committed = dict(next_offsets)
        """The next offset of each partition after the last commit."""
        self.told = dict(next_offsets)
        """Of that, what the group has; nothing where it has yet to be told where the task began."""
        self.counts = TaskCounts()
        tags = {"task-id": f"{self.part.name}_{stores.partition}"}
        self.meter = TaskMeter(self.counts, tags)
        """What the task measures, over all of its runtimes."""
        self._writer = writer
        self._errors = errors
        self._max_task_idle_ms = max_task_idle_ms
        self._global_stores = global_stores
        self._least_column_rows, self._least_run_rows = least_column_rows, least_run_rows
        self._cache_max_bytes = cache_max_bytes
        self._position: Mapping[TopicPartition, int] = {}
        self._begin(wall_ms)

    def _begin(self, wall_ms: int) -> None:
        """Make runtime and buffers over the stores as they are."""
        self.runtime = TaskRuntime(
            self.part,
            self.stores.partition,
            self.stores.for_processors(),
            self._writer,
            wall_ms=wall_ms,
            errors=self._errors,
            global_stores=self._global_stores,
            least_column_rows=self._least_column_rows,
            least_run_rows=self._least_run_rows,
            cache_max_bytes=self._cache_max_bytes,
            meter=self.meter,
        )
        self._waiting = waiting_records(self.runtime, self.processed, self._max_task_idle_ms)
        self._bytes = {place: WaitingBytes() for place in self.processed}
        self.uncommitted = 0
        self._writer.has_emitted = False

    def accept(self, place: TopicPartition, messages: list[Message]) -> None:
        """Have *messages* of one partition wait, in order; what waits already is left out.

        The client may have gone back in the middle of them, and then has some of them twice.
        """
        following = self.accepted[place]
        offsets = list(map(offset_of, messages))
        if offsets[0] < following or not all(map(lt, offsets, offsets[1:])):
            messages = _ascending(messages, following)
            offsets = list(map(offset_of, messages))
        if messages:
            self.accepted[place] = offsets[-1] + 1
            records = list(map(record_of, messages))
            self._bytes[place].add(self.accepted[place], records)
            self._waiting.accept(place, offsets, records)

    def waiting(self, place: TopicPartition) -> int:
        """Return how many records of a partition wait."""
        return self._waiting.count(place)

    def waiting_bytes(self, place: TopicPartition) -> int:
        """Return how many bytes of a partition wait, with those that came together with them."""
        return self._bytes[place].behind(self.processed[place])

    def has_read_to(self, place: TopicPartition, offset: int) -> None:
        """Note that what a partition has before *offset*, and was not accepted, is no record.

        It is passed by the next commit, as what was processed is (KFK-49). Requires: nothing waits.
        """
        if offset > self.processed[place]:
            self.processed[place] = self.accepted[place] = offset

    @property
    def takes_rows(self) -> bool:
        """Whether all records that are at hand are best given to it at once."""
        return self._waiting.takes_rows

    @property
    def has_waiting(self) -> bool:
        """Whether a record waits."""
        return any(map(self._waiting.count, self.processed))

    def set_lag(self, place: TopicPartition, records: int | None) -> None:
        """Say how many records a partition has that have not been accepted, if it is known."""
        self._waiting.set_lag(place, records)

    def advance(self, wall_ms: int, limit: int) -> int:
        """Move the wall clock, and process up to *limit* records that wait; say how many.

        Raises:
            ProcessingError: One failed, and the policy is to fail.
        """
        self.runtime.advance_wall_clock(wall_ms)
        began_ns = perf_counter_ns()
        done = self._waiting.advance(wall_ms, limit, self.processed)
        if done:
            self.meter.turn(began_ns, done)
            self.uncommitted += done
        return done

    @property
    def has_uncommitted(self) -> bool:
        """Whether anything happened since the last commit, or the group lacks offsets of it."""
        return bool(
            self.uncommitted
            or self.processed != self.committed
            or self.told != self.committed
            or self._writer.has_emitted
            or self.stores.has_pending_writes
        )

    def prepare_commit(self) -> dict[TopicPartition, int]:
        """Give out what waits in the cache; return the next offsets that the commit is to have.

        Raises:
            ProcessingError: The task has failed before.
        """
        self._position = self.runtime.prepare_commit()
        if self.stores.has_pending_writes:
            self._topology.write()
        return dict(self.processed)

    def append_changes(self) -> Iterator[None]:
        """Write the changes of one store with each step.

        Raises:
            BrokerError: A change cannot be written.
        """
        now_ms = max(self.runtime.stream_time_ms, 0)
        for logged, rows in self.stores.pending(Position(self._position), now_ms):
            if logged.frames is not None and logged.wholes.is_due(logged.reflected):
                self._writer.append_whole(logged, logged.frames)
            self._writer.append(logged, rows)
            yield

    def commit_stores(self) -> None:
        """Commit the stores, once what they changed is committed in their changelogs.

        Raises:
            StateStoreError: One of them failed; the task is to be opened again.
        """
        self.stores.commit(self._position, self._writer.markers)
        self._topology.has_committed()
        self.runtime.committed()
        self.committed = dict(self.processed)
        self.uncommitted = 0
        self._writer.has_emitted = False

    def rollback(self, wall_ms: int) -> None:
        """Go back to the last commit, with nothing waiting.

        Raises:
            StateStoreError: A store has the changes already; the task is to be opened again.
        """
        self.runtime.close()
        self.stores.rollback()
        self.processed, self.accepted = dict(self.committed), dict(self.committed)
        self._begin(wall_ms)

    def close(self) -> None:
        """Close processors and stores; what is not committed is forgotten."""
        with ExitStack() as stack:
            stack.callback(self.stores.close)
            stack.callback(self.runtime.close)


def _ascending(messages: list[Message], following: int) -> list[Message]:
    """Return those of *messages* that are behind all before them, from *following* on."""
    found = []
    for message in messages:
        offset = offset_of(message)
        if offset >= following:
            found.append(message)
            following = offset + 1
    return found
