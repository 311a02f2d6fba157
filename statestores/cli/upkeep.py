"""The commands `snapshot` and `compact`: copies of partitions, and shorter changelogs."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated

import typer

from statestores.arrow.progress import ProgressCallback
from statestores.arrow.snapshot import SnapshotInfo, write_snapshot
from statestores.arrow.snapshot_reader import newest_valid_snapshot
from statestores.changelog import CompactionReport, FileChangelog, changelog_partition
from statestores.changelog import compact as compact_log
from statestores.cli.arguments import (
    BackendOption,
    JsonOption,
    StoreOption,
    parse_backend_options,
)
from statestores.cli.locations import choose_store
from statestores.cli.output import Column, Output
from statestores.errors import InvalidArgumentError, StoreNotFoundError
from statestores.logged_store import open_logged_store
from statestores.opening import open_existing
from statestores.reading.locations import ChangelogDirectory, Location, Partition, Root, locate
from statestores.staged_write import finish_staged_writes, refuse_unfinished_write

_IN_MEMORY = "memory"
"""A partition that nobody has opened yet is rebuilt here, and leaves no engine behind."""

PathArgument = Annotated[
    str,
    typer.Argument(metavar="PATH", help="A state root, one of its stores, or a partition."),
]


def snapshot(
    path: PathArgument,
    *,
    store: StoreOption = None,
    json: JsonOption = False,
    backend_option: BackendOption = None,
) -> None:
    """WRITES: a snapshot of a partition, or of each partition of a store.

    Each partition is opened, which takes its lock and brings it up to its changelog. A partition
    that nobody has opened yet is rebuilt in memory for it. Where the same snapshot is there
    already, it stays.

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
    for partition in _partitions(locate(path), store):
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


def compact(
    path: PathArgument,
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

    Example: statestores compact state/planes/0
    """
    output = Output(json=json)
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
    for partition in _partitions(locate(path), store):
        if not partition.has_changelog:
            output.remark(f"{partition.path}: there is no changelog")
            continue
        done = _compacted(partition, drop_covered=drop_covered)
        report = done.report
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


def _partitions(location: Location, store: str | None) -> list[Partition]:
    """Return the partitions at *location*.

    Raises:
        InvalidArgumentError: It is a snapshot, or a changelog by itself.
    """
    match location:
        case Root():
            return location.partitions(choose_store(location, store))
        case Partition():
            return [location]
        case ChangelogDirectory(partition=Partition() as partition):
            return [partition]
        case _:
            raise InvalidArgumentError(
                f"{str(location.path)!r} is no state root, store or partition; give one"
            )


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
    backend = None if partition.has_engine else _IN_MEMORY
    with open_logged_store(
        partition.root,
        partition.specification.name,
        partition.number,
        backend=backend,
        options=options,
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


@dataclass(frozen=True, slots=True)
class _Compacted:
    """What became of one changelog."""

    report: CompactionReport
    dropped_before: int | None


def _compacted(partition: Partition, *, drop_covered: bool) -> _Compacted:
    """Compact the changelog of *partition*."""
    specification = partition.specification
    if partition.root is None or specification is None or partition.number is None:
        raise InvalidArgumentError(
            f"{str(partition.path)!r} belongs to no state root, which would say for how long its "
            "history is kept; compact it in Python with statestores.changelog.compact"
        )
    history_retention_ms = getattr(specification, "history_retention_ms", None)
    retention_ms = getattr(specification, "retention_ms", None)
    finish_staged_writes(partition.root, specification.name)
    with ExitStack() as opened:
        log = FileChangelog.open(partition.directory.changelog, specification.kind)
        opened.enter_context(log)
        refuse_unfinished_write(partition.path.parent)
        dropped_before = None
        if drop_covered:
            newest = newest_valid_snapshot(partition.directory.snapshots).snapshot
            own = changelog_partition(specification.name, partition.number)
            if newest is not None and newest.manifest.partition == own:
                log.seal()
                dropped_before = log.delete_before(min(newest.offset + 1, log.end_offset))
        log.seal()
        report = compact_log(
            log, history_retention_ms=history_retention_ms, retention_ms=retention_ms
        )
        return _Compacted(report, dropped_before)
