"""Where a log ends: the last segment, read up to the first place without a whole frame (LOG-10).

That place is the end of the file, or a *torn tail*: bytes that a crash, or a power failure, left of
an append that never returned. It is damage instead when an intact frame comes after it (LOG-11).
"""

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from statestores.changelog.frame import FrameKind
from statestores.changelog.segments.segment import Segment
from statestores.changelog.stored_position import MalformedPositionError
from statestores.spi.offsets import Position

_INDEX_BYTES = 1024 * 1024
"""Distance between two entries of an index: the most that a read from the middle wastes."""


@dataclass(frozen=True, slots=True)
class TornTail:
    """Bytes at the end of a log that are no whole frame."""

    path: Path
    """The segment."""

    byte_position: int
    """Where they begin."""

    length: int
    """How many there are."""

    offset: int
    """The offset that a frame there would have had."""


@dataclass(slots=True)
class FrameIndex:
    """Where some of the frames of a segment begin."""

    offsets: list[int] = field(default_factory=list)
    """Their base offsets, ascending."""

    starts: list[int] = field(default_factory=list)
    """Where each begins."""

    def add(self, offset: int, start: int) -> None:
        """Take note of the frame at *start*, if the last entry is far enough back."""
        if len(self.starts) > len(self.offsets):  # an interrupt came between the two
            self.starts.pop()
        if not self.starts or start - self.starts[-1] >= _INDEX_BYTES:
            self.starts.append(start)
            self.offsets.append(offset)  # last: another thread may look it up meanwhile

    def before(self, offset: int) -> tuple[int, int] | None:
        """Return base offset and start of the last known frame that begins up to *offset*."""
        at = bisect_right(self.offsets, offset) - 1
        return (self.offsets[at], self.starts[at]) if at >= 0 else None


@dataclass(slots=True)
class Tail:
    """The last segment as far as it has been read, and what the log amounts to there."""

    identity: tuple[int, int, int, int | None]
    """The file."""

    first_offset: int
    """The base offset of the segment."""

    start: int
    """Where the next frame begins, or will."""

    end_offset: int
    """The offset that it has, or will have."""

    position: Position
    """The merged position of everything before."""

    index: FrameIndex
    """Where some of the frames begin."""

    torn: TornTail | None = None
    """What stands there instead of a frame."""

    @classmethod
    def at_beginning(cls, segment: Segment) -> Self:
        """Return the tail of *segment* of which nothing has been read yet."""
        head = segment.head
        return cls(
            segment.identity,
            head.base_offset,
            segment.frames_at,
            head.base_offset,
            head.position,
            FrameIndex(),
        )

    def copy(self) -> Self:
        """Return a copy, for somebody else to read on from here."""
        index = FrameIndex(self.index.offsets.copy(), self.index.starts.copy())
        return replace(self, index=index)

    def before(self, segment: Segment, offset: int) -> tuple[int, int]:
        """Return base offset and start of a frame of *segment* that begins up to *offset*."""
        known = self.index.before(offset) if self.identity == segment.identity else None
        return known or (segment.head.base_offset, segment.frames_at)

    def advance(self, segment: Segment) -> None:
        """Read the frames that *segment* has from here on, up to the last whole one.

        Raises:
            ChangelogCorruptedError: One is damaged, and later ones are not.
            UnsupportedFormatError: One is of a version that is not known here.
            StorageError: The file cannot be read.
        """
        fresh = True
        while True:
            stored = segment.frame_at(self.start, fresh=fresh)
            if stored is None and not fresh:
                # It was read ahead, and may have been only partly written at the time.
                stored = segment.frame_at(self.start, fresh=True)
            if stored is None:
                later = segment.later_frame(self.start, self.end_offset)
                if later is None:
                    break
                # A writer may have completed it, and others, while the search ran.
                stored = segment.frame_at(self.start, fresh=True)
                if stored is None:
                    raise segment.damage(
                        self.start,
                        self.end_offset,
                        "there is no intact frame, and one of offset "
                        f"{later.header.base_offset} follows at byte {later.start}",
                    )
            fresh = False
            header = segment.checked(stored, self.end_offset).header
            if header.position_bytes or header.kind == FrameKind.CLEAR:
                try:
                    position = segment.position_of(stored)
                except MalformedPositionError as error:
                    raise segment.damage(self.start, self.end_offset, str(error)) from error
                clears = header.kind == FrameKind.CLEAR
                self.position = position if clears else self.position.merge(position)
            self.index.add(header.base_offset, stored.start)
            self.start, self.end_offset = stored.stop, header.last_offset + 1
        rest = segment.size() - self.start
        self.torn = TornTail(segment.path, self.start, rest, self.end_offset) if rest > 0 else None
