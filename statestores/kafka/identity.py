"""Whose state a local directory is: the instance's name, and the topology that was run on it."""

import json
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from statestores.errors import TopologyMismatchError
from statestores.files.durable_json import ROOT_FILE, check_format, read_fields, write_json
from statestores.processing.topology import Graph, check_fits, describe
from statestores.topology_note import description_in

INSTANCE_FILE = "instance.json"
"""The file's name."""

BEGIN_ANEW = "give the topology another name to begin anew"
"""What to do about changelogs that a topology does not fit: nothing resets them."""

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Identity:
    """What the file says."""

    instance: str
    """A random name: the last part of the transactional id, so that a process that is started
    again ends the transaction that it left open."""


def claim(directory: Path, graph: Graph) -> Identity:
    """Accept *graph* for the state in *directory*, which this process has locked, and note it.

    Raises:
        TopologyMismatchError: What another topology, or an earlier one, has left would be lost; or
            it is a state root, whose stores do not reflect what is in the cluster (KFK-34).
        StoreCorruptedError, UnsupportedFormatError, StorageError: The file cannot be read, or not
            be written.
    """
    file = directory / INSTANCE_FILE
    description = json.loads(json.dumps(describe(graph)))
    fields = read_fields(file)
    instance = uuid4().hex
    if fields is None and (directory / ROOT_FILE).exists():
        raise TopologyMismatchError(
            f"{str(directory)!r} is a state root, and its stores reflect what another runner has "
            "read; give the instance a directory of its own"
        )
    if fields is not None:
        check_format(fields, file, _FORMAT)
        before = description_in(fields)
        if before.get("name") != graph.name:
            raise TopologyMismatchError(
                f"{str(directory)!r} has the state of the topology {before.get('name')!r}, and "
                f"{graph.name!r} is to run; give each instance of each topology a directory of its "
                "own"
            )
        check_fits(before, description, f"the state in {str(directory)!r}", BEGIN_ANEW)
        instance = fields.text("instance")
        if before == description:
            return Identity(instance)
    write_json(file, {"format": _FORMAT, "instance": instance, "topology": description})
    return Identity(instance)
