"""Changelogs and snapshots: checksums, order, offsets, and what they say about each other."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from statestores.arrow.snapshots.choice import is_gone
from statestores.arrow.snapshots.directory import list_snapshots, native_path
from statestores.arrow.snapshots.native_part import read_native
from statestores.arrow.snapshots.reader import Snapshot, read_snapshot
from statestores.changelog import ChangelogReader, FrameKind, changelog_partition
from statestores.changelog.opening import check_chain
from statestores.changelog.segments.segment_directory import list_segments
from statestores.errors import StateStoreError, StorageError
from statestores.reading.locations import Partition
from statestores.semantics.every_kind.self_description import differences
from statestores.spi.offsets import TopicPartition
from statestores.spi.specification import StoreSpecification
from statestores.verification.findings import Finding, Status


@dataclass(frozen=True, slots=True)
class LogRange:
    """What a changelog holds, once all of it has been read."""

    first_offset: int
    """The first offset that it stands for."""

    end_offset: int
    """The offset after the last."""

    complete_from: int
    """Before this offset, compaction has dropped changes that were not void at their time."""


def check_changelog(
    path: Path, kind: str | None, logged: TopicPartition | None = None
) -> tuple[Finding, LogRange | None]:
    """Read the whole changelog in *path*, that of *logged*; return what it holds, if it can be."""
    try:
        with ChangelogReader.open(path, kind, partition=logged) as log:
            check_chain(list_segments(path), log.store_kind, logged)
            segments = log.segments()
            compacted_to = segments[0].end_offset if segments[0].compacted else None
            torn = log.torn_tail
            first = expected = log.first_offset
            frames = changes = clears = 0
            for frame in log.read():
                wrong = _wrong_offsets(list(frame.offsets), expected, frame.last_offset)
                if wrong is not None:
                    return Finding("changelog", path, Status.DAMAGED, wrong), None
                expected = frame.last_offset + 1
                frames += 1
                changes += frame.batch.num_rows
                clears += frame.kind is FrameKind.CLEAR
    except StorageError as error:  # a disk that does not answer is no damage
        return Finding("changelog", path, Status.NOT_CHECKED, str(error), error), None
    except StateStoreError as error:
        return Finding("changelog", path, Status.DAMAGED, str(error), error), None
    words = f"frames: {frames:,}, changes: {changes:,}, offsets from {first} up to {expected}"
    if clears:
        words += f", clears: {clears}"
    if compacted_to is not None:
        words += f", compacted before {compacted_to}"
    if torn is not None:
        words += (
            f"; a torn tail of {torn.length} bytes at the end, an append that never returned, "
            "which the next writer cuts"
        )
    held = LogRange(first, expected, compacted_to or 0)
    return Finding("changelog", path, Status.OK, words), held


def _wrong_offsets(offsets: list[int], base: int, last: int) -> str | None:
    """Return what is wrong with the *offsets* of a frame from *base* to *last*, in words."""
    ascending = all(one < two for one, two in pairwise(offsets))
    if offsets and not (ascending and base <= offsets[0] and offsets[-1] <= last):
        return f"the frame at offset {base} has changes whose offsets are not from {base} to {last}"
    return None


def check_snapshots(
    partition: Partition, held: LogRange | None
) -> Iterator[tuple[Finding, Snapshot | None]]:
    """Read all snapshots of *partition*; yield those that are whole with their finding.

    The finding of a native part follows that of its snapshot, and is alone.
    """
    for path in list_snapshots(partition.directory.snapshots).values():
        finding, snapshot = check_snapshot(path)
        if snapshot is None and is_gone(path, None):
            continue  # removed since it was listed
        wrong = None
        if snapshot is not None and partition.specification is not None:
            wrong = _mismatch(snapshot, partition.specification, partition.number, held)
        if wrong is None:
            yield finding, snapshot
        else:
            yield Finding("snapshot", path, Status.DAMAGED, wrong), None
        native = check_native(path)
        if native is not None:
            yield native, None


def check_snapshot(path: Path) -> tuple[Finding, Snapshot | None]:
    """Read the whole snapshot in *path*; return it if it is whole."""
    try:
        snapshot = read_snapshot(path)
        snapshot.verify()
    except StateStoreError as error:
        return Finding("snapshot", path, Status.DAMAGED, str(error), error), None
    words = f"{snapshot.rows:,} rows at offset {snapshot.offset}"
    return Finding("snapshot", path, Status.OK, words), snapshot


def unless_removed(found: Finding, snapshot: Snapshot) -> Finding:
    """Return what was *found* of the content of *snapshot*, if that is still there."""
    if not found.is_failure or snapshot.is_there:
        return found
    words = "not compared: it has been removed since it was listed"
    return Finding(found.check, found.path, Status.SKIPPED, words)


def check_native(snapshot: Path) -> Finding | None:
    """Read the native part of the snapshot in the directory *snapshot*, if it has one (SNP-29)."""
    path = native_path(snapshot)
    try:
        part = read_native(snapshot)
        if part is None:
            return None
        part.verify()
    except StateStoreError as error:
        return Finding("native snapshot", path, Status.DAMAGED, str(error), error)
    files = len(part.manifest.files)
    return Finding("native snapshot", path, Status.OK, f"files: {files}, of {part.manifest.driver}")


def _mismatch(
    snapshot: Snapshot,
    specification: StoreSpecification[Any, Any],
    number: int | None,
    held: LogRange | None,
) -> str | None:
    """Return what in *snapshot* contradicts the state root or the changelog, in words."""
    differing = differences(
        snapshot.manifest.specification, specification, specification.changeable
    )
    if differing:
        return f"its {differing[0]} by the state root: it is a snapshot of another store"
    if number is None or snapshot.manifest.partition != changelog_partition(
        specification.name, number
    ):
        return None  # it stands at the offset of another log, which is not here
    if held is not None and snapshot.offset >= held.end_offset:
        return (
            f"it stands at offset {snapshot.offset}, and the changelog ends before "
            f"{held.end_offset}: the changelog has lost its end"
        )
    return None
