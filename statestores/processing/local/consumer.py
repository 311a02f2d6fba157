"""A task's place in one partition of a topic: what comes next, and how much is left."""

from typing import TYPE_CHECKING

import pyarrow as pa

from statestores.changelog import Frame
from statestores.changelog.rows import RECORD_ROWS
from statestores.errors import OffsetOutOfRangeError
from statestores.processing.local.partition_log import PartitionLog
from statestores.processing.record import RawRecord
from statestores.processing.record_rows import records_of
from statestores.spi import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Consumer:
    """Reads one partition, frame by frame. One thread at a time uses it."""

    def __init__(self, place: TopicPartition, log: PartitionLog, next_offset: int | None) -> None:
        """Begin at *next_offset*; ``None``: at the first record that is there.

        Raises:
            OffsetOutOfRangeError: The partition ends before that: it has lost what was processed;
                or it begins after that: it has lost what was not.
        """
        self.place = place
        self._log = log
        first_offset = log.first_offset
        next_offset = first_offset if next_offset is None else next_offset
        self._next = next_offset
        self._frames: Iterator[Frame] = iter(())
        self._rest: tuple[Sequence[int], list[pa.RecordBatch]] = range(0), []
        self._is_fed = True
        self._end = log.end_offset
        if self._end < next_offset:
            raise OffsetOutOfRangeError(
                f"the partition {place.partition} of the topic {place.topic!r} ends before offset "
                f"{self._end}, and the state reflects it up to {next_offset - 1}: it is another "
                "topic than before, or has lost its end"
            )
        if first_offset > next_offset:
            raise OffsetOutOfRangeError(
                f"the partition {place.partition} of the topic {place.topic!r} begins at offset "
                f"{first_offset}, and the state reflects it up to {next_offset - 1}: what is "
                "between has been removed; begin with a new state, or put it back from a copy"
            )

    def poll(self) -> list[tuple[int, RawRecord]]:
        """Return the records that come next, with their offsets: those of a frame, or none."""
        frame = self._next_frame()
        return [] if frame is None else list(records_of(frame))

    def poll_rows(self, limit: int) -> "tuple[Sequence[int], pa.RecordBatch] | None":
        """Return up to *limit* records that come next as columns, with their offsets, or none."""
        offsets, batches = self._rest
        while len(offsets) < limit and (frame := self._next_frame()) is not None:
            offsets = _joined(offsets, frame.offsets)
            batches = [*batches, frame.batch.select(range(len(RECORD_ROWS)))]
        if not offsets:
            return None
        rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        self._rest = offsets[limit:], [rows.slice(limit)]
        return offsets[:limit], rows.slice(0, limit)

    def _next_frame(self) -> Frame | None:
        frame = next(self._frames, None)
        if frame is None:
            self._is_fed = self._log.is_fed()  # first: what it has fed by then is there
            self._end = self._log.end_offset
            self._frames = self._log.frames(self._next, self._end)
            frame = next(self._frames, None)
        if frame is not None:
            self._next = frame.last_offset + 1
        return frame

    @property
    def next_offset(self) -> int:
        """The offset of the record that comes next."""
        return self._next

    @property
    def behind(self) -> int:
        """How many records there were at the last look that have not been polled.

        At least one while a source still fills the topic: others wait for it (PRC-11).
        """
        return max(self._end - self._next + len(self._rest[0]), int(self._is_fed))

    def close(self) -> None:
        """Close the file that is being read."""
        self._frames = iter(())


def _joined(offsets: "Sequence[int]", more: "Sequence[int]") -> "Sequence[int]":
    """Return *offsets* and *more*: as a range, which costs nothing, where none is missing."""
    if not offsets:
        return more
    if isinstance(offsets, range) and isinstance(more, range) and offsets.stop == more.start:
        return range(offsets.start, more.stop)
    return [*offsets, *more]
