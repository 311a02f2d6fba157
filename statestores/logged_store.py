"""A store whose changes are in its changelog before they are in the store.

Commit protocol (LGS-1): a commit appends the pending changes and the input position to the
changelog, durably, and then applies them to the store together with the offset of the last one. A
crash in between leaves a tail that the store has not seen; the next opening replays it. So the
append is the commit point: store, changelog and position agree after every restart.

The store's own commit need not wait for the disk. Should a power failure take it back, it takes
whole commits, and the changelog still has them.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from os import PathLike
from time import perf_counter_ns
from typing import Any, Generic, TypeVar

from statestores.arrow.file_access import reporting
from statestores.arrow.progress import ProgressCallback
from statestores.arrow.restoring.restore import RestoreReport, restore
from statestores.arrow.snapshots.directory import list_snapshots
from statestores.arrow.snapshots.reader import SnapshotChoice, newest_valid_snapshot
from statestores.arrow.snapshots.snapshot import SnapshotInfo, write_snapshot
from statestores.changelog import (
    Changelog,
    ChangelogOptions,
    FileChangelog,
    ReadOnlyChangelog,
    changelog_partition,
)
from statestores.errors import StoreMismatchError
from statestores.failpoints import reach
from statestores.metering.logged_meter import LoggedMeter
from statestores.opening import BytesStore, open_bytes_store, typed_store
from statestores.semantics.every_kind.arguments import check_store_name
from statestores.semantics.every_kind.journal import Journal
from statestores.spi.closing import Closing
from statestores.spi.durability import Durability
from statestores.spi.metrics.metric import Metrics
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.records import Changes
from statestores.spi.specification import StoreSpecification
from statestores.staging.staged_write import finish_staged_writes, refuse_unfinished_write
from statestores.state_root import PartitionDirectory, StateRoot

S = TypeVar("S")


class _ChangelogJournal(Journal):
    """A changelog as its store sees it."""

    def __init__(self, changelog: Changelog, partition: TopicPartition, meter: LoggedMeter) -> None:
        self._changelog = changelog
        self._partition = partition
        self._meter = meter

    @property
    def partition(self) -> TopicPartition:
        return self._partition

    @property
    def end_offset(self) -> int:
        return self._changelog.end_offset

    def append(self, changes: Changes, position: Position, durability: Durability) -> int:
        began_ns = perf_counter_ns()
        offsets = self._changelog.append(changes, position=position, durability=durability)
        self._meter.appended(began_ns, len(changes))
        reach("logged.appended")
        return offsets.last

    def append_clear(self, durability: Durability) -> int:
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
        directory: PartitionDirectory,
        restored: RestoreReport,
        partition: TopicPartition,
    ) -> None:
        """Join a store with its changelog; the store has everything that the changelog holds."""
        self._store = store
        self._bytes_store = bytes_store
        self._changelog = changelog
        self._directory = directory
        self._restored = restored
        self._partition = partition
        self._meter = LoggedMeter(partition, restored.snapshot_rows + restored.changelog_rows)
        bytes_store.attach_journal(_ChangelogJournal(changelog, partition, self._meter))

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
                store's own changelog.
            CommitInDoubtError: The disk failed in the middle: close the store and open it again.
            StorageError: The changelog or the engine could not write.
        """
        if position:
            self._bytes_store.advance_position(position)
        return self._bytes_store.commit_and_tell({}, durability)

    def snapshot(self, *, progress: ProgressCallback | None = None) -> SnapshotInfo | None:
        """Write a snapshot of the last commit; ``None`` while there has been none.

        Raises:
            StoreClosedError, StorageError: See `statestores.arrow.write_snapshot`.
        """
        if self.committed_offset is None:
            return None
        return write_snapshot(
            self._bytes_store,
            self._directory.snapshots,
            partition=self._partition,
            progress=progress,
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


def open_logged_store(
    root: StateRoot | str | PathLike[str],
    name: str,
    partition: int = 0,
    *,
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    durability: Durability = Durability.POWER_LOSS,
    changelog_options: ChangelogOptions | None = None,
    directory: str | PathLike[str] | None = None,
    progress: ProgressCallback | None = None,
) -> LoggedStore[Any]:
    """Open *partition* of the store *name* of a state root, and bring it up to its changelog.

    What the changelog has beyond the store's committed offset is replayed; a store that is new,
    or older than the changelog's beginning, is loaded from the newest valid snapshot first. A write
    by Spark that was committed but not finished is now finished.

    Args:
        root: The state root, or its path. The store has been added to it before.
        name: The store's name.
        partition: The partition's number, from 0.
        backend: The backend; by default the one that the partition has.
        options: The backend's own options.
        durability: What each commit's append survives, and so the commit.
        changelog_options: How the changelog is written.
        directory: Where the engine lies, when it is not beside its changelog: a local disk.
        progress: Told how far replaying has come.

    Raises:
        StoreNotFoundError: There is no such state root or store.
        StoreLockedError: Another process has the partition open, or writes the store.
        CommitConflictError: Another writer has meanwhile died in the middle; open again.
        StoreMismatchError: The store's changelog is gone, or the store is another one.
        ChangelogCorruptedError: The changelog is damaged, or ends before the store.
        OffsetOutOfRangeError: The changelog begins after what the store and the snapshots have.
        SnapshotCorruptedError: It begins after what the usable snapshots have.
        StoreCorruptedError, UnsupportedFormatError, StorageError: A file cannot be read.
    """
    check_store_name(name)
    state = root if isinstance(root, StateRoot) else StateRoot.open(root)
    specification = state.store(name).specification
    source = state.partition(name, partition)
    finish_staged_writes(state, name)
    with reporting("read", source.changelog):
        restorable = source.changelog.is_dir()
    store = open_bytes_store(
        source.path if directory is None else directory,
        specification,
        backend=backend,
        options=options,
        durability=durability,
        restorable=restorable,
    )
    try:
        return join_changelog(
            store, state, partition, changelog_options=changelog_options, progress=progress
        )
    except BaseException:
        store.close()
        raise


def join_changelog(
    store: BytesStore,
    root: StateRoot,
    partition: int,
    *,
    changelog_options: ChangelogOptions | None = None,
    progress: ProgressCallback | None = None,
) -> LoggedStore[Any]:
    """Take over the changelog of *partition* as its writer, and bring the open *store* up to it.

    Requires: `finish_staged_writes` was called, nothing is pending, and nobody else reads the
    store's changelog into it any longer.

    Raises:
        StoreLockedError, CommitConflictError, StoreMismatchError, ChangelogCorruptedError,
        OffsetOutOfRangeError, StorageError: As `open_logged_store`. *store* stays open.
    """
    specification = root.store(store.name).specification
    directory = root.partition(store.name, partition)
    logged = changelog_partition(store.name, partition)
    with ExitStack() as on_failure:
        changelog = on_failure.enter_context(
            _open_changelog(
                directory,
                specification,
                changelog_options or ChangelogOptions(),
                store.committed_offset(logged),
            )
        )
        refuse_unfinished_write(directory.path.parent)
        restored = bring_up(store, changelog, directory, logged, progress)
        typed = typed_store(store, specification)
        opened = LoggedStore(typed, store, changelog, directory, restored, logged)
        on_failure.pop_all()
    return opened


def _open_changelog(
    directory: PartitionDirectory,
    specification: StoreSpecification[Any, Any],
    options: ChangelogOptions,
    committed_offset: int | None,
) -> FileChangelog:
    """Open the changelog of a store that has committed *committed_offset*, or begin one.

    Raises:
        StoreMismatchError: There is none, yet the store or a snapshot has come from one.
    """
    if FileChangelog.exists(directory.changelog):
        return FileChangelog.open(
            directory.changelog,
            specification.kind,
            options,
            committed_offset=committed_offset,
        )
    if committed_offset is not None or list_snapshots(directory.snapshots):
        raise StoreMismatchError(
            f"the changelog in {str(directory.changelog)!r} is gone, and the store or a snapshot "
            "beside it came from one; put it back, or export the store and import it into a new "
            "state root"
        )
    return FileChangelog.create(directory.changelog, specification.kind, options)


def bring_up(
    store: BytesStore,
    changelog: ReadOnlyChangelog,
    directory: PartitionDirectory,
    partition: TopicPartition,
    progress: ProgressCallback | None,
) -> RestoreReport:
    """Replay the part of *changelog* that *store* lacks, after a snapshot if one is needed (LGS-7).

    Raises:
        StoreMismatchError, ChangelogCorruptedError, OffsetOutOfRangeError, StorageError: As
            `open_logged_store`.
    """
    committed = store.committed_offset(partition)
    choice = SnapshotChoice(None, {})
    if committed is None or changelog.first_offset > committed + 1:
        choice = newest_valid_snapshot(directory.snapshots)
    with choice.explaining():
        return restore(
            store,
            snapshot=choice.snapshot,
            changelog=changelog,
            partition=partition,
            progress=progress,
        )
