"""One partition of a topic on disk: a log of records, read by any process.

A frame that a task has emitted bears the task's mark: a partition of no topic, with the number of
the commit as its offset. So the log itself knows which commits it has (PRC-50).

Either one process writes it, from its first append on; or several do, each of which has the lock
for the time of an append, and then notes what the others have appended.
"""

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TypeAlias

import pyarrow as pa

from statestores.changelog import ChangelogReader, FileChangelog, Frame
from statestores.changelog.encoded_rows import EncodedRows
from statestores.changelog.next_frame import append_encoded
from statestores.changelog.rows import RECORDS
from statestores.changelog.segments.segment_directory import list_segments
from statestores.errors import OffsetOutOfRangeError, StorageError, StoreMismatchError
from statestores.processing.local.retention import Retention, removal_of
from statestores.processing.local.sharing.patience import Patience
from statestores.processing.record import RawRecord
from statestores.processing.record_rows import records_of
from statestores.spi import Durability, Position, TopicPartition
from statestores.spi.closing import Closing

_Stamp: TypeAlias = tuple[Path, int, int, int]

_MARK = "@task"
"""With what the name of a mark begins. No topic can be called so."""

_SETTLED_NS = 100_000_000
"""The clock of a file system is coarse: a change of so long ago cannot be followed by another one
that leaves the same time."""

_CANNOT_BE_SYNCED = frozenset({errno.EROFS, errno.EINVAL})
"""What a file system says that nobody can write to."""


