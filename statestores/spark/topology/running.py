"""A topology on Spark: one query, whose micro-batches go through all parts of it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from logging import getLogger
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.files.lock_waiting import COMMIT_TIMEOUT_MS
from statestores.opening import DEFAULT_BACKEND
from statestores.processing import Topology
from statestores.processing.runtime import LEAST_COLUMN_ROWS, LEAST_RUN_ROWS
from statestores.processing.topology import Graph
from statestores.registry import load_backend
from statestores.semantics.every_kind.arguments import check_time
from statestores.spark.given_root import GivenRoot
from statestores.spark.hash_placement import shuffled
from statestores.spark.local_copy import CopyOptions
from statestores.spark.session.name_routing import is_connect
from statestores.spark.session.query_session import query_id
from statestores.spark.session.sendable import check_sendable
from statestores.spark.session.worker_python import check_worker_python
from statestores.spark.stateful_functions.output import emitted_frame
from statestores.spark.stateful_functions.plan import CHANNEL_COLUMN, DEFAULT_PARTITIONS
from statestores.spark.stateful_functions.task import StatefulTask, TaskResult
from statestores.spark.topology.chain import Chain, EmittedFiles, PartPlan, StepInput
from statestores.spark.topology.planning import (
    ChainSettings,
    checked_graph,
    emptied_topics,
    filled_topics,
    plan_chain,
)
from statestores.spark.topology.record_columns import ARRIVAL_COLUMN, RECORD_DDL
from statestores.spark.topology.sinks import RecordDecoder
from statestores.spark.topology.sources import Source, StreamSource, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Sink: TypeAlias = Callable[[DataFrame, int], object]
"""Takes what a micro-batch has written to a topic, and its number, as in ``foreachBatch``."""

_LOGGER = getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyBatches:
    """Takes the micro-batches of the query: what is left of a run where a batch is handled."""

    graph: Graph
    """The topology."""

    chain: Chain
    """Its parts."""

    sinks: Mapping[str, Sink]
    """Who gets what was written, by topic."""

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Compute and commit one micro-batch, and give the sinks what came of it."""
        spark = batch.sparkSession
        columns = cast("StructType", StructType.fromDDL(RECORD_DDL))  # of DDL with several columns

        def emitted(several: Iterable[EmittedFiles]) -> DataFrame:
            frames = [emitted_frame(spark, each.place, each.files, columns) for each in several]
            return reduce(DataFrame.union, frames or [spark.createDataFrame([], columns)])

        def compute(part: PartPlan, task: StatefulTask, given: StepInput) -> Sequence[TaskResult]:
            frames = []
            if given.sources:
                frames.append(batch.where(f.col(CHANNEL_COLUMN).isin(*given.sources)))
            if given.emitted:
                frames.append(emitted(given.emitted))
            arrived = reduce(DataFrame.union, frames).withColumn(
                ARRIVAL_COLUMN, f.monotonically_increasing_id()
            )
            placed = shuffled(arrived, part.placement.rows, part.placement.partitions)
            rows = placed.mapInArrow(task.run, "result string").collect()
            return [TaskResult.from_json(row.result) for row in rows]

        before = self.chain.dropped.copy()
        written = self.chain.run(query_id(spark), number, compute)
        dropped = self.chain.dropped - before
        if dropped:
            _LOGGER.warning(
                "the micro-batch %d of %r has dropped records: %s",
                number,
                self.graph.name,
                ", ".join(f"{why}: {count}" for why, count in sorted(dropped.items())),
            )
        for topic, sink in self.sinks.items():
            decoder = RecordDecoder(self.graph.topics[topic])
            sink(decoder.frame(emitted(written.get(topic, ()))), number)


