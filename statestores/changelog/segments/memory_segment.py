"""A segment in memory: written as one piece, and read from one, as the file of a log would be."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

import pyarrow as pa

from statestores.changelog.encoded_rows import EncodedRows
from statestores.changelog.frame import Frame, FrameKind
from statestores.changelog.next_frame import frame_of
from statestores.changelog.options import ChangelogOptions, Compression
from statestores.changelog.segments.segment import Segment
from statestores.changelog.segments.segment_head import DamagedHeadError, SegmentHead, head_bytes
from statestores.errors import ChangelogCorruptedError
from statestores.spi.offsets import Position

DEFAULT_COMPRESSION = ChangelogOptions().compression
"""How logs are compressed where nobody says otherwise."""


class MemorySegment(Segment):
    """A segment whose bytes are there already, and do not change."""

    __slots__ = ()

    def __init__(self, shown: str, data: bytes, head: SegmentHead, frames_at: int) -> None:
        """Read *data*; *shown* names it in messages."""
        super().__init__(Path(shown), -1, head, frames_at)
        self._data, self._buffer = data, pa.py_buffer(data)

    @classmethod
    def of(cls, shown: str, data: bytes) -> Self:
        """Return the segment *data*, which begins with its head.

        Raises:
            ChangelogCorruptedError: The head is damaged.
            UnsupportedFormatError: It is of a later release.
        """
        try:
            length = head_bytes(data)
            return cls(shown, data, SegmentHead.unpack(data[:length]), length)
        except DamagedHeadError as error:
            raise ChangelogCorruptedError(
                f"{shown} is no segment of a changelog: {error}; put it back from a copy"
            ) from error

    def size(self) -> int:
        return len(self._data)

    def frames(self) -> Iterator[Frame]:
        """Yield every frame: they go on from one another, and end with the data.

        Raises:
            ChangelogCorruptedError: They do not, or one is damaged, at the step that comes to it.
            UnsupportedFormatError: One is of a later release.
        """
        start, expected = self.frames_at, self.head.base_offset
        while start < self.size():
            stored = self.frame_at(start)
            if stored is None:
                raise self.damage(start, expected, "there is no intact frame")
            self.checked(stored, expected)
            expected, start = stored.header.last_offset + 1, stored.stop
            yield self.decode(stored)

    def _load(self, start: int, length: int) -> bool:
        return start + length <= len(self._data)


class FrameContent(NamedTuple):
    """What a frame of changes is made of."""

    rows: EncodedRows
    """The rows."""

    position: Position
    """The input position that it advances to."""


def segment_in_memory(
    store_kind: str,
    base_offset: int,
    contents: Iterable[FrameContent],
    appended_at_ms: int,
    compression: Compression = DEFAULT_COMPRESSION,
) -> bytes:
    """Return a segment with a frame of each of the *contents*.

    Its head says *compression*; each body says itself how it is compressed.

    Raises:
        InvalidArgumentError: One is too much for a frame.
    """
    head = SegmentHead(
        store_kind=store_kind,
        compression=compression,
        base_offset=base_offset,
        previous_base=None,
        compacted_to=None,
        position=Position(),
    )
    pieces: list[bytes | pa.Buffer] = [head.pack()]
    for rows, position in contents:
        kind, count = FrameKind.CHANGES, rows.num_rows
        frame = frame_of(kind, count, rows.body, position, base_offset, appended_at_ms)
        pieces += frame.pieces()
        base_offset = frame.header.last_offset + 1
    return b"".join(pieces)
