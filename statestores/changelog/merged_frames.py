"""The frames of a compacted segment: what remains of many frames, merged into fewer."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from statestores.changelog.frame import (
    FRAME_FORMAT_VERSION,
    HAS_OFFSETS,
    Frame,
    FrameHeader,
    FrameKind,
    pack_frame,
)
from statestores.changelog.frame_bodies import BodyWriter
from statestores.changelog.segments.segment_head import SegmentHead
from statestores.changelog.stored_position import pack_position
from statestores.changelog.survivors import Choice
from statestores.spi.offsets import Position

_FRAME_ROWS = 16_384
_FRAME_BYTES = 1024 * 1024


class FrameOutput(Protocol):
    """Where the frames go."""

    def append(self, parts: Sequence[bytes | pa.Buffer]) -> None:
        """Take one frame, which *parts* make up."""


class MergedFrames:
    """Collects changes, and writes a frame whenever there are enough of them.

    Invariant: the frames written and what is collected stand for every offset up to the last frame
    that was added.
    """

    def __init__(self, output: FrameOutput, head: SegmentHead) -> None:
        self._output = output
        self._schema = head.schema
        self._bodies = BodyWriter(head.schema, head.compression)
        self._base = self._next = head.base_offset
        self._appended_at_ms = 0
        self._position = Position()
        self._batches: list[pa.RecordBatch] = []
        self._offsets: list[pa.Array] = []
        self._rows = 0
        self._bytes = 0
        self.changes = 0
        """How many changes have been taken."""

    def merge(self, frames: Iterable[Frame], choice: Choice) -> None:
        """Write what remains of *frames*, which are those of the *choice*."""
        for frame in frames:
            if frame.last_offset < choice.cleared_at:
                self.skip(frame)
            elif frame.kind is FrameKind.CLEAR:
                self.clear(frame)
            else:
                self.add(frame, pa.array(choice.survivors.among(frame), pa.bool_()))
        self.finish()

    def skip(self, frame: Frame) -> None:
        """Stand for the offsets of *frame* and take nothing from it: it will be cleared."""
        self._next = frame.last_offset + 1
        self._appended_at_ms = frame.appended_at_ms

    def add(self, frame: Frame, remaining: pa.BooleanArray) -> None:
        """Take the changes of *frame* that are *remaining*, and its position."""
        self.skip(frame)
        self._position = self._position.merge(frame.position)
        batch = frame.batch.filter(remaining)
        if batch.num_rows:
            self._batches.append(batch)
            self._offsets.append(frame.offset_column().filter(remaining))
            self._rows += batch.num_rows
            self._bytes += batch.nbytes
            self.changes += batch.num_rows
        if self._rows >= _FRAME_ROWS or self._bytes >= _FRAME_BYTES:
            self.finish()

    def clear(self, frame: Frame) -> None:
        """Write *frame*, which clears everything before it."""
        self.finish()
        self.skip(frame)
        self._position = frame.position
        self._write(FrameKind.CLEAR, b"", count=0, flags=0)

    def finish(self) -> None:
        """Write a frame of what has been collected, if that stands for any offset."""
        if self._next == self._base:
            return
        body: pa.Buffer | bytes = b""
        flags = 0
        if self._rows:
            table = pa.Table.from_batches(self._batches, self._schema).combine_chunks()
            (batch,) = table.to_batches()
            dense = self._rows == self._next - self._base
            flags = 0 if dense else HAS_OFFSETS
            body = self._bodies.write(batch, None if dense else pa.concat_arrays(self._offsets))
        self._write(FrameKind.CHANGES, body, count=self._rows, flags=flags)

    def _write(self, kind: FrameKind, body: pa.Buffer | bytes, *, count: int, flags: int) -> None:
        """Write one frame and begin the next."""
        position = pack_position(self._position)
        header = FrameHeader(
            version=FRAME_FORMAT_VERSION,
            kind=kind,
            flags=flags,
            position_bytes=len(position),
            body_bytes=len(body),
            num_changes=count,
            base_offset=self._base,
            last_offset=self._next - 1,
            appended_at_ms=self._appended_at_ms,
        )
        self._output.append([pack_frame(header, position, body), body])
        self._base = self._next
        self._position = Position()
        self._batches, self._offsets = [], []
        self._rows = self._bytes = 0
