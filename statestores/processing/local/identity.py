"""Whose state a state root is: the topology that was run on it, in a file or an object (PRC-52).

It also has a name for the state, random, which no other state has: the marks in topics begin with
it. And it has the number of each part, which stays the same when others come and go.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from statestores.errors import (
    CommitConflictError,
    StoreCorruptedError,
    StoreNotFoundError,
    TopologyMismatchError,
)
from statestores.files.durable_json import read_fields, write_json
from statestores.files.strict_json import Fields
from statestores.object_root import RootObject
from statestores.processing.topology import Graph, as_mermaid, check_upgrade, describe
from statestores.root_document import (
    TASKS_DIRECTORY,
    TOPOLOGY_NOTE,
    Placement,
    stores_in,
    with_checksum,
)
from statestores.state_root import StateRoot, is_state_root
from statestores.storage import ObjectStorage
from statestores.tasks.task import PICTURE_FILE
from statestores.topology_note import FORMAT, LOCAL, unpack_note


@dataclass(frozen=True, slots=True, kw_only=True)
class StateIdentity:
    """What the file says."""

    state: str
    """The name of the state."""

    groups: Mapping[str, int]
    """The number of each part of the topology, by the part's name, and of sources and sinks."""


def claim(
    root: Path | ObjectStorage, graph: Graph, edges: Iterable[str] = (), *, runner: str = LOCAL
) -> StateIdentity:
    """Accept *graph* for the state in *root*, and note it, with the names of its *edges*.

    Raises:
        TopologyMismatchError: What another one, or an earlier one, has left there would be lost;
            or another *runner* has it, which knows another way how far its input is processed.
        StoreCorruptedError: Tasks have run there, and the file is gone.
        StoreCorruptedError, UnsupportedFormatError, StorageError: The file cannot be read, or not
            be written.
    """
    note = _FileNote(root) if isinstance(root, Path) else _ObjectNote(root)
    description = json.loads(json.dumps(describe(graph)))
    names = [*(part.name for part in graph.sub_topologies), *edges]
    fields = note.read()
    if fields is None:
        refuse_lost_note(root)
        state, groups = state_name(graph.name, uuid4().hex), dict[str, int]()
    else:
        noted = unpack_note(fields, note.place)
        if noted.runner != runner:
            raise TopologyMismatchError(
                f"{_shown(root)!r} has the state of a topology that the runner {noted.runner!r} "
                f"runs, and {runner!r} would begin its input anew on top of it; give each runner a "
                "state of its own"
            )
        check_upgrade(noted.topology, description)
        state, groups = noted.state, dict(noted.groups)
        note.keep_picture(as_mermaid(graph))
        if noted.topology == description and groups.keys() >= set(names):
            return StateIdentity(state=state, groups=groups)
    for name in names:
        groups.setdefault(name, len(groups))
    note.keep_picture(as_mermaid(graph))
    content = {"format": FORMAT, "state": state, "groups": groups, "topology": description}
    note.write(with_checksum(content if runner == LOCAL else {**content, "runner": runner}))
    return StateIdentity(state=state, groups=groups)


def state_name(topology: str, unique: str) -> str:
    """Return the name of a state of *topology*: topics that it writes bear it (PRC-50)."""
    return f"{topology}-{unique}"


def refuse_lost_note(root: Path | ObjectStorage) -> None:
    """Accept a state that is new: no topology has run there whose note is gone.

    The note is there before the first of its stores is, so there is no crash that leaves these.

    Raises:
        StoreCorruptedError: One has.
    """
    found = sorted({*_left_by_tasks(root), *_stores_of_tasks(root)})
    if found:
        raise StoreCorruptedError(
            f"tasks have run on {_shown(root)!r} and left {', '.join(map(repr, found))}, and "
            f"'{_shown(root)}/{TOPOLOGY_NOTE}', which says of what topology, is gone: it has been "
            "removed, or was not copied; put it back with all that lay beside it, or reset the "
            "state"
        )


def _left_by_tasks(root: Path | ObjectStorage) -> list[str]:
    if isinstance(root, Path):
        tasks = root / TASKS_DIRECTORY
        return [each.name for each in tasks.iterdir() if each.is_dir()] if tasks.is_dir() else []
    return [each.name for each in root.list(f"{TASKS_DIRECTORY}/")]


def _stores_of_tasks(root: Path | ObjectStorage) -> list[str]:
    if isinstance(root, Path):
        stores = StateRoot.open(root).stores if is_state_root(root) else {}
    else:
        document = RootObject(root)
        stores = stores_in(document.read()[0], document.shown)
    return [name for name, each in stores.items() if each.placement is Placement.TASK]


def _shown(root: Path | ObjectStorage) -> str:
    return str(root) if isinstance(root, Path) else root.url


class _FileNote:
    """The note in a directory."""

    def __init__(self, root: Path) -> None:
        self.place = root / TOPOLOGY_NOTE

    def read(self) -> Fields | None:
        """Return its fields; ``None`` if there is none."""
        return read_fields(self.place)

    def write(self, content: dict[str, Any]) -> None:
        """Have it be *content*."""
        self.place.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.place, content)

    def keep_picture(self, picture: str) -> None:
        """Leave *picture* for whoever looks into the state. A run does not fail for it."""
        file = self.place.with_name(PICTURE_FILE)
        with suppress(OSError):
            self.place.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists() or file.read_text("utf-8") != picture:
                temporary = file.with_suffix(f".{uuid4().hex}")
                try:
                    temporary.write_text(picture, "utf-8")
                    temporary.replace(file)
                finally:
                    temporary.unlink(missing_ok=True)


class _ObjectNote:
    """The note in an object store, which has no picture."""

    def __init__(self, storage: ObjectStorage) -> None:
        self._object = RootObject(storage, TOPOLOGY_NOTE.as_posix())
        self.place = f"{storage.url}/{TOPOLOGY_NOTE.as_posix()}"
        self._tag: str | None = None

    def read(self) -> Fields | None:
        """Return its fields; ``None`` if there is none."""
        try:
            fields, self._tag = self._object.read()
        except StoreNotFoundError:
            return None
        return fields

    def write(self, content: Mapping[str, Any]) -> None:
        """Have it be *content*, unless somebody else has written it since it was read.

        Raises:
            CommitConflictError: Somebody has.
        """
        if self._tag is None:
            self._object.create(content)
            is_there = self._object.read()[0].text("state") == content["state"]
        else:
            is_there = self._object.replace(content, self._tag)
        if not is_there:
            raise CommitConflictError(
                f"another program has noted its topology at {self.place!r} at this moment; run "
                "only one, and start it again"
            )

    def keep_picture(self, picture: str) -> None:
        """Keep none."""
