"""One frame: what one append wrote, as a value and as bytes (LOG-22, LOG-23).

Integers are big-endian::

     0  4  magic, 'SSCF'
     4  4  CRC32C of everything after these eight bytes
     8  1  format version
     9  1  kind: 0 changes, 1 clear
    10  1  flags: bit 0, the body has a column of offsets
    11  1  zero
    12  4  length of the position, a multiple of 8
    16  4  length of the body, a multiple of 8
    20  4  number of changes
    24  8  base offset
    32  8  last offset
    40  8  when it was appended, in milliseconds since the epoch
    48     position, then body: an encapsulated Arrow IPC message of a record batch

The checksum covers the lengths and offsets too: a frame cannot be mistaken for another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from struct import Struct
from typing import NamedTuple, Self

import google_crc32c
import numpy as np
import pyarrow as pa

from statestores.changelog.rows import changes_from_batch
from statestores.spi.offsets import Position
from statestores.spi.records import Changes

FRAME_FORMAT_VERSION = 1
"""The version of frames that is written. An older reader refuses a newer one by name."""

FRAME_MAGIC = b"SSCF"
"""What every frame begins with; frames begin at multiples of `FRAME_ALIGNMENT`."""

FRAME_ALIGNMENT = 8
"""Arrow's columns are aligned to it, so a reader uses them in place."""

HAS_OFFSETS = 1
"""The flag of a body with a column of offsets."""

MAX_BODY_BYTES = (1 << 32) - FRAME_ALIGNMENT
"""What the field for the body's length holds."""

_CHECKSUM = Struct(">4sI")
_REST = Struct(">BBBxIIIQQq")

FRAME_HEADER_BYTES = _CHECKSUM.size + _REST.size
"""The fixed part of the header."""


class FrameKind(IntEnum):
    """What a frame says."""

    CHANGES = 0
    """Its rows must be applied in their order."""

    CLEAR = 1
    """Everything before it is dropped. It has no rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One commit as a reader gets it; several, when compaction has merged them (LOG-18)."""

    kind: FrameKind
    """What the frame says."""

    base_offset: int
    """The first offset that the frame stands for; the change may be missing after compaction."""

    last_offset: int
    """The last offset that the frame stands for, inclusive."""

    appended_at_ms: int
    """The writer's clock at the append. For people: nothing rests on it (LOG-8)."""

    position: Position
    """The input that the frame advances to; empty when the frame was cut before its end."""

    batch: pa.RecordBatch
    """The rows: ``key``, ``value``, and for versioned stores ``timestamp``."""

    explicit_offsets: pa.Array | None = None
    """The offset of each row; ``None`` when they are all there, from the base to the last."""

    @property
    def changes(self) -> Changes:
        """The rows as lists, for `StateStore.replay`; made anew at each call."""
        return changes_from_batch(self.batch)

    @property
    def offsets(self) -> Sequence[int]:
        """The offset of each row."""
        if self.explicit_offsets is None:
            return range(self.base_offset, self.base_offset + self.batch.num_rows)
        offsets: list[int] = self.explicit_offsets.to_pylist()
        return offsets

    def offset_column(self) -> pa.Array:
        """Return the offset of each row as an Arrow column of int64."""
        if self.explicit_offsets is not None:
            return self.explicit_offsets
        stop = self.base_offset + self.batch.num_rows
        return pa.array(np.arange(self.base_offset, stop, dtype=np.int64))

    def within(self, from_offset: int, to_offset: int) -> Self:
        """Return the part with ``from_offset <= offset < to_offset``; the frame reaches into it.

        A part that ends before the frame does reflects less input than the frame, and nobody
        knows how much: it has no position.
        """
        base, last = max(self.base_offset, from_offset), min(self.last_offset, to_offset - 1)
        if base == self.base_offset and last == self.last_offset:
            return self
        position = self.position if last == self.last_offset else Position()
        if self.batch.num_rows == 0:
            return replace(self, base_offset=base, last_offset=last, position=position)
        if self.explicit_offsets is None:
            start, count = base - self.base_offset, last - base + 1
            offsets = None
        else:
            start, stop = np.searchsorted(self.explicit_offsets.to_numpy(), [base, last + 1])
            start, count = int(start), int(stop - start)
            offsets = self.explicit_offsets.slice(start, count)
        return replace(
            self,
            base_offset=base,
            last_offset=last,
            position=position,
            batch=self.batch.slice(start, count),
            explicit_offsets=offsets,
        )


class FrameHeader(NamedTuple):
    """The fixed fields of a frame after magic and checksum."""

    version: int
    kind: int
    flags: int
    position_bytes: int
    body_bytes: int
    num_changes: int
    base_offset: int
    last_offset: int
    appended_at_ms: int

    @property
    def frame_bytes(self) -> int:
        """The length of the whole frame."""
        return FRAME_HEADER_BYTES + self.position_bytes + self.body_bytes

    @property
    def contradiction(self) -> str | None:
        """What cannot be true of any frame of this version, in words; ``None`` if nothing."""
        span = self.last_offset - self.base_offset + 1
        if not 0 < span <= 1 << 63 or self.last_offset >= 1 << 63:
            return f"its offsets are {self.base_offset} to {self.last_offset}"
        if (self.position_bytes | self.body_bytes) % FRAME_ALIGNMENT:
            return "its parts are not aligned"
        if self.num_changes > span or (self.num_changes == 0) != (self.body_bytes == 0):
            return (
                f"it has {self.num_changes} changes in {self.body_bytes} bytes for {span} offsets"
            )
        if self.kind == FrameKind.CLEAR and (self.num_changes or span != 1):
            return "it clears the store and has changes"
        if 0 < self.num_changes < span and not self.flags & HAS_OFFSETS:
            return "it lacks the offsets of its changes"
        return None


def pack_frame(header: FrameHeader, position: bytes, body: pa.Buffer | bytes) -> bytes:
    """Return the frame's bytes up to its body, the checksum of everything included."""
    rest = _REST.pack(*header) + position
    checksum = google_crc32c.value(rest)
    if header.body_bytes:
        checksum = google_crc32c.extend(checksum, body)
    return _CHECKSUM.pack(FRAME_MAGIC, checksum) + rest


def checksum_of(data: bytes) -> int:
    """Return the checksum of the frame *data*, as `pack_frame` has begun it."""
    checksum: int = _CHECKSUM.unpack_from(data)[1]
    return checksum


def unpack_header(data: bytes, at: int) -> tuple[int, FrameHeader] | None:
    """Return checksum and header of what begins at *at* in *data*; ``None`` without the magic.

    Requires: *data* holds `FRAME_HEADER_BYTES` from there on.
    """
    magic, checksum = _CHECKSUM.unpack_from(data, at)
    if magic != FRAME_MAGIC:
        return None
    return checksum, FrameHeader._make(_REST.unpack_from(data, at + _CHECKSUM.size))


def is_intact(buffer: pa.Buffer, at: int, checksum: int, header: FrameHeader) -> bool:
    """Return whether the frame at *at* in *buffer* has the *checksum* of its header."""
    start = at + _CHECKSUM.size
    covered = buffer.slice(start, header.frame_bytes - _CHECKSUM.size)
    actual: int = google_crc32c.value(covered)
    return actual == checksum
