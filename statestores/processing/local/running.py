"""`run`: a topology from the beginning to the end, stopped by a signal."""

from collections.abc import Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING

from statestores.changelog.options import ChangelogOptions
from statestores.metrics import RecordingLevel
from statestores.processing.dsl.topology import Topology
from statestores.processing.local.progress import RunProgress
from statestores.processing.local.retention import Retention
from statestores.processing.local.runner import LocalRunner, Until
from statestores.processing.local.sinks.sink import LocalSink
from statestores.processing.local.sources.source import LocalSource
from statestores.processing.runtime import LEAST_COLUMN_ROWS, LEAST_RUN_ROWS
from statestores.spi import Durability
from statestores.stopping import stopped_by_signals

if TYPE_CHECKING:
    from statestores.serving import Serving


def run(
    topology: Topology,
    *,
    state: str | PathLike[str],
    topics: str | PathLike[str],
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
) -> RunProgress:
    """Run *topology* in this process, exactly once (PRC-49); return how far it came.

    Other processes may run the same topology on the same state and topics, on this machine: they
    share its tasks, and take over those of one that ends or dies (PRC-68).

    It goes on where an earlier run has stopped, in whatever way. SIGINT and SIGTERM have it commit
    and end, when it is called in the main thread; elsewhere, use `LocalRunner` and its `stop`.

    Args:
        topology: What to run.
        state: The state root; made when it is not there.
        topics: The directory of the topics; see `LocalTopics`.
        sources: What fills a topic that the topology reads, by the topic's name: `JsonLines`,
            `ParquetFiles` or `Items` (PRC-59). Such a topic lies in the state, and is emptied
            behind the tasks.
        sinks: What empties a topic that the topology writes, by the topic's name: `ParquetSink`
            or, `AtLeastOnce`, a function (PRC-63). The topic itself stays.
        retention: Which records a topic may lose, by the topic's name; never those that the
            topology has yet to read. Without, they stay (PRC-66).
        partitions: How many partitions a new topic has that does not say it.
        threads: Over how many threads the tasks are spread.
        backend: The backend of new stores.
        options: The backend's own options.
        durability: What a commit survives. With ``PROCESS_CRASH``, exactly once holds for crashes
            of the process alone: a power failure may take from a topic what a store reflects.
        changelog_options: How the changelogs of stores are written from now on, such as
            ``ChangelogOptions(compression=Compression.NONE)``.
        commit_interval_ms: How long a task goes on before it commits.
        commit_records: After how many records it commits in any case.
        least_column_rows: From how many records on a batch is processed as columns (PRC-55): of
            aggregates, the last update of each key comes out.
        least_run_rows: From how many records on a smaller batch is processed as a run, step by
            step (PRC-95): every update comes out.
        cache_max_bytes: Memory of a task in which updates of aggregates and tables wait until it
            commits, so that of each key one comes out, where nobody could tell (PRC-82).
        until: ``"idle"`` ends the run when everything that is there is processed, by this process
            and the others.
        endpoint: Where this process can be asked; others find it with `read_instances`.
        standbys: How many other processes keep a copy of the stores of each task (PRC-77); the same
            in each of them. They take over in no time, also with a backend that keeps nothing, and
            can be queried.
        serve: Where stores are read from elsewhere while it runs, as ``host:port`` for HTTP, or a
            `statestores.serving.Serving` (SRV-22): of all processes that share the state. It needs
            the extra ``serve``.
        recording_level: ``"DEBUG"`` also measures each call of a store and each record of a step,
            and processes no columns (PRC-76). `LocalRunner.metrics` has the metrics.
        progress: Called after each commit, on the thread that has committed.

    Raises:
        StateStoreError: See `LocalRunner.run`.
    """
    runner = LocalRunner(
        topology,
        state,
        topics,
        sources=sources,
        sinks=sinks,
        retention=retention,
        partitions=partitions,
        threads=threads,
        backend=backend,
        options=options,
        durability=durability,
        changelog_options=changelog_options,
        commit_interval_ms=commit_interval_ms,
        commit_records=commit_records,
        least_column_rows=least_column_rows,
        least_run_rows=least_run_rows,
        cache_max_bytes=cache_max_bytes,
        until=until,
        endpoint=endpoint,
        standbys=standbys,
        serve=serve,
        recording_level=recording_level,
        progress=progress,
    )
    with stopped_by_signals(runner.stop):
        return runner.run()
