"""What a topology leaves behind, as plain values, and whether another one can go on from it.

Internal topics and stores outlive a process. A change that renames or retypes them would begin anew
beside the old state without a word, so it is refused (PRC-6); and so is one that goes on from
stores which lack what it needs, or mean something else (PRC-105).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from statestores.errors import InvalidArgumentError, TopologyMismatchError
from statestores.processing.topology.graph import Graph
from statestores.processing.topology.node import Node
from statestores.serdes import serde_by_name
from statestores.spi import Serde
from statestores.spi.serde import why_unreadable
from statestores.topology_note import DESCRIPTION_FORMAT

Description: TypeAlias = Mapping[str, Any]
"""Plain JSON values."""


def describe(graph: Graph) -> Description:
    """Return what of the topology outlives a process: its internal topics, stores and parts."""
    return {
        "format": DESCRIPTION_FORMAT,
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
        "homes": {
            store.name: part.name
            for part in graph.sub_topologies
            for store in part.stores
            if store != part.task_store
        },
        "keepers": dict(_keepers(graph)),
        "steps": {
            node.name: {
                "kind": node.kind,
                "form": None if node.form is None else dict(node.form),
                "waiting": None if node.waiting is None else _named(*node.waiting),
                "keeps": sorted(store.name for store in node.stores),
                "rows_of": sorted(set(rows_before(graph, node))) if _is_of_rows(node) else [],
                "from_the_first": node.follows_rows,
                "topics": sorted(set(topics_before(graph, node))),
            }
            for node in graph.nodes
            if node.form is not None or node.follows_rows or node.waiting is not None
        },
    }


def _keepers(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield each store of rows with the kind of step that writes it: what it is, in a word.

    A processor may have anything in its stores, and says nothing about it.
    """
    for part in graph.sub_topologies:
        for node in part.nodes:
            for store in node.stores:
                if store.name not in node.own_keys and (
                    node.name == store.name or node.kind == "keep"
                ):
                    yield store.name, f"global {node.kind}" if part.is_global else node.kind


def _is_of_rows(node: Node) -> bool:
    return node.follows_rows or node.kind == "suppress"


def _named(key: Serde[Any], value: Serde[Any]) -> Description:
    return {"key": key.name, "value": value.name}


def rows_before(graph: Graph, node: Node) -> Iterator[str]:
    """Yield the stores of the steps that keep rows and are next before *node*.

    The way there leads through internal topics too, and past steps at which rows wait.
    """
    for before in graph.before(node):
        if before.stores and before.waiting is None:
            yield from (store.name for store in before.stores)
        else:
            yield from rows_before(graph, before)


def topics_before(graph: Graph, node: Node) -> Iterator[str]:
    """Yield the topics, none of them internal, of which *node* is given what becomes of them."""
    for before in graph.before(node):
        if before.reads is not None and not before.is_internal:
            yield before.reads.name
        else:
            yield from topics_before(graph, before)


def differences(before: Description, after: Description) -> list[str]:
    """Return in words what of *before* is missing or other in *after*."""
    if before.get("format") != DESCRIPTION_FORMAT:
        version = before.get("format")
        return [f"its description has the format {version!r}, and {DESCRIPTION_FORMAT} is known"]
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
            elif field == "parts" and new != old:
                found.append(f"the part {name!r} read {_listed(old)} and now reads {_listed(new)}")
            elif new != old and not _evolved(old, new):
                found.append(f"the {word} {name!r} was {old!r} and is now {new!r}")
    return [
        *found,
        *_moved(before, after),
        *_other_keepers(before, after),
        *_other_meanings(before, after),
    ]


def _moved(before: Description, after: Description) -> Iterator[str]:
    """Say which stores are those of other tasks now, whose keys and input are others."""
    for store, old in before.get("homes", {}).items():  # of an earlier version
        new = after["homes"].get(store, old)
        if new != old:
            yield f"the store {store!r} belonged to the part {old!r} and now belongs to {new!r}"


def _other_keepers(before: Description, after: Description) -> Iterator[str]:
    """Say which stores have rows of a step of another kind than would keep them now (PRC-108)."""
    for store, old in before.get("keepers", {}).items():  # of an earlier version
        new = after["keepers"].get(store, old)
        if new != old and not _is_compared(store, before, after):
            yield f"the store {store!r} has rows of {old!r} and would go on with those of {new!r}"


def _is_compared(step: str, before: Description, after: Description) -> bool:
    """Whether `_other_meanings` looks at the kind of a step that both have."""
    kept = after["steps"].get(step)
    return step in before["steps"] and kept is not None and kept["form"] is not None


def _other_meanings(before: Description, after: Description) -> Iterator[str]:
    """Say which steps would go on from rows that mean something else, or lack some (PRC-105)."""
    if "steps" not in before:  # of an earlier version
        return
    for name, new in after["steps"].items():
        old = before["steps"].get(name)
        if old is None:
            missing = [store for store in new["rows_of"] if store in before["stores"]]
            if missing and new["from_the_first"]:
                yield (
                    f"the step {name!r} is new and follows {_listed(missing)}, of whose rows it "
                    "would lack those that are there; a topology of its own reads all of them"
                )
            continue
        yield from _other_input(name, old, new)
        if new["form"] is not None:
            if new["kind"] != old["kind"]:
                yield f"the step {name!r} was {old['kind']!r} and is now {new['kind']!r}"
            elif new["form"] != old["form"] and new["keeps"] == old["keeps"]:
                yield f"the step {name!r} was by {old['form']!r} and is now by {new['form']!r}"
            if more := [store for store in new["keeps"] if store not in before["stores"]]:
                yield (
                    f"the step {name!r} now keeps {_listed(more)} as well, which would lack what "
                    "has come before"
                )


def _other_input(name: str, old: Description, new: Description) -> Iterator[str]:
    """Say of what else than before the step *name* would make what it has made rows of."""
    if "topics" not in old:  # of an earlier version
        return
    if new["rows_of"] != old["rows_of"]:
        yield (
            f"the step {name!r} followed {_listed(old['rows_of'])} and now follows "
            f"{_listed(new['rows_of'])}"
        )
    elif lost := [topic for topic in old["topics"] if topic not in new["topics"]]:
        yield f"the step {name!r} was of {_listed(lost)} and is now of {_listed(new['topics'])}"
    kept, waiting = old["waiting"], new["waiting"]
    if kept and waiting and waiting != kept and not _evolved(kept, waiting):
        yield f"what waits in the step {name!r} was {kept!r} and is now {waiting!r}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


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
    check_fits(before, after, "the state that is here", "reset the state first")


def check_fits(before: Description, after: Description, what: str, begin_anew: str) -> None:
    """Do what `check_upgrade` does; the message says *what* does not fit, and how to *begin anew*.

    Raises:
        TopologyMismatchError: Something would be left behind; the message lists it all.
    """
    found = differences(before, after)
    if found:
        advice = f"Give the steps their old names with name=..., or {begin_anew}"
        if any(name not in after["stores"] for name in before["stores"]):
            advice += (
                "; a store of a base class of a processor, whose attribute a subclass overrides, "
                "stays if the subclass has it by another attribute, as in `kept_before = Base.kept`"
            )
        raise TopologyMismatchError(
            f"the topology does not fit {what}: {'; '.join(found)}. {advice}"
        )
