"""What a topology leaves behind, as plain values, and whether another one can go on from it.

Internal topics and stores outlive a process. A change that renames or retypes them would begin anew
beside the old state without a word, so it is refused (PRC-6).
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from statestores.errors import InvalidArgumentError, TopologyMismatchError
from statestores.processing.topology.graph import Graph
from statestores.serdes import serde_by_name
from statestores.spi.serde import why_unreadable

Description: TypeAlias = Mapping[str, Any]
"""Plain JSON values."""

FORMAT = 1
"""The version of the form below; a reader refuses another."""


def describe(graph: Graph) -> Description:
    """Return what of the topology outlives a process: its internal topics, stores and parts."""
    return {
        "format": FORMAT,
        "name": graph.name,
        "internal_topics": {
            topic.name: {
                "key": topic.key.name,
                "value": topic.value.name,
                "partitions": topic.partitions,
                "partitioner": topic.partitioner,
            }
            for topic in graph.internal_topics
        },
        "stores": {name: store.describe() for name, store in sorted(graph.stores.items())},
        "parts": {
            part.name: sorted(topic.name for topic in part.source_topics)
            for part in graph.sub_topologies
        },
    }


def differences(before: Description, after: Description) -> list[str]:
    """Return in words what of *before* is missing or other in *after*."""
    if before.get("format") != FORMAT:
        return [f"its description has the format {before.get('format')!r}, and {FORMAT} is known"]
    found = []
    if before["name"] != after["name"]:
        found.append(f"it was called {before['name']!r} and is now {after['name']!r}")
    for field, word in (
        ("internal_topics", "internal topic"),
        ("stores", "store"),
        ("parts", "part"),
    ):
        for name, old in before[field].items():
            new = after[field].get(name)
            if new is None:
                found.append(f"the {word} {name!r} is gone")
            elif new != old and not _evolved(old, new):
                found.append(f"the {word} {name!r} was {old!r} and is now {new!r}")
    return found


def _evolved(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether *new* is *old* with a later schema of its values (SRD-40)."""
    if {**old, "value": None} != {**new, "value": None}:
        return False
    try:
        return why_unreadable(serde_by_name(new["value"]), old["value"]) is None
    except InvalidArgumentError:  # of a serde that is not registered
        return False


def check_upgrade(before: Description, after: Description) -> None:
    """Accept a topology that finds everything that *before* has left behind; more may be new.

    Raises:
        TopologyMismatchError: Something would be left behind; the message lists it all.
    """
    found = differences(before, after)
    if found:
        raise TopologyMismatchError(
            "the topology does not fit the state that is here: " + "; ".join(found) + ". Give the "
            "steps their old names with name=..., or reset the state first"
        )
