"""Changes of a store as records that are frames of the library's changelogs (KFK-27).

The value of a record is one frame (LOG-22) whose offsets count from 0: where it is, the record's
own offset says. Its key says what it is for: changes, in their order; or a piece of a whole, which
is everything that the store had at the commit before. A whole makes what lies before it
superfluous.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

import pyarrow as pa

from statestores.changelog.frame import (
    FRAME_FORMAT_VERSION,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    FrameKind,
    is_intact,
    unpack_header,
)
from statestores.changelog.frame_bodies import BodyWriter, read_body
from statestores.changelog.next_frame import next_frame
from statestores.changelog.options import Compression
from statestores.changelog.rows import (
    batch_from_changes,
    change_schema,
    changes_from_batch,
    empty_batch,
)
from statestores.changelog.stored_position import MalformedPositionError, unpack_position
from statestores.errors import ChangelogCorruptedError, UnsupportedFormatError
from statestores.kafka.changelog_rows import ChangelogRow
from statestores.semantics.expiry.wall_clock import wall_clock_ms
from statestores.spi import Changes, Position, StoreSpecification
from statestores.spi.stores.store import CommittedContent

_NO_STREAM_TIME = -1


class Purpose(Enum):
    """What a record is for; the value is its key."""

    CHANGES = b"statestores.changes"
    """Rows that a commit has changed, in their order."""

    WHOLE = b"statestores.whole"
    """A piece of a whole, after which there are more."""

    WHOLE_END = b"statestores.whole-end"
    """The last piece of a whole."""


FRAME_KEYS = frozenset(purpose.value for purpose in Purpose)
"""The keys of all records that are frames."""


def is_frame(row: ChangelogRow) -> bool:
    """Whether the record *row* is a frame, and no row."""
    return row.key in FRAME_KEYS and (row.value or b"").startswith(FRAME_MAGIC)


class FoundFrame(NamedTuple):
    """What one record says."""

    purpose: Purpose
    """What it is for."""

    changes: Changes
    """Its rows."""

    position: Position
    """The input that the store reflects after it; empty where it does not say."""

    stream_time_ms: int | None
    """The stream time that a whole goes with; ``None`` without one, and for changes."""


class FrameFormat:
    """How the changes of one store become records, and back."""

    def __init__(self, specification: StoreSpecification[Any, Any], largest_bytes: int) -> None:
        """Make records of up to *largest_bytes*, as far as single rows allow that."""
        self._name = specification.name
        self._schema = change_schema(specification.kind)
        self._bodies = BodyWriter(self._schema, Compression.NONE)
        self._largest_bytes = largest_bytes

    def records(self, changes: Changes, position: Position, now_ms: int) -> Iterator[ChangelogRow]:
        """Yield *changes* as records at *now_ms*; the last of them says *position*."""
        frames = self._frames(batch_from_changes(self._schema, changes), position)
        return (ChangelogRow(Purpose.CHANGES.value, frame, now_ms) for frame in frames)

    def whole(self, content: CommittedContent) -> Iterator[ChangelogRow]:
        """Yield *content* as records: at least one, the last of which ends it."""
        time_ms = content.stream_time_ms
        stamp = _NO_STREAM_TIME if time_ms is None else time_ms
        pieces = (
            frame
            for changes in content.changes
            for frame in self._frames(batch_from_changes(self._schema, changes), Position({}))
        )
        for frame in pieces:
            yield ChangelogRow(Purpose.WHOLE.value, frame, stamp)
        [end] = self._frames(empty_batch(self._schema), content.position)
        yield ChangelogRow(Purpose.WHOLE_END.value, end, stamp)

    def found(self, row: ChangelogRow, shown: str) -> FoundFrame:
        """Return what the record *row* says, which is *shown* so.

        Raises:
            ChangelogCorruptedError: It is no frame, or not one of such a store.
            UnsupportedFormatError: It is of a version that is not known here.
        """
        if row.key not in FRAME_KEYS or row.value is None:
            raise ChangelogCorruptedError(
                f"{shown} is no frame: the topic has rows, or something else writes to it; run "
                "with changelog_format='rows' where it has been written so"
            )
        data = row.value
        opened = unpack_header(data, 0) if len(data) >= FRAME_HEADER_BYTES else None
        buffer = pa.py_buffer(data)
        if (
            opened is None
            or opened[1].frame_bytes != len(data)
            or not is_intact(buffer, 0, *opened)
        ):
            raise ChangelogCorruptedError(f"{shown} is damaged: its frame is not intact")
        header = opened[1]
        if header.version != FRAME_FORMAT_VERSION or header.kind > max(FrameKind) or header.flags:
            raise UnsupportedFormatError(
                f"{shown} is a frame of version {header.version}, which this release does not "
                "know; upgrade statestores"
            )
        body_at = FRAME_HEADER_BYTES + header.position_bytes
        try:
            position = unpack_position(data[FRAME_HEADER_BYTES:body_at])
            batch = (
                read_body(buffer.slice(body_at), self._schema, has_offsets=False)[0]
                if header.num_changes
                else empty_batch(self._schema)
            )
        except (pa.ArrowException, OSError, EOFError, MalformedPositionError) as error:
            raise ChangelogCorruptedError(
                f"{shown} is no frame of the store {self._name!r}: {error}; the store has another "
                "kind than before"
            ) from error
        purpose = Purpose(row.key)
        is_whole = purpose is not Purpose.CHANGES
        time_ms = row.time_ms if is_whole and row.time_ms != _NO_STREAM_TIME else None
        return FoundFrame(purpose, changes_from_batch(batch), position, time_ms)

    def _frames(self, batch: pa.RecordBatch, position: Position) -> Sequence[bytes]:
        """Return *batch* as stored frames, in pieces that fit; the last one has *position*."""
        kind = FrameKind.CHANGES if batch.num_rows else FrameKind.CLEAR
        rows = batch if batch.num_rows else None
        if batch.nbytes <= self._largest_bytes or batch.num_rows == 1:
            stored = next_frame(self._bodies, kind, rows, position, 0, wall_clock_ms()).stored()
            if len(stored) <= self._largest_bytes or batch.num_rows <= 1:
                return [stored]
        half = batch.num_rows // 2
        return [
            *self._frames(batch.slice(0, half), Position({})),
            *self._frames(batch.slice(half), position),
        ]
