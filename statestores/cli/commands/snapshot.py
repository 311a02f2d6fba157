"""The command `snapshot`: copies of partitions as they are."""

from statestores.arrow.progress import ProgressCallback
from statestores.arrow.snapshots.snapshot import SnapshotInfo, write_snapshot
from statestores.cli.arguments import (
    BackendOption,
    JsonOption,
    StoreOption,
    StoreOrPartitionArgument,
    parse_backend_options,
)
from statestores.cli.locations import locate_store, partitions_at
from statestores.cli.output import Column, Output
from statestores.errors import StoreNotFoundError
from statestores.logged_store import open_logged_store
from statestores.opening import open_existing
from statestores.reading.locations import Partition
from statestores.staging.staged_write import finish_staged_writes
from statestores.upkeep import FileSnapshot


def snapshot(
    path: StoreOrPartitionArgument,
    *,
    store: StoreOption = None,
    json: JsonOption = False,
    backend_option: BackendOption = None,
) -> None:
    """WRITES: a snapshot of a partition, or of each partition of a store.

    Each partition is opened, which takes its lock and brings it up to its changelog. A partition
    that nobody has opened yet is read from its files. Where the same snapshot is there already, it
    stays.

    Example: statestores snapshot state/ --store planes
    """
    output = Output(json=json)
    options = parse_backend_options(backend_option)
    columns = (
        Column("partition", "partition"),
        Column("offset", "offset"),
        Column("rows", "rows"),
        Column("bytes", "bytes"),
        Column("written", "written", lambda new: "yes" if new else "no, it was there"),
        Column("path", "path"),
    )
    rows = []
    for partition in partitions_at(locate_store(path, store), store):
        with output.progress(f"snapshot of {partition.path.name}") as progress:
            found = _snapshot_of(partition, options, progress)
        if found is None:
            output.remark(f"{partition.path}: nothing has been committed, so there is no snapshot")
            continue
        rows.append(
            (
                partition.number,
                found.offset,
                found.rows,
                found.bytes,
                found.written,
                str(found.path),
            )
        )
    output.rows(columns, rows)


def _snapshot_of(
    partition: Partition, options: dict[str, object], progress: ProgressCallback | None
) -> SnapshotInfo | None:
    """Write a snapshot of *partition*; ``None`` when it has committed nothing."""
    if partition.root is None or partition.specification is None or partition.number is None:
        return _snapshot_of_engine(partition, options, progress)
    if not partition.has_changelog:
        if partition.has_engine:
            return _snapshot_of_engine(partition, options, progress)
        finish_staged_writes(partition.root, partition.specification.name)
        if not partition.has_changelog:
            return None
    if not partition.has_engine:
        return FileSnapshot(
            directory=partition.directory,
            number=partition.number,
            specification=partition.specification,
        )()
    with open_logged_store(
        partition.root, partition.specification.name, partition.number, options=options
    ) as logged:
        return logged.snapshot(progress=progress)


def _snapshot_of_engine(
    partition: Partition, options: dict[str, object], progress: ProgressCallback | None
) -> SnapshotInfo:
    """Write a snapshot of a store that has an engine only."""
    if not partition.has_engine:
        raise StoreNotFoundError(f"there is no store in {str(partition.path)!r}; check the path")
    with open_existing(partition.path, options=options, decoded=False) as store:
        return write_snapshot(store, partition.directory.snapshots, progress=progress)
