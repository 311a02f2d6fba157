"""What a topology has noted of itself where its state is, read strictly (LAY-24).

The note of a state root is a file or an object, `TOPOLOGY_NOTE`. A runner compares the description
in it with the topology that it is to run (PRC-6); here is only what it must be to be compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statestores.errors import StoreNotFoundError
from statestores.files.durable_json import check_format, read_fields
from statestores.files.strict_json import Fields
from statestores.object_root import RootObject
from statestores.root_document import TOPOLOGY_NOTE, check_checksum
from statestores.storage import ObjectStorage

FORMAT = 1
"""The version of the note."""

DESCRIPTION_FORMAT = 1
"""The version of the description in it; a reader refuses another."""

LOCAL = "local"
"""The runner of a note that names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyNote:
    """What the note of a state root says."""

    state: str
    """The name of the state, which no other state has."""

    groups: Mapping[str, int]
    """The number of each part of the topology, by the part's name, and of sources and sinks."""

    topology: Mapping[str, Any]
    """The description of the topology, which can be compared with another."""

    runner: str
    """Who runs it."""


def noted_topology(root: Path | ObjectStorage) -> TopologyNote | None:
    """Return what a topology has noted in the state root *root*; ``None`` if none has.

    Raises:
        StoreCorruptedError, UnsupportedFormatError, StorageError: The note cannot be read.
    """
    if isinstance(root, Path):
        place = str(root / TOPOLOGY_NOTE)
        found = read_fields(root / TOPOLOGY_NOTE)
        return None if found is None else unpack_note(found, place)
    name = TOPOLOGY_NOTE.as_posix()
    try:
        fields, _ = RootObject(root, name).read()
    except StoreNotFoundError:
        return None
    return unpack_note(fields, f"{root.url}/{name}")


def unpack_note(fields: Fields, place: Path | str) -> TopologyNote:
    """Return the note that has *fields* and is at *place*.

    Raises:
        StoreCorruptedError: It is malformed, or has another checksum than it says.
        UnsupportedFormatError: It is of a later release.
    """
    check_format(fields, place, FORMAT)
    groups = fields.inside("groups")
    note = TopologyNote(
        state=fields.text("state"),
        groups={name: groups.integer(name) for name in groups},
        topology=description_in(fields),
        runner=fields.text("runner") if "runner" in fields else LOCAL,
    )
    check_checksum(fields, repr(str(place)))
    return note


def description_in(fields: Fields) -> Mapping[str, Any]:
    """Return the description in the field ``topology`` of a note that has *fields*.

    One of a later release is returned as it is: whoever compares it says so.

    Raises:
        StoreCorruptedError: It has not what a comparison looks at.
    """
    described, content = fields.inside("topology"), fields.mapping("topology")
    if described.integer("format") != DESCRIPTION_FORMAT:
        return content
    described.text("name")
    for field in ("internal_topics", "stores"):
        named = described.inside(field)
        for name in named:
            named.inside(name).text("value")
    parts = described.inside("parts")
    for name in parts:
        parts.row(name)
    for field in ("homes", "keepers"):
        if field in described:  # earlier versions have neither of them, nor steps
            texts = described.inside(field)
            for name in texts:
                texts.text(name)
    if "steps" in described:
        steps = described.inside("steps")
        for name in steps:
            _check_step(steps.inside(name))
    return content


def _check_step(step: Fields) -> None:
    """Accept a step that has what a comparison looks at.

    Raises:
        StoreCorruptedError: It has not.
    """
    step.text("kind")
    _mapping_or_null(step, "form")
    step.row("keeps")
    if "topics" in step:  # earlier versions have neither these nor what follows
        step.row("topics")
        step.row("rows_of")
        if _mapping_or_null(step, "waiting") is not None:
            step.inside("waiting").text("value")


def _mapping_or_null(step: Fields, name: str) -> Mapping[str, Any] | None:
    if name not in step:
        step.refuse(name, "an object or null")
    return step.mapping_or_none(name)
