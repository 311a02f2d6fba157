"""Joining those who run a topology on a state: one at a time, and all the same topology."""

import json
import re
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from statestores.errors import TopologyMismatchError
from statestores.files.directory_lock import DirectoryLock
from statestores.files.local_path import local_path
from statestores.processing.local.edges import Edges
from statestores.processing.local.identity import (
    StateIdentity,
    claim,
    refuse_lost_note,
    state_name,
)
from statestores.processing.local.resetting import (
    forget_reset,
    refuse_unfinished_reset,
    was_reset,
)
from statestores.processing.local.sharing.instances import (
    INSTANCES_DIRECTORY,
    Instance,
    InstanceFile,
    read_instances,
)
from statestores.processing.local.sharing.patience import Patience
from statestores.processing.local.topics import AnyTopic, LocalTopics
from statestores.processing.topology import Graph, describe
from statestores.processing.topology.checks import check_co_partitioning
from statestores.root_document import TOPOLOGY_NOTE, Placement
from statestores.state_root import StateRoot

if TYPE_CHECKING:
    from statestores.spi import StoreSpecification


class Joined(NamedTuple):
    """What a process has once it has joined."""

    root: StateRoot
    """The state root, with every store."""

    identity: StateIdentity
    """Whose state it is."""

    file: InstanceFile
    """By which the others see this process."""

    topics: dict[str, AnyTopic]
    """The topics, all of which are there."""

    counts: dict[str, int]
    """How many partitions they have."""


def join(
    graph: Graph,
    edges: Edges,
    topics: LocalTopics,
    state: str | PathLike[str],
    topics_directory: str | PathLike[str],
    *,
    partitions: int,
    patience: Patience,
) -> Joined:
    """Join those who run *graph* on *state*; nothing is opened but the topics.

    Raises:
        TopologyMismatchError: State or topics are those of another topology, or of another run
            that is under way; or the topics have what a state has emitted that is gone.
        StateStoreError: The state cannot be read or written.
    """
    _counts(graph, topics, partitions)  # before anything is made
    refuse_unfinished_reset(local_path(state))
    root = patience.wait_for(lambda: StateRoot.create(state))
    joining = patience.wait_for(lambda: DirectoryLock.acquire(root.path / INSTANCES_DIRECTORY))
    try:
        refuse_unfinished_reset(root.path)
        root = StateRoot.create(root.path)  # a reset may have come in between
        form = _form(graph, edges, local_path(topics_directory))
        for other in read_instances(root.path):
            _check_other(other, graph, form, root.path)
        is_new = not (root.path / TOPOLOGY_NOTE).exists()
        if is_new:
            refuse_lost_note(root.path)
            _refuse_earlier_outputs(graph, topics, root.path)
        identity = claim(root.path, graph, edges.names)
        _refuse_others_records(graph, topics, root.path, identity)
        if is_new:
            forget_reset(root.path)
        counts = _counts(graph, topics, partitions)
        opened = {
            name: topics.topic(topic, partitions=counts[name])
            for name, topic in graph.topics.items()
        }
        stores: list[tuple[StoreSpecification[Any, Any], int, Placement]]
        stores = [(store, 1, Placement.TASK) for store in edges.stores()]
        for part in graph.sub_topologies:
            tasks = graph.task_count(part, counts)
            stores += [(store, tasks, part.placement_of(store.name)) for store in part.stores]
        for store, tasks, placement in stores:
            patience.wait_for(partial(root.add_store, store, partitions=tasks, placement=placement))
        return Joined(root, identity, InstanceFile(root.path, graph.name, form), opened, counts)
    finally:
        joining.release()


def _counts(graph: Graph, topics: LocalTopics, partitions: int) -> dict[str, int]:
    """Return how many partitions each topic has, once those that are there have been checked."""
    present = {
        name: topics.topic(topic).partitions
        for name, topic in graph.topics.items()
        if topics.partitions(name) is not None
    }
    check_co_partitioning(graph.nodes, present)
    return graph.partitions(partitions, present=present)


def _refuse_earlier_outputs(graph: Graph, topics: LocalTopics, state: Path) -> None:
    """Accept topics for a state that is new, if none has what an earlier state has emitted.

    What the new one emits would come there a second time. Of internal topics it would even be
    processed a second time; topics that others write too are judged by the name of the topology,
    and a reset says that its user wants it so.

    Raises:
        TopologyMismatchError: One has.
        StateStoreError: One cannot be read.
    """
    internal = {topic.name for topic in graph.internal_topics}
    written = {node.writes.name: node.writes for node in graph.nodes if node.writes is not None}
    written |= {topic.name: topic for topic in graph.errors.dead_letter_topics}
    own = re.compile(state_name(re.escape(graph.name), "[0-9a-f]{32}"))
    is_reset = was_reset(state)
    for name, topic in written.items():
        if (is_reset and name not in internal) or topics.partitions(name) is None:
            continue
        for number, log in enumerate(topics.topic(topic).logs):
            states = log.states()
            if name in internal:
                found = sorted(states)
            else:
                found = sorted(each for each in states if own.fullmatch(each))
            if found:
                raise TopologyMismatchError(
                    f"the partition {number} of the topic {name!r} has what the topology "
                    f"{graph.name!r} has emitted with the state {found[0]!r}, and the state in "
                    f"{str(state)!r} is new: that one has been removed, or is elsewhere; put it "
                    "back, or run 'statestores reset', and what is emitted again is behind what is "
                    "there; with --outputs the topics begin anew too"
                )


def _refuse_others_records(
    graph: Graph, topics: LocalTopics, state: Path, identity: StateIdentity
) -> None:
    """Accept topics whose internal ones have nothing of another state than that of *identity*.

    It would be processed as if it were of this one, and what this one emits comes beside it.

    Raises:
        TopologyMismatchError: One has.
        StateStoreError: One cannot be read.
    """
    for topic in graph.internal_topics:
        if topics.partitions(topic.name) is None:
            continue
        for number, log in enumerate(topics.topic(topic).logs):
            if found := sorted(log.states() - {identity.state}):
                raise TopologyMismatchError(
                    f"the partition {number} of the topic {topic.name!r} has what the state "
                    f"{found[0]!r} has emitted, and the state in {str(state)!r} is "
                    f"{identity.state!r}: give each state topics of its own, run each on those "
                    "that it has emitted to"
                )


def _form(graph: Graph, edges: Edges, topics: Path) -> dict[str, str]:
    """Return what two processes on one state have to have in common."""
    description = json.dumps(describe(graph), sort_keys=True)
    return {
        "topology": sha256(description.encode()).hexdigest(),
        "sources and sinks": ", ".join(sorted(edges.names)) or "none",
        "topics": str(topics.resolve()),
    }


def _check_other(other: Instance, graph: Graph, form: Mapping[str, str], state: Path) -> None:
    """Accept another process that runs the same, and could share it.

    Raises:
        TopologyMismatchError: It does not.
    """
    who = f"process {other.process} on {other.host!r}"
    for name, own in form.items():
        theirs = other.form.get(name, "nothing")
        if own != theirs:
            difference = (
                f"runs {other.topology!r} on {str(state)!r}, which is another topology than "
                f"{graph.name!r}, or another form of it"
                if name == "topology"
                else f"runs {other.topology!r} on {str(state)!r} with other {name}: {theirs}, "
                f"and not {own}"
            )
            raise TopologyMismatchError(
                f"{who} {difference}; run the same in both, or stop that one first"
            )
