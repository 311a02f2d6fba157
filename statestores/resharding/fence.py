"""Who may not be at work while a store is resharded, and what refuses a reshard before it begins.

A store in a directory has all of its locks taken, those of its changelogs and that of staged
writes: nobody writes it meanwhile, and a writer that comes later, however it has opened the root,
looks at ``statestores.json`` once it has such a lock (`StateRoot.check_current`).
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.files.durable_json import read_fields
from statestores.files.lock_waiting import when_unlocked
from statestores.object_log.log import ObjectLog
from statestores.object_log.view import View
from statestores.partitioning import partitioner_by_name
from statestores.reading.partition_places import ObjectPartition, PartitionPlace
from statestores.reading.partition_reader import PartitionReader
from statestores.root_document import (
    MAX_PARTITIONS,
    OPERATORS_DIRECTORY,
    TASKS_DIRECTORY,
    TOPOLOGY_NOTE,
    Placement,
    StoreEntry,
)
from statestores.spi.offsets import Position, TopicPartition
from statestores.staging.staged_write import publishing
from statestores.staging.write_intent import read_intent
from statestores.state_root import StateRoot


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """The partitions of a store that nobody changes."""

    places: tuple[PartitionPlace, ...]
    """Where each of them is read."""

    offset: int
    """An offset that none of their changelogs has given to a change, and that is above all that
    they have."""

    position: Position
    """The input that all of them reflect."""

    behind: tuple[TopicPartition, ...]
    """Inputs that some of them reflect further than `position` says."""

    batches: Mapping[str, int] = field(default_factory=dict)
    """The last batch of each stream that the store has (`StreamBatch`)."""


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


def refuse_recorded_commits(root: Path) -> None:
    """Accept a root whose tasks have ended every commit that they began.

    That holds only as long as nobody can commit: who asks without the fence asks again in it.

    Raises:
        InvalidArgumentError: One has died in the middle of a commit.
    """
    unfinished = sorted((root / TASKS_DIRECTORY).glob("*/commit"))
    if unfinished:
        raise InvalidArgumentError(
            f"the task {unfinished[0].parent.name!r} has recorded a commit that its stores do not "
            f"have yet ({str(unfinished[0])!r}); open the task once, which ends it, and then "
            "try again"
        )


def refuse_recorded_batches(root: Path, store: str, batches: Mapping[str, int]) -> None:
    """Accept a store that has every micro-batch which an operator of Spark has committed to it.

    Raises:
        InvalidArgumentError: A driver has died before it could carry one out.
    """
    for file in sorted((root / OPERATORS_DIRECTORY).glob("*/batch.json")):
        fields = read_fields(file)
        if fields is None or store not in fields.inside("stores"):
            continue
        stream = f"{fields.text('operator')}@{fields.text('query')}"
        if batches.get(stream, -1) < fields.integer("number"):
            raise InvalidArgumentError(
                f"the operator {fields.text('operator')!r} has committed a micro-batch that "
                f"{store!r} does not have yet ({str(file)!r}); start its query once, which carries "
                "it out, and then try again"
            )


@contextmanager
def fenced(root: StateRoot, store: str, timeout_ms: int) -> Iterator[Fenced]:
    """Keep everybody from writing *store* in the block; in an object store, pin what is read.

    Raises:
        StoreLockedError: Somebody has it open for *timeout_ms* and longer.
        StoreReshardedError: Somebody else has resharded it meanwhile.
        StateStoreError: It cannot be read.
    """
    entry = root.store(store)
    specification, numbers = entry.specification, range(entry.partitions)
    if root.storage is not None:
        log = root.object_log(store)
        yield seen_in(log, log.view(numbers))
        return
    with ExitStack() as held:
        publisher = when_unlocked(
            lambda: held.enter_context(publishing(root, store)),
            timeout_ms,
            f"the reshard of {store!r}",
            "timeout_ms",
        )
        places = tuple(root.partition(store, number) for number in numbers)
        intent = read_intent(root.home(store))
        batches = {} if intent is None else intent.batches
        refuse_recorded_batches(root.path, store, batches)
        positions = [PartitionReader(place, specification).position for place in places]
        yield _summed_up(
            places,
            max(publisher.end_offsets.values()),
            positions,
            batches,
        )


def seen_in(log: ObjectLog, view: View) -> Fenced:
    """Return the partitions that *view* has of *log*, to be read as they are there."""
    parts = view.parts.values()
    return _summed_up(
        tuple(ObjectPartition(log, each, view.of(each), pinned=True) for each in view.parts),
        max(part.end for part in parts),
        [part.position for part in parts],
        view.batches,
    )


def _summed_up(
    places: tuple[PartitionPlace, ...],
    offset: int,
    positions: Iterable[Position],
    batches: Mapping[str, int],
) -> Fenced:
    """Return what is known of the partitions at *places*, which reflect these *positions*."""
    least: dict[TopicPartition, int] = {}
    behind: set[TopicPartition] = set()
    for position in positions:
        for partition, reached in position.items():
            if least.setdefault(partition, reached) != reached:
                behind.add(partition)
            least[partition] = min(least[partition], reached)
    return Fenced(
        places=places,
        offset=offset,
        position=Position(least),
        behind=tuple(sorted(behind)),
        batches=dict(batches),
    )
