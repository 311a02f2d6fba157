"""The test driver: a whole topology in one thread, deterministic, the clock in the test's hand.

Every record is processed to its end, through internal topics too, before the next one. It is the
way to test one's own topology: no broker, no waiting, and by default no files.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from statestores.errors import (
    InvalidArgumentError,
    ProcessingError,
    StoreClosedError,
    StoreNotFoundError,
)
from statestores.partitioning import partitioner_by_name
from statestores.processing.record import RawRecord
from statestores.processing.runtime import TaskCounts
from statestores.processing.testing.declared_view import as_declared
from statestores.processing.testing.driver_task import DriverTask
from statestores.processing.testing.topic_handle import TopicHandle
from statestores.processing.topology import Graph
from statestores.processing.windows import check_count, check_duration
from statestores.spi import (
    KeyValue,
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyTimestampedKeyValueStore,
    ReadOnlyVersionedStore,
    ReadOnlyWindowStore,
    Session,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
    Window,
)

K = TypeVar("K")
V = TypeVar("V")

_MOST_FOLLOWING = 100_000
"""Records that one call may lead to in topics that the topology reads; beyond, it has no end."""


class TestDriver:
    """Runs a topology for a test. Made by `Topology.test`; close it, or use it in ``with``."""

    __test__ = False  # its name begins as that of a test class

    def __init__(
        self,
        graph: Graph,
        *,
        backend: str = "memory",
        directory: str | PathLike[str] | None = None,
        options: Mapping[str, object] | None = None,
        partitions: int = 1,
        wall_ms: int = 0,
        commit_each: bool = True,
        cache_max_bytes: int = 0,
    ) -> None:
        """Open the stores of every task. See `Topology.test`."""
        check_count("partitions", partitions)
        check_count("cache_max_bytes", cache_max_bytes, least=0)
        self.graph = graph
        self.wall_ms = wall_ms
        self._commit_each = commit_each
        self._temporary = TemporaryDirectory() if directory is None else None
        root = Path(directory if self._temporary is None else self._temporary.name)  # type: ignore[arg-type]
        self._partitions = graph.partitions(partitions)
        self._readers: dict[str, list[list[DriverTask]]] = {}
        self._tasks: list[DriverTask] = []
        self._topics: dict[str, TopicHandle] = {}
        self._ahead: deque[tuple[str, int, RawRecord]] = deque()
        self._batch: list[tuple[str, int, RawRecord]] = []
        self._batch_size = 1
        self._unkeyed = 0
        self._is_closed = False
        global_stores: dict[str, Any] = {}
        try:
            for part in sorted(graph.sub_topologies, key=lambda each: not each.is_global):
                tasks = []
                for number in range(graph.task_count(part, self._partitions)):
                    task = DriverTask(
                        part,
                        number,
                        root,
                        self,
                        backend=backend,
                        options=options,
                        wall_ms=wall_ms,
                        errors=graph.errors,
                        global_stores=global_stores,
                        cache_max_bytes=cache_max_bytes,
                    )
                    tasks.append(task)
                    self._tasks.append(task)
                if part.is_global:
                    global_stores |= tasks[0].stores
                for topic in part.source_topics:
                    self._readers.setdefault(topic.name, []).append(tasks)
        except BaseException:
            self.close()
            raise
        for name, topic in graph.topics.items():
            take = self._take if name in self._readers else None
            self._topics[name] = TopicHandle(topic, take, self.settle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # What a test does.

    def topic(self, name: str) -> TopicHandle:
        """Return the topic *name*: a source, a sink, an internal one, or one of dead letters.

        Raises:
            InvalidArgumentError: The topology has none of that name.
        """
        try:
            return self._topics[name]
        except KeyError as error:
            raise InvalidArgumentError(
                f"the topology {self.graph.name!r} has no topic {name!r}; it has: "
                f"{', '.join(self._topics)}"
            ) from error

    @overload
    def store(
        self, name: TimestampedKeyValue[K, V], partition: int = 0
    ) -> ReadOnlyTimestampedKeyValueStore[K, V]: ...
    @overload
    def store(self, name: KeyValue[K, V], partition: int = 0) -> ReadOnlyKeyValueStore[K, V]: ...
    @overload
    def store(self, name: Versioned[K, V], partition: int = 0) -> ReadOnlyVersionedStore[K, V]: ...
    @overload
    def store(self, name: Window[K, V], partition: int = 0) -> ReadOnlyWindowStore[K, V]: ...
    @overload
    def store(self, name: Session[K, V], partition: int = 0) -> ReadOnlySessionStore[K, V]: ...
    @overload
    def store(self, name: str, partition: int = 0, *, stamped: bool = False) -> Any: ...
    def store(
        self,
        name: str | StoreSpecification[Any, Any],
        partition: int = 0,
        *,
        stamped: bool = False,
    ) -> Any:
        """Return the store *name* of a partition, for reading, as it was declared.

        By its specification instead of its name, a type checker knows what it is. Aggregates and
        tables keep a timestamp with each value; with *stamped*, or by a `TimestampedKeyValue`, it
        is shown.

        Raises:
            StoreNotFoundError: There is none of that name.
            StoreMismatchError: It is of another kind, or of other keys, than the specification.
            StoreClosedError: The driver is closed.
        """
        self._check_open()
        self.settle()
        wanted = name if isinstance(name, StoreSpecification) else None
        name = name.name if isinstance(name, StoreSpecification) else name
        for task in self._tasks:
            if name in task.stores and task.runtime.task_partition == partition:
                kinds = {
                    node.kind
                    for node in task.part.nodes
                    if any(store.name == name for store in node.stores)
                }
                return as_declared(
                    task.stores[name],
                    wanted,
                    keeps_stamps=bool(kinds - {"process"}),
                    stamped=stamped,
                )
        raise StoreNotFoundError(
            f"the topology {self.graph.name!r} has no store {name!r} in partition {partition}; it "
            f"has: {', '.join(self.graph.stores) or 'none'}"
        )

    def advance_wall_clock(self, by_ms: int) -> None:
        """Move the wall clock on by *by_ms*, and do what is due."""
        check_duration("by_ms", by_ms)
        self._check_open()
        self.settle()
        self.wall_ms += by_ms
        for task in self._tasks:
            task.runtime.advance_wall_clock(self.wall_ms)
            self._drain()
        self._commit_if_each()

    def to_batches(
        self,
        size: int,
        *,
        least_column_rows: int | None = None,
        least_run_rows: int | None = None,
    ) -> None:
        """Process what is piped from now on in batches of *size*.

        Batches from *least_column_rows* records on are processed as columns, where columns can do
        what is asked; by default from 1,000 on. Smaller ones from *least_run_rows* on are runs, of
        which every update comes out; by default from 256 on.

        A batch that is not full is processed when something is read, the clock is moved, or
        `settle` is called.
        """
        check_count("size", size)
        self.settle()
        self._batch_size = size
        for name, least in (
            ("least_column_rows", least_column_rows),
            ("least_run_rows", least_run_rows),
        ):
            if least is not None:
                check_count(name, least)
        for task in self._tasks:
            task.runtime.use_columns_from(least_column_rows, least_run_rows)

    @property
    def declined_columns(self) -> dict[str, dict[str, int]]:
        """Which steps were given columns and used records, why, and how often."""
        self.settle()
        return {
            step: reasons
            for task in self._tasks
            for step, reasons in task.runtime.declined_columns.items()
        }

    def settle(self) -> None:
        """Process what waits for its batch to be full.

        Raises:
            ProcessingError: An operator failed, or the topology feeds itself without end.
        """
        if not self._batch:
            return
        batch, self._batch = self._batch, []
        for stretch in self._stretches(batch):
            topic, partition, _ = stretch[0]
            if len({each for each, _, _ in stretch}) > 1:
                (tasks,) = self._readers[topic]
                tasks[partition].take_several([(each, record) for each, _, record in stretch])
            else:
                self._give(topic, partition, [record for _, _, record in stretch])
            self._drain()
        self._commit_if_each()

    def _stretches(
        self, batch: list[tuple[str, int, RawRecord]]
    ) -> Iterator[list[tuple[str, int, RawRecord]]]:
        """Yield what is given to tasks at once: records of one partition that follow each other.

        They may be of several topics, where one task reads those and nobody reads what it writes:
        in between, nothing else is to be processed.
        """
        start = 0
        for end in range(1, len(batch) + 1):
            if end == len(batch) or not self._go_together(batch[start], batch[end]):
                yield batch[start:end]
                start = end

    def _go_together(
        self, one: tuple[str, int, RawRecord], other: tuple[str, int, RawRecord]
    ) -> bool:
        if one[:2] == other[:2]:
            return True
        is_one_task = one[1] == other[1] and self._readers[one[0]] == self._readers[other[0]]
        return is_one_task and self._ends_there(one[0])

    def _ends_there(self, topic: str) -> bool:
        """Whether one part reads *topic*, partition by partition, and nobody what it writes."""
        if len(self._readers[topic]) != 1:
            return False
        part = self._readers[topic][0][0].part
        written = {node.writes.name for node in part.nodes if node.writes is not None}
        return not part.is_global and not written & self._readers.keys()

    def commit(self) -> None:
        """Commit every store of every task."""
        self._check_open()
        self.settle()
        for task in self._tasks:
            task.commit()

    @property
    def counts(self) -> tuple[TaskCounts, ...]:
        """The counters of each task."""
        self.settle()
        return tuple(task.runtime.counts for task in self._tasks)

    @property
    def dropped_total(self) -> int:
        """How many records went no further, of all tasks and for every reason."""
        return sum(each.dropped_total for each in self.counts)

    def close(self) -> None:
        """Close processors and stores. What waits for its batch is not processed."""
        tasks, self._tasks = self._tasks, []
        self._is_closed = True
        try:
            for task in tasks:
                task.close()
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()

    # What the tasks do.

    def emit(self, topic: str, record: RawRecord, partition: int | None) -> None:
        """Take what a task emits, and give it to whoever reads it."""
        self._topics[topic].write(record)
        if topic in self._readers:
            chosen = self._partition(topic, record) if partition is None else partition
            self._ahead.append((topic, chosen, record))

    # Inside.

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosedError(
                f"the test driver of {self.graph.name!r} is closed; pipe, and look at stores, "
                "inside the with block"
            )

    def _take(self, topic: str, partition: int | None, record: RawRecord) -> None:
        self._check_open()
        count = self._partitions[topic]
        if partition is not None and not (type(partition) is int and 0 <= partition < count):
            raise InvalidArgumentError(
                f"the topic {topic!r} has the partitions 0 to {count - 1}, got {partition!r}; say "
                "how many there are when the driver is made: test(partitions=...)"
            )
        chosen = self._partition(topic, record) if partition is None else partition
        self._batch.append((topic, chosen, record))
        if len(self._batch) >= self._batch_size:
            self.settle()

    def _give(self, topic: str, partition: int, records: list[RawRecord]) -> None:
        for tasks in self._readers[topic]:
            is_global = tasks[0].part.is_global
            tasks[0 if is_global else partition].take(topic, partition, records)

    def _drain(self) -> None:
        """Process what was emitted to internal topics: what lies there in a row as a batch."""
        following = 0
        while self._ahead:
            topic, partition, record = self._ahead.popleft()
            records = [record]
            if self._batch_size > 1:
                while self._ahead and self._ahead[0][:2] == (topic, partition):
                    records.append(self._ahead.popleft()[2])
            following += len(records)
            if following > _MOST_FOLLOWING:
                self._ahead.clear()
                raise ProcessingError(
                    f"one call has led to more than {_MOST_FOLLOWING:,} records in topics that the "
                    f"topology {self.graph.name!r} reads, the last in {topic!r}: it feeds itself "
                    "without end; let what it writes there come to one"
                )
            self._give(topic, partition, records)

    def _partition(self, topic: str, record: RawRecord) -> int:
        count = self._partitions[topic]
        if count == 1:
            return 0
        if record.key is None:
            self._unkeyed += 1
            return self._unkeyed % count
        name = self._topics[topic].topic.partitioner
        return partitioner_by_name(name).partition(record.key, count)

    def _commit_if_each(self) -> None:
        if self._commit_each:
            for task in self._tasks:
                task.commit()
