"""The command `compact`: shorter changelogs."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated

import typer

from statestores.arrow.snapshots.reader import newest_valid_snapshot
from statestores.changelog import CompactionReport, FileChangelog, changelog_partition
from statestores.changelog import compact as compact_log
from statestores.cli.arguments import (
    JsonOption,
    StoreOption,
    StoreOrPartitionArgument,
)
from statestores.cli.locations import locate_store, partitions_at
from statestores.cli.output import Column, Output
from statestores.errors import InvalidArgumentError
from statestores.reading.locations import Partition
from statestores.staging.staged_write import finish_staged_writes, refuse_unfinished_write
from statestores.state_root import StateRoot
from statestores.storage import is_storage_url


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


def _compact_objects(url: str, store: str | None, output: Output, *, drop_covered: bool) -> None:
    """Fold, compact and vacuum the log of a store in an object store."""
    if drop_covered:
        raise InvalidArgumentError(
            "a state root in an object store has no snapshots; leave --drop-covered out"
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
        log.vacuum(),
    )
    output.rows(columns, [row])


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
