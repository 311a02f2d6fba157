"""Which tasks there are, and what each reads and writes: the same for every instance."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from statestores.errors import TopologyMismatchError
from statestores.kafka.group.members import check_members
from statestores.kafka.internal_topics import (
    InternalTopic,
    changelog_name,
    check_present,
    differences,
    internal_topics,
    topic_counts,
)
from statestores.kafka.run_arguments import ChangelogFormat
from statestores.kafka.tasks.topic_limits import TopicLimits, largest_batch
from statestores.partitioning import Partitioner, partitioner_by_name
from statestores.processing.topology import Description, Graph, SubTopology, describe
from statestores.spi import TopicPartition
from statestores.tasks.task_id import TaskId

if TYPE_CHECKING:
    from statestores.kafka.cluster import Cluster


class TaskKey(NamedTuple):
    """A task: a part of the topology in one partition."""

    part: str
    """The part's name."""

    partition: int
    """The partition."""


@dataclass(frozen=True)
class Plan:
    """What follows from a topology and the partitions of its topics."""

    graph: Graph
    """The topology."""

    counts: Mapping[str, int]
    """How many partitions each topic has."""

    limits: Mapping[str, TopicLimits] = field(default_factory=dict)
    """What each topic takes that is written, as far as the cluster lets us know."""

    @property
    def application(self) -> str:
        """The name of the group, and the first part of the names of internal topics."""
        return self.graph.name

    @cached_property
    def description(self) -> Description:
        """What of the topology outlives a process."""
        return describe(self.graph)

    @property
    def parts(self) -> Sequence[SubTopology]:
        """The parts that tasks run, without those of global tables."""
        return [part for part in self.graph.sub_topologies if not part.is_global]

    @property
    def global_parts(self) -> Sequence[SubTopology]:
        """The parts of global tables, which every instance has."""
        return [part for part in self.graph.sub_topologies if part.is_global]

    @property
    def subscription(self) -> list[str]:
        """The topics that the group reads."""
        return [topic.name for part in self.parts for topic in part.source_topics]

    def part_of(self, topic: str) -> SubTopology:
        """Return the part that reads *topic*."""
        return next(
            part for part in self.parts for each in part.source_topics if each.name == topic
        )

    def places(self, key: TaskKey) -> list[TopicPartition]:
        """Return what a task reads."""
        part = self.part(key)
        return [TopicPartition(topic.name, key.partition) for topic in part.source_topics]

    def tasks_of(self, part: str) -> int:
        """Return how many tasks run the part of this name."""
        found = next(each for each in self.parts if each.name == part)
        return self.graph.task_count(found, self.counts)

    def part(self, key: TaskKey) -> SubTopology:
        """Return the part that a task runs."""
        return next(part for part in self.parts if part.name == key.part)

    @property
    def inputs(self) -> frozenset[TopicPartition]:
        """What all tasks read."""
        return frozenset(place for key in self.task_keys for place in self.places(key))

    @property
    def internal(self) -> frozenset[str]:
        """The names of the application's own topics, which pass records from part to part."""
        return frozenset(topic.name for topic in self.graph.internal_topics)

    @property
    def changelogs(self) -> frozenset[str]:
        """The names of the topics that the stores of tasks are restored from."""
        return frozenset(
            changelog_name(self.application, store.name)
            for part in self.parts
            for store in part.stores
        )

    @property
    def task_keys(self) -> list[TaskKey]:
        """All tasks of the application."""
        return [
            TaskKey(part.name, partition)
            for part in self.parts
            for partition in range(self.graph.task_count(part, self.counts))
        ]

    def standbys(
        self, owners: Mapping[TopicPartition, str], instances: Collection[str], copies: int
    ) -> dict[TaskKey, list[str]]:
        """Return which of *instances* keep a standby of each task that has an owner (KFK-17).

        The order of instances is another one for each task, made of names alone: who comes or goes
        changes nothing between the others, and who is started again finds what it had.
        """
        found = {}
        for key in self.task_keys:
            owner = owners.get(self.places(key)[0])
            if owner is not None:
                others = sorted(
                    (each for each in instances if each != owner),
                    key=lambda each: sha256(f"{key.part} {key.partition} {each}".encode()).digest(),
                )
                found[key] = others[:copies]
        return found

    def task_id(self, key: TaskKey) -> TaskId:
        """Return the name of a task: its part's number in the topology, and its partition."""
        names = [part.name for part in self.graph.sub_topologies]
        return TaskId(names.index(key.part), key.partition)

    @property
    def needs_co_partitioning(self) -> bool:
        """Whether a task reads several topics, the same partition of each."""
        return any(len(part.source_topics) > 1 for part in self.parts)

    @property
    def largest_batch(self) -> int | None:
        """How many bytes every topic takes at once; ``None`` where none is known to refuse any."""
        return largest_batch(self.limits.values())

    def written(
        self, part: SubTopology
    ) -> dict[str, tuple[Partitioner, Sequence[TopicPartition], TopicLimits]]:
        """Return what a task of *part* may emit to: partitioner, partitions, limits, by topic."""
        topics = (*part.sink_topics, *self.graph.errors.dead_letter_topics)
        return {
            topic.name: (
                partitioner_by_name(topic.partitioner),
                [TopicPartition(topic.name, each) for each in range(self.counts[topic.name])],
                self.limits.get(topic.name, TopicLimits()),
            )
            for topic in topics
        }


