"""A snapshot of a partition made from its files: the last snapshot, and the changelog after it.

No lock is taken and no engine opened, so it can be written beside the owner, by any process that
sees the files. What does not fit into the memory allowed is spilled.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from statestores.arrow.file_access import reporting
from statestores.arrow.progress import Meter
from statestores.arrow.row_batches import even_parts
from statestores.arrow.rows.spilled_runs import SpilledRuns
from statestores.arrow.snapshots.choice import ListedSnapshot, read_listed
from statestores.arrow.snapshots.directory import snapshot_name
from statestores.arrow.snapshots.reader import read_snapshot
from statestores.arrow.snapshots.snapshot import SnapshotContent, SnapshotInfo, write_content
from statestores.changelog import changelog_partition
from statestores.changelog.segments.segment_directory import SUFFIX
from statestores.errors import (
    InvalidArgumentError,
    OffsetOutOfRangeError,
    SnapshotCorruptedError,
    StorageError,
)
from statestores.files.durable_directory import make_durable
from statestores.files.scratch_directory import scratch_directory
from statestores.generations import refuse_replaced
from statestores.reading.partition_places import PartitionPlace, snapshots_of
from statestores.reading.partition_reader import PartitionReader
from statestores.reading.visible_log import LogEnd
from statestores.spi.specification import StoreSpecification
from statestores.state_root import PartitionDirectory
from statestores.upkeep.vacuum import KEPT_SNAPSHOTS, remove_old_snapshots

MEMORY_BYTES: Final = 256 * 1024 * 1024
"""About as much memory as rows take while they are sorted, by default."""

_PART_OF_MEMORY = 4
_ATTEMPTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSnapshot:
    """Writes a snapshot of one partition when it is called."""

    directory: PartitionPlace
    """The partition: its directory, or its place in an object store."""

    number: int
    """Its number."""

    specification: StoreSpecification[Any, Any]
    """What the store is."""

    memory_bytes: int = MEMORY_BYTES
    """About as much memory as the rows may take."""

    def __call__(self) -> SnapshotInfo | None:
        """Write it at the end of the changelog; ``None`` where nothing has been committed.

        A snapshot that is there already stays, if its files are whole.

        Raises:
            InvalidArgumentError: The memory is below 1.
            StoreReshardedError: The store has other partitions since the root was opened.
            StateStoreError: The partition cannot be read, or the snapshot not be written.
        """
        if self.memory_bytes < 1:
            raise InvalidArgumentError(f"memory_bytes must be from 1, got {self.memory_bytes!r}")
        try:
            written = self._at_the_end()
        except (OffsetOutOfRangeError, SnapshotCorruptedError, StorageError):
            self._refuse_replaced()
            raise
        self._refuse_replaced()  # nobody reads one beside partitions that are gone
        return written

    def _at_the_end(self) -> SnapshotInfo | None:
        """Write it at the end of the changelog, wherever that is when it can be read."""
        reader = PartitionReader(self.directory, self.specification)
        for _ in range(_ATTEMPTS - 1):
            end = reader.end
            try:
                return self._written(reader, end)
            except OffsetOutOfRangeError:
                if reader.end.offset == end.offset:
                    raise  # otherwise a compaction has passed that end while it was read
        return self._written(reader, reader.end)

    def _refuse_replaced(self) -> None:
        """Accept partitions that are the store's.

        Raises:
            StoreReshardedError: The store has other partitions since the root was opened.
        """
        if isinstance(self.directory, PartitionDirectory):
            refuse_replaced(self.directory.path.parent)

    def _written(self, reader: PartitionReader, end: LogEnd) -> SnapshotInfo | None:
        """Write the content that *reader* has at *end*."""
        if not end.has_log or not end.offset:
            return None
        offset = end.offset - 1
        present = self._present(offset)
        if present is not None:
            return present
        logged = changelog_partition(self.specification.name, self.number)
        with scratch_directory() as scratch:
            runs = SpilledRuns(scratch, max(1, self.memory_bytes // _PART_OF_MEMORY))
            replay = reader.replay(offset, runs=runs)
            content = SnapshotContent(
                specification=self.specification,
                partition=logged,
                offsets={logged: offset},
                position=end.position,
                stream_time_ms=replay.stream_time_ms,
                parts=even_parts(replay.rows()),
            )
            if isinstance(self.directory, PartitionDirectory):
                self._outlive_power_failure(self.directory.changelog)
                return write_content(self.directory.snapshots, content, meter=Meter(None))
            return snapshots_of(self.directory).write(content, meter=Meter(None))

    def _outlive_power_failure(self, changelog: Path) -> None:
        """Have on disk what has been read: its writer may not have waited for the disk yet.

        A snapshot that survives a power failure must not be ahead of the changelog that does.
        """
        with reporting("read", changelog):
            for file in changelog.iterdir():
                if file.suffix == SUFFIX:
                    with suppress(FileNotFoundError):  # compacted meanwhile, into one on disk
                        make_durable(file)
            make_durable(changelog)

    def _present(self, offset: int) -> SnapshotInfo | None:
        """Return what the snapshot at *offset* is; ``None`` if there is none that is whole."""
        if not isinstance(self.directory, PartitionDirectory):
            return snapshots_of(self.directory).present(offset)
        path = self.directory.snapshots / snapshot_name(offset)
        listed = ListedSnapshot(offset, path, partial(read_snapshot, path))
        try:
            snapshot = read_listed(listed, lambda found: found.verify_checksums())
        except SnapshotCorruptedError:
            return None
        if snapshot is None:
            return None
        return SnapshotInfo(
            place=path,
            partition=snapshot.manifest.partition,
            offset=offset,
            rows=snapshot.rows,
            bytes=snapshot.manifest.bytes,
            written=False,
        )


def keep_newest(place: PartitionPlace, keep: int = KEPT_SNAPSHOTS) -> int:
    """Remove the snapshots of a partition that are older than the *keep* newest whole ones.

    Returns how many went. No changes go with them.

    Raises:
        StorageError: Something cannot be read or removed.
    """
    if isinstance(place, PartitionDirectory):
        return remove_old_snapshots(place, keep)[1]
    return snapshots_of(place).remove_old(keep)
