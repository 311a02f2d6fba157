"""The command `compact`: shorter changelogs."""

from typing import Annotated

import typer

from statestores.begun_partitions import refuse_gone
from statestores.cli.arguments import (
    JsonOption,
    StoreOption,
    StoreOrPartitionArgument,
)
from statestores.cli.columns import Column
from statestores.cli.locations import locate_store, partitions_at
from statestores.cli.output import Output
from statestores.errors import InvalidArgumentError
from statestores.reading.locations import Partition
from statestores.state_root import StateRoot
from statestores.storage import is_storage_url
from statestores.upkeep import CompactedPartition, Compaction, ObjectVacuum


def compact(
    path: StoreOrPartitionArgument,
    *,
    drop_covered: Annotated[
        bool,
        typer.Option(
            "--drop-covered",
            help="Also delete the segments of which the newest valid snapshot has everything.",
        ),
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """WRITES: drop the changes from a changelog that later ones make void.

    What remains is the last change of each key, or of each key and time within the retention.
    Offsets stay what they are. Each changelog is locked, so the store must not be open. Content at
    an earlier offset can then be read from snapshots only.

    PATH may be the URL of a state root in an object store: all partitions of the store are folded
    and compacted then, beside whoever has them open, and what crashes have left is removed.

    Example: statestores compact state/planes/0
    """
    output = Output(json=json)
    if is_storage_url(path):
        _compact_objects(path, store, output, drop_covered=drop_covered)
        return
    columns = (
        Column("partition", "partition"),
        Column("first_offset", "first offset"),
        Column("end_offset", "end offset"),
        Column("changes_before", "changes before"),
        Column("changes_after", "after"),
        Column("bytes_before", "bytes before"),
        Column("bytes_after", "after"),
        Column("dropped_before", "dropped before"),
    )
    rows = []
    for partition in partitions_at(locate_store(path, store), store):
        if not partition.has_changelog:
            if partition.root is not None:
                refuse_gone(partition.directory)
            output.remark(f"{partition.path}: there is no changelog")
            continue
        done = _compacted(partition, drop_covered=drop_covered)
        report = done.report
        assert report is not None  # noqa: S101  # there is a changelog
        rows.append(
            (
                partition.number,
                report.first_offset,
                report.end_offset,
                report.changes_before,
                report.changes_after,
                report.bytes_before,
                report.bytes_after,
                done.dropped_before,
            )
        )
    output.rows(columns, rows)


def _compact_objects(url: str, store: str | None, output: Output, *, drop_covered: bool) -> None:
    """Fold, compact and vacuum the log of a store in an object store."""
    if drop_covered:
        raise InvalidArgumentError(
            "the changelogs of an object store keep what snapshots have, compacted; leave "
            "--drop-covered out"
        )
    root = StateRoot.open(url)
    specification = root.store(store).specification
    log = root.object_log(specification.name)
    report = log.compact(
        history_retention_ms=getattr(specification, "history_retention_ms", None),
        retention_ms=getattr(specification, "retention_ms", None),
    )
    columns = (
        Column("store", "store"),
        Column("entries", "entries folded"),
        Column("changes_before", "changes before"),
        Column("changes_after", "after"),
        Column("bytes_before", "bytes before"),
        Column("bytes_after", "after"),
        Column("removed", "objects removed"),
    )
    row = (
        specification.name,
        report.entries,
        report.changes_before,
        report.changes_after,
        report.bytes_before,
        report.bytes_after,
        ObjectVacuum(log=log)().objects,
    )
    output.rows(columns, [row])


def _compacted(partition: Partition, *, drop_covered: bool) -> CompactedPartition:
    """Compact the changelog of *partition*."""
    specification = partition.specification
    if partition.root is None or specification is None or partition.number is None:
        raise InvalidArgumentError(
            f"{str(partition.path)!r} belongs to no state root, which would say for how long its "
            "history is kept; compact it in Python with statestores.changelog.compact"
        )
    return Compaction(
        root=str(partition.root.path),
        store=specification.name,
        partition=partition.number,
        drop_covered=drop_covered,
    )()
