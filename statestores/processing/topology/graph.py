"""A built topology: nodes that have passed the checks, cut into the parts that tasks run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from statestores.errors import InvalidArgumentError
from statestores.processing.error_policy import ErrorPolicy
from statestores.processing.topic import Topic
from statestores.processing.topology.node import Node
from statestores.root_document import Placement
from statestores.spi import KeyValue, StoreSpecification


@dataclass(frozen=True)
class SubTopology:
    """Nodes that are connected by records or stores: what one task runs, for one partition."""

    name: str
    """That of its first source topic: it stays when other parts change."""

    nodes: tuple[Node, ...]
    """The nodes, parents first."""

    is_global: bool = False
    """Whether it keeps a global table."""

    topics_read: frozenset[str] = frozenset()
    """The topics that the topology reads, in any of its parts."""

    @cached_property
    def sources(self) -> tuple[Node, ...]:
        """The nodes that read topics."""
        return tuple(node for node in self.nodes if node.reads is not None)

    @cached_property
    def source_topics(self) -> tuple[Topic[Any, Any], ...]:
        """The topics that a task reads, its partition of each."""
        return tuple(node.reads for node in self.sources if node.reads is not None)

    @cached_property
    def sink_topics(self) -> tuple[Topic[Any, Any], ...]:
        """The topics that a task writes, without those of dead letters."""
        topics = {node.writes.name: node.writes for node in self.nodes if node.writes is not None}
        return tuple(topics.values())

    @cached_property
    def stores(self) -> tuple[StoreSpecification[Any, Any], ...]:
        """The stores that a task owns, as they are opened; the last is the task's own."""
        found = {store.name: store for node in self.nodes for store in node.stores}
        return (*found.values(), self.task_store)

    @cached_property
    def task_store(self) -> KeyValue[bytes, bytes]:
        """Where a task keeps its times and timers (PRC-12)."""
        return KeyValue(f"{self.name}-task")

    def placement_of(self, store: str) -> Placement:
        """Return who decides the partition of a key of *store*, one of `stores` (PRC-90)."""
        is_keyed = any(
            each.name == store and store not in node.own_keys
            for node in self.nodes
            for each in node.stores
        )
        return Placement.PARTITIONER if is_keyed else Placement.TASK

    @cached_property
    def global_stores(self) -> tuple[str, ...]:
        """The names of the stores of global tables that the nodes read."""
        return tuple(dict.fromkeys(name for node in self.nodes for name in node.global_stores))


@dataclass(frozen=True)
class Graph:
    """A topology that can be run. Made by `build_graph`."""

    name: str
    """The topology's name: the first part of the names of its internal topics."""

    nodes: tuple[Node, ...]
    """Every node, parents first."""

    sub_topologies: tuple[SubTopology, ...]
    """The parts, in the order of their first nodes."""

    errors: ErrorPolicy
    """What becomes of records that fail."""

    max_task_idle_ms: int
    """How long a task waits for an empty partition before it goes on without (KIP-353)."""

    @cached_property
    def internal_topics(self) -> tuple[Topic[Any, Any], ...]:
        """The topics that a runner has to create."""
        return tuple(
            node.reads for node in self.nodes if node.is_internal and node.reads is not None
        )

    @cached_property
    def topics(self) -> Mapping[str, Topic[Any, Any]]:
        """Every topic that is read or written, by name; dead letters too."""
        found = {topic.name: topic for topic in self.errors.dead_letter_topics}
        for node in self.nodes:
            for topic in (node.reads, node.writes):
                if topic is not None:
                    found.setdefault(topic.name, topic)
        return found

    @cached_property
    def stores(self) -> Mapping[str, StoreSpecification[Any, Any]]:
        """Every store by name, as it is opened, without those of tasks."""
        return {store.name: store for node in self.nodes for store in node.stores}

    def partitions(
        self, default: int = 1, *, present: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """Return how many partitions each topic has, *default* where nothing says.

        *present* are the topics that are there, and have theirs.

        A topic that nothing is said of has as many as one that the same tasks read (PRC-4); an
        internal one as many as the sources before it.
        """
        known = {
            name: topic.partitions
            for name, topic in self.topics.items()
            if topic.partitions is not None
        }
        known |= present or {}
        open_ended = True
        while open_ended:
            before = len(known)
            for part in self.sub_topologies:
                read = [topic.name for topic in part.source_topics]
                counts = [known[name] for name in read if name in known]
                if counts and not part.is_global:
                    for name in read:
                        known.setdefault(name, max(counts))
            for node in self.nodes:
                if node.writes is not None and node.is_internal:
                    feeding = [known[name] for name in self._feeding(node) if name in known]
                    if feeding:
                        known.setdefault(node.writes.name, max(feeding))
            open_ended = len(known) > before
        return {name: known.get(name, default) for name in self.topics}

    def _feeding(self, node: Node) -> list[str]:
        """Return the topics whose records reach *node*."""
        by_name = {each.name: each for each in self.nodes}
        found, ahead, seen = [], [node.name], set[str]()
        while ahead:
            name = ahead.pop()
            if name not in seen:
                seen.add(name)
                each = by_name[name]
                found += [each.reads.name] if each.reads is not None else []
                ahead += each.parents
        return found

    def before(self, node: Node) -> list[Node]:
        """Return the steps that give *node* what it is given, if only through an internal topic."""
        if node.is_internal and node.reads is not None:
            return [each for each in self.nodes if each.writes == node.reads]
        return [each for each in self.nodes if each.name in node.parents]

    def task_count(self, part: SubTopology, partitions: Mapping[str, int]) -> int:
        """Return how many tasks run *part*: one for each partition of its widest topic."""
        if part.is_global:
            return 1
        return max(partitions[topic.name] for topic in part.source_topics)


def sub_topologies(nodes: Iterable[Node]) -> tuple[SubTopology, ...]:
    """Return the connected parts of *nodes*: by parents, and by stores that they share.

    Raises:
        InvalidArgumentError: A part has no source.
    """
    ordered = list(nodes)
    group = {node.name: node.name for node in ordered}

    def root(name: str) -> str:
        while group[name] != name:
            name = group[name]
        return name

    owner: dict[str, str] = {}
    for node in ordered:
        joined = [*node.parents]
        joined += [owner.setdefault(store.name, node.name) for store in node.stores]
        for other in joined:
            group[root(node.name)] = root(other)
    parts: dict[str, list[Node]] = {}
    for node in ordered:
        parts.setdefault(root(node.name), []).append(node)
    found = []
    read = frozenset(node.reads.name for node in ordered if node.reads is not None)
    for members in parts.values():
        topics = [node.reads.name for node in members if node.reads is not None]
        if not topics:
            raise InvalidArgumentError(f"nothing reads a topic for {members[0].name!r}")
        is_global = any(node.is_global for node in members)
        found.append(SubTopology(topics[0], tuple(members), is_global, read))
    return tuple(found)
