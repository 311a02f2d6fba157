"""From a topology to the operators of its parts, on a state root that has their stores."""

from dataclasses import dataclass

from statestores.errors import InvalidTopologyError, InvalidTypeError, StoreMismatchError
from statestores.processing import Topology
from statestores.processing.local.identity import claim
from statestores.processing.operators.windowed import WindowedOperator
from statestores.processing.runtime import LEAST_COLUMN_ROWS, LEAST_RUN_ROWS
from statestores.processing.topology import Graph
from statestores.processing.windows import check_count
from statestores.spark.given_root import GivenRoot
from statestores.spark.local_copy import CopyOptions
from statestores.spark.stateful_functions.plan import StatefulPlan
from statestores.spark.topology.chain import Chain, PartPlan, feeding_first
from statestores.spark.topology.part_function import NO_WALL_CLOCK, PartFunction
from statestores.spark.topology.record_columns import (
    EMITTED_ROWS,
    RecordPlacement,
    TopicPlacement,
)
from statestores.state_root import StateRoot

RUNNER = "spark"
"""What the state says of who has run the topology on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSettings:
    """How the parts of a topology are run."""

    partitions: int
    """How many partitions topics have of which nothing is said."""

    copies: CopyOptions
    """Where the machines keep copies of the stores."""

    commit_timeout_ms: int
    """How long a step waits for the locks of its stores."""

    least_column_rows: int = LEAST_COLUMN_ROWS
    """From how many records on a batch is processed as columns."""

    least_run_rows: int = LEAST_RUN_ROWS
    """From how many records on a smaller one is processed as a run."""

    cache_max_bytes: int = 0
    """Memory of a task in which updates wait for the end of a step."""


def checked_graph(topology: object) -> Graph:
    """Return *topology*, built, if it can run on Spark.

    Raises:
        InvalidTypeError: It is no topology.
        InvalidTopologyError: It is not valid, or a step of it depends on the wall clock.
    """
    if not isinstance(topology, Topology):
        raise InvalidTypeError(f"expected a Topology, got {topology!r}")
    graph = topology.build()
    for node in graph.nodes:
        operator = node.make()
        if isinstance(operator, WindowedOperator) and operator.emission.idle_ms is not None:
            raise InvalidTopologyError(
                f"the step {node.name!r} closes windows by the wall clock (idle_ms), and "
                f"{NO_WALL_CLOCK}"
            )
    return graph


def filled_topics(graph: Graph) -> set[str]:
    """Return the topics of *graph* that have to be filled from outside."""
    read = {topic.name for part in graph.sub_topologies for topic in part.source_topics}
    written = {topic.name for part in graph.sub_topologies for topic in part.sink_topics}
    return read - written - {topic.name for topic in graph.internal_topics}


def emptied_topics(graph: Graph) -> set[str]:
    """Return the topics of *graph* that are for others."""
    return _written_topics(graph) - {topic.name for topic in graph.internal_topics}


def plan_chain(graph: Graph, root: GivenRoot, settings: ChainSettings) -> Chain:
    """Claim the state root *root* for *graph*, add its stores, and return what runs it.

    Raises:
        InvalidTypeError, InvalidArgumentError: A setting cannot be one.
        TopologyMismatchError: The state is of another topology, or of another runner.
        StateStoreError: The state cannot be written, or a store there is another one.
    """
    check_count("partitions", settings.partitions)
    check_count("least_column_rows", settings.least_column_rows)
    check_count("least_run_rows", settings.least_run_rows)
    check_count("cache_max_bytes", settings.cache_max_bytes, least=0)
    state = root.create()
    identity = claim(root.directory or root.objects, graph, runner=RUNNER)
    counts = graph.partitions(settings.partitions)
    channels = tuple(sorted(_written_topics(graph)))  # in an order that stays
    filled = filled_topics(graph)
    parts = []
    for part in feeding_first(graph):
        tasks = graph.task_count(part, counts)
        for store in part.stores:
            _check_partitions(state, store.name, tasks)
            placement = part.placement_of(store.name)
            state.add_store(store, partitions=tasks, placement=placement)
        function = PartFunction(
            part=part,
            errors=graph.errors,
            least_column_rows=settings.least_column_rows,
            least_run_rows=settings.least_run_rows,
            cache_max_bytes=settings.cache_max_bytes,
        )
        plan = StatefulPlan(
            place=root,
            name=f"part-{identity.groups[part.name]}",
            specifications=part.stores,
            partitions=tasks,
            key="key",
            function=function,
            by="batches",
            schema=EMITTED_ROWS,
            copies=settings.copies,
            commit_timeout_ms=settings.commit_timeout_ms,
            places_keys=False,
            tables=tuple(graph.stores[name] for name in part.global_stores),
            channels=channels,
        )
        topics = {
            topic.name: TopicPlacement(
                partitions=1 if part.is_global else counts[topic.name],
                partitioner=topic.partitioner,
            )
            for topic in part.source_topics
        }
        parts.append(
            PartPlan(
                part=part,
                plan=plan,
                placement=RecordPlacement(topics=topics, partitions=tasks),
                sources=tuple(name for name in topics if name in filled),
            )
        )
    return Chain(parts)


def _check_partitions(state: StateRoot, store: str, partitions: int) -> None:
    """Accept a *store* that is new in *state*, or has as many *partitions*.

    Raises:
        StoreMismatchError: It has others, which no reshard changes (RSH-12).
    """
    present = state.stores.get(store)
    if present is not None and present.partitions != partitions:
        raise StoreMismatchError(
            f"the state of the topology has {present.partitions} partitions of {store!r}, and is "
            f"to be run with {partitions}: a state keeps the number that it was begun with. Leave "
            "partitions= and those of topics as they were, or run the topology anew, with another "
            "state and another checkpoint"
        )


def _written_topics(graph: Graph) -> set[str]:
    """Return the topics that are written, those of dead letters included."""
    written = {topic.name for part in graph.sub_topologies for topic in part.sink_topics}
    return written | {topic.name for topic in graph.errors.dead_letter_topics}
