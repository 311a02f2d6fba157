"""The frames of an object: a segment, or one frame, in memory."""

from collections.abc import Iterator

from statestores.changelog.frame import Frame
from statestores.changelog.options import Compression
from statestores.changelog.segments.memory_segment import MemorySegment
from statestores.changelog.segments.segment_head import DamagedHeadError, SegmentHead, head_bytes
from statestores.errors import ChangelogCorruptedError
from statestores.object_log.checkpoint import SegmentRef
from statestores.object_log.frames import EntryRef, damaged
from statestores.spi.offsets import Position


class ObjectSegment(MemorySegment):
    """The bytes of an object; damage is told as that of an object."""

    __slots__ = ("_shown",)

    def __init__(self, shown: str, data: bytes, head: SegmentHead, frames_at: int) -> None:
        super().__init__(shown, data, head, frames_at)
        self._shown = shown

    def damage(self, start: int, expected: int, reason: str) -> ChangelogCorruptedError:
        return damaged(self._shown, f"at byte {start}, offset {expected}: {reason}")


def frames_of(
    piece: SegmentRef | EntryRef, data: bytes, store_kind: str, shown: str, from_offset: int
) -> Iterator[Frame]:
    """Yield the frames in *data*, which is *piece*, that reach to *from_offset* or beyond.

    Raises:
        ChangelogCorruptedError: They are damaged, at the step that comes to it.
        UnsupportedFormatError: They are of a later release.
    """
    if isinstance(piece, SegmentRef):
        end, (head, start) = piece.end, _head_of(data, shown)
    else:
        end, start = piece.last + 1, 0
        head = SegmentHead(
            store_kind=store_kind,
            compression=Compression.LZ4,
            base_offset=piece.base,
            previous_base=None,
            compacted_to=None,
            position=Position(),
        )
    segment = ObjectSegment(shown, data, head, start)
    if head.store_kind != store_kind or head.base_offset != piece.base:
        raise segment.damage(
            0, piece.base, f"it is of a {head.store_kind} store, from offset {head.base_offset}"
        )
    expected = piece.base
    while expected < end:
        stored = segment.frame_at(start)
        if stored is None:
            raise segment.damage(start, expected, "there is no intact frame")
        segment.checked(stored, expected)
        expected, start = stored.header.last_offset + 1, stored.stop
        if expected > from_offset:
            yield segment.decode(stored)
    if expected != end or start != len(data):
        raise segment.damage(start, expected, f"it does not end at offset {end}")


def _head_of(data: bytes, shown: str) -> tuple[SegmentHead, int]:
    """Return the head of the segment *data*, and its length."""
    try:
        return SegmentHead.unpack(data[: head_bytes(data)]), head_bytes(data)
    except DamagedHeadError as error:
        raise damaged(shown, str(error)) from error