def run(
    topology: Topology,
    spark: "SparkSession",
    *,
    state: str | PathLike[str],
    sources: Mapping[str, Source],
    checkpoint: str | PathLike[str],
    sinks: Mapping[str, Sink] | None = None,
    partitions: int = DEFAULT_PARTITIONS,
    trigger: Mapping[str, Any] | None = None,
    local_directory: str | PathLike[str] | None = None,
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    commit_timeout_ms: int = COMMIT_TIMEOUT_MS,
    least_column_rows: int = LEAST_COLUMN_ROWS,
    least_run_rows: int = LEAST_RUN_ROWS,
    cache_max_bytes: int = 0,
    storage_options: Mapping[str, object] | None = None,
) -> "StreamingQuery":
    """Start a query that runs *topology*, and return it.

    A micro-batch goes through all parts of the topology before it ends. State and records of each
    part are committed together, once, whatever task is repeated or killed, and whenever the driver
    dies; what the sinks get of a micro-batch that comes again is what they have got.

    Args:
        topology: What to run. Its functions are sent to Spark's workers.
        spark: A classic session.
        state: The state root, on a file system that the driver and all executors share, or its URL
            in an object store.
        sources: What fills each topic that the topology reads and does not write: `Files`, a
            `KafkaTopic`, a `StateFeed`, or any streaming DataFrame with a column ``value`` and, as
            far as there are such, ``key``, ``timestamp`` and ``headers``.
        checkpoint: The query's checkpoint, which belongs to the state.
        sinks: Who gets what is written, by topic: functions of a DataFrame with the columns
            ``key``, ``value``, ``timestamp`` and ``headers``, and the number of the micro-batch.
            One that replaces what it has written under that number has each record once.
        partitions: How many partitions topics have of which the topology says nothing. It can
            never be changed.
        trigger: When a micro-batch begins, as ``DataStreamWriter.trigger`` takes it, such as
            ``{"availableNow": True}``; by default when the one before has ended.
        local_directory: Where the machines keep copies of the stores; by default in Spark's scratch
            directory.
        backend: The backend of these copies.
        options: The backend's own options.
        commit_timeout_ms: How long a step waits while another writer has one of the stores.
        least_column_rows: From how many records on a task processes columns.
        least_run_rows: From how many on it processes fewer as a run (PRC-95).
        cache_max_bytes: Memory of a task in which updates wait for the end of a step.
        storage_options: How the object store of a URL is reached (`StateRoot.open`); by default as
            the environment of driver and executors says.

    Raises:
        InvalidTypeError: An argument is of the wrong type, or the topology cannot be sent.
        InvalidArgumentError: A source is missing or unknown, or a sink is; the session is one of
            Spark Connect.
        InvalidTopologyError: The topology is not valid, or needs the wall clock.
        TopologyMismatchError: The state is of another topology, or of another runner.
        StateStoreError: The state cannot be written, or a source not be read.
    """
    if is_connect(spark):
        raise InvalidArgumentError(
            "run() needs a classic session: Spark Connect does not tell foreachBatch of which "
            "query a micro-batch is, so one that comes again could not be recognised"
        )
    graph = checked_graph(topology)
    check_time("commit_timeout_ms", commit_timeout_ms)
    _check_edges(graph, sources, sinks or {})
    check_worker_python(spark)
    check_sendable(
        graph.sub_topologies,
        f"the topology {graph.name!r}",
        "open files, connections and locks in Processor.open",
    )
    root = GivenRoot.of(fspath(state), storage_options)
    load_backend(backend or DEFAULT_BACKEND)
    frames = [
        records(
            source.frame(spark, graph.topics[name]) if isinstance(source, StreamSource) else source,
            graph.topics[name],
        )
        for name, source in sorted(sources.items())
    ]
    chain = plan_chain(
        graph,
        root,
        ChainSettings(
            partitions=partitions,
            copies=CopyOptions(
                directory=None if local_directory is None else fspath(local_directory),
                backend=backend,
                options=dict(options or {}),
            ),
            commit_timeout_ms=commit_timeout_ms,
            least_column_rows=least_column_rows,
            least_run_rows=least_run_rows,
            cache_max_bytes=cache_max_bytes,
        ),
    )
    batches = TopologyBatches(graph=graph, chain=chain, sinks=dict(sinks or {}))
    union = reduce(DataFrame.union, frames)
    writer = union.writeStream.foreachBatch(batches)
    writer = writer.option("checkpointLocation", fspath(checkpoint)).queryName(graph.name)
    return (writer if trigger is None else writer.trigger(**trigger)).start()


def _check_edges(graph: Graph, sources: object, sinks: object) -> None:
    """Accept sources and sinks that fit the topics of *graph*.

    Raises:
        InvalidTypeError: One is none.
        InvalidArgumentError: One is missing, or of a topic that it cannot be of.
    """
    if not isinstance(sources, Mapping) or not isinstance(sinks, Mapping):
        raise InvalidTypeError(
            "sources and sinks are given by topic, such as {'lines': frame}, got "
            f"{sources!r} and {sinks!r}"
        )
    filled, emptied = filled_topics(graph), emptied_topics(graph)
    if missing := sorted(filled - sources.keys()):
        raise InvalidArgumentError(
            f"nothing fills the topic {missing[0]!r} that the topology {graph.name!r} reads; give "
            f"sources={{{missing[0]!r}: ...}}"
        )
    for what, given, known in (("source", sources, filled), ("sink", sinks, emptied)):
        if unknown := sorted(given.keys() - known):
            raise InvalidArgumentError(
                f"the topology {graph.name!r} has no topic {unknown[0]!r} for a {what}; there are: "
                f"{', '.join(sorted(known)) or 'none'}"
            )
    for name, source in sources.items():
        if not isinstance(source, StreamSource | DataFrame):
            raise InvalidTypeError(
                f"the source of {name!r} must be Files, a KafkaTopic, a StateFeed or a streaming "
                f"DataFrame, got {source!r}"
            )
    for name, sink in sinks.items():
        if not callable(sink):
            raise InvalidTypeError(
                f"the sink of {name!r} must be a function of a DataFrame and the number of a "
                f"micro-batch, got {sink!r}"
            )
