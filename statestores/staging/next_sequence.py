"""The number of the next retained duplicate, where the store itself is not open (WIN-21)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.snapshots.choice import newest_valid_snapshot
from statestores.changelog.contract import ReadOnlyChangelog
from statestores.changelog.frame import Frame, FrameKind
from statestores.errors import OffsetOutOfRangeError
from statestores.spi.offsets import TopicPartition
from statestores.spi.specification import StoreSpecification
from statestores.spi.window_specification import Window


def numbers_duplicates(specification: StoreSpecification[Any, Any]) -> bool:
    """Return whether rows of such a store get numbers, behind those that are there."""
    return isinstance(specification, Window) and specification.retain_duplicates


def next_sequence(snapshots: Path, changelog: ReadOnlyChangelog, partition: TopicPartition) -> int:
    """Return a number above that of every duplicate that a store of *changelog* can show.

    Reads the newest valid snapshot and the changes after it. A number that has expired may come
    again: its window has expired as well, so no new row is like it.

    Requires: nobody else appends to the changelog.

    Raises:
        OffsetOutOfRangeError: The changelog begins after what a valid snapshot has.
        ChangelogCorruptedError, StorageError: Something cannot be read.
    """
    choice = newest_valid_snapshot(snapshots)
    snapshot = choice.snapshot
    if snapshot is not None and snapshot.manifest.partition != partition:
        snapshot = None  # its offset is one of another log
    start = 0 if snapshot is None else snapshot.offset + 1
    if changelog.first_offset > start:
        with choice.explaining():
            raise OffsetOutOfRangeError(
                f"the changelog begins at offset {changelog.first_offset}, and what comes before "
                f"it is known up to {start}: a valid snapshot is missing in {str(snapshots)!r}; "
                "write one with the store open"
            )
    highest = -1
    if snapshot is not None:
        for rows in snapshot.batches():
            highest = max(highest, _highest(rows))
    return sequence_after(changelog.read(start) if start < changelog.end_offset else (), highest)


def sequence_after(frames: Iterable[Frame], highest: int = -1) -> int:
    """Return a number above those of *frames*, and above *highest*, which comes before them."""
    for frame in frames:
        highest = -1 if frame.kind is FrameKind.CLEAR else max(highest, _highest(frame.batch))
    return highest + 1


def _highest(rows: pa.RecordBatch) -> int:
    found: int | None = pc.max(rows.column("sequence")).as_py()
    return -1 if found is None else found
