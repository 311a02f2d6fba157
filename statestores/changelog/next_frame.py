"""The frame that a writer appends next, wherever its log is kept: in files or in objects."""

from abc import abstractmethod
from typing import NamedTuple

import pyarrow as pa

from statestores.changelog.contract import NO_POSITION, Changelog, OffsetRange
from statestores.changelog.encoded_rows import EncodedRows
from statestores.changelog.frame import (
    FRAME_FORMAT_VERSION,
    MAX_BODY_BYTES,
    FrameHeader,
    FrameKind,
    pack_frame,
)
from statestores.changelog.frame_bodies import BodyWriter
from statestores.changelog.rows import batch_from_changes, check_batch
from statestores.changelog.stored_position import pack_position
from statestores.errors import InvalidArgumentError
from statestores.spi.durability import Durability
from statestores.spi.offsets import Position
from statestores.spi.records import Changes


class NextFrame(NamedTuple):
    """A frame that has its offsets."""

    header: FrameHeader
    """What it is, and how long."""

    position: bytes
    """The input position that it advances to, as it is stored."""

    body: pa.Buffer | bytes
    """The rows, as they are stored."""

    def pieces(self) -> list[pa.Buffer | bytes]:
        """Return the stored frame, in the pieces that there are of it."""
        return [pack_frame(self.header, self.position, self.body), self.body]

    def stored(self) -> bytes:
        """Return the stored frame in one piece."""
        return b"".join(self.pieces())


def next_frame(
    bodies: BodyWriter,
    kind: FrameKind,
    batch: pa.RecordBatch | EncodedRows | None,
    position: Position,
    base_offset: int,
    appended_at_ms: int,
) -> NextFrame:
    """Return the frame of *batch* that begins at *base_offset*; one without rows takes one offset.

    Of encoded rows the body is taken as it is, if *bodies* would compress it likewise.

    Raises:
        InvalidArgumentError: It is too much for one frame, or offsets have come to their end.
    """
    body: pa.Buffer | bytes = b""
    if batch is None or not batch.num_rows:
        return frame_of(kind, 0, body, position, base_offset, appended_at_ms)
    if not isinstance(batch, EncodedRows):
        body = bodies.write(batch)
    elif batch.compression is bodies.compression:
        body = batch.body
    else:
        body = bodies.write(batch.batch)
    return frame_of(kind, batch.num_rows, body, position, base_offset, appended_at_ms)


def frame_of(
    kind: FrameKind,
    count: int,
    body: pa.Buffer | bytes,
    position: Position,
    base_offset: int,
    appended_at_ms: int,
) -> NextFrame:
    """Return the frame of *body*, which has *count* rows and begins at *base_offset*.

    Raises:
        InvalidArgumentError: It is too much for one frame, or offsets have come to their end.
    """
    if len(body) > MAX_BODY_BYTES:
        raise InvalidArgumentError(
            f"one append is stored in at most {MAX_BODY_BYTES} bytes, got {len(body)}; commit "
            "more often"
        )
    packed = pack_position(position)
    last = base_offset + max(count, 1) - 1
    if last >= 1 << 63:
        raise InvalidArgumentError(f"offsets end at 2**63 - 1, and this append needs {last}")
    header = FrameHeader(
        version=FRAME_FORMAT_VERSION,
        kind=kind,
        flags=0,
        position_bytes=len(packed),
        body_bytes=len(body),
        num_changes=count,
        base_offset=base_offset,
        last_offset=last,
        appended_at_ms=appended_at_ms,
    )
    return NextFrame(header, packed, body)


class FrameAppends(Changelog):
    """A changelog that appends frames, wherever it keeps them."""

    _schema: pa.Schema

    @abstractmethod
    def check_open(self) -> None:
        """Accept a changelog that is open.

        Raises:
            StoreClosedError: It is closed.
        """

    @abstractmethod
    def _append(
        self,
        kind: FrameKind,
        batch: pa.RecordBatch | EncodedRows | None,
        position: Position,
        durability: Durability,
    ) -> OffsetRange:
        """Append one frame, of rows that are checked."""

    def append(
        self,
        changes: Changes,
        *,
        position: Position = NO_POSITION,
        durability: Durability = Durability.POWER_LOSS,
    ) -> OffsetRange:
        self.check_open()
        # No name here holds the columns, so `_append` may free them.
        return self._append(
            FrameKind.CHANGES, batch_from_changes(self._schema, changes), position, durability
        )

    def append_batch(
        self,
        batch: pa.RecordBatch,
        *,
        position: Position = NO_POSITION,
        durability: Durability = Durability.POWER_LOSS,
    ) -> OffsetRange:
        self.check_open()
        batch = check_batch(self._schema, batch)
        return self._append(FrameKind.CHANGES, batch, position, durability)

    def append_clear(
        self,
        *,
        position: Position = NO_POSITION,
        durability: Durability = Durability.POWER_LOSS,
    ) -> int:
        self.check_open()
        return self._append(FrameKind.CLEAR, None, position, durability).last


def append_encoded(
    log: Changelog, rows: EncodedRows, *, position: Position, durability: Durability
) -> OffsetRange:
    """Append *rows* to *log*: `Changelog.append_batch`, but for what is encoded already.

    Raises:
        StoreClosedError, InvalidArgumentError, StorageError: See `Changelog.append`.
    """
    if not isinstance(log, FrameAppends):
        return log.append_batch(rows.batch, position=position, durability=durability)
    log.check_open()
    kind = FrameKind.CHANGES
    return log._append(kind, rows, position, durability)  # noqa: SLF001  # of this module