class PartitionLog(Closing):
    """A partition. Any thread may append and ask."""

    def __init__(
        self,
        directory: Path,
        durability: Durability,
        appended: Callable[[], object],
        patience: Patience | None = None,
        partition: TopicPartition | None = None,
    ) -> None:
        """Use the log in *directory*, which need not be there yet. *appended* is told of appends.

        Where *partition* is given, a log that says that it is another's is refused (LAY-33).
        With *patience*, it is shared with other processes. Else it holds the lock of the directory
        from the first append until it is closed.
        """
        self._directory = directory
        self._durability = durability
        self._appended = appended
        self._patience = patience
        self._partition = partition
        self._lock = Lock()
        self._writer: FileChangelog | None = None
        self._reading = Lock()
        self._reader: ChangelogReader | None = None
        self._end = 0
        self._stamp: _Stamp | None = None
        self.is_fed: Callable[[], bool] = _is_not_fed
        """Whether a source has more for the topic."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record will have; what is before it is durable."""
        if self._patience is None:
            with self._lock:
                if self._writer is not None:
                    return self._writer.end_offset
        with self._reading:
            if self._stamp is not None and self._stamp == self._stamped(self._stamp[0]):
                return self._end
            reader = self._opened_reader()
            return 0 if reader is None else self._looked(reader)

    @property
    def first_offset(self) -> int:
        """The offset of the first record that is still there; 0 of a log that has none."""
        bases = list_segments(self._directory).bases
        return bases[0] if bases else 0

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
        with self._lock, self._writing(None) as writer:
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
        with self._lock, self._writing(self._patience) as writer:
            writer.append_batch(batch, durability=self._durability)
        self._appended()

    def append_marked(self, rows: EncodedRows, mark: TopicPartition, number: int) -> bool:
        """Append what the commit *number* of *mark* emits, unless it is there; say if it was not.

        Raises:
            StoreLockedError, StateStoreError: As `append`.
        """
        with self._lock, self._writing(self._patience) as writer:
            if writer.position.get(mark, -1) >= number:
                return False
            position = Position({mark: number})
            append_encoded(writer, rows, position=position, durability=self._durability)
        self._appended()
        return True

    def marked(self, mark: TopicPartition) -> int:
        """Return the number of the last commit of *mark* that is here; -1 for none."""
        with self._reading:
            reader = self._opened_reader()
            return -1 if reader is None else reader.position.get(mark, -1)

    def states(self) -> set[str]:
        """Return the states whose tasks have emitted something here."""
        with self._reading:
            reader = self._opened_reader()
            places = () if reader is None else reader.position
            return {state for place in places if (state := state_of(place)) is not None}

    def frames(self, from_offset: int, to_offset: int) -> Iterator[Frame]:
        """Iterate over the frames of these offsets, the latter excluded.

        Raises:
            OffsetOutOfRangeError: They are no longer there, or not yet.
        """
        if from_offset == to_offset:
            return
        with self._reading:
            reader = self._opened_reader()
            if reader is None:
                raise OffsetOutOfRangeError(
                    f"there is no record at offset {from_offset}: {str(self._directory)!r} is empty"
                )
            log = reader.another()
        with log:
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

    @contextmanager
    def _writing(self, patience: Patience | None) -> Iterator[FileChangelog]:
        """Have the log open to append; *patience* waits for its lock."""
        writer = self._begun() if patience is None else patience.wait_for(self._begun)
        self._writer = writer
        if self._patience is None:
            yield writer
            return
        try:
            yield writer
            writer.pause()
        except BaseException:
            self._writer = None  # whoever appends next finds out what is there
            writer.close()
            raise

    def _begun(self) -> FileChangelog:
        """Return the log with its lock taken."""
        if self._writer is not None:
            self._writer.resume()
            return self._writer
        try:
            return FileChangelog.open_or_create(self._directory, RECORDS, partition=self._partition)
        except StoreMismatchError:  # another process has created it meanwhile, or it is no log
            return FileChangelog.open(self._directory, RECORDS, partition=self._partition)

    def _opened_reader(self) -> ChangelogReader | None:
        """Return the reader, opened when there is something to read."""
        if self._reader is None and FileChangelog.exists(self._directory):
            self._reader = ChangelogReader.open(self._directory, RECORDS, partition=self._partition)
        return self._reader

    def _looked(self, reader: ChangelogReader) -> int:
        """Return where the log ends, once what is before that is durable.

        Another process may just be waiting for the disk. What it has appended must not be
        processed before it would outlive a power failure, lest the result be older than its cause.
        """
        now_ns = time.time_ns()
        stamp = self._stamped(reader.segments()[-1].path)
        end = reader.end_offset
        if end > self._end and self._durability is Durability.POWER_LOSS:
            _wait_for_disk(reader.segments()[-1].path)
        is_settled = now_ns - max(stamp[2:]) > _SETTLED_NS
        self._end, self._stamp = end, stamp if is_settled else None
        return end

    def _stamped(self, segment: Path) -> _Stamp:
        """Return what changes when *segment* grows or is no longer the last one."""
        try:
            file, directory = segment.stat(), self._directory.stat()
        except FileNotFoundError:
            return segment, -1, 0, 0
        return segment, file.st_size, file.st_mtime_ns, directory.st_mtime_ns


def task_mark(state: str, group: int, partition: int) -> TopicPartition:
    """Return what frames bear that the task of a group and partition of *state* has emitted."""
    return TopicPartition(f"{_MARK}/{state}/{group}", partition)


def state_of(place: TopicPartition) -> str | None:
    """Return the state whose task *place* is the mark of; ``None`` if it is none."""
    room, _, rest = place.topic.partition("/")
    return rest.rpartition("/")[0] if room == _MARK else None


def _wait_for_disk(segment: Path) -> None:
    """Have what is in *segment* now survive a power failure.

    Raises:
        StorageError: The disk failed.
    """
    try:
        descriptor = os.open(segment, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return  # a sealed one that has left: those are on disk
    except OSError as error:
        if error.errno in _CANNOT_BE_SYNCED:
            return
        raise StorageError(
            f"cannot make {str(segment)!r} durable: {error.strerror or error}"
        ) from error


def _is_not_fed() -> bool:
    """Return what holds for a topic that no source fills."""
    return False
