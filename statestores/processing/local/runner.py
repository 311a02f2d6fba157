"""The local runner: a topology in one process, on durable stores and topics, exactly once.

One thread runs a task at a time, and each thread its own tasks. A task takes records, and from
time to time commits its stores, what it has emitted, and its position as one (PRC-49). Others see
what it emits when that is committed.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from os import PathLike
from threading import Lock, Thread
from typing import Any, Literal, TypeAlias

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.processing.dsl.topology import Topology
from statestores.processing.local.edge_task import EdgeTask
from statestores.processing.local.edges import Edges
from statestores.processing.local.identity import claim
from statestores.processing.local.idle import IdleWatch
from statestores.processing.local.local_task import LocalTask
from statestores.processing.local.outputs import TopicOutputs
from statestores.processing.local.progress import RunProgress
from statestores.processing.local.retention import Retention
from statestores.processing.local.sinks.sink import LocalSink
from statestores.processing.local.sources.source import LocalSource
from statestores.processing.local.topics import AnyTopic, LocalTopics
from statestores.processing.local.upkeep import Upkeep
from statestores.processing.stopping import StopRequest
from statestores.processing.topology.checks import check_co_partitioning
from statestores.processing.windows import check_count, check_duration
from statestores.semantics.expiry.wall_clock import wall_clock_ms
from statestores.spi import Durability, TopicPartition
from statestores.state_root import StateRoot
from statestores.tasks import TaskId, open_task

Until: TypeAlias = Literal["stopped", "idle"]
"""When a run ends: when it is told to, or when everything that is there is processed."""

_STEP_RECORDS = 500
"""Records that a task takes before the next one has its turn, and the clock is looked at."""

_PAUSE_SECONDS = 0.01
"""How long a thread without anything to do waits before it looks again."""


class LocalRunner:
    """Runs a topology. `run` is called once; `stop` from any thread."""

    def __init__(
        self,
        topology: Topology,
        state: str | PathLike[str],
        topics: str | PathLike[str],
        *,
        sources: Mapping[str, LocalSource] | None = None,
        sinks: Mapping[str, LocalSink] | None = None,
        retention: Mapping[str, Retention] | None = None,
        partitions: int = 1,
        threads: int = 1,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        durability: Durability = Durability.POWER_LOSS,
        commit_interval_ms: int = 500,
        commit_records: int = 10_000,
        until: Until = "stopped",
        progress: Callable[[RunProgress], object] | None = None,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """Check the arguments; nothing is opened yet. See `run`.

        *clock_ms* is the wall clock, for those who test with one of their own.
        """
        if not isinstance(topology, Topology):
            raise InvalidTypeError(f"expected a Topology, got {topology!r}")
        check_count("partitions", partitions)
        check_count("threads", threads)
        check_duration("commit_interval_ms", commit_interval_ms)
        check_count("commit_records", commit_records)
        if until not in ("stopped", "idle"):
            raise InvalidArgumentError(f"until must be 'stopped' or 'idle', got {until!r}")
        if progress is not None and not callable(progress):
            raise InvalidTypeError(f"progress is a function of a RunProgress, got {progress!r}")
        self._graph = topology.build()
        if threads > 1 and any(part.is_global for part in self._graph.sub_topologies):
            raise InvalidArgumentError(
                f"the topology {topology.name!r} has a global table, which tasks of one thread "
                f"share; run it with threads=1, got {threads!r}"
            )
        self._edges = Edges(self._graph, sources or {}, sinks or {})
        self._upkeep = Upkeep(
            self._graph, sources=sources or {}, sinks=sinks or {}, retention=retention or {}
        )
        self._opened: dict[str, AnyTopic] = {}
        self._state, self._topics_directory = state, topics
        self._partitions, self._threads = partitions, threads
        self._backend, self._options, self._durability = backend, options, durability
        self._commit_seconds, self._commit_records = commit_interval_ms / 1000, commit_records
        self._until: Until = until
        self._progress = progress
        self._wall_ms = clock_ms
        self._stopping = StopRequest()
        self._has_begun = False
        self._lock = Lock()
        self._commits = 0
        self._tasks: list[LocalTask | EdgeTask] = []
        self._failures: list[BaseException] = []

    def stop(self) -> None:
        """Have the run commit what it has done, and end. Returns at once; any thread may call."""
        self._stopping.set()

    def run(self) -> RunProgress:
        """Run the topology, until it is over; return how far it came.

        Raises:
            InvalidArgumentError: The runner has run before.
            TopologyMismatchError: State or topics are those of another topology.
            StoreLockedError: Another process runs a task of it, or writes one of its topics.
            OffsetOutOfRangeError: A topic has lost what the state reflects.
            ProcessingError: A record failed, and the policy is to fail. What was committed stands;
                the next run begins after it.
            StateStoreError: A store or topic could not be opened, read or written.
        """
        if self._has_begun:
            raise InvalidArgumentError(
                f"this LocalRunner of {self._graph.name!r} has run; make another, which goes on "
                "from where it committed"
            )
        self._has_begun = True
        with ExitStack() as stack:
            topics = stack.enter_context(
                LocalTopics(
                    self._topics_directory,
                    durability=self._durability,
                    homes=self._edges.homes(self._state),
                )
            )
            self._open(stack, topics)
            watch = IdleWatch(self._threads)
            if self._threads == 1:
                self._work(0, topics, watch)
            else:
                self._work_in_threads(topics, watch)
            if self._failures:
                raise self._failures[0]
            return self.report()

    def _open(self, stack: ExitStack, topics: LocalTopics) -> None:
        """Open every task, those of global tables first."""
        graph = self._graph
        present = {
            name: topics.topic(topic).partitions  # which checks those that are there
            for name, topic in graph.topics.items()
            if topics.partitions(name) is not None
        }
        check_co_partitioning(graph.nodes, present)
        counts = graph.partitions(self._partitions, present=present)
        root = StateRoot.create(self._state)
        identity = claim(root.path, graph, self._edges.names)
        opened = self._opened = {
            name: topics.topic(topic, partitions=counts[name])
            for name, topic in graph.topics.items()
        }
        edges = self._edges.open(
            stack,
            root,
            identity,
            opened,
            wall_ms=self._wall_ms(),
            backend=self._backend,
            options=self._options,
            durability=self._durability,
        )
        self._tasks += edges
        global_stores: dict[str, Any] = {}
        for part in sorted(graph.sub_topologies, key=lambda each: not each.is_global):
            tasks = graph.task_count(part, counts)
            for store in part.stores:
                root.add_store(store, partitions=tasks)
            for number in range(tasks):
                task_id = TaskId(identity.groups[part.name], number)
                mark = TopicPartition(f"@task/{identity.state}/{task_id.group}", number)
                written = {topic.name: opened[topic.name] for topic in part.sink_topics}
                letters = graph.errors.dead_letter_topics
                written |= {topic.name: opened[topic.name] for topic in letters}
                outputs = TopicOutputs(written, mark, number)
                task = open_task(
                    root,
                    task_id,
                    [store.name for store in part.stores],
                    backend=self._backend,
                    options=self._options,
                    durability=self._durability,
                    outputs=outputs,
                )
                stack.callback(task.close)
                local = LocalTask(
                    part,
                    task,
                    opened,
                    outputs,
                    wall_ms=self._wall_ms(),
                    errors=graph.errors,
                    max_task_idle_ms=graph.max_task_idle_ms,
                    global_stores=global_stores,
                )
                self._tasks.append(stack.enter_context(local))
                if part.is_global:
                    global_stores |= local.stores
                    while local.advance(self._wall_ms(), _STEP_RECORDS):
                        pass  # others find the table as it is now (PRC-37)

    def _work_in_threads(self, topics: LocalTopics, watch: IdleWatch) -> None:
        threads = [
            Thread(target=self._guarded, args=(number, topics, watch), name=f"task-{number}")
            for number in range(self._threads)
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():  # a signal is handled between two waits
                    thread.join(0.1)
        finally:
            self.stop()
            for thread in threads:
                thread.join()

    def _guarded(self, number: int, topics: LocalTopics, watch: IdleWatch) -> None:
        """Work; keep what is raised for the thread that waits, and have the others stop."""
        try:
            self._work(number, topics, watch)
        except BaseException as error:  # noqa: BLE001  # raised again by `run`
            with self._lock:
                self._failures.append(error)
            self.stop()

    def _work(self, number: int, topics: LocalTopics, watch: IdleWatch) -> None:
        """Run the tasks of one thread, and commit them at the end."""
        tasks = self._tasks[number :: self._threads]
        due = time.monotonic() + self._commit_seconds
        while not self._stopping.is_set():
            appends = topics.appends
            is_due = time.monotonic() >= due
            done = sum(self._turn(task, is_due=is_due) for task in tasks)
            if is_due:
                due = time.monotonic() + self._commit_seconds
                if number == 0:
                    self._upkeep.do(self._opened, self._tasks)
            if done or (self._until == "idle" and sum(map(self._commit, tasks))):
                watch.busy(number)
                continue
            if any(task.has_waiting for task in tasks):
                watch.busy(number)
            else:
                watch.idle(number, appends)
            if self._until == "idle" and watch.is_over(topics.appends):
                break
            self._stopping.wait(_PAUSE_SECONDS)
        for task in tasks:
            self._commit(task)
        if number == 0:
            self._upkeep.remove(self._opened, self._tasks)

    def _turn(self, task: LocalTask | EdgeTask, *, is_due: bool) -> int:
        """Let *task* go on, and commit if that is due; return how much was done."""
        limit = self._commit_records - task.uncommitted
        takes_rows = isinstance(task, LocalTask) and task.takes_rows
        done = task.advance(self._wall_ms(), limit if takes_rows else min(_STEP_RECORDS, limit))
        if task.commit_requested or task.uncommitted >= self._commit_records:
            done += self._commit(task)
        elif is_due:
            done += self._noted(is_committed=task.commit_when_due())
        return done

    def _commit(self, task: LocalTask | EdgeTask) -> bool:
        """Commit *task*, if it has done anything, and say so."""
        return self._noted(is_committed=task.commit())

    def _noted(self, *, is_committed: bool) -> bool:
        """Count a commit, and tell of it."""
        if not is_committed:
            return False
        with self._lock:
            self._commits += 1
            if self._progress is not None:
                self._progress(self.report())
        return True

    def report(self) -> RunProgress:
        """Return how far the run has come; any thread may ask."""
        counts = [task.counts for task in self._tasks]
        return RunProgress(
            processed=sum(each.processed for each in counts),
            emitted=sum(each.emitted for each in counts),
            dropped=sum(each.dropped_total for each in counts),
            commits=self._commits,
        )
