"""The local runner: a topology on durable stores and topics in directories, exactly once.

Several processes share its tasks (PRC-68). One thread runs a task at a time, and each thread its
own tasks. A task takes records, and from time to time commits its stores, what it has emitted, and
its position as one (PRC-49). Others see what it emits when that is committed.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from os import PathLike
from pathlib import Path
from threading import Lock, Thread
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from statestores.changelog.options import ChangelogOptions, check_changelog_options
from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.files.local_path import local_path
from statestores.metrics import RecordingLevel
from statestores.processing.dsl.topology import Topology
from statestores.processing.local.answering import begin_to_answer, checked
from statestores.processing.local.edges import Edges
from statestores.processing.local.idle import IdleWatch
from statestores.processing.local.joining import join
from statestores.processing.local.local_task import LocalTask
from statestores.processing.local.progress import RunProgress
from statestores.processing.local.retention import Retention
from statestores.processing.local.sharing.copies import Copies, OpenCopy
from statestores.processing.local.sharing.global_tables import GlobalTables
from statestores.processing.local.sharing.patience import Patience
from statestores.processing.local.sharing.shared_stores import SharedStores
from statestores.processing.local.sharing.task_share import TaskShare
from statestores.processing.local.sinks.sink import LocalSink
from statestores.processing.local.sources.source import LocalSource
from statestores.processing.local.task_plan import (
    PlannedTask,
    RunningTask,
    TaskSettings,
    plan_parts,
)
from statestores.processing.local.topics import AnyTopic, LocalTopics
from statestores.processing.local.upkeep import Upkeep
from statestores.processing.runtime import LEAST_COLUMN_ROWS, LEAST_RUN_ROWS
from statestores.processing.windows import check_count, check_duration
from statestores.query.running_stores import RunningStore
from statestores.semantics.expiry.wall_clock import wall_clock_ms
from statestores.spi import Durability
from statestores.spi.metrics.metric import Metrics
from statestores.state_root import StateRoot
from statestores.stopping import StopRequest
from statestores.tasks import Standby, open_standby

if TYPE_CHECKING:
    from statestores.processing.runtime import TaskCounts
    from statestores.serving import ApplicationServer, Serving

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
        changelog_options: ChangelogOptions | None = None,
        commit_interval_ms: int = 500,
        commit_records: int = 10_000,
        least_column_rows: int = LEAST_COLUMN_ROWS,
        least_run_rows: int = LEAST_RUN_ROWS,
        cache_max_bytes: int = 0,
        until: Until = "stopped",
        endpoint: str | None = None,
        standbys: int = 0,
        serve: "Serving | str | None" = None,
        recording_level: RecordingLevel | str = RecordingLevel.INFO,
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
        check_changelog_options(changelog_options)
        check_duration("commit_interval_ms", commit_interval_ms)
        check_count("commit_records", commit_records)
        check_count("least_column_rows", least_column_rows)
        check_count("least_run_rows", least_run_rows)
        check_count("cache_max_bytes", cache_max_bytes, least=0)
        if until not in ("stopped", "idle"):
            raise InvalidArgumentError(f"until must be 'stopped' or 'idle', got {until!r}")
        if progress is not None and not callable(progress):
            raise InvalidTypeError(f"progress is a function of a RunProgress, got {progress!r}")
        if local_path(state, "state").resolve() == local_path(topics, "topics").resolve():
            raise InvalidArgumentError(
                f"state and topics need a directory each, got {str(state)!r} for both; give "
                "state='.../state' and topics='.../topics'"
            )
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
        self._least_column_rows, self._least_run_rows = least_column_rows, least_run_rows
        self._changelog_options, self._cache_max_bytes = changelog_options, cache_max_bytes
        self._until: Until = until
        self._endpoint = endpoint
        check_count("standbys", standbys, least=0)
        self._standbys = standbys
        self._serve = checked(serve, endpoint)
        self._server: ApplicationServer | None = None
        self._level = RecordingLevel(recording_level)
        self._share: TaskShare | None = None
        self._progress = progress
        self._wall_ms = clock_ms
        self._stopping = StopRequest()
        self._has_begun = False
        self._lock = Lock()
        self._commits = 0
        self._counts: list[TaskCounts] = []
        self._is_all_done = False
        self._failures: list[BaseException] = []

    def stop(self) -> None:
        """Have the run commit what it has done, and end. Returns at once; any thread may call."""
        self._stopping.set()

    def run(self) -> RunProgress:
        """Run the topology, until it is over; return how far it came.

        Raises:
            InvalidArgumentError: The runner has run before.
            TopologyMismatchError: State or topics are those of another topology.
            StoreLockedError: At the end, somebody does not let go of what is needed to commit.
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
        patience = Patience(self._stopping.is_set)
        with ExitStack() as stack:
            topics = stack.enter_context(
                LocalTopics(
                    self._topics_directory,
                    durability=self._durability,
                    homes=self._edges.homes(self._state),
                    patience=patience,
                )
            )
            share = self._join(stack, topics, patience)
            if self._serve is not None:
                stack.callback(setattr, self, "_server", None)
                self._server = begin_to_answer(stack, self, share, self._graph, self._serve)
            share.poll()
            watch = IdleWatch(self._threads)
            if self._threads == 1:
                self._work(0, topics, share, watch)
            else:
                self._work_in_threads(topics, share, watch)
            if self._failures:
                raise self._failures[0]
            return self.report()

    def _join(self, stack: ExitStack, topics: LocalTopics, patience: Patience) -> TaskShare:
        """Join those who run the topology; no task is opened yet."""
        graph = self._graph
        root, identity, file, opened, counts = join(
            graph,
            self._edges,
            topics,
            self._state,
            self._topics_directory,
            partitions=self._partitions,
            patience=patience,
        )
        stack.enter_context(file)
        self._opened = opened
        settings = TaskSettings(
            backend=self._backend,
            options=self._options,
            durability=self._durability,
            changelog_options=self._changelog_options,
            clock_ms=self._wall_ms,
            is_detailed=self._level is RecordingLevel.DEBUG,
            least_column_rows=self._least_column_rows,
            least_run_rows=self._least_run_rows,
            cache_max_bytes=self._cache_max_bytes,
        )
        global_stores: dict[str, Any] = {}
        plan = [
            *self._edges.plan(root, identity, opened, settings),
            *plan_parts(graph, counts, root, identity, opened, settings, global_stores),
        ]
        share = TaskShare(
            plan,
            opened,
            root,
            file,
            threads=self._threads,
            endpoint=self._endpoint,
            tables=GlobalTables(
                plan,
                opened,
                Copies(root.path, self._copy_opener(root), is_following=False),
                global_stores,
            ),
            copies=Copies(root.path, self._copy_opener(root)) if self._standbys else None,
            standbys=self._standbys,
            is_stopping=self._stopping.is_set,
        )
        for name in self._edges.sources:
            for log in opened[name].logs:
                log.is_fed = partial(share.is_feeding, name)
        self._counts = share.counts
        self._share = stack.enter_context(share)
        return share

    def _copy_opener(self, root: StateRoot) -> OpenCopy:
        """Return what opens the copy of a store, as its own task would open it."""

        def open_copy(task: PlannedTask, store: str, directory: Path) -> Standby:
            return open_standby(
                root,
                store,
                task.partition,
                directory,
                backend=self._backend,
                options=self._options,
                durability=self._durability,
            )

        return open_copy

    def _work_in_threads(self, topics: LocalTopics, share: TaskShare, watch: IdleWatch) -> None:
        threads = [
            Thread(target=self._guarded, args=(number, topics, share, watch), name=f"task-{number}")
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

    def _guarded(
        self, number: int, topics: LocalTopics, share: TaskShare, watch: IdleWatch
    ) -> None:
        """Work; keep what is raised for the thread that waits, and have the others stop."""
        try:
            self._work(number, topics, share, watch)
        except BaseException as error:  # noqa: BLE001  # raised again by `run`
            with self._lock:
                self._failures.append(error)
            self.stop()

    def _work(self, number: int, topics: LocalTopics, share: TaskShare, watch: IdleWatch) -> None:
        """Run the tasks of one thread, and commit them at the end."""
        due = time.monotonic() + self._commit_seconds
        while not self._stopping.is_set() and not self._is_all_done:
            if number == 0:
                share.poll()
            share.give_up(number, self._commit)
            tasks = share.tasks(number)
            appends = topics.appends
            is_due = time.monotonic() >= due
            done = sum(self._turn(task, is_due=is_due) for task in tasks)
            if is_due:
                due = time.monotonic() + self._commit_seconds
                if number == 0:
                    self._upkeep.do(self._opened, share.readers)
            if done or (self._until == "idle" and sum(map(self._commit, tasks))):
                watch.busy(number)
                continue
            if any(task.has_waiting for task in tasks):
                watch.busy(number)
            else:
                watch.idle(number, appends)
            if self._until == "idle" and watch.is_over(topics.appends) and share.is_all_done():
                self._is_all_done = True
                break
            self._stopping.wait(_PAUSE_SECONDS)
        for task in share.tasks(number):
            self._commit(task)
        if number == 0:
            self._upkeep.remove(self._opened, share.readers())

    def _turn(self, task: RunningTask, *, is_due: bool) -> int:
        """Let *task* go on, and commit if that is due; return how much was done."""
        limit = self._commit_records - task.uncommitted
        takes_rows = isinstance(task, LocalTask) and task.takes_rows
        began_ns = perf_counter_ns()
        done = task.advance(self._wall_ms(), limit if takes_rows else min(_STEP_RECORDS, limit))
        if done:
            task.meter.turn(began_ns, done)
        if task.commit_requested or task.uncommitted >= self._commit_records:
            done += self._commit(task)
        elif is_due:
            done += self._noted(task, task.commit_when_due)
        return done

    def _commit(self, task: RunningTask) -> bool:
        """Commit *task*, if it has done anything, and say so."""
        return self._noted(task, task.commit)

    def _noted(self, task: RunningTask, commit: Callable[[], bool]) -> bool:
        """Commit; measure that, count it, and tell of it."""
        began_ns = perf_counter_ns()
        if not commit():
            return False
        ended_ns = perf_counter_ns()
        task.meter.commits.record(ended_ns - began_ns, ended_ns)
        with self._lock:
            self._commits += 1
            if self._progress is not None:
                self._progress(self.report())
        return True

    def metrics(self) -> Metrics:
        """Return what the tasks measure that are here now (PRC-75); any thread may ask."""
        share = self._share
        if share is None:
            return ()
        copies = [metric for each in share.all_copies() for metric in each.metrics()]
        return (*(metric for task in share.all_tasks() for metric in task.metrics()), *copies)

    @property
    def stores(self) -> SharedStores:
        """The stores that are here, for `statestores.query.QueryableStores`: standbys as well."""
        return SharedStores(lambda: self._share)

    @property
    def server(self) -> "ApplicationServer | None":
        """What answers for this process, with ``serve``; ``None`` before and after the run."""
        return self._server

    def running_stores(self) -> dict[str, RunningStore]:
        """Return the topology's stores, as they are here now (SRV-22); any thread may ask."""
        return self.stores.running(
            store.name for part in self._graph.sub_topologies for store in part.stores
        )

    def not_begun(self) -> str | None:
        """Return, in words, why nothing runs yet; ``None`` once what was free is open here."""
        share = self._share
        return None if share is not None and share.has_polled else "the run has not begun"

    def report(self) -> RunProgress:
        """Return how far the run has come; any thread may ask."""
        counts = list(self._counts)
        return RunProgress(
            processed=sum(each.processed for each in counts),
            emitted=sum(each.emitted for each in counts),
            dropped=sum(each.dropped_total for each in counts),
            commits=self._commits,
        )
