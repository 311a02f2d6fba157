"""Resetting a topology: what would be removed, and its removal (PRC-73).

A reset that was killed has removed something, and a run on the rest would give wrong results. So
what is to go is noted in the state before anything goes, and no run begins while the note is there.
The directory of the instances stays, with the lock under which all of this happens.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from statestores.arrow.file_access import reporting
from statestores.changelog import FileChangelog
from statestores.errors import (
    InvalidTypeError,
    StoreLockedError,
    TopologyMismatchError,
)
from statestores.failpoints import reach
from statestores.files.directory_lock import DirectoryLock
from statestores.files.durable_directory import make_directory, make_durable
from statestores.files.durable_json import (
    check_format,
    read_fields,
    write_json,
)
from statestores.files.local_path import local_path
from statestores.processing.dsl.topology import Topology
from statestores.processing.local.sharing.instances import INSTANCES_DIRECTORY, read_instances
from statestores.reading.locations import changelog_of
from statestores.root_document import TASKS_DIRECTORY, TOPOLOGY_NOTE
from statestores.spi import Position, TopicPartition
from statestores.state_root import StateRoot, is_state_root

RESET_FILE = "reset.json"
"""What says, in a state, that a reset of it has begun."""

RESET_DONE_FILE = "was-reset.json"
"""What says that a state is new because it was reset, and not lost. Its next run removes it."""

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetItem:
    """Something that a reset removes."""

    what: str
    """``state``, ``internal topic`` or ``output topic``."""

    name: str
    """The name of a topic; of the state, that of the topology."""

    path: Path
    """Where it lies."""

    bytes: int
    """How much there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """What a reset would remove. Nothing is, before `carry_out`."""

    state: Path
    """The state root."""

    items: tuple[ResetItem, ...]
    """What would go, the state last; empty when there is nothing."""

    positions: dict[TopicPartition, int]
    """How far the state has come in the topics that stay: it is forgotten, and what is still there
    of them is processed again from its beginning."""

    sources: tuple[str, ...]
    """The topics that sources fill: those are read again from the beginning."""

    is_begun: bool
    """Whether an earlier reset has not ended; what it was told to remove is what goes."""

    keeps_outputs: bool = False
    """Whether topics stay that the topology writes: what its next run emits comes behind that."""

    def carry_out(self) -> None:
        """Remove it. A reset that is killed is ended by the next one.

        Raises:
            StoreLockedError: Somebody runs the topology, or writes one of the topics.
            StorageError: Something cannot be removed.
        """
        if not self.items:
            if not self.keeps_outputs:
                return
            with reporting("write into", self.state):
                make_directory(self.state)
            # The state is gone; so its next run knows that it is to begin anew.
            write_json(self.state / RESET_DONE_FILE, {"format": _FORMAT})
            return
        with ExitStack() as stack:
            lock = DirectoryLock.acquire(self.state / INSTANCES_DIRECTORY)
            stack.callback(lock.release)
            _refuse_instances(self.state)
            topics = [item for item in self.items if item.what != "state"]
            held = [*_directories(self.state / TASKS_DIRECTORY)]
            held += [each for item in topics for each in _directories(item.path)]
            for directory in held:
                stack.callback(DirectoryLock.acquire(directory).release)
            if not self.is_begun:
                listed = {item.name: item.what for item in topics}
                write_json(self.state / RESET_FILE, {"format": _FORMAT, "topics": listed})
            reach("reset.begun")
            for item in topics:
                _remove(item.path)
            for path in sorted(self.state.iterdir()):
                if path.name not in (INSTANCES_DIRECTORY, RESET_FILE):
                    _remove(path)
            write_json(self.state / RESET_DONE_FILE, {"format": _FORMAT})
            with reporting("remove", self.state / RESET_FILE):
                (self.state / RESET_FILE).unlink()
                make_durable(self.state)


