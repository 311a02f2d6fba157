"""Frames of the changelog format as objects of their own: what owners append and tasks stage.

The bytes are those of a frame in a segment (LOG-22), so their checksum covers offsets and position.
What a task stages begins at offset 0, and gets its offset by the entry that makes it count.
"""

from typing import NamedTuple, Self

import pyarrow as pa

from statestores.changelog.frame import (
    FRAME_FORMAT_VERSION,
    FRAME_HEADER_BYTES,
    HAS_OFFSETS,
    FrameHeader,
    FrameKind,
    is_intact,
    pack_frame,
    unpack_header,
)
from statestores.changelog.stored_position import MalformedPositionError, unpack_position
from statestores.errors import ChangelogCorruptedError, UnsupportedFormatError
from statestores.spi.offsets import Position

_KINDS = frozenset(FrameKind)


class EntryRef(NamedTuple):
    """One object with one frame that counts; a named tuple, since each append makes one."""

    name: str
    """The object."""

    base: int
    """The offset of the frame."""

    last: int
    """Its last offset, inclusive."""

    checksum: int
    """That of the object's frame: what is found later under the name may be something else."""

    size: int
    """Its length in bytes."""

    data: bytes | None
    """Its bytes, if they were few enough to keep."""

    at_ms: int | None = None
    """When it was committed, where its frame does not say it: it was staged before."""

    def without_data(self) -> Self:
        """Return the same without the bytes."""
        return self if self.data is None else self._replace(data=None)


class StoredEntry(NamedTuple):
    """What an object with a frame says."""

    header: FrameHeader
    """The fixed fields."""

    checksum: int
    """The checksum of the frame."""

    position: Position
    """The position that it advances to."""

    @property
    def clears(self) -> bool:
        """Whether everything before it is dropped."""
        return self.header.kind == FrameKind.CLEAR

    def after(self, position: Position) -> Position:
        """Return what *position* is after this frame (LOG-6, LOG-7)."""
        if self.clears:
            return self.position
        return position.merge(self.position) if self.position else position


def read_entry(data: bytes, shown: str) -> StoredEntry:
    """Return what the frame *data* says, which is all of the object *shown*.

    Raises:
        ChangelogCorruptedError: It is not one intact frame.
        UnsupportedFormatError: It is of a version or kind that is not known here.
    """
    found = unpack_header(data, 0) if len(data) >= FRAME_HEADER_BYTES else None
    if found is None:
        raise damaged(shown, "it does not begin with a frame")
    checksum, header = found
    if header.frame_bytes != len(data) or not is_intact(pa.py_buffer(data), 0, checksum, header):
        raise damaged(shown, "its frame is not intact")
    if header.version != FRAME_FORMAT_VERSION or header.kind not in _KINDS:
        raise UnsupportedFormatError(
            f"the object {shown} has a frame of version {header.version} and kind {header.kind}, "
            "which this release does not know; upgrade statestores"
        )
    wrong = "its flags are not known" if header.flags & ~HAS_OFFSETS else header.contradiction
    if wrong is not None:
        raise damaged(shown, wrong)
    stop = FRAME_HEADER_BYTES + header.position_bytes
    try:
        position = unpack_position(data[FRAME_HEADER_BYTES:stop])
    except MalformedPositionError as error:
        raise damaged(shown, str(error)) from error
    return StoredEntry(header, checksum, position)


def rebased(data: bytes, base: int, at_ms: int | None = None) -> bytes:
    """Return the intact frame *data*, without a column of offsets, as it is at *base*.

    With *at_ms* it was appended then.
    """
    found = unpack_header(data, 0)
    if found is None:
        return data
    header = found[1]
    at_ms = header.appended_at_ms if at_ms is None else at_ms
    if header.base_offset == base and header.appended_at_ms == at_ms:
        return data
    span = header.last_offset - header.base_offset
    body_at = FRAME_HEADER_BYTES + header.position_bytes
    body = data[body_at:]
    moved = header._replace(base_offset=base, last_offset=base + span, appended_at_ms=at_ms)
    return pack_frame(moved, data[FRAME_HEADER_BYTES:body_at], body) + body


def damaged(shown: str, reason: str) -> ChangelogCorruptedError:
    """Return the error for the object *shown* that cannot be what it has to be."""
    return ChangelogCorruptedError(
        f"the object {shown} is damaged: {reason}; put back an earlier version of it, if the "
        "bucket keeps them"
    )