def plan_with_topics(
    graph: Graph,
    cluster: "Cluster",
    changelog_format: ChangelogFormat,
    replication_factor: int,
    *,
    is_compressed: bool = False,
) -> Plan:
    """Return the plan of *graph*; what is missing of its own topics is created.

    Raises:
        TopologyMismatchError, InvalidTopologyError: As `topic_counts`, `check_present` and
            `check_members`.
        BrokerError: The cluster refuses, or does not answer.
    """
    present = cluster.partitions(graph.topics)
    counts = topic_counts(graph, present)
    wanted = internal_topics(graph, counts, changelog_format)
    known = cluster.partitions(topic.name for topic in wanted)
    settings = cluster.settings_of(known)
    other: ChangelogFormat = "frames" if changelog_format == "rows" else "rows"
    if differences(wanted, known, settings) and not differences(
        internal_topics(graph, counts, other), known, settings
    ):
        raise TopologyMismatchError(
            f"the changelogs of {graph.name!r} are of changelog_format={other!r}, and this run is "
            f"of {changelog_format!r}; a format cannot be changed: give {other!r}, or give the "
            "topology another name to begin anew"
        )
    check_present(wanted, known, settings)
    check_members(graph.name, Plan(graph, counts).subscription, cluster)
    missing = [topic for topic in wanted if topic.name not in known]
    cluster.create(missing, replication_factor)
    created = {topic.name: topic for topic in missing}
    found = cluster.partitions(created)  # another instance may have been faster
    check_present(missing, found, cluster.settings_of(found))
    limits = {
        name: TopicLimits.of(settings, is_compressed=is_compressed)
        for name, settings in cluster.settings_of(_written(graph, wanted), as_allowed=True).items()
    }
    return Plan(graph, counts, limits)


def check_topics_are_there(plan: Plan, cluster: "Cluster") -> None:
    """Accept that the cluster still has all topics of *plan*.

    Raises:
        TopologyMismatchError: It has not.
        BrokerError: It does not answer, or does not let us look.
    """
    names = {*plan.counts, *plan.changelogs}
    gone = sorted(names - cluster.partitions(names).keys())
    if gone:
        raise TopologyMismatchError(
            f"the cluster has no topic {', '.join(map(repr, gone))} any more; create again what "
            "the topology reads and writes, with as many partitions as it had, and start again"
        )


def _written(graph: Graph, internal: Iterable[InternalTopic]) -> set[str]:
    """Return the names of all topics that instances write."""
    outer = [topic.name for part in graph.sub_topologies for topic in part.sink_topics]
    letters = [topic.name for topic in graph.errors.dead_letter_topics]
    return {*outer, *letters, *(topic.name for topic in internal)}
