"""The number of the next retained duplicate, where the store itself is not open (WIN-21)."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.snapshots.choice import SnapshotChoice
from statestores.changelog.frame import Frame, FrameKind
from statestores.errors import OffsetOutOfRangeError
from statestores.spi.offsets import TopicPartition
from statestores.spi.specification import StoreSpecification
from statestores.spi.window_specification import Window


def numbers_duplicates(specification: StoreSpecification[Any, Any]) -> bool:
    """Return whether rows of such a store get numbers, behind those that are there."""
    return isinstance(specification, Window) and specification.retain_duplicates


def next_sequence(
    choice: SnapshotChoice,
    first_offset: int,
    frames_from: Callable[[int], Iterable[Frame]],
    partition: TopicPartition,
) -> int:
    """Return a number above that of every duplicate that a store of a changelog can show.

    Reads the snapshot that was chosen and the frames from an offset on, after it. The changelog
    begins at *first_offset*. A number that has expired may come again: its window has expired as
    well, so no new row is like it.

    Requires: nobody else appends to the changelog; or the caller notices, and asks again.

    Raises:
        OffsetOutOfRangeError: The changelog begins after what a valid snapshot has.
        ChangelogCorruptedError, StorageError: Something cannot be read.
    """
    snapshot = choice.snapshot
    if snapshot is not None and snapshot.manifest.partition != partition:
        snapshot = None  # its offset is one of another log
    start = 0 if snapshot is None else snapshot.offset + 1
    if first_offset > start:
        with choice.explaining():
            raise OffsetOutOfRangeError(
                f"the changelog of {partition} begins at offset {first_offset}, and what comes "
                f"before it is known up to {start}: a valid snapshot is missing; write one with "
                "the store open"
            )
    highest = -1
    if snapshot is not None:
        for rows in snapshot.batches():
            highest = max(highest, _highest(rows))
    for frame in frames_from(start):
        highest = -1 if frame.kind is FrameKind.CLEAR else max(highest, _highest(frame.batch))
    return highest + 1


def _highest(rows: pa.RecordBatch) -> int:
    found: int | None = pc.max(rows.column("sequence")).as_py()
    return -1 if found is None else found
