"""One partition of a topic on disk: a log of records, written by one process, read by any.

A frame that a task has emitted bears the task's mark: a partition of no topic, with the number of
the commit as its offset. So the log itself knows which commits it has (PRC-50).
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock

import pyarrow as pa

from statestores.changelog import ChangelogReader, FileChangelog, Frame
from statestores.changelog.rows import RECORDS
from statestores.changelog.segment_directory import list_segments
from statestores.errors import OffsetOutOfRangeError
from statestores.processing.local.retention import Retention, removal_of
from statestores.processing.record import RawRecord
from statestores.processing.record_rows import records_of
from statestores.spi import Durability, Position, TopicPartition
from statestores.spi.closing import Closing


class PartitionLog(Closing):
    """A partition. Any thread may append and ask.

    From the first append until it is closed, it holds the lock of the directory.
    """

    def __init__(
        self, directory: Path, durability: Durability, appended: Callable[[], object]
    ) -> None:
        """Use the log in *directory*, which need not be there. *appended* is told of appends."""
        self._directory = directory
        self._durability = durability
        self._appended = appended
        self._lock = Lock()
        self._writer: FileChangelog | None = None
        self.is_fed: Callable[[], bool] = _is_not_fed
        """Whether a source of this process has more for the topic."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record will have: of a writer here, only what is durable."""
        with self._lock:
            if self._writer is not None:
                return self._writer.end_offset
        if not FileChangelog.exists(self._directory):
            return 0
        with ChangelogReader.open(self._directory, RECORDS) as log:
            return log.end_offset

    @property
    def first_offset(self) -> int:
        """The offset of the first record that is still there; 0 of a log that has none."""
        segments = list_segments(self._directory).segments
        return segments[0].first_offset if segments else 0

    def remove(self, keep_from: int | None, retention: Retention | None) -> None:
        """Remove records before *keep_from*, or from anywhere, that *retention* lets go (PRC-66).

        Raises:
            StoreLockedError: Another process writes the partition.
            StateStoreError: See `FileChangelog.delete_before`.
        """
        bound = self.end_offset if keep_from is None else keep_from
        removal = removal_of(self._directory, bound, retention)
        if removal is None:
            return
        with self._lock:
            writer = self._writing()
            if removal.seals:
                writer.seal()
                removal = removal_of(self._directory, bound, retention)
            if removal is not None:
                writer.delete_before(removal.before)

    def append(self, batch: pa.RecordBatch) -> None:
        """Append rows.

        Raises:
            StoreLockedError: Another process writes the partition.
            StateStoreError: See `FileChangelog.append_batch`.
        """
        with self._lock:
            self._writing().append_batch(batch, durability=self._durability)
        self._appended()

    def append_marked(self, batch: pa.RecordBatch, mark: TopicPartition, number: int) -> bool:
        """Append what the commit *number* of *mark* emits, unless it is there; say if it was not.

        Raises:
            StoreLockedError, StateStoreError: As `append`.
        """
        with self._lock:
            writer = self._writing()
            if writer.position.get(mark, -1) >= number:
                return False
            position = Position({mark: number})
            writer.append_batch(batch, position=position, durability=self._durability)
        self._appended()
        return True

    def marked(self, mark: TopicPartition) -> int:
        """Return the number of the last commit of *mark* that is here; -1 for none."""
        if not FileChangelog.exists(self._directory):
            return -1
        with ChangelogReader.open(self._directory, RECORDS) as log:
            return log.position.get(mark, -1)

    def frames(self, from_offset: int, to_offset: int) -> Iterator[Frame]:
        """Iterate over the frames of these offsets, the latter excluded.

        Raises:
            OffsetOutOfRangeError: They are no longer there, or not yet.
        """
        if from_offset == to_offset:
            return
        if not FileChangelog.exists(self._directory):
            raise OffsetOutOfRangeError(
                f"there is no record at offset {from_offset}: {str(self._directory)!r} is empty"
            )
        with ChangelogReader.open(self._directory, RECORDS) as log:
            yield from log.read(from_offset, to_offset)

    def read(self, from_offset: int = 0) -> Iterator[tuple[int, RawRecord]]:
        """Iterate over the records from *from_offset* on that are there now, with their offsets."""
        for frame in self.frames(from_offset, max(from_offset, self.end_offset)):
            yield from records_of(frame)

    def close(self) -> None:
        """Give up the lock of the directory. Idempotent."""
        with self._lock:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.close()

    def _writing(self) -> FileChangelog:
        if self._writer is None:
            self._writer = FileChangelog.open_or_create(self._directory, RECORDS)
        return self._writer


def _is_not_fed() -> bool:
    """Return what holds for a topic that no source fills."""
    return False
