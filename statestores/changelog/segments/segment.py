"""Reading one segment: head, frames, and what stands where a frame should be.

Read and never mapped: a writer that cuts a torn tail would kill a reader that has it mapped.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple, Self

import pyarrow as pa

from statestores.changelog.frame import (
    FRAME_ALIGNMENT,
    FRAME_FORMAT_VERSION,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    HAS_OFFSETS,
    Frame,
    FrameHeader,
    FrameKind,
    is_intact,
    unpack_header,
)
from statestores.changelog.frame_bodies import read_body
from statestores.changelog.options import Compression
from statestores.changelog.rows import empty_batch
from statestores.changelog.segments.segment_head import DamagedHeadError, SegmentHead, head_bytes
from statestores.changelog.stored_position import MalformedPositionError, unpack_position
from statestores.errors import ChangelogCorruptedError, UnsupportedFormatError
from statestores.files.failures import reporting
from statestores.spi.closing import Closing
from statestores.spi.offsets import Position

_CHUNK_BYTES = 256 * 1024
"""Bytes per read: few enough to come from memory that is reused, and to stay in cache."""

_SETTLED_NS = 2_000_000_000

_KINDS = frozenset(FrameKind)
_NOTHING = pa.py_buffer(b"")


class StoredFrame(NamedTuple):
    """A frame that is intact, not yet decoded."""

    header: FrameHeader
    """Its fixed fields."""

    start: int
    """Where in the segment it begins."""

    buffer: pa.Buffer
    """Bytes that hold it."""

    at: int
    """Where in the buffer it begins."""

    @property
    def stop(self) -> int:
        """Where in the segment the next one begins."""
        return self.start + self.header.frame_bytes


class Segment(Closing):
    """One segment, open for reading. The file may grow, be cut or be removed meanwhile."""

    __slots__ = (
        "_buffer",
        "_buffer_at",
        "_data",
        "_descriptor",
        "_is_compressed",
        "frames_at",
        "head",
        "path",
    )

    def __init__(self, path: Path, descriptor: int, head: SegmentHead, frames_at: int) -> None:
        self.path = path
        self.head = head
        self.frames_at = frames_at
        """Where the first frame begins."""
        self._descriptor = descriptor
        self._is_compressed = head.compression is not Compression.NONE
        self._data = b""
        self._buffer = _NOTHING
        self._buffer_at = 0

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the segment *path* and check its head.

        Raises:
            FileNotFoundError: There is no such file, or no longer.
            ChangelogCorruptedError: The head is damaged, or of another segment.
            UnsupportedFormatError: It is of a version that is not known here.
            StorageError: It cannot be read.
        """
        with reporting("read", path):
            # Opening a pipe in its place would block. It has no head.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                head, frames_at = _read_head(path, descriptor)
            except BaseException:
                os.close(descriptor)
                raise
        return cls(path, descriptor, head, frames_at)

    @property
    def identity(self) -> tuple[int, int, int, int | None]:
        """What tells this file from another one of the same name, or in the same place.

        Raises:
            StorageError: The file's status cannot be read.
        """
        status = self._status()
        return status.st_dev, status.st_ino, self.head.base_offset, self.head.compacted_to

    @property
    def stamp(self) -> tuple[int, ...] | None:
        """What the file system changes whenever the file changes; ``None`` while it may not yet.

        Its clock is coarse: two changes may have one time. So a file that has changed in the last
        seconds has no stamp.

        Raises:
            StorageError: The file's status cannot be read.
        """
        status = self._status()
        changed_ns = max(status.st_mtime_ns, status.st_ctime_ns)
        if abs(time.time_ns() - changed_ns) < _SETTLED_NS:
            return None
        return status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def size(self) -> int:
        """Return the present length of the file.

        Raises:
            StorageError: The file's status cannot be read.
        """
        return self._status().st_size

    def frame_at(self, start: int, *, fresh: bool = False) -> StoredFrame | None:
        """Return the frame that begins at *start*; ``None`` when no intact one does.

        *fresh* reads it again: what was read before may have been written only in part.

        Raises:
            StorageError: The file cannot be read.
        """
        if fresh:
            self._forget()
        if not self._load(start, FRAME_HEADER_BYTES):
            return None
        found = unpack_header(self._data, start - self._buffer_at)
        if found is None:
            return None
        checksum, header = found
        if not self._load(start, header.frame_bytes):
            return None
        at = start - self._buffer_at
        if not is_intact(self._buffer, at, checksum, header):
            return None
        return StoredFrame(header, start, self._buffer, at)

    def checked(self, stored: StoredFrame, expected: int) -> StoredFrame:
        """Return *stored* when it may stand at the offset *expected* (LOG-23).

        Raises:
            UnsupportedFormatError: It is of a version or kind that is not known here.
            ChangelogCorruptedError: It stands for other offsets, or contradicts itself.
        """
        header = stored.header
        if header.version != FRAME_FORMAT_VERSION:
            raise UnsupportedFormatError(
                f"{self.path.name} at byte {stored.start}: the frame has format version "
                f"{header.version}, and this release knows {FRAME_FORMAT_VERSION}; upgrade "
                "statestores"
            )
        if header.kind not in _KINDS or header.flags & ~HAS_OFFSETS:
            raise UnsupportedFormatError(
                f"{self.path.name} at byte {stored.start}: the frame has kind {header.kind} and "
                f"flags {header.flags:#04x}, which this release does not know; upgrade statestores"
            )
        wrong = header.contradiction
        if wrong is None and header.base_offset != expected:
            wrong = f"its base offset is {header.base_offset}"
        if wrong is not None:
            raise self.damage(stored.start, expected, f"the frame is intact, but {wrong}")
        return stored

    def decode(self, stored: StoredFrame) -> Frame:
        """Return *stored* as a reader gets it.

        Raises:
            ChangelogCorruptedError: Its body or position is malformed, and the checksum right.
        """
        header = stored.header
        body_at = stored.at + FRAME_HEADER_BYTES + header.position_bytes
        schema = self.head.schema
        offsets = None
        try:
            if header.num_changes == 0:
                batch = empty_batch(schema)
            else:
                body = stored.buffer.slice(body_at, header.body_bytes)
                has_offsets = bool(header.flags & HAS_OFFSETS)
                batch, offsets = read_body(
                    body, schema, has_offsets=has_offsets, compressed=self._is_compressed
                )
            position = self.position_of(stored)
        except (pa.ArrowException, OSError, EOFError, MalformedPositionError) as error:
            raise self.damage(stored.start, header.base_offset, str(error)) from error
        if batch.num_rows != header.num_changes:
            raise self.damage(
                stored.start,
                header.base_offset,
                f"it counts {header.num_changes} changes, and its body has {batch.num_rows}",
            )
        return Frame(
            kind=FrameKind(header.kind),
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            appended_at_ms=header.appended_at_ms,
            position=position,
            batch=batch,
            explicit_offsets=offsets,
        )

    def position_of(self, stored: StoredFrame) -> Position:
        """Return the position that *stored* carries.

        Raises:
            MalformedPositionError: It is not a position.
        """
        at = stored.at + FRAME_HEADER_BYTES
        length = stored.header.position_bytes
        return unpack_position(stored.buffer.slice(at, length).to_pybytes() if length else b"")

    def later_frame(self, start: int, expected: int) -> StoredFrame | None:
        """Return the first intact frame after *start* with an offset from *expected* on.

        Its presence tells damage from a torn tail: a writer appends in order, so nothing whole
        comes after what a crash tore.
        """
        self._forget()
        searched = start + FRAME_ALIGNMENT
        while self._load(searched, len(FRAME_MAGIC)):
            data, data_at = self._data, self._buffer_at
            at = data.find(FRAME_MAGIC, searched - data_at)
            while at >= 0:
                if (data_at + at) % FRAME_ALIGNMENT == 0:
                    stored = self.frame_at(data_at + at)
                    if stored is not None and stored.header.base_offset >= expected:
                        return stored
                at = data.find(FRAME_MAGIC, at + 1)
            searched = data_at + len(data) - len(FRAME_MAGIC) + 1
        return None

    def damage(self, start: int, expected: int, reason: str) -> ChangelogCorruptedError:
        """Return the error that says where the segment is damaged and how."""
        return ChangelogCorruptedError(
            f"the changelog segment {str(self.path)!r} is damaged at byte {start}, offset "
            f"{expected}: {reason}; restore the store from a snapshot or a standby, or the "
            "segment from a copy"
        )

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _forget(self) -> None:
        """Drop what has been read, so that it is read again."""
        self._data, self._buffer, self._buffer_at = b"", _NOTHING, 0

    def _status(self) -> os.stat_result:
        with reporting("look at", self.path):
            return os.fstat(self._descriptor)

    def _load(self, start: int, length: int) -> bool:
        """Have *length* bytes from *start* on in memory; return whether the file has them."""
        offset = start - self._buffer_at
        if offset >= 0 and offset + length <= len(self._data):
            return True
        with reporting("read", self.path):
            if start + length > self.size():  # a damaged length must not cost its memory
                return False
            data = _pread(self._descriptor, max(length, _CHUNK_BYTES), start)
        self._data, self._buffer, self._buffer_at = data, pa.py_buffer(data), start
        return length <= len(data)


def _read_head(path: Path, descriptor: int) -> tuple[SegmentHead, int]:
    """Return the head of the open segment *path*, and its length."""
    try:
        data = _pread(descriptor, 4096, 0)
        length = head_bytes(data)
        if length > len(data):
            data = _pread(descriptor, length, 0)
        head = SegmentHead.unpack(data)
    except DamagedHeadError as error:
        raise ChangelogCorruptedError(
            f"the changelog segment {str(path)!r} is damaged at byte 0: {error}; restore the "
            "store from a snapshot or a standby, or the segment from a copy"
        ) from error
    except UnsupportedFormatError as error:
        raise UnsupportedFormatError(f"{str(path)!r}: {error}") from error
    return head, length


def _pread(descriptor: int, length: int, start: int) -> bytes:
    """Return *length* bytes from *start* on, fewer only at the end of the file."""
    data = os.pread(descriptor, length, start)
    if not data or len(data) == length:
        return data
    parts = [data]
    missing = length - len(data)
    while missing and (data := os.pread(descriptor, missing, start + length - missing)):
        parts.append(data)
        missing -= len(data)
    return b"".join(parts)
