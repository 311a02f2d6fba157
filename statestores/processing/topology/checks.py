"""What is checked when a topology is built, so that it fails before the first record (PRC-1)."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from statestores.errors import InvalidArgumentError, InvalidTopologyError
from statestores.partitioning import partitioner_by_name
from statestores.processing.error_policy import ErrorPolicy
from statestores.processing.topic import Topic
from statestores.processing.topology.graph import Graph, SubTopology, sub_topologies
from statestores.processing.topology.node import Node

_NONE: Mapping[str, int] = {}


def build_graph(
    name: str, nodes: Sequence[Node], errors: ErrorPolicy, max_task_idle_ms: int
) -> Graph:
    """Return the topology of *nodes*, checked.

    Raises:
        InvalidTopologyError: It could not be run; the message says why, and what to do.
    """
    if not nodes:
        raise InvalidTopologyError(f"the topology {name!r} has no source; add a stream or a table")
    check_names(nodes)
    ordered = in_order(nodes)
    check_stores(ordered)
    check_topics(ordered, errors)
    check_co_partitioning(ordered)
    parts = sub_topologies(ordered)
    check_task_stores(ordered, parts)
    return Graph(name, ordered, parts, errors, max_task_idle_ms)


def check_names(nodes: Sequence[Node]) -> None:
    """Refuse two nodes of one name, and parents that are not there."""
    names = set[str]()
    for node in nodes:
        if node.name in names:
            raise InvalidTopologyError(
                f"two steps are called {node.name!r}; give one of them another name with name=..."
            )
        names.add(node.name)
    for node in nodes:
        for parent in (*node.parents, *node.co_partitioned):
            if parent not in names:
                raise InvalidTopologyError(
                    f"{node.name!r} hangs on {parent!r}, which is no step of this topology; join "
                    "and merge what is of one topology"
                )


def in_order(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return *nodes* parents first, else in the order in which they were added; refuse a cycle."""
    placed: dict[str, Node] = {}
    waiting = list(nodes)
    while waiting:
        ready = [node for node in waiting if all(parent in placed for parent in node.parents)]
        if not ready:
            circle = ", ".join(repr(node.name) for node in waiting)
            raise InvalidTopologyError(
                f"steps wait for each other in a circle: {circle}; break it with a topic"
            )
        placed.update((node.name, node) for node in ready)
        waiting = [node for node in waiting if node.name not in placed]
    order = {node.name: place for place, node in enumerate(nodes)}
    if all(order[parent] < order[node.name] for node in nodes for parent in node.parents):
        return tuple(nodes)
    return tuple(placed.values())


def check_stores(nodes: Sequence[Node]) -> None:
    """Refuse two stores of one name, and global stores that nobody keeps."""
    declared: dict[str, tuple[dict[str, Any], str]] = {}
    everywhere = set[str]()
    for node in nodes:  # parents first
        if node.is_global or any(parent in everywhere for parent in node.parents):
            everywhere.add(node.name)
    kept = {store.name for node in nodes if node.name in everywhere for store in node.stores}
    for node in nodes:
        for store in node.stores:
            described: dict[str, Any] = store.describe()
            before, owner = declared.setdefault(store.name, (described, node.name))
            if before != described:
                raise InvalidTopologyError(
                    f"the store {store.name!r} is declared by {owner!r} as {before!r} and by "
                    f"{node.name!r} as {described!r}; give one of them another name"
                )
            if store.name in kept and node.name not in everywhere:
                raise InvalidTopologyError(
                    f"{node.name!r} declares {store.name!r}, the store of a global table; read it "
                    "by a join"
                )
        for name in node.global_stores:
            if name not in kept:
                raise InvalidTopologyError(
                    f"{node.name!r} reads the global table {name!r}, which is not of this topology"
                )


def check_task_stores(nodes: Sequence[Node], parts: Sequence[SubTopology]) -> None:
    """Refuse a store of the name of one that a task has for its times and timers."""
    owners = {store.name: node.name for node in nodes for store in node.stores}
    for part in parts:
        name = part.task_store.name
        if name in owners:
            raise InvalidTopologyError(
                f"{owners[name]!r} declares the store {name!r}, where the tasks of {part.name!r} "
                "keep their times and timers; give it another name"
            )


def check_topics(nodes: Sequence[Node], errors: ErrorPolicy) -> None:
    """Refuse a topic that is described in two ways, read by two sources, or of its own letters."""
    letters: dict[str, Topic[Any, Any]] = {topic.name: topic for topic in errors.dead_letter_topics}
    declared = dict(letters)
    read: dict[str, str] = {}
    for node in nodes:
        for topic in filter(None, (node.reads, node.writes)):
            _check_partitioner(topic)
            before = declared.setdefault(topic.name, topic)
            if before != topic:
                raise InvalidTopologyError(
                    f"the topic {topic.name!r} is described in two ways: {before!r} and {topic!r}; "
                    "use one Topic"
                )
        if node.reads is not None:
            if node.reads.name in letters:
                raise InvalidTopologyError(
                    f"{node.name!r} reads {node.reads.name!r}, the topology's own dead-letter "
                    "topic, so that a letter which fails would come again for ever; read it in a "
                    "topology of its own"
                )
            other = read.setdefault(node.reads.name, node.name)
            if other != node.name:
                raise InvalidTopologyError(
                    f"the topic {node.reads.name!r} is read by {other!r} and by {node.name!r}; use "
                    "the first stream or table twice"
                )


def _check_partitioner(topic: Topic[Any, Any]) -> None:
    try:
        partitioner_by_name(topic.partitioner)
    except InvalidArgumentError as error:
        raise InvalidTopologyError(
            f"the topic {topic.name!r} cannot be partitioned: {error}"
        ) from error


def check_co_partitioning(nodes: Sequence[Node], present: Mapping[str, int] = _NONE) -> None:
    """Refuse a join of what is partitioned in two ways (PRC-4).

    *present* are the topics that are there, and have their partitions.
    """
    by_name = {node.name: node for node in nodes}

    def count_of(topic: Topic[Any, Any]) -> int | None:
        return present.get(topic.name, topic.partitions)

    def topics_of(name: str) -> list[Topic[Any, Any]]:
        node = by_name[name]
        if node.reads is not None:
            return [] if node.is_global else [node.reads]
        return [topic for parent in node.parents for topic in topics_of(parent)]

    for node in nodes:
        topics = [topic for name in node.co_partitioned for topic in topics_of(name)]
        for one, other in pairwise(topics):
            if one.partitioner != other.partitioner:
                raise InvalidTopologyError(
                    f"{node.name!r} joins {one.name!r}, which is partitioned by "
                    f"{one.partitioner!r}, with {other.name!r}, which is by {other.partitioner!r}; "
                    "repartition one of them with .repartition()"
                )
            counts = {count_of(one), count_of(other)} - {None}
            if len(counts) > 1:
                raise InvalidTopologyError(
                    f"{node.name!r} joins {one.name!r}, which has {count_of(one)} partitions, "
                    f"with {other.name!r}, which has {count_of(other)}; repartition the first "
                    f"with .repartition(partitions={count_of(other)})"
                )
