"""What refuses a reshard, by name: stores that nobody partitions, and commits half made."""

import json
from collections.abc import Mapping
from pathlib import Path

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.files.durable_json import read_fields
from statestores.generations import current_home
from statestores.partitioning import partitioner_by_name
from statestores.root_document import (
    MAX_PARTITIONS,
    OPERATORS_DIRECTORY,
    TASKS_DIRECTORY,
    TOPOLOGY_NOTE,
    Placement,
    StoreEntry,
)
from statestores.staging.recorded_commits import refuse_recorded_commits
from statestores.staging.write_intent import read_intent
from statestores.state_root import StateRoot
from statestores.storage import Found, ObjectStorage


def check_request(root: StateRoot, store: str, partitions: int, *, in_place: bool) -> StoreEntry:
    """Accept a store that can be resharded; return its entry.

    Raises:
        StoreNotFoundError: There is none.
        InvalidTypeError, InvalidArgumentError: That is no number of partitions, or nobody
            partitions the store, or it is one of a topology, which would not find it any more.
        StorageError: The root cannot be looked into.
    """
    entry = root.store(store)
    if type(partitions) is not int:
        raise InvalidTypeError(f"partitions must be an int, got {partitions!r}")
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidArgumentError(
            f"partitions must be from 1 to {MAX_PARTITIONS}, got {partitions}"
        )
    partitioner_by_name(entry.specification.partitioner)
    if entry.placement is Placement.TASK:
        raise InvalidArgumentError(
            f"nobody partitions the store {store!r}: the task that writes a key places it, so "
            "there is no other partition where it would be looked for; change the partitions of "
            "the task's input, and run it anew"
        )
    if not in_place:
        return entry
    if root.storage is not None:
        shown = root.storage.url
        has_topology = root.storage.read(TOPOLOGY_NOTE.as_posix()) is not None
    else:
        shown, has_topology = str(root.path), (root.path / TOPOLOGY_NOTE).is_file()
    if has_topology:
        raise InvalidArgumentError(
            f"{shown!r} is the state of a topology, whose stores have as many partitions "
            "as its input: change those of the input and run it anew, or reshard a copy of the "
            "store into another state root (to=..., or --to)"
        )
    if root.storage is None:
        refuse_recorded_commits(root.path)
    return entry


def refuse_records(storage: ObjectStorage, store: str) -> None:
    """Accept a *store* of which no task has recorded a commit that may have to be carried out.

    Raises:
        InvalidArgumentError: One has.
        StorageError: It cannot be found out.
    """
    for each in storage.list(f"{TASKS_DIRECTORY}/"):
        parts = each.name.split("/")
        if "records" in parts[2:3] and (store in parts[3:4] or _names(storage, each.name, store)):
            raise InvalidArgumentError(
                f"the task {parts[1]!r} has recorded a commit that its stores may not have yet "
                f"({each.name!r} in {storage.url!r}); open the task once, which ends it, close it, "
                "and then try again"
            )


def refuse_recorded_batches(root: Path, store: str, batches: Mapping[str, int]) -> None:
    """Accept a store that, as *batches* says, has every micro-batch of its operators of Spark.

    So must the other stores of an operator: else its query could not start, which carries the
    micro-batch out, as its stores had not one number of partitions; nor could they be resharded.

    Raises:
        InvalidArgumentError: A driver has died before it could carry one out.
    """
    for file in sorted((root / OPERATORS_DIRECTORY).glob("*/batch.json")):
        fields = read_fields(file)
        if fields is None or store not in fields.inside("stores"):
            continue
        stream = f"{fields.text('operator')}@{fields.text('query')}"
        for name in fields.inside("stores"):
            intent = None if name == store else read_intent(current_home(root, name))
            has = batches if name == store else {} if intent is None else intent.batches
            if has.get(stream, -1) < fields.integer("number"):
                raise InvalidArgumentError(
                    f"the operator {fields.text('operator')!r} has committed a micro-batch that "
                    f"{name!r} does not have yet ({str(file)!r}); start its query once, which "
                    "carries it out, and then try again"
                )


def _names(storage: ObjectStorage, name: str, store: str) -> bool:
    """Return whether the object *name*, which has JSON in it, has *store* as one of its texts."""
    found = storage.read(name)
    texts = {json.dumps(store, ensure_ascii=escaped).encode() for escaped in (False, True)}
    return isinstance(found, Found) and any(text in found.data for text in texts)
