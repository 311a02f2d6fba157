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
from typing import Any, Generic, TypeAlias, TypedDict, TypeVar, Unpack, overload

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
from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    StoreMismatchError,
)
from statestores.failpoints import reach
from statestores.metering.logged_meter import LoggedMeter
from statestores.object_opening import open_in_objects
from statestores.opening import BytesStore, open_bytes_store, typed_store
from statestores.semantics.every_kind.arguments import check_store_name
from statestores.semantics.every_kind.journal import Journal
from statestores.semantics.every_kind.self_description import check_description
from statestores.spi.closing import Closing
from statestores.spi.durability import Durability
from statestores.spi.metrics.metric import Metrics
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.records import Changes
from statestores.spi.session_specification import Session
from statestores.spi.specification import (
    KeyValue,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
)
from statestores.spi.stores.key_value import KeyValueStore
from statestores.spi.stores.session import SessionStore
from statestores.spi.stores.timestamped_key_value import TimestampedKeyValueStore
from statestores.spi.stores.versioned import VersionedStore
from statestores.spi.stores.window import WindowStore
from statestores.spi.window_specification import Window
from statestores.staging.staged_write import finish_staged_writes, refuse_unfinished_write
from statestores.state_root import PartitionDirectory, StateRoot
from statestores.storage import is_storage_url

S = TypeVar("S")
K = TypeVar("K")
V = TypeVar("V")

AnyRoot: TypeAlias = StateRoot | str | PathLike[str]
"""A state root, its path, or its URL."""


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
        directory: PartitionDirectory | None,
        restored: RestoreReport,
        partition: TopicPartition,
    ) -> None:
        """Join a store with its changelog; the store has everything that the changelog holds.

        There is no *directory* for snapshots where the root is in an object store.
        """
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
            CapabilityNotSupportedError: The state root is in an object store.
            StoreClosedError, StorageError: See `statestores.arrow.write_snapshot`.
        """
        if self._directory is None:
            raise CapabilityNotSupportedError(
                f"the state root of {self.name!r} is in an object store, which holds no snapshots "
                "yet; compact the changelog instead: StateRoot.object_log(name).compact()"
            )
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


class LoggedStoreOptions(TypedDict, total=False):
    """How a store is opened; see `open_logged_store`."""

    backend: str | None
    options: Mapping[str, object] | None
    durability: Durability
    changelog_options: ChangelogOptions | None
    directory: str | PathLike[str] | None
    storage_options: Mapping[str, object] | None
    progress: ProgressCallback | None


@overload
def open_logged_store(
    root: AnyRoot,
    name: TimestampedKeyValue[K, V],
    partition: int = ...,
    **how: Unpack[LoggedStoreOptions],
) -> LoggedStore[TimestampedKeyValueStore[K, V]]: ...
@overload
def open_logged_store(
    root: AnyRoot, name: KeyValue[K, V], partition: int = ..., **how: Unpack[LoggedStoreOptions]
) -> LoggedStore[KeyValueStore[K, V]]: ...
@overload
def open_logged_store(
    root: AnyRoot, name: Versioned[K, V], partition: int = ..., **how: Unpack[LoggedStoreOptions]
) -> LoggedStore[VersionedStore[K, V]]: ...
@overload
def open_logged_store(
    root: AnyRoot, name: Window[K, V], partition: int = ..., **how: Unpack[LoggedStoreOptions]
) -> LoggedStore[WindowStore[K, V]]: ...
@overload
def open_logged_store(
    root: AnyRoot, name: Session[K, V], partition: int = ..., **how: Unpack[LoggedStoreOptions]
) -> LoggedStore[SessionStore[K, V]]: ...
@overload
def open_logged_store(
    root: AnyRoot, name: str, partition: int = ..., **how: Unpack[LoggedStoreOptions]
) -> LoggedStore[Any]: ...
def open_logged_store(
    root: AnyRoot,
    name: str | StoreSpecification[Any, Any],
    partition: int | None = None,
    *,
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    durability: Durability = Durability.POWER_LOSS,
    changelog_options: ChangelogOptions | None = None,
    directory: str | PathLike[str] | None = None,
    storage_options: Mapping[str, object] | None = None,
    progress: ProgressCallback | None = None,
) -> LoggedStore[Any]:
    """Open *partition* of the store *name* of a state root, and bring it up to its changelog.

    What the changelog has beyond the store's committed offset is replayed; a store that is new,
    or older than the changelog's beginning, is loaded from the newest valid snapshot first. A write
    by Spark that was committed but not finished is now finished.

    In a root that is the URL of an object store (docs/object-stores.md), opening takes the
    partition over: whoever has it open is fenced, and its next commit raises `FencedError`.

    Args:
        root: The state root, its path, or its URL. The store has been added to it before.
        name: The store's name; or its specification, by which a type checker knows the store.
        partition: The partition's number, from 0; a store of one partition needs none.
        backend: The backend; by default the one that the partition has.
        options: The backend's own options.
        durability: What each commit's append survives, and so the commit.
        changelog_options: How the changelog is written.
        directory: Where the engine lies, when it is not beside its changelog: a local disk. With
            an object store it must be given.
        storage_options: How the object store of a URL is reached (`StateRoot.open`).
        progress: Told how far replaying has come.

    Raises:
        StoreNotFoundError: There is no such state root or store.
        StoreLockedError: Another process has the partition open, or writes the store.
        CommitConflictError: Another writer has meanwhile died in the middle; open again.
        FencedError: Another process has taken the partition over at the same time.
        InvalidArgumentError: There is no directory for the engine of a root in an object store. The
            store has several partitions and none is named, or not the one that is.
        StoreMismatchError: The store's changelog is gone, or the store is another one, or other
            than the specification says.
        ChangelogCorruptedError: The changelog is damaged, or ends before the store.
        OffsetOutOfRangeError: The changelog begins after what the store and the snapshots have.
        SnapshotCorruptedError: It begins after what the usable snapshots have.
        StoreCorruptedError, UnsupportedFormatError, StorageError: A file cannot be read.
    """
    wanted = name if isinstance(name, StoreSpecification) else None
    name = name.name if isinstance(name, StoreSpecification) else name
    check_store_name(name)
    if directory is None and (
        is_storage_url(root) or (isinstance(root, StateRoot) and root.storage is not None)
    ):
        raise InvalidArgumentError(
            f"the engine of {name!r} lies on a local disk, and its changelog in an object store; "
            "give open_logged_store() a directory of this machine for it, one for each partition"
        )
    if not isinstance(root, StateRoot):
        state = StateRoot.open(root, storage_options=storage_options)
    elif storage_options is None:
        state = root
    else:
        raise InvalidArgumentError(
            "storage_options are for the URL of a state root, and this one is open already"
        )
    entry = state.store(name)
    specification = entry.specification
    if wanted is not None:
        check_description(specification.describe(), wanted.describe(), wanted.changeable)
    if partition is None:
        partition = entry.only_partition()
    if state.storage is not None and directory is not None:
        opened = open_in_objects(
            state,
            specification,
            partition,
            directory=directory,
            backend=backend,
            options=options,
            durability=durability,
            changelog_options=changelog_options or ChangelogOptions(),
            progress=progress,
        )
        return LoggedStore(
            typed_store(opened.store, specification),
            opened.store,
            opened.changelog,
            None,
            opened.restored,
            changelog_partition(name, partition),
        )
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
