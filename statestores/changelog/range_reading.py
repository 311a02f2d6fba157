"""Reading a range of offsets across segments, while a writer appends, compacts and deletes.

Every step looks at the directory anew when it needs the next segment, so a segment that has been
replaced meanwhile is found under its new shape. Changes that compaction dropped before they were
read are changes that later ones, still to be read, make void (LOG-19).
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from statestores.changelog.frame import Frame
from statestores.changelog.segments.segment import Segment, StoredFrame
from statestores.changelog.segments.segment_directory import (
    SegmentInfo,
    SegmentListing,
    check_name,
    list_segments,
)
from statestores.errors import (
    ChangelogCorruptedError,
    InvalidArgumentError,
    InvalidTypeError,
    OffsetOutOfRangeError,
    StorageError,
    StoreClosedError,
)
from statestores.spi.offsets import TopicPartition

Start = Callable[[Segment, int], tuple[int, int]]
"""Where in a segment to begin to look for an offset: the base offset and start of a frame."""

_ATTEMPTS = 100


def check_range(
    directory: Path | str, from_offset: int | None, to_offset: int | None, first: int, end: int
) -> tuple[int, int]:
    """Return the bounds of a read of the log in *directory*, of the offsets from *first* to *end*.

    Raises:
        InvalidTypeError, InvalidArgumentError: They are not bounds.
        OffsetOutOfRangeError: They are outside the log.
    """
    for name, offset in (("from_offset", from_offset), ("to_offset", to_offset)):
        if offset is None:
            continue
        if type(offset) is not int:
            raise InvalidTypeError(f"{name} must be an int, got {offset!r}")
        if offset < 0:
            raise InvalidArgumentError(f"{name} must be from 0, got {offset!r}")
    start = first if from_offset is None else from_offset
    stop = end if to_offset is None else to_offset
    for offset in (start, stop):
        if not first <= offset <= end:
            which = "has been deleted" if offset < first else "is not written yet"
            raise OffsetOutOfRangeError(
                f"offset {offset} {which}: the changelog in {str(directory)!r} holds those from "
                f"{first} up to, and without, {end}; restore from a snapshot for older ones"
            )
    if start > stop:
        raise InvalidArgumentError(
            f"from_offset must not exceed to_offset, got {start!r} and {stop!r}"
        )
    return start, stop


def read_range(
    directory: Path,
    start: int,
    stop: int,
    where: Start,
    is_open: Callable[[], bool],
    partition: TopicPartition | None,
) -> Iterator[Frame]:
    """Yield the frames of ``start <= offset < stop``, whose end is known to have been written.

    They are those of *partition*, if it is given.
    """
    cursor = start
    while cursor < stop:
        segment, last = _open_holding(directory, cursor, partition)
        with segment:
            for stored in _frames_from(segment, cursor, stop, where, last=last):
                if not is_open():
                    raise StoreClosedError("the changelog has been closed; open it again to read")
                frame = segment.decode(stored)
                yield frame.within(cursor, stop)
                cursor = frame.last_offset + 1


def _open_holding(
    directory: Path, offset: int, partition: TopicPartition | None
) -> tuple[Segment, SegmentInfo]:
    """Open the segment that stands for *offset*."""
    for _ in range(_ATTEMPTS):
        listing = list_segments(directory)
        info = listing.holding(offset)
        if info is None:
            raise _gone(directory, offset, listing)
        try:
            segment = Segment.open(info.path)
        except FileNotFoundError:
            continue  # replaced or deleted since the directory was read
        try:
            check_name(segment, partition)
        except BaseException:
            segment.close()
            raise
        return segment, info
    raise StorageError(
        f"the segments of {str(directory)!r} change faster than they can be opened; try again"
    )


def _frames_from(
    segment: Segment, cursor: int, stop: int, where: Start, *, last: SegmentInfo
) -> Iterator[StoredFrame]:
    """Yield the stored frames of *segment* that reach into ``cursor <= offset < stop``."""
    compacted_to = segment.head.compacted_to
    end = last.end_offset if compacted_to is None else compacted_to
    expected, start = where(segment, cursor)
    while expected < stop and expected != end:
        stored = segment.frame_at(start)
        if stored is None:
            raise _broken(segment, start, expected, end)
        segment.checked(stored, expected)
        expected, start = stored.header.last_offset + 1, stored.stop
        if end is not None and expected > end:
            raise segment.damage(
                stored.start,
                stored.header.base_offset,
                f"the frame reaches over the segment's end at offset {end}",
            )
        if expected > cursor:
            yield stored


def _broken(
    segment: Segment, start: int, expected: int, end: int | None
) -> ChangelogCorruptedError:
    """Return the error for a place where a whole frame has been, or must be."""
    if end is None:
        return segment.damage(start, expected, "the frame that was there is no longer intact")
    if start >= segment.size():
        return segment.damage(
            start,
            expected,
            f"the segment ends there, and the next one begins at offset {end}; it has been cut, "
            "or a segment between them is missing",
        )
    return segment.damage(start, expected, "there is no intact frame")


def _gone(directory: Path, offset: int, listing: SegmentListing) -> Exception:
    """Return the error for an offset that no segment stands for."""
    if not listing.segments:
        return ChangelogCorruptedError(
            f"the segments of {str(directory)!r} are gone while they are read"
        )
    first = listing.bases[0]
    return OffsetOutOfRangeError(
        f"offset {offset} has been deleted: the changelog in {str(directory)!r} now begins at "
        f"{first}; restore from a snapshot for older ones"
    )
