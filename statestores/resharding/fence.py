"""Who may not be at work while a store is resharded.

A store in a directory has all of its locks taken, those of its changelogs and that of staged
writes: nobody writes it meanwhile, and a writer that comes later, however it has opened the root,
looks at ``statestores.json`` once it has such a lock (`StateRoot.check_current`).
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from statestores.files.lock_waiting import when_unlocked
from statestores.object_log.log import ObjectLog
from statestores.object_log.view import View
from statestores.reading.partition_places import ObjectPartition, PartitionPlace
from statestores.reading.partition_reader import PartitionReader
from statestores.resharding.operators import settled_operators
from statestores.resharding.refusals import refuse_recorded_batches, refuse_records
from statestores.spi.offsets import Position, TopicPartition
from statestores.staging.recorded_commits import refuse_recorded_commits
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


@contextmanager
def fenced(root: StateRoot, store: str, timeout_ms: int) -> Iterator[Fenced]:
    """Keep everybody from writing *store* in the block; in an object store, pin what is read.

    Raises:
        StoreLockedError: Somebody has it open for *timeout_ms* and longer.
        StoreReshardedError: Somebody else has resharded it meanwhile.
        InvalidArgumentError: A task or an operator has died in the middle of a commit.
        StateStoreError: It cannot be read.
    """
    entry = root.store(store)
    specification, numbers = entry.specification, range(entry.partitions)
    if root.storage is not None:
        log = root.object_log(store)
        refuse_records(log.storage, store)
        view = log.view(numbers)
        settled_operators(root, log.storage, store, view)
        yield seen_in(log, view)
        return
    with ExitStack() as held:
        publisher = when_unlocked(
            lambda: held.enter_context(publishing(root, store)),
            timeout_ms,
            f"the reshard of {store!r}",
            "timeout_ms",
        )
        refuse_recorded_commits(root.path)  # of a task that died while this waited for it
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
