"""What a reshard would do: how much there is to move, before anything is moved."""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike

from statestores.reading.partition_places import place_of
from statestores.reading.partition_reader import PartitionReader
from statestores.resharding.refusals import check_request
from statestores.resharding.target import refuse_target, target_of
from statestores.state_root import StateRoot
from statestores.storage import ObjectStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshardPlan:
    """What `reshard` would be given to do."""

    store: str
    """The store."""

    before: int
    """How many partitions it has."""

    partitions: int
    """How many it would have."""

    snapshot_rows: int
    """Rows of the newest snapshots, which are read."""

    changes: int
    """Changes after them, which are read and folded; compaction may have dropped some."""

    bytes: int
    """About how many bytes these are on disk. As much again is written, and once more while the
    rows are sorted; both are there besides the old partitions until they go."""


def plan_reshard(
    root: StateRoot | str | PathLike[str],
    store: str,
    partitions: int,
    *,
    to: str | PathLike[str] | ObjectStorage | None = None,
    to_storage_options: Mapping[str, object] | None = None,
) -> ReshardPlan:
    """Return what `reshard` would do with these arguments; nothing is changed or locked.

    Raises:
        StateStoreError: As `reshard`, where it would refuse to begin; or something cannot be read.
    """
    source = root if isinstance(root, StateRoot) else StateRoot.open(root)
    entry = check_request(source, store, partitions, in_place=to is None)
    refuse_target(*target_of(source, to, to_storage_options), store)
    rows = changes = size = 0
    for number in range(entry.partitions):
        reader = PartitionReader(place_of(source, store, number), entry.specification)
        snapshot, end = reader.newest_snapshot(), reader.end_offset
        start = reader.beginning.offset
        if snapshot is not None:
            rows += snapshot.rows
            size += snapshot.bytes
            start = max(start, snapshot.offset + 1)
        changes += max(0, end - start)
        size += int(reader.change_bytes(start) * max(0, end - start))
    return ReshardPlan(
        store=store,
        before=entry.partitions,
        partitions=partitions,
        snapshot_rows=rows,
        changes=changes,
        bytes=size,
    )
