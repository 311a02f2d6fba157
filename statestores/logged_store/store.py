"""A store whose changes are in its changelog before they are in the store.

Commit protocol (LGS-1): a commit appends the pending changes and the input position to the
changelog, durably, and then applies them to the store together with the offset of the last one. A
crash in between leaves a tail that the store has not seen; the next opening replays it. So the
append is the commit point: store, changelog and position agree after every restart.

The store's own commit need not wait for the disk. Should a power failure take it back, it takes
whole commits, and the changelog still has them.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Generic, TypeVar

from statestores.arrow.progress import Meter, ProgressCallback
from statestores.arrow.restoring.restore import RestoreReport
from statestores.arrow.snapshots.native_writing import (
    SnapshotFormat,
    snapshot_format_of,
    write_native_snapshot,
)
from statestores.arrow.snapshots.object_snapshots import ObjectSnapshots
from statestores.arrow.snapshots.snapshot import SnapshotInfo, committed_content, write_snapshot
from statestores.changelog import Changelog
from statestores.changelog.encoded_rows import EncodedChanges
from statestores.changelog.next_frame import append_encoded
from statestores.errors import CapabilityNotSupportedError
from statestores.failpoints import reach
from statestores.logged_store.names_of_stores import with_names_of_stores
from statestores.metering.logged_meter import LoggedMeter
from statestores.opening import BytesStore
from statestores.semantics.every_kind.journal import Journal
from statestores.spi.closing import Closing
from statestores.spi.durability import Durability
from statestores.spi.metrics.metric import Metrics
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.records import Changes

S = TypeVar("S")


class _ChangelogJournal(Journal):
    """A changelog as its store sees it."""

    def __init__(self, changelog: Changelog, partition: TopicPartition, meter: LoggedMeter) -> None:
        self._changelog = changelog
        self._partition = partition
        self._meter = meter
        self.before_append: Callable[[], None] | None = None
        """Raises while nothing may be appended; ``None`` if nothing keeps it from being."""

    @property
    def partition(self) -> TopicPartition:
        return self._partition

    @property
    def end_offset(self) -> int:
        return self._changelog.end_offset

    def append(self, changes: Changes, position: Position, durability: Durability) -> int:
        if self.before_append is not None:
            self.before_append()
        began_ns = perf_counter_ns()
        log = self._changelog
        if isinstance(changes, EncodedChanges):
            rows = changes.rows
            offsets = append_encoded(log, rows, position=position, durability=durability)
        else:
            offsets = log.append(changes, position=position, durability=durability)
        self._meter.appended(began_ns, len(changes))
        reach("logged.appended")
        return offsets.last

    def append_clear(self, durability: Durability) -> int:
        if self.before_append is not None:
            self.before_append()
        offset = self._changelog.append_clear(durability=durability)
        reach("logged.appended")
        return offset


class LoggedStore(Closing, Generic[S]):
    """One partition of a store in a state root, with its changelog. Made by `open_logged_store`."""

    def __init__(
        self,
        store: S,
        bytes_store: BytesStore,
        changelog: Changelog,
        snapshots: Path | ObjectSnapshots,
        restored: RestoreReport,
        partition: TopicPartition,
    ) -> None:
        """Join a store with its changelog; the store has everything that the changelog holds."""
        self._store = store
        self._bytes_store = bytes_store
        self._changelog = changelog
        self._snapshots = snapshots
        self._restored = restored
        self._partition = partition
        self._meter = LoggedMeter(partition, restored.snapshot_rows + restored.changelog_rows)
        self._journal = _ChangelogJournal(changelog, partition, self._meter)
        bytes_store.attach_journal(self._journal)

    def __repr__(self) -> str:
        return f"<logged {repr(self._store).strip('<>')}>"

    @property
    def name(self) -> str:
        """The store's name."""
        return self._bytes_store.name

    @property
    def is_open(self) -> bool:
        """Whether the store is still open."""
        return self._bytes_store.is_open

    @property
    def store(self) -> S:
        """The store. Its own `commit` goes through the changelog as well."""
        return self._store

    @property
    def changelog(self) -> Changelog:
        """The changelog; only the store appends to it."""
        return self._changelog

    @property
    def changelog_partition(self) -> TopicPartition:
        """The partition under which the store commits its changelog offset."""
        return self._partition

    @property
    def restored(self) -> RestoreReport:
        """What opening had to do to bring the store up to its changelog."""
        return self._restored

    @property
    def position(self) -> Position:
        """The last input offset of each partition that the store reflects, pending ones included.

        Reading goes on at `next_offset`, which is one more.
        """
        return self._bytes_store.position

    def next_offset(self, partition: TopicPartition) -> int:
        """Return where to resume reading *partition* of the input: 0 at the beginning (COM-47).

        One more than the last offset that the last commit reflects.

        Raises:
            StoreClosedError: The store is closed.
            CommitInDoubtError: It is unknown whether the last commit is durable.
        """
        return self._bytes_store.next_offset(partition)

    @property
    def committed_offset(self) -> int | None:
        """The offset of the last changelog record in the store; ``None`` before the first."""
        return self._bytes_store.committed_offset(self._partition)

    def commit(
        self,
        position: Mapping[TopicPartition, int] | None = None,
        *,
        durability: Durability | None = None,
    ) -> int | None:
        """Commit the pending writes and the input *position* that they reflect.

        ``{partition: n}`` says that they contain everything of an input partition up to and
        including offset ``n`` (LGS-13).

        Returns the changelog offset that the store then has. When it raises, the writes are still
        pending; those that the changelog already has are replayed by the next opening, or appended
        once more by the next commit, which changes nothing (COM-32).

        Raises:
            StoreClosedError: The store is closed.
            InvalidTypeError, InvalidArgumentError: The position is malformed, or names the
                store's own changelog; or a task that has died has recorded a commit of the store
                that it is to end first (TSK-24).
            CommitInDoubtError: The disk failed in the middle: close the store and open it again.
            StorageError: The changelog or the engine could not write.
        """
        return self._commit(position, durability, None)

    def _commit(
        self,
        position: Mapping[TopicPartition, int] | None,
        durability: Durability | None,
        changes: EncodedChanges | None,
    ) -> int | None:
        """Commit; *changes*, if there are any, are the pending ones (`encoded_commit`)."""
        if position:
            self._bytes_store.advance_position(position)
        return self._bytes_store.commit_and_tell({}, durability, changes)

    def _ask_before_appends(self, check: Callable[[], None]) -> None:
        """Append nothing to the changelog as long as *check* raises; reads and snapshots go on."""
        self._journal.before_append = check

    def snapshot(
        self,
        *,
        snapshot_format: SnapshotFormat = "arrow",
        progress: ProgressCallback | None = None,
    ) -> SnapshotInfo | None:
        """Write a snapshot of the last commit; ``None`` while there has been none.

        It lies beside the changelog, in a directory or in an object store. Any thread may call it.

        With the *snapshot_format* ``"native"`` it also has the engine's own files, of which the
        same backend with the same driver restores in a fraction of the time (SNP-27). Everybody
        else reads the columns, which are there as well.

        Raises:
            InvalidArgumentError: The format is neither ``"arrow"`` nor ``"native"``.
            CapabilityNotSupportedError: The engine makes no native snapshots, or the snapshots lie
                in an object store. None is written.
            StoreClosedError, StorageError: See `statestores.arrow.write_snapshot`.
        """
        is_native = snapshot_format_of(snapshot_format) == "native"
        if is_native and isinstance(self._snapshots, ObjectSnapshots):
            raise CapabilityNotSupportedError(
                f"the snapshots of {self.name!r} lie in an object store, and native ones are files "
                "of a directory; write one of the format 'arrow'"
            )
        if self.committed_offset is None:
            return None
        if is_native and isinstance(self._snapshots, Path):
            return write_native_snapshot(
                self._bytes_store, self._snapshots, partition=self._partition, progress=progress
            )
        if isinstance(self._snapshots, ObjectSnapshots):
            with committed_content(self._bytes_store, self._partition) as content:
                return self._snapshots.write(content, meter=Meter(progress))
        return write_snapshot(
            self._bytes_store, self._snapshots, partition=self._partition, progress=progress
        )

    def metrics(self) -> Metrics:
        """Return the metrics of the store and its changelog, tagged with the partition (MET-10)."""
        store: Any = self._store  # not the store of bytes: its calls may be recorded
        return self._meter.metrics(store.metrics())

    def close(self) -> None:
        """Close the store and its changelog; pending writes are forgotten. Idempotent."""
        try:
            self._bytes_store.close()
        finally:
            self._changelog.close()


with_names_of_stores(LoggedStore)
