"""A task's place in one partition of a topic: what comes next, and how much is left."""

from typing import TYPE_CHECKING

from statestores.errors import OffsetOutOfRangeError
from statestores.processing.local.partition_log import PartitionLog
from statestores.processing.local.record_rows import records_of
from statestores.processing.record import RawRecord
from statestores.spi import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statestores.changelog import Frame


class Consumer:
    """Reads one partition, frame by frame. One thread at a time uses it."""

    def __init__(self, place: TopicPartition, log: PartitionLog, next_offset: int) -> None:
        """Begin at *next_offset*.

        Raises:
            OffsetOutOfRangeError: The partition ends before that: it has lost what was processed.
        """
        self.place = place
        self._log = log
        self._next = next_offset
        self._frames: Iterator[Frame] = iter(())
        self._end = log.end_offset
        if self._end < next_offset:
            raise OffsetOutOfRangeError(
                f"the partition {place.partition} of the topic {place.topic!r} ends before offset "
                f"{self._end}, and the state reflects it up to {next_offset - 1}: it is another "
                "topic than before, or has lost its end"
            )

    def poll(self) -> list[tuple[int, RawRecord]]:
        """Return the records that come next, with their offsets: those of a frame, or none."""
        frame = next(self._frames, None)
        if frame is None:
            self._end = self._log.end_offset
            self._frames = self._log.frames(self._next, self._end)
            frame = next(self._frames, None)
            if frame is None:
                return []
        self._next = frame.last_offset + 1
        return list(records_of(frame))

    @property
    def behind(self) -> int:
        """How many records there were at the last look that have not been polled."""
        return self._end - self._next

    def close(self) -> None:
        """Close the file that is being read."""
        self._frames = iter(())
