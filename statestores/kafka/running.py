"""`run`: an instance from the beginning to the end, stopped by a signal."""

from collections.abc import Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from statestores.kafka.client_settings import GroupProtocol, OffsetReset
from statestores.kafka.progress import KafkaProgress
from statestores.kafka.run_arguments import ChangelogFormat, Guarantee, Until
from statestores.kafka.runner import SNAPSHOT_INTERVAL_MS, KafkaRunner
from statestores.processing.dsl.topology import Topology
from statestores.processing.runtime import LEAST_COLUMN_ROWS, LEAST_RUN_ROWS
from statestores.spi import Durability
from statestores.stopping import stopped_by_signals
from statestores.tasks.restore_progress import RestoreListener

if TYPE_CHECKING:
    from statestores.serving import Serving


def run(
    topology: Topology,
    *,
    bootstrap_servers: str,
    state: str | PathLike[str],
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
) -> KafkaProgress:
    """Run an instance of *topology* on a Kafka cluster; return how far it came (KFK-1).

    The topology's name is that of the group. Instances of one name share the tasks, each with a
    state directory of its own; one that is started again goes on where its stores are. SIGINT and
    SIGTERM have it commit, leave the group and end, when it is called in the main thread;
    elsewhere, use `KafkaRunner` and its `stop`.

    Args:
        topology: What to run. The topics that it reads and writes exist, with its dead letters;
            those that it needs for itself are created.
        bootstrap_servers: Brokers to begin with, as ``host:port``, separated by commas.
        state: The directory of the local stores, of this instance alone; made when it is not there.
        guarantee: Whether outputs, changelogs and offsets are one transaction (KFK-6).
        group_protocol: ``"consumer"`` is KIP-848, for Kafka 4 and newer; ``"classic"`` the one
            before.
        offset_reset: Where to begin a partition of which the group has committed nothing.
        settings: More settings of the clients, by librdkafka's names: ``security.protocol``,
            ``sasl.*``, ``ssl.*`` and so on. The prefixes ``consumer.``, ``producer.`` and
            ``admin.`` are for one client only.
        backend: The backend of new stores.
        options: The backend's own options.
        durability: What a local commit survives. The changelog has what a power failure takes.
        commit_interval_ms: How long the instance goes on before it commits.
        commit_records: After how many records of a task it commits in any case.
        least_column_rows: From how many records of a task at hand these are processed as columns,
            where columns give the same (PRC-55, PRC-56), and the last update of each key of a
            batch comes out.
        least_run_rows: From how many records on fewer are processed as a run, step by step, where
            every update comes out (PRC-95).
        cache_max_bytes: Memory of each task in which updates of a table wait for later ones of
            their keys, until the task commits (PRC-82).
        changelog_format: ``"rows"`` are the records that Kafka Streams writes (KFK-10);
            ``"frames"``, the library's own (KFK-27). Another one than a changelog has is refused.
        replication_factor: Copies of created topics; -1: as many as the brokers say.
        standby_replicas: How many other instances keep a copy of each task's stores up to date
            (KFK-17). A task that comes to one of these goes on almost at once.
        snapshots: A directory that all instances share, for snapshots of the stores (KFK-29): a
            store that begins anew takes the newest, and the changelog behind it.
        snapshot_interval_ms: How often the owner of a store writes one there, if it has changed.
        serve: Where the stores of the application are read from elsewhere while it runs, as
            ``host:port`` for HTTP, or a `statestores.serving.Serving` (SRV-22). Instances find
            each other in the topic ``<application>-instances``. It needs the extra ``serve``.
        until: ``"idle"`` ends the run when everything that is there for the application is
            processed, by this instance and others.
        progress: Called after each commit, on the thread that has committed.
        on_restore: Told of each restore's start, batches and end, on the thread that restores.

    Raises:
        InvalidTypeError, InvalidArgumentError, InvalidOptionError: An argument cannot be one.
        StateStoreError: See `KafkaRunner.run`.
    """
    runner = KafkaRunner(
        topology,
        bootstrap_servers,
        state,
        guarantee=guarantee,
        group_protocol=group_protocol,
        offset_reset=offset_reset,
        settings=settings,
        backend=backend,
        options=options,
        durability=durability,
        commit_interval_ms=commit_interval_ms,
        commit_records=commit_records,
        least_column_rows=least_column_rows,
        least_run_rows=least_run_rows,
        cache_max_bytes=cache_max_bytes,
        changelog_format=changelog_format,
        replication_factor=replication_factor,
        standby_replicas=standby_replicas,
        snapshots=snapshots,
        snapshot_interval_ms=snapshot_interval_ms,
        serve=serve,
        until=until,
        progress=progress,
        on_restore=on_restore,
    )
    with stopped_by_signals(runner.stop):
        return runner.run()
