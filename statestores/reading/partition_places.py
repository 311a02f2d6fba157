"""Where a partition is read: a directory, or a place in an object store."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from statestores.arrow.snapshots.choice import ListedSnapshot, listed_in
from statestores.arrow.snapshots.object_snapshots import ObjectSnapshots
from statestores.object_log import ObjectLog
from statestores.object_log.view import View
from statestores.reading.visible_changelog import VisibleChangelog
from statestores.reading.visible_log import VisibleLog
from statestores.reading.visible_object_log import VisibleObjectLog
from statestores.spi.specification import StoreSpecification
from statestores.state_root import PartitionDirectory, StateRoot


@dataclass(frozen=True, slots=True)
class ObjectPartition:
    """One partition of a store in an object store."""

    log: ObjectLog
    """The log of the store."""

    number: int
    """The partition."""

    seen: View | None = None
    """What is known of it already."""

    pinned: bool = False
    """Whether it is read no further than that."""


PartitionPlace: TypeAlias = PartitionDirectory | ObjectPartition


def place_of(root: StateRoot, store: str, number: int) -> PartitionPlace:
    """Return where partition *number* of *store* is read.

    Raises:
        StoreNotFoundError: There is no such store.
        InvalidArgumentError: It has no such partition.
    """
    if root.storage is None:
        return root.partition(store, number)
    root.check_partition(store, number)
    return ObjectPartition(root.object_log(store), number)


def shown_place(place: PartitionPlace) -> str:
    """Return *place* as messages show it."""
    if isinstance(place, PartitionDirectory):
        return str(place.path)
    return f"{place.log.storage.url}/{place.log.store}, partition {place.number}"


def number_at(place: PartitionPlace) -> int:
    """Return the partition's number."""
    return int(place.path.name) if isinstance(place, PartitionDirectory) else place.number


def snapshots_at(place: PartitionPlace, log: VisibleLog) -> list[ListedSnapshot]:
    """Return the snapshots at *place*, whose changelog is *log*, by their offsets, ascending.

    Raises:
        ChangelogCorruptedError, StorageError: They cannot be listed.
    """
    if isinstance(log, VisibleObjectLog):
        snapshots = ObjectSnapshots(log=log.log, log_id=log.log_id, partition=log.partition)
        listed = snapshots.listed()
        if not log.is_pinned:
            return listed
        end = log.end().offset  # what has been written since is of changes that are not read
        return [each for each in listed if each.offset < end]
    assert isinstance(place, PartitionDirectory)  # noqa: S101  # `log_at` gives no other log
    return listed_in(place.snapshots)


def snapshots_of(place: ObjectPartition) -> ObjectSnapshots:
    """Return the snapshots of a partition in an object store.

    Raises:
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: The log cannot be read.
    """
    log_id = place.log.log_id() if place.seen is None else place.seen.checkpoint.log
    return ObjectSnapshots(log=place.log, log_id=log_id, partition=place.number)


def log_at(place: PartitionPlace, specification: StoreSpecification[Any, Any]) -> VisibleLog:
    """Return the changelog at *place*, without looking at it yet."""
    if isinstance(place, PartitionDirectory):
        return VisibleChangelog(place, specification)
    return VisibleObjectLog(place.log, place.number, place.seen, pinned=place.pinned)
