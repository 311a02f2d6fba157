"""The runner on a Kafka cluster: one instance of an application, in one process.

Records are processed by the thread that calls `run`, which also polls, so that whoever has a
partition has it alone; another thread restores stores. More instances share the work. An instance
that the group or the broker has given up joins anew, over the stores as they were last committed.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from statestores.errors import InstanceFencedError, InvalidStateStoreError, InvalidTypeError
from statestores.files.directory_lock import DirectoryLock
from statestores.files.local_path import local_path
from statestores.kafka.answering.open_stores import OpenStores
from statestores.kafka.answering.server import begin_to_answer
from statestores.kafka.answering.topic_membership import TopicMembership
from statestores.kafka.broker_errors import StoppedWaitingError, TooManyAbortsError
from statestores.kafka.client_settings import (
    CLIENT_LOGGER,
    ClientSettings,
    GroupProtocol,
    OffsetReset,
)
from statestores.kafka.cluster import Cluster
from statestores.kafka.global_tables import GlobalTables
from statestores.kafka.group.stay import Stay, StayOptions
from statestores.kafka.identity import claim
from statestores.kafka.plan import Plan, TaskKey, check_topics_are_there, plan_with_topics
from statestores.kafka.progress import KafkaProgress
from statestores.kafka.run_arguments import (
    ChangelogFormat,
    Guarantee,
    Until,
    check_replicas,
    check_topology,
    check_words,
)
from statestores.kafka.task_places import TaskPlace, names_of, task_places
from statestores.kafka.tasks.instance_metrics import instance_metrics
from statestores.kafka.tasks.restorer import Restorer
from statestores.kafka.tasks.shared_snapshots import SharedSnapshots, SnapshotWriter
from statestores.kafka.tasks.task_stores import LoggedStore, TaskStores
from statestores.processing.dsl.topology import Topology
from statestores.processing.runtime import LEAST_COLUMN_ROWS, LEAST_RUN_ROWS
from statestores.processing.serve_argument import serving_of
from statestores.processing.windows import check_count, check_duration
from statestores.query.running_stores import RunningStore
from statestores.registry import load_backend
from statestores.semantics.expiry.wall_clock import wall_clock_ms
from statestores.spi import Durability, TopicPartition
from statestores.spi.metrics.metric import Metrics
from statestores.stopping import StopRequest
from statestores.tasks.restore_progress import RestoreListener
from statestores.tasks.task_arguments import check_listener

if TYPE_CHECKING:
    from statestores.serving import ApplicationServer, Serving

SNAPSHOT_INTERVAL_MS = 600_000
"""Ten minutes: what a restore reads of the changelog is what came in that time."""
_MOST_REJOINS = 5
"""How often an instance joins anew without a commit in between."""
_ENDED = "this instance ends without a commit: %s"


class KafkaRunner:
    """Runs an instance. `run` is called once; `stop`, `report` and `metrics` from any thread."""

    def __init__(
        self,
        topology: Topology,
        bootstrap_servers: str,
        state: str | PathLike[str],
        *,
        guarantee: Guarantee = "exactly_once",
        group_protocol: GroupProtocol = "consumer",
        offset_reset: OffsetReset = "earliest",
        settings: Mapping[str, Any] | None = None,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        durability: Durability = Durability.PROCESS_CRASH,
        commit_interval_ms: int = 100,
        commit_records: int = 10_000,
        least_column_rows: int = LEAST_COLUMN_ROWS,
        least_run_rows: int = LEAST_RUN_ROWS,
        cache_max_bytes: int = 0,
        changelog_format: ChangelogFormat = "rows",
        replication_factor: int = -1,
        standby_replicas: int = 0,
        snapshots: str | PathLike[str] | None = None,
        snapshot_interval_ms: int = SNAPSHOT_INTERVAL_MS,
        serve: "Serving | str | None" = None,
        until: Until = "stopped",
        progress: Callable[[KafkaProgress], object] | None = None,
        on_restore: RestoreListener | None = None,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """Check the arguments; nothing is opened or asked yet. See `run`.

        *clock_ms* is the wall clock, for those who test with one of their own.
        """
        check_topology(topology)
        check_listener(on_restore)
        if progress is not None and not callable(progress):
            raise InvalidTypeError(f"progress is a function of a KafkaProgress, got {progress!r}")
        check_duration("commit_interval_ms", commit_interval_ms)
        check_count("commit_records", commit_records)
        check_count("least_column_rows", least_column_rows)
        check_count("least_run_rows", least_run_rows)
        check_count("cache_max_bytes", cache_max_bytes, least=0)
        check_words(
            guarantee=guarantee,
            group_protocol=group_protocol,
            offset_reset=offset_reset,
            until=until,
            changelog_format=changelog_format,
        )
        check_duration("snapshot_interval_ms", snapshot_interval_ms, least=1)
        self._snapshots = None if snapshots is None else local_path(snapshots, "snapshots")
        self._snapshot_interval_ms = snapshot_interval_ms
        check_replicas(replication_factor=replication_factor, standby_replicas=standby_replicas)
        self._serve = serving_of(serve)
        self._server: ApplicationServer | None = None
        self._graph = topology.build()
        self._settings = ClientSettings(bootstrap_servers, settings)
        self._more_settings = settings
        self._changelog_format: ChangelogFormat = changelog_format
        self._frame_bytes = (
            self._settings.largest_bytes // 2 if changelog_format == "frames" else None
        )
        self._directory = local_path(state, "state")
        if backend is not None:
            load_backend(backend)  # else it would be found missing when the brokers were asked
        self._offset_reset: OffsetReset = offset_reset
        self._backend, self._options, self._durability = backend, options, durability
        self._stay_options = StayOptions(
            guarantee=guarantee,
            protocol=group_protocol,
            offset_reset=offset_reset,
            commit_seconds=commit_interval_ms / 1000,
            commit_records=commit_records,
            least_column_rows=least_column_rows,
            least_run_rows=least_run_rows,
            cache_max_bytes=cache_max_bytes,
            standby_replicas=standby_replicas,
            until=until,
            clock_ms=clock_ms,
        )
        self._replication_factor = replication_factor
        self._progress = progress
        self._on_restore = on_restore
        self._stopping = StopRequest()
        self._commits = self._rejoins = self._aborts = 0
        self._processed = self._emitted = self._dropped = 0
        self._stay: Stay | None = None
        self._tables: GlobalTables | None = None
        self._cluster: Cluster | None = None
        self._restorer: Restorer | None = None
        self._plan: Plan | None = None
        self._is_paused = False
        self._lag: Mapping[TopicPartition, int] = MappingProxyType({})

    def stop(self) -> None:
        """Have the run commit, leave the group and end. Returns at once; any thread may call."""
        self._stopping.set()

    def pause(self) -> None:
        """Have nothing more read and processed until `resume`; any thread may call.

        What was done is committed, and the instance keeps its tasks.
        """
        self._is_paused = True

    def resume(self) -> None:
        """Go on after `pause`."""
        self._is_paused = False

    def run(self) -> KafkaProgress:
        """Run until it is over; return how far it came.

        Raises:
            TopologyMismatchError: A topic is missing or other than it should be, the local state
                is that of another topology, or one of this name that reads others is running.
            StoreLockedError: Another process uses the state directory.
            OffsetOutOfRangeError: A changelog has lost what a store reflects.
            ProcessingError: A record failed, and the policy is to fail. What was committed stands.
            InstanceFencedError: The broker ends this instance's transactions again and again.
            BrokerError: The cluster refuses, or has not answered for a minute.
            StateStoreError: A store could not be opened, read or written.
        """
        try:
            return self._run()
        except StoppedWaitingError as error:
            CLIENT_LOGGER.warning(_ENDED, error)
            return self.report()

    def _run(self) -> KafkaProgress:
        with ExitStack() as stack:
            stack.callback(DirectoryLock.acquire(self._directory).release)
            identity = claim(self._directory, self._graph)
            cluster = Cluster(self._settings, self._stopping)
            plan = plan_with_topics(
                self._graph,
                cluster,
                self._changelog_format,
                self._replication_factor,
                is_compressed=self._settings.compresses,
            )
            self._cluster, self._plan = cluster, plan
            if self._serve is not None:
                self._begin_to_serve(stack, identity.instance, self._serve)
            tables = stack.enter_context(
                GlobalTables(
                    plan,
                    self._settings,
                    cluster,
                    self._directory,
                    backend=self._backend,
                    options=self._options,
                    durability=self._durability,
                    stopping=self._stopping,
                )
            )
            if self._stopping.is_set():
                return self.report()
            shared = None
            if self._snapshots is not None:
                shared = SharedSnapshots(self._snapshots, cluster, plan.changelogs)
            restorer = Restorer(
                plan.application,
                self._settings,
                cluster,
                offset_reset=self._offset_reset,
                internal=plan.internal,
                listener=self._on_restore,
                snapshots=shared,
            )
            stack.callback(restorer.stop)
            if shared is not None:
                interval_ms = self._snapshot_interval_ms
                stack.enter_context(SnapshotWriter(shared, self._own_stores, interval_ms))
            self._restorer, self._tables = restorer, tables
            fenced_at, fenced = -1, 0
            while True:
                try:
                    self._be_member(plan, cluster, tables, restorer, identity.instance)
                except InstanceFencedError as error:
                    fenced = fenced + 1 if fenced_at == self._commits else 1
                    fenced_at = self._commits
                    if fenced > _MOST_REJOINS:
                        raise
                    if self._stopping.is_set():  # what it has not committed, the next one does
                        CLIENT_LOGGER.warning(_ENDED, error)
                        return self.report()
                    check_topics_are_there(plan, cluster)  # else no other client can help
                    self._rejoins += 1
                    CLIENT_LOGGER.warning("this instance joins the group anew: %s", error)
                else:
                    return self.report()

    def _own_stores(self) -> list[LoggedStore]:
        """Return the stores of the tasks that run here; any thread may ask."""
        stay = self._stay
        tasks = [] if stay is None else list(stay.tasks.running.values())
        return [logged for task in tasks for logged in task.stores.logged.values()]

    def _begin_to_serve(self, stack: ExitStack, instance: str, serve: "Serving") -> None:
        stack.callback(setattr, self, "_server", None)
        membership = TopicMembership(
            self._graph.name,
            self._settings.bootstrap_servers,
            settings=self._more_settings,
            replication_factor=self._replication_factor,
        )
        self._server = begin_to_answer(
            stack, self, membership, instance, self._graph, self._settings, serve
        )

    def _be_member(
        self, plan: Plan, cluster: Cluster, tables: GlobalTables, restorer: Restorer, instance: str
    ) -> None:
        """Be a member of the group, until the run is over."""
        stay = Stay(
            plan,
            cluster,
            self._settings,
            self._stay_options,
            lambda key: self._opened(plan, key),
            restorer,
            tables,
            instance=instance,
            stopping=self._stopping,
        )
        self._stay = stay
        try:
            stay.run(lambda: self._is_paused, self._committed)
        except TooManyAbortsError:
            check_topics_are_there(plan, cluster)  # the client does not say which one is not
            raise
        finally:
            self._aborts += stay.tasks.aborts
            for task in stay.tasks.finished:
                self._processed += task.counts.processed
                self._emitted += task.counts.emitted
                self._dropped += task.counts.dropped_total
            self._lag = stay.lag
            self._stay = None

    def _opened(self, plan: Plan, key: TaskKey) -> TaskStores:
        return TaskStores(
            plan.application,
            plan.part(key),
            key.partition,
            Path(self._directory),
            backend=self._backend,
            options=self._options,
            durability=self._durability,
            frame_bytes=self._frame_bytes,
        )

    def _committed(self) -> None:
        self._commits += 1
        if self._progress is not None:
            self._progress(self.report())

    def report(self) -> KafkaProgress:
        """Return how far the run has come; any thread may ask."""
        stay = self._stay
        tasks = None if stay is None else stay.tasks
        counts = (
            [] if tasks is None else [t.counts for t in (*tasks.finished, *tasks.running.values())]
        )
        places = self.snapshot()
        return KafkaProgress(
            processed=self._processed + sum(each.processed for each in counts),
            emitted=self._emitted + sum(each.emitted for each in counts),
            dropped=self._dropped + sum(each.dropped_total for each in counts),
            commits=self._commits,
            aborts=self._aborts + (0 if tasks is None else tasks.aborts),
            rejoins=self._rejoins,
            running=names_of(places, "running"),
            restoring=names_of(places, "restoring"),
            standbys=names_of(places, "standby"),
            lag=self._lag if stay is None else stay.lag,
        )

    def snapshot(self) -> tuple[TaskPlace, ...]:
        """Return the tasks of which this instance has stores, and how far these are (KFK-19).

        Any thread may ask; each task is as it was at some moment of the call.
        """
        stay, restorer, plan = self._stay, self._restorer, self._plan
        if stay is None or restorer is None or plan is None:
            return ()
        return task_places(plan, stay.tasks, restorer)

    @property
    def server(self) -> "ApplicationServer | None":
        """What answers for this instance, with ``serve``; ``None`` before and after the run."""
        return self._server

    def _open_stores(self) -> OpenStores | None:
        stay, plan, cluster = self._stay, self._plan, self._cluster
        if plan is None or cluster is None:
            return None
        tasks = None if stay is None else stay.tasks
        return OpenStores(plan, cluster, self._tables, self._restorer, tasks)

    def running_stores(self) -> dict[str, RunningStore]:
        """Return the topology's stores, as they are here now (SRV-22); any thread may ask."""
        stores = self._open_stores()
        return {} if stores is None else stores.running()

    def changelog_end(self, name: str, partition: int) -> tuple[TopicPartition, int]:
        """Return a partition's changelog, and where it ends, to judge a lag; any thread may ask.

        Raises:
            StateStoreError: See `OpenStores.changelog_end`.
        """
        stores = self._open_stores()
        if stores is None:
            raise InvalidStateStoreError(f"{name!r} is not here yet; try again")
        return stores.changelog_end(name, partition)

    def not_begun(self) -> str | None:
        """Return, in words, why it is not known what is to run here; ``None`` once it is."""
        stay = self._stay
        if stay is None:
            return "the instance has not joined the group"
        return None if stay.membership.has_begun else "the group's assignment does not run yet"

    def metrics(self) -> Metrics:
        """Return the metrics of running tasks and their stores, and consumer lag by partition."""
        stay = self._stay
        if stay is None:
            return instance_metrics({}, self._lag)
        return instance_metrics(stay.tasks.running, stay.lag)
