"""The end of a log, where its writer appends: the active segment, and the totals of the log.

One thread appends. Any thread may ask where the log ends, also in the middle of an append.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

import pyarrow as pa

from statestores.changelog.contract import OffsetRange
from statestores.changelog.encoded_rows import EncodedRows
from statestores.changelog.frame import FrameHeader, FrameKind
from statestores.changelog.frame_bodies import BodyWriter
from statestores.changelog.next_frame import next_frame
from statestores.changelog.options import ChangelogOptions
from statestores.changelog.rows import change_schema
from statestores.changelog.segments.active_segment import ActiveSegment
from statestores.changelog.segments.segment import Segment
from statestores.changelog.segments.segment_directory import may_be_there, segment_name
from statestores.changelog.segments.segment_head import SegmentHead
from statestores.changelog.segments.tail import Tail
from statestores.errors import InvalidTypeError
from statestores.failpoints import reach
from statestores.spi.offsets import Position, TopicPartition


class _Unnoted(NamedTuple):
    """A frame that is being appended, and that its log's totals do not include yet."""

    active: ActiveSegment
    tail: Tail
    start: int
    header: FrameHeader
    position: Position

    @property
    def is_missing(self) -> bool:
        """Whether the frame is in the file, and not in the totals."""
        appended = self.active.end > self.start
        return appended and self.tail.end_offset == self.header.base_offset

    @property
    def position_after(self) -> Position:
        """The position with the frame."""
        if self.header.kind is FrameKind.CLEAR:
            return self.position
        return self.tail.position.merge(self.position) if self.position else self.tail.position


class LogAppender:
    """The active segment of a log in *directory*, and its totals; whoever has it has the lock."""

    def __init__(
        self,
        directory: Path,
        store_kind: str,
        options: ChangelogOptions,
        active: ActiveSegment,
        tail: Tail,
        clock_ms: Callable[[], int],
        partition: TopicPartition | None,
    ) -> None:
        self._directory = directory
        self._store_kind = store_kind
        self._options = options
        self._bodies = BodyWriter(change_schema(store_kind), options.compression)
        self._active = active
        self._tail = tail
        self._clock_ms = clock_ms
        self.partition = partition
        """Whose changes these are; ``None`` if nobody has said."""
        self._unnoted: _Unnoted | None = None

    @classmethod
    def begin(
        cls,
        directory: Path,
        options: ChangelogOptions,
        head: SegmentHead,
        clock_ms: Callable[[], int],
    ) -> Self:
        """Create the first segment, that of *head*, durably.

        Raises:
            StorageError: The directory cannot be written.
        """
        active, tail = _begin_segment(directory, head)
        return cls(directory, head.store_kind, options, active, tail, clock_ms, head.partition)

    @property
    def tail(self) -> Tail:
        """The last segment as far as it is noted."""
        return self._tail

    @property
    def active(self) -> ActiveSegment:
        """The segment that is appended to."""
        return self._active

    @property
    def offset(self) -> int:
        """The offset that the next frame gets; any thread may ask, so nothing is noted here."""
        tail, unnoted = self._tail, self._unnoted
        if unnoted is not None and unnoted.tail is tail and unnoted.is_missing:
            return unnoted.header.last_offset + 1
        return tail.end_offset

    @property
    def position(self) -> Position:
        """The merged position of all frames; any thread may ask."""
        tail, unnoted = self._tail, self._unnoted
        if unnoted is not None and unnoted.tail is tail and unnoted.is_missing:
            return unnoted.position_after
        return tail.position

    def append(
        self,
        kind: FrameKind,
        batch: pa.RecordBatch | EncodedRows | None,
        position: Position,
        *,
        durable: bool,
        appended_at_ms: int | None = None,
    ) -> OffsetRange:
        """Append one frame, and bring the totals up to date with it.

        It is of now, unless the append is a part of what was committed at another time.

        Raises:
            InvalidTypeError: *position* is not one.
            InvalidArgumentError: The frame would be too large.
            StorageError: The disk is full or failed.
        """
        self.take_note()
        if not isinstance(position, Position):
            raise InvalidTypeError(f"position must be a Position, got {position!r}")
        at_ms = self._clock_ms() if appended_at_ms is None else appended_at_ms
        frame = next_frame(self._bodies, kind, batch, position, self._tail.end_offset, at_ms)
        header = frame.header
        if self._active.end + header.frame_bytes > self._options.segment_bytes:
            self.seal()
        active, tail = self._active, self._tail
        reach("changelog.append.before")
        self._unnoted = _Unnoted(active, tail, active.end, header, position)
        active.append(frame.pieces(), durable=durable)
        self.take_note()
        return OffsetRange(header.base_offset, header.last_offset)

    def take_note(self) -> None:
        """Add the frame appended last to the totals, if it is there; again after an interrupt.

        For the writer alone: what another thread would note, or forget, in the middle of an append
        would be missing, and the next frame would get the offsets of this one.
        """
        unnoted = self._unnoted
        if unnoted is None:
            return
        if unnoted.is_missing:
            tail, header = unnoted.tail, unnoted.header
            tail.index.add(header.base_offset, unnoted.start)
            tail.position = unnoted.position_after
            # Last, and in one line: until it is done, all of this is done again.
            tail.start, tail.end_offset = unnoted.active.end, header.last_offset + 1
        self._unnoted = None

    def seal(self) -> None:
        """Begin a new segment; without a frame in the active one, nothing happens.

        Raises:
            StorageError: The disk is full or failed.
        """
        self.take_note()
        tail, active = self._tail, self._active
        if tail.end_offset == tail.first_offset:
            return
        active.wait_for_disk()
        reach("changelog.roll.before")
        head = SegmentHead(
            store_kind=self._store_kind,
            compression=self._options.compression,
            base_offset=tail.end_offset,
            previous_base=tail.first_offset,
            compacted_to=None,
            position=tail.position,
            partition=self.partition,
        )
        try:
            self._active, self._tail = _begin_segment(self._directory, head)
        except BaseException:
            if may_be_there(self._directory / segment_name(tail.end_offset)):
                # Nobody knows which of the two a power failure would leave as the last one.
                active.refuse_appends("the segment after it could not be made durable")
            raise
        active.close()

    def is_as_left(self) -> bool:
        """Return whether nobody else has appended, begun another segment, or removed this one.

        Requires: the lock is held, so nobody does so meanwhile.

        Raises:
            StorageError: The directory cannot be read.
        """
        tail, active = self._tail, self._active
        following = self._directory / segment_name(tail.end_offset)
        has_frames = tail.end_offset > tail.first_offset
        return active.is_of_size(tail.start) and not (has_frames and may_be_there(following))

    def move(self, tail: Tail, frames_at: int) -> None:
        """Go to *tail*, as far as somebody else has written meanwhile.

        Raises:
            StorageError: Its segment cannot be opened; this stays where it was.
        """
        path = self._directory / segment_name(tail.first_offset)
        active = ActiveSegment.open(path, frames_at, tail.start)
        self._active.close()
        self._active, self._tail = active, tail

    def close(self) -> None:
        """Close the active segment. Idempotent."""
        self._active.close()


def _begin_segment(directory: Path, head: SegmentHead) -> tuple[ActiveSegment, Tail]:
    """Create the segment of *head*, durably, and return it with its tail."""
    active = ActiveSegment.create(directory, head)
    active.publish_or_discard()
    try:
        with Segment.open(active.path) as segment:
            return active, Tail.at_beginning(segment)
    except BaseException:
        active.close()
        raise