def plan_reset(
    topology: Topology,
    *,
    state: str | PathLike[str],
    topics: str | PathLike[str],
    outputs: bool = False,
) -> Reset:
    """Return what a reset of *topology* removes: its state, and its internal topics.

    With *outputs*, also the topics that it writes and does not read, dead letters included. Topics
    that it reads stay, and so does what a sink has written.

    Raises:
        InvalidTypeError: It is no topology.
        TopologyMismatchError: The state is that of another topology.
        StoreLockedError: Somebody runs it.
        StateStoreError: State or topics cannot be read.
    """
    if not isinstance(topology, Topology):
        raise InvalidTypeError(f"expected a Topology, got {topology!r}")
    graph = topology.build()
    root, home = local_path(state), local_path(topics, "topics")
    _refuse_instances(root)
    note = read_fields(root / RESET_FILE)
    read = {node.reads.name for node in graph.nodes if node.reads is not None}
    written = {node.writes.name for node in graph.nodes if node.writes is not None}
    written |= {topic.name for topic in graph.errors.dead_letter_topics}
    if note is not None:
        check_format(note, root / RESET_FILE, _FORMAT)
        noted = note.inside("topics")
        listed = [(noted.text(name), name) for name in noted]
    else:
        internal = {topic.name for topic in graph.internal_topics}
        internal |= set(_noted_internal_topics(root, graph.name))
        listed = [("internal topic", name) for name in sorted(internal)]
        if outputs:
            listed += [("output topic", name) for name in sorted(written - internal - read)]
    items = [
        ResetItem(what=what, name=name, path=home / name, bytes=_size(home / name))
        for what, name in listed
        if (home / name).is_dir()
    ]
    if note is not None or is_state_root(root) or (root / TASKS_DIRECTORY).is_dir():
        items.append(ResetItem(what="state", name=graph.name, path=root, bytes=_size(root)))
    gone_topics = {item.name for item in items}
    return Reset(
        state=root,
        items=tuple(items),
        positions={
            place: offset
            for place, offset in ({} if note is not None else _positions(root)).items()
            if place.topic not in gone_topics
        },
        sources=tuple(sorted(_noted_sources(root))),
        is_begun=note is not None,
        keeps_outputs=any((home / name).is_dir() for name in written - gone_topics),
    )


def refuse_unfinished_reset(state: Path) -> None:
    """Accept a state of which nothing has been removed.

    Raises:
        TopologyMismatchError: A reset has begun, and has not ended.
    """
    if (state / RESET_FILE).exists():
        raise TopologyMismatchError(
            f"a reset of {str(state)!r} has begun and has not ended, so a part of it is gone; run "
            "'statestores reset' again, which ends it"
        )


def was_reset(state: Path) -> bool:
    """Return whether the new *state* is what a reset has left."""
    return (state / RESET_DONE_FILE).exists()


def forget_reset(state: Path) -> None:
    """Note that the *state* is in use again.

    Raises:
        StorageError: The file cannot be removed.
    """
    with reporting("remove", state / RESET_DONE_FILE):
        (state / RESET_DONE_FILE).unlink(missing_ok=True)


def _refuse_instances(state: Path) -> None:
    for each in read_instances(state):
        raise StoreLockedError(
            f"process {each.process} on {each.host!r} runs {each.topology!r} on {str(state)!r}; "
            "stop it first"
        )


def _noted_internal_topics(state: Path, name: str) -> Iterator[str]:
    """Yield the internal topics of the topology that was run on *state*, which is *name*.

    Raises:
        TopologyMismatchError: It is another one.
    """
    fields = read_fields(state / TOPOLOGY_NOTE)
    if fields is None:
        return
    described = fields.inside("topology")
    if described.text("name") != name:
        raise TopologyMismatchError(
            f"the state in {str(state)!r} is that of the topology {described.text('name')!r}, and "
            f"not of {name!r}; reset that one, or check the path"
        )
    yield from described.inside("internal_topics")


def _noted_sources(state: Path) -> Iterator[str]:
    fields = read_fields(state / TOPOLOGY_NOTE)
    for group in () if fields is None else fields.inside("groups"):
        mark, _, topic = group.partition("/")
        if mark == "@source":
            yield topic


def _positions(state: Path) -> dict[TopicPartition, int]:
    """Return how far the stores in *state* have come in their topics, exclusive."""
    reached = Position()
    if not is_state_root(state):
        return {}
    root = StateRoot.open(state)
    for name, entry in root.stores.items():
        for number in range(entry.partitions):
            directory = root.partition(name, number)
            if FileChangelog.exists(directory.changelog):
                with changelog_of(directory, entry.specification) as log:
                    reached = reached.merge(log.position)
    return {
        place: offset + 1
        for place, offset in sorted(reached.items())
        if not place.topic.startswith("@")
    }


def _directories(path: Path) -> list[Path]:
    return sorted(each for each in path.iterdir() if each.is_dir()) if path.is_dir() else []


def _size(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())


def _remove(path: Path) -> None:
    """Remove a file or a directory, durably; one that is gone is no error."""
    with reporting("remove", path):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        make_durable(path.parent)
    reach("reset.removed")
