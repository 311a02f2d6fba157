"""The topics that a topology needs for itself: which, with how many partitions, how kept (KFK-5).

A topic that is there is compared with what it should be. Nothing about it is changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from statestores.errors import TopologyMismatchError
from statestores.kafka.changelog_rows import keeps_duplicates
from statestores.kafka.run_arguments import ChangelogFormat
from statestores.processing.topology import Graph
from statestores.processing.topology.checks import check_co_partitioning
from statestores.spi import StoreSpecification

_DAY_MS = 24 * 60 * 60 * 1000
_MAX_MS = (1 << 63) - 1
_CHOSEN_EXACTLY = ("cleanup.policy", "message.timestamp.type")
_AT_LEAST = ("retention.ms", "min.compaction.lag.ms")
_FOR_EVER = "-1"
_KEPT = {
    "cleanup.policy": "delete",
    "retention.ms": _FOR_EVER,  # what nobody needs any more is deleted (KFK-7, KFK-28)
    "message.timestamp.type": "CreateTime",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """A topic that is created if it is missing."""

    name: str
    """Its name."""

    partitions: int
    """How many partitions it has."""

    settings: Mapping[str, str]
    """Its settings, by Kafka's names."""


def changelog_name(application: str, store: str) -> str:
    """Return the name of the changelog topic of *store*, which is Kafka Streams'."""
    return f"{application}-{store}-changelog"


def topic_counts(graph: Graph, present: Mapping[str, int]) -> dict[str, int]:
    """Return how many partitions each topic of *graph* has; *present* are those that are there.

    Raises:
        TopologyMismatchError: A topic is missing that is not the topology's own, or a part's
            topics have different counts.
        InvalidTopologyError: What is joined is not partitioned alike.
    """
    internal = {topic.name for topic in graph.internal_topics}
    missing = [name for name in graph.topics if name not in internal and name not in present]
    if missing:
        raise TopologyMismatchError(
            f"the cluster has no topic {', '.join(map(repr, missing))}; create what the topology "
            "reads and writes: only its repartition and changelog topics are its own"
        )
    outer = {name: count for name, count in present.items() if name not in internal}
    for name, topic in graph.topics.items():
        if name in outer and topic.partitions not in (None, outer[name]):
            raise TopologyMismatchError(
                f"the topic {name!r} has {outer[name]} partitions, and the topology says "
                f"{topic.partitions}; say what is there"
            )
    check_co_partitioning(graph.nodes, outer)
    counts = graph.partitions(present=outer)
    for part in graph.sub_topologies:
        read = {topic.name: counts[topic.name] for topic in part.source_topics}
        if len(set(read.values())) > 1 and not part.is_global:
            raise TopologyMismatchError(
                f"one task reads topics of different numbers of partitions, {read}: a group would "
                "give them to different instances; repartition them alike"
            )
    return counts


def internal_topics(
    graph: Graph, counts: Mapping[str, int], changelog_format: ChangelogFormat = "rows"
) -> list[InternalTopic]:
    """Return the repartition topics of *graph*, and the changelog topics of its stores."""
    found = [
        InternalTopic(
            name=topic.name,
            partitions=counts[topic.name],
            settings=dict(_KEPT),
        )
        for topic in graph.internal_topics
    ]
    for part in graph.sub_topologies:
        if part.is_global:
            continue  # its topic is its changelog
        tasks = graph.task_count(part, counts)
        found += [
            InternalTopic(
                name=changelog_name(graph.name, store.name),
                partitions=tasks,
                settings=(changelog_settings(store) if changelog_format == "rows" else dict(_KEPT)),
            )
            for store in part.stores
        ]
    return found


def changelog_settings(store: StoreSpecification[Any, Any]) -> dict[str, str]:
    """Return how the changelog topic of *store* is kept: as Kafka Streams does."""
    settings = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    kind = store.kind
    if kind.retention is not None:
        kept_ms = str(min(getattr(store, kind.retention) + _DAY_MS, _MAX_MS))
        if kind.has_history:
            settings["min.compaction.lag.ms"] = kept_ms
        else:
            settings["cleanup.policy"] = "delete" if keeps_duplicates(store) else "compact,delete"
            settings["retention.ms"] = kept_ms
    return settings


def check_present(
    wanted: Iterable[InternalTopic],
    counts: Mapping[str, int],
    settings: Mapping[str, Mapping[str, str]],
) -> None:
    """Accept the internal topics that are there, with *counts* and *settings*.

    Raises:
        TopologyMismatchError: One is other than it should be; the message lists all differences.
    """
    found = differences(wanted, counts, settings)
    if found:
        raise TopologyMismatchError(
            "internal topics are other than the topology needs them: "
            + "; ".join(found)
            + ". Set them right with Kafka's tools, or give the topology another name to begin anew"
        )


def differences(
    wanted: Iterable[InternalTopic],
    counts: Mapping[str, int],
    settings: Mapping[str, Mapping[str, str]],
) -> list[str]:
    """Return what is other than *wanted* of the topics that are there, a sentence for each."""
    found = []
    for topic in wanted:
        if topic.name not in counts:
            continue
        if counts[topic.name] != topic.partitions:
            found.append(
                f"{topic.name!r} has {counts[topic.name]} partitions and should have "
                f"{topic.partitions}"
            )
        known = settings[topic.name]
        for name, value in topic.settings.items():
            if not _is_enough(name, known.get(name, ""), value):
                found.append(f"{topic.name!r} has {name}={known.get(name)!r}, not {value!r}")
    return found


def _is_enough(name: str, known: str, wanted: str) -> bool:
    """Whether a setting does what is wanted of it: keeping records longer does no harm."""
    if name in _AT_LEAST:
        if known == _FOR_EVER:
            return True
        return wanted != _FOR_EVER and known.isdecimal() and int(known) >= int(wanted)
    if name in _CHOSEN_EXACTLY:
        return set(known.split(",")) == set(wanted.split(","))
    return known == wanted
