"""Whose state a state root is: the topology that was run on it, in a file of it (PRC-52).

It also has a name for the state, random, which no other state has: the marks in topics begin with
it. And it has the number of each part, which stays the same when others come and go.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from statestores.errors import StoreCorruptedError, TopologyMismatchError
from statestores.files.durable_json import check_format, read_fields, write_json
from statestores.processing.topology import Graph, as_mermaid, check_upgrade, describe
from statestores.root_document import TASKS_DIRECTORY, TOPOLOGY_NOTE, Placement
from statestores.state_root import StateRoot, is_state_root
from statestores.tasks.task import PICTURE_FILE

LOCAL = "local"
"""The runner of a state that names none."""

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StateIdentity:
    """What the file says."""

    state: str
    """The name of the state."""

    groups: Mapping[str, int]
    """The number of each part of the topology, by the part's name, and of sources and sinks."""


def claim(
    root: Path, graph: Graph, edges: Iterable[str] = (), *, runner: str = LOCAL
) -> StateIdentity:
    """Accept *graph* for the state in *root*, and note it, with the names of its *edges*.

    Raises:
        TopologyMismatchError: What another one, or an earlier one, has left there would be lost;
            or another *runner* has it, which knows another way how far its input is processed.
        StoreCorruptedError: Tasks have run there, and the file is gone.
        StoreCorruptedError, UnsupportedFormatError, StorageError: The file cannot be read, or not
            be written.
    """
    file = root / TOPOLOGY_NOTE
    description = json.loads(json.dumps(describe(graph)))
    names = [*(part.name for part in graph.sub_topologies), *edges]
    fields = read_fields(file)
    if fields is None:
        refuse_lost_note(root)
        state, groups = state_name(graph.name, uuid4().hex), dict[str, int]()
    else:
        check_format(fields, file, _FORMAT)
        noted = fields.text("runner") if "runner" in fields else LOCAL
        if noted != runner:
            raise TopologyMismatchError(
                f"{str(root)!r} has the state of a topology that the runner {noted!r} runs, and "
                f"{runner!r} would begin its input anew on top of it; give each runner a state of "
                "its own"
            )
        before = fields.mapping("topology")
        check_upgrade(before, description)
        numbers = fields.inside("groups")
        state, groups = fields.text("state"), {name: numbers.integer(name) for name in numbers}
        _keep_picture(file.parent, as_mermaid(graph))
        if before == description and groups.keys() >= set(names):
            return StateIdentity(state=state, groups=groups)
    for name in names:
        groups.setdefault(name, len(groups))
    file.parent.mkdir(parents=True, exist_ok=True)
    _keep_picture(file.parent, as_mermaid(graph))
    content = {"format": _FORMAT, "state": state, "groups": groups, "topology": description}
    write_json(file, content if runner == LOCAL else {**content, "runner": runner})
    return StateIdentity(state=state, groups=groups)


def state_name(topology: str, unique: str) -> str:
    """Return the name of a state of *topology*: topics that it writes bear it (PRC-50)."""
    return f"{topology}-{unique}"


def refuse_lost_note(root: Path) -> None:
    """Accept a state that is new: no topology has run there whose note is gone.

    The note is there before the first of its stores is, so there is no crash that leaves these.

    Raises:
        StoreCorruptedError: One has.
    """
    tasks = root / TASKS_DIRECTORY
    found = sorted(each.name for each in tasks.iterdir() if each.is_dir()) if tasks.is_dir() else []
    stores = StateRoot.open(root).stores if is_state_root(root) else {}
    found += sorted(name for name, each in stores.items() if each.placement is Placement.TASK)
    if found:
        raise StoreCorruptedError(
            f"tasks have run on {str(root)!r} and left {', '.join(map(repr, found))}, and "
            f"{str(root / TOPOLOGY_NOTE)!r}, which says of what topology, is gone: it has been "
            "removed, or was not copied; put it back with all that lay beside it, or reset the "
            "state"
        )


def _keep_picture(directory: Path, picture: str) -> None:
    """Leave *picture* for whoever looks into the state. A run does not fail for it."""
    file = directory / PICTURE_FILE
    with suppress(OSError):
        if not file.exists() or file.read_text("utf-8") != picture:
            temporary = file.with_suffix(f".{uuid4().hex}")
            temporary.write_text(picture, "utf-8")
            temporary.replace(file)
