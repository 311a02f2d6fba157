"""Whose state a local directory is: the instance's name, and the topology that was run on it."""

import json
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from statestores.files.durable_json import check_format, read_fields, write_json
from statestores.processing.topology import Graph, check_upgrade, describe

INSTANCE_FILE = "instance.json"
"""The file's name."""

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
        TopologyMismatchError: What another topology, or an earlier one, has left would be lost.
        StoreCorruptedError, UnsupportedFormatError, StorageError: The file cannot be read, or not
            be written.
    """
    file = directory / INSTANCE_FILE
    description = json.loads(json.dumps(describe(graph)))
    fields = read_fields(file)
    instance = uuid4().hex
    if fields is not None:
        check_format(fields, file, _FORMAT)
        before = fields.mapping("topology")
        check_upgrade(before, description)
        instance = fields.text("instance")
        if before == description:
            return Identity(instance)
    write_json(file, {"format": _FORMAT, "instance": instance, "topology": description})
    return Identity(instance)
