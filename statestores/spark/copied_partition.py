"""What a local copy is made of: one partition of a state root, in a directory or an object store.

A copy stands at an offset, and any log has one. So the partition also says by what its log is told
from another one that lay there before.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from statestores.arrow.restoring.restore import RestoreReport, restore
from statestores.arrow.snapshots.choice import SnapshotChoice, newest_valid_snapshot
from statestores.arrow.snapshots.directory import list_snapshots
from statestores.arrow.snapshots.object_snapshots import ObjectSnapshots
from statestores.arrow.snapshots.reader import read_snapshot
from statestores.changelog import ChangelogReader, Frame, changelog_partition
from statestores.changelog.contract import NO_POSITION, ReadOnlyChangelog
from statestores.errors import (
    OffsetOutOfRangeError,
    SnapshotCorruptedError,
    StorageError,
    StoreNotFoundError,
    UnsupportedFormatError,
)
from statestores.generations import current_home
from statestores.logged_store.object_opening import restore_after_snapshot
from statestores.object_log import ObjectLog
from statestores.object_log.view import View
from statestores.opening import BytesStore
from statestores.reading.visible_changelog import VisibleChangelog
from statestores.reading.visible_log import VisibleLog
from statestores.reading.visible_object_log import VisibleObjectLog
from statestores.spark.given_root import GivenRoot
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.specification import StoreSpecification
from statestores.state_root import PartitionDirectory

LogMark: TypeAlias = str | int
"""What tells a log from another one at the same place, one after the other."""


class PinnedChangelog(ReadOnlyChangelog):
    """A changelog as it was when it ended at an offset; a committed staged write is part of it."""

    def __init__(
        self,
        log: VisibleLog,
        store_kind: str,
        end_offset: int,
        plain: ChangelogReader | None = None,
    ) -> None:
        """Read *log* up to *end_offset*, which it has reached; by *plain* where that has it all."""
        self._log = log
        self._plain = plain
        self._kind = store_kind
        self._end_offset = end_offset

    @property
    def store_kind(self) -> str:
        """The kind of store."""
        return self._kind

    @property
    def is_open(self) -> bool:
        """Whether it can be read: always, since nothing is held open."""
        return True

    @property
    def first_offset(self) -> int:
        """The lowest offset that is still there."""
        return self._log.first_offset() if self._plain is None else self._plain.first_offset

    @property
    def end_offset(self) -> int:
        """The pinned end."""
        return self._end_offset

    @property
    def position(self) -> Position:
        """No position: frames bring their own."""
        return NO_POSITION

    def read(self, from_offset: int | None = None, to_offset: int | None = None) -> Iterator[Frame]:
        """Yield the frames from *from_offset* up to *to_offset*, or the pinned end."""
        start = self.first_offset if from_offset is None else from_offset
        stop = self._end_offset if to_offset is None else to_offset
        if self._plain is not None and stop <= self._plain.end_offset:
            return self._plain.read(start, stop)
        return self._log.frames(start, stop)

    def check_compaction(self, start: int) -> None:
        """Accept that the changes from *start* on were read, up to the pinned end.

        Raises:
            OffsetOutOfRangeError: A compaction dropped some for the sake of later ones.
        """
        if start < self._end_offset:
            self._log.check_compaction(start, self._end_offset)

    def close(self) -> None:
        """Do nothing: nothing is held open."""


class CopiedPartition(ABC):
    """One partition of a store, to be copied."""

    def __init__(
        self, place: str, specification: StoreSpecification[Any, Any], partition: int
    ) -> None:
        """Copy *partition*; *place* is where its state root is."""
        self.place = place
        """The path or the URL of the state root."""
        self.specification = specification
        """The store."""
        self.partition = partition
        """The partition's number."""
        self.logged = changelog_partition(specification.name, partition)
        """By which a copy keeps its offset."""

    @abstractmethod
    def changelog(self, end_offset: int) -> PinnedChangelog:
        """Return its changelog up to *end_offset*, without looking at it yet."""

    @abstractmethod
    def bring_up(self, store: BytesStore, log: PinnedChangelog) -> RestoreReport:
        """Replay what *store* lacks up to the end of *log*, after a snapshot if that is needed.

        Raises:
            OffsetOutOfRangeError, StoreMismatchError: Changelog and snapshots do not give it.
            ChangelogCorruptedError, SnapshotCorruptedError, StorageError: One cannot be read.
        """

    @abstractmethod
    def mark_at(self, offset: int) -> LogMark | None:
        """Return what tells the log with a change at *offset*; ``None`` if nothing is left to.

        Raises:
            ChangelogCorruptedError, StorageError: It cannot be read.
        """


