"""The command `snapshot`: copies of partitions as they are."""

from typing import Annotated

import typer

from statestores.arrow.progress import ProgressCallback
from statestores.arrow.snapshots.native_writing import SnapshotFormat, snapshot_format_of
from statestores.arrow.snapshots.snapshot import SnapshotInfo, write_snapshot
from statestores.begun_partitions import refuse_gone
from statestores.cli.arguments import (
    BackendOption,
    JsonOption,
    StoreOption,
    StoreOrPartitionArgument,
    parse_backend_options,
)
from statestores.cli.columns import Column
from statestores.cli.locations import locate_store, partitions_at
from statestores.cli.output import Output
from statestores.errors import CapabilityNotSupportedError, StoreNotFoundError
from statestores.logged_store import open_logged_store
from statestores.opening import open_existing
from statestores.reading.locations import Partition
from statestores.reading.partition_places import ObjectPartition, shown_place, snapshots_of
from statestores.staging.unfinished_write import finish_staged_writes
from statestores.state_root import StateRoot
from statestores.storage import is_storage_url
from statestores.upkeep import FileSnapshot
from statestores.upkeep.vacuum import remove_old_snapshots

_COLUMNS = (
    Column("partition", "partition"),
    Column("offset", "offset"),
    Column("rows", "rows"),
    Column("bytes", "bytes"),
    Column("native_bytes", "native"),
    Column("written", "written", lambda new: "yes" if new else "no, it was there"),
    Column("path", "path"),
)


def snapshot(
    path: StoreOrPartitionArgument,
    *,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep",
            min=1,
            metavar="N",
            help="Then remove all but the newest N snapshots of each partition. Default: none.",
        ),
    ] = None,
    snapshot_format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="'arrow'; or 'native', which has the engine's own files as well.",
        ),
    ] = "arrow",
    store: StoreOption = None,
    json: JsonOption = False,
    backend_option: BackendOption = None,
) -> None:
    """WRITES: a snapshot of a partition, or of each partition of a store.

    Each partition is opened, which takes its lock and brings it up to its changelog. A partition
    that nobody has opened yet is read from its files. Where the same snapshot is there already, it
    stays.

    Of a native one, the same backend with the same driver restores in a fraction of the time; what
    it takes on the disk beside the engine is its own once the engine has changed.

    PATH may be the URL of a state root in an object store: each snapshot is made of the changelog
    then, beside whoever has the partition open, and lies beside it.

    Example: statestores snapshot state/ --store planes
    """
    output = Output(json=json)
    options = parse_backend_options(backend_option)
    chosen = snapshot_format_of(snapshot_format)
    if is_storage_url(path):
        if chosen == "native":
            raise _no_native(path, "it is in an object store")
        _snapshots_of_objects(path, store, keep, output)
        return
    rows = []
    for partition in partitions_at(locate_store(path, store), store):
        with output.progress(f"snapshot of {partition.path.name}") as progress:
            found = _snapshot_of(partition, options, chosen, progress)
        if found is None:
            output.remark(f"{partition.path}: nothing has been committed, so there is no snapshot")
            continue
        if keep is not None:
            remove_old_snapshots(partition.directory, keep)
        rows.append(_row(partition.number, found))
    output.rows(_COLUMNS, rows)


def _snapshots_of_objects(url: str, store: str | None, keep: int | None, output: Output) -> None:
    """Write a snapshot of each partition of the store in the root at *url*."""
    root = StateRoot.open(url)
    entry = root.store(store)
    log, rows = root.object_log(entry.specification.name), []
    for number in range(entry.partitions):
        place = ObjectPartition(log, number)
        found = FileSnapshot(directory=place, number=number, specification=entry.specification)()
        if found is None:
            output.remark(f"{shown_place(place)}: nothing has been committed, so there is none")
            continue
        if keep is not None:
            snapshots_of(place).remove_old(keep)
        rows.append(_row(number, found))
    output.rows(_COLUMNS, rows)


def _row(number: int | None, found: SnapshotInfo) -> tuple[object, ...]:
    place = str(found.place)
    native = found.native_bytes
    return (number, found.offset, found.rows, found.bytes, native, found.written, place)


def _no_native(place: object, reason: str) -> CapabilityNotSupportedError:
    return CapabilityNotSupportedError(
        f"{str(place)!r} gets no native snapshot, since {reason}; leave --format out"
    )


def _snapshot_of(
    partition: Partition,
    options: dict[str, object],
    snapshot_format: SnapshotFormat,
    progress: ProgressCallback | None,
) -> SnapshotInfo | None:
    """Write a snapshot of *partition*; ``None`` when it has committed nothing."""
    is_native = snapshot_format == "native"
    if partition.root is None or partition.specification is None or partition.number is None:
        if is_native:
            raise _no_native(partition.path, "it is no partition of a state root")
        return _snapshot_of_engine(partition, options, progress)
    if not partition.has_changelog:
        if partition.has_engine and is_native:
            raise _no_native(partition.path, "it has no changelog")
        if partition.has_engine:
            return _snapshot_of_engine(partition, options, progress)
        finish_staged_writes(partition.root, partition.specification.name)
        if not partition.has_changelog:
            refuse_gone(partition.directory)
            return None
    if not partition.has_engine:
        if is_native:
            raise _no_native(partition.path, "it has no engine yet")
        return FileSnapshot(
            directory=partition.directory,
            number=partition.number,
            specification=partition.specification,
        )()
    with open_logged_store(
        partition.root, partition.specification.name, partition.number, options=options
    ) as logged:
        return logged.snapshot(snapshot_format=snapshot_format, progress=progress)


def _snapshot_of_engine(
    partition: Partition, options: dict[str, object], progress: ProgressCallback | None
) -> SnapshotInfo:
    """Write a snapshot of a store that has an engine only."""
    if not partition.has_engine:
        raise StoreNotFoundError(f"there is no store in {str(partition.path)!r}; check the path")
    with open_existing(partition.path, options=options, decoded=False) as store:
        return write_snapshot(store, partition.directory.snapshots, progress=progress)