def copied_partition(
    root: GivenRoot,
    specification: StoreSpecification[Any, Any],
    partitions: int,
    partition: int,
    seen: View | None = None,
) -> CopiedPartition:
    """Return *partition* of a store with so many *partitions*, without looking at it yet.

    Of an object store *seen* is what is known.

    Raises:
        StoreReshardedError: The store has another number of partitions by now.
        StateStoreError: *seen* is not given, and the root cannot be read.
    """
    if root.directory is not None:
        return PartitionInDirectory(root.directory, specification, partitions, partition)
    log = root.object_log(specification, partitions, seen)
    return PartitionInObjects(root.shown, log, specification, partition, seen)


class PartitionInDirectory(CopiedPartition):
    """A partition in a directory."""

    def __init__(
        self,
        root: Path,
        specification: StoreSpecification[Any, Any],
        partitions: int,
        partition: int,
    ) -> None:
        """Copy *partition*, one of so many, of a store of the state root *root*.

        Raises:
            StoreReshardedError: The store has another number of *partitions* by now.
            StoreCorruptedError, StorageError: The root cannot be read.
        """
        super().__init__(os.fspath(root), specification, partition)
        home = current_home(root, specification.name, partitions)
        self._directory = PartitionDirectory(home / str(partition))

    def changelog(self, end_offset: int) -> PinnedChangelog:
        """Return what is read while its writer works, staged writes included."""
        log = VisibleChangelog(self._directory, self.specification)
        return PinnedChangelog(log, self.specification.kind, end_offset, self._reader())

    def bring_up(self, store: BytesStore, log: PinnedChangelog) -> RestoreReport:
        """Restore, after a snapshot where the changelog does not reach back far enough."""
        committed = store.committed_offset(self.logged)
        choice = SnapshotChoice(None, {})
        if committed is None or log.first_offset > committed + 1:
            last = log.end_offset - 1
            choice = newest_valid_snapshot(self._directory.snapshots, to_offset=last)
        try:
            with choice.explaining():
                return restore(
                    store, snapshot=choice.snapshot, changelog=log, partition=self.logged
                )
        except (SnapshotCorruptedError, StorageError):
            if choice.snapshot is None or choice.snapshot.is_there:
                raise
        return self.bring_up(store, log)  # it was removed while it was read

    def mark_at(self, offset: int) -> LogMark | None:
        """Return when the change was appended; without it, when its snapshot was written."""
        log = self._reader()
        if log is not None and log.first_offset <= offset < log.end_offset:
            try:
                return next(iter(log.read(offset, offset + 1))).appended_at_ms
            except OffsetOutOfRangeError:
                return None  # compacted at this moment
        snapshot = list_snapshots(self._directory.snapshots).get(offset)
        if snapshot is None:
            return None
        try:
            return read_snapshot(snapshot).manifest.created_at_ms
        except (SnapshotCorruptedError, UnsupportedFormatError, StoreNotFoundError):
            return None

    def _reader(self) -> ChangelogReader | None:
        """Return a reader of the changelog; ``None`` while there is none.

        It is kept for the next task of this process: it goes on reading where it ended, and a log's
        last segment is long.
        """
        try:
            return _kept_reader(self._directory.changelog, self.specification.kind, self.logged)
        except StoreNotFoundError:
            return None


class PartitionInObjects(CopiedPartition):
    """A partition in an object store: nobody is fenced, and nothing is written (OBJ-36)."""

    def __init__(
        self,
        url: str,
        log: ObjectLog,
        specification: StoreSpecification[Any, Any],
        partition: int,
        seen: View | None = None,
    ) -> None:
        """Copy *partition* of a store with the *log*, of the state root at *url*."""
        super().__init__(url, specification, partition)
        self._log = VisibleObjectLog(log, partition, seen)

    def changelog(self, end_offset: int) -> PinnedChangelog:
        """Return what is read while owners append and others fold."""
        return PinnedChangelog(self._log, self.specification.kind, end_offset)

    def bring_up(self, store: BytesStore, log: PinnedChangelog) -> RestoreReport:
        """Restore, after a snapshot where *store* has nothing, since the log reaches back."""
        snapshots = ObjectSnapshots(
            log=self._log.log, log_id=self._log.log_id, partition=self.partition
        )
        return restore_after_snapshot(store, snapshots, log, self.logged)

    def mark_at(self, offset: int) -> LogMark:
        """Return the id that the log was given when it was made."""
        return self._log.log_id


@lru_cache(maxsize=256)
def _kept_reader(directory: Path, kind: str, logged: TopicPartition) -> ChangelogReader:
    return ChangelogReader.open(directory, kind, partition=logged)
