"""Opening a partition whose changelog is in an object store, and its engine on a local disk."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from statestores.arrow.progress import ProgressCallback
from statestores.arrow.restoring.restore import RestoreReport, restore
from statestores.arrow.snapshots.object_snapshots import ObjectSnapshots
from statestores.changelog import ChangelogOptions, ReadOnlyChangelog, changelog_partition
from statestores.errors import SnapshotCorruptedError, StorageError
from statestores.files.local_path import local_path
from statestores.files.log_origin import LogOrigin, note_origin, read_origin
from statestores.logged_store.store import LoggedStore
from statestores.object_log import ObjectChangelog, ObjectChangelogReader
from statestores.object_log.changelog import check_committed
from statestores.object_log.owners import fenced
from statestores.opening import BytesStore, open_bytes_store, typed_store
from statestores.spi.durability import Durability
from statestores.spi.offsets import TopicPartition, offset_after
from statestores.spi.specification import StoreSpecification
from statestores.state_root import StateRoot

_ATTEMPTS = 3
"""Snapshots that are tried, each removed while it was read, before the changelog alone is."""


class ReadyEngine(NamedTuple):
    """An engine on this machine that may take what the log of its partition has."""

    store: BytesStore
    """The store."""

    reader: ObjectChangelogReader
    """What reads the log: nobody is fenced yet."""

    logged: TopicPartition
    """The partition under which the store commits the offsets of the log."""

    committed: int | None
    """The last of them."""

    snapshots: ObjectSnapshots
    """Where those of the partition are."""

    specification: StoreSpecification[Any, Any]
    """What the store is."""

    def close(self) -> None:
        """Close the store."""
        self.reader.close()
        self.store.close()


def open_in_objects(
    root: StateRoot,
    specification: StoreSpecification[Any, Any],
    partition: int,
    *,
    directory: str | PathLike[str],
    backend: str | None,
    options: Mapping[str, object] | None,
    durability: Durability,
    changelog_options: ChangelogOptions | None,
    progress: ProgressCallback | None,
) -> LoggedStore[Any]:
    """Open *partition* of *root* with the engine in the local *directory*.

    What can go wrong on this machine goes wrong before anybody is fenced (OBJ-10).

    Raises:
        StateStoreError: As `statestores.logged_store.open_logged_store`.
    """
    engine = restorable_engine(directory, specification, backend, options, durability)
    ready = ready_engine(root, specification, partition, local_path(directory, "directory"), engine)
    with ExitStack() as on_failure:
        on_failure.callback(ready.close)
        changelog = on_failure.enter_context(take_over(ready, changelog_options))
        opened = bring_up(ready, changelog, progress)
        on_failure.pop_all()
    return opened


def take_over(ready: ReadyEngine, options: ChangelogOptions | None) -> ObjectChangelog:
    """Become the owner of the partition of the *ready* engine; whoever was it is fenced.

    Raises:
        StateStoreError: As `ObjectChangelog.take_over`.
    """
    return ObjectChangelog.take_over(
        ready.reader, options or ChangelogOptions(), committed_offset=ready.committed
    )


def bring_up(
    ready: ReadyEngine, changelog: ObjectChangelog, progress: ProgressCallback | None
) -> LoggedStore[Any]:
    """Join the *ready* engine with the *changelog* that was taken over, which it lacks some of.

    Raises:
        FencedError: The partition was taken over meanwhile, and has commits of its next owner,
            which the engine has, or with which it was compacted.
        StateStoreError: As `restore_after_snapshot`. Both stay open.
    """
    if offset_after(ready.store.committed_offset(ready.logged)) > changelog.end_as_known:
        raise fenced(changelog.names, changelog.partition, "while it was being opened")
    restored = restore_after_snapshot(
        ready.store, ready.snapshots, changelog, ready.logged, progress
    )
    changelog.forget_read()
    typed = typed_store(ready.store, ready.specification)
    return LoggedStore(typed, ready.store, changelog, ready.snapshots, restored, ready.logged)


def restore_from_objects(
    root: StateRoot,
    specification: StoreSpecification[Any, Any],
    partition: int,
    *,
    directory: str | PathLike[str],
    backend: str | None,
    options: Mapping[str, object] | None,
    progress: ProgressCallback | None,
) -> RestoreReport:
    """Bring the engine in the local *directory* up to what *partition* of *root* has by now.

    Nobody is fenced: whoever has the partition goes on, and this engine is a copy to begin with.

    Raises:
        StateStoreError: As `statestores.logged_store.open_logged_store`.
    """
    engine = restorable_engine(directory, specification, backend, options, Durability.POWER_LOSS)
    ready = ready_engine(root, specification, partition, local_path(directory, "directory"), engine)
    with closing(ready):
        check_committed(ready.reader, ready.committed)
        done = restore_after_snapshot(
            ready.store, ready.snapshots, ready.reader, ready.logged, progress
        )
        while ready.reader.overtaken_to > offset_after(done.offset):
            # What a compaction has left is no commit before its end: go on to that.
            more = restore_after_snapshot(
                ready.store, ready.snapshots, ready.reader, ready.logged, progress
            )
            rows = done.changelog_rows + more.changelog_rows
            done = replace(done, offset=more.offset, changelog_rows=rows)
        return done


def restore_after_snapshot(
    store: BytesStore,
    snapshots: ObjectSnapshots,
    changelog: ReadOnlyChangelog,
    partition: TopicPartition,
    progress: ProgressCallback | None = None,
) -> RestoreReport:
    """Bring *store* up to *changelog*, after one of *snapshots* if it has nothing yet.

    Or if it has less than what the changelog begins with, of a store that was resharded since. Only
    damage keeps a snapshot from being used, and then an older one, or the changelog alone, gives
    the same (OBJ-38).

    Raises:
        StateStoreError: As `restore`.
    """
    committed = store.committed_offset(partition)
    is_short = committed is None or changelog.first_offset > committed + 1
    for _ in range(_ATTEMPTS):
        snapshot = None
        if is_short and (end := changelog.end_offset):
            snapshot = snapshots.newest_valid(to_offset=end - 1).snapshot
        try:
            return restore(
                store,
                snapshot=snapshot,
                changelog=changelog,
                partition=partition,
                progress=progress,
            )
        except (SnapshotCorruptedError, StorageError):
            if snapshot is None or snapshot.is_there:
                raise  # otherwise it was removed while it was read
    return restore(store, changelog=changelog, partition=partition, progress=progress)


def ready_engine(
    root: StateRoot,
    specification: StoreSpecification[Any, Any],
    partition: int,
    directory: Path,
    open_engine: Callable[[], BytesStore],
) -> ReadyEngine:
    """Open the engine in *directory*, with *open_engine*, and the log of *partition* for reading.

    Raises:
        StoreMismatchError: It is the engine of another log (OBJ-18).
        StateStoreError: One of them cannot be opened.
    """
    root.check_partition(specification.name, partition)
    with ExitStack() as on_failure:
        reader = root.object_log(specification.name).reader(partition)
        origin = LogOrigin(log=reader.log_id, partition=partition)
        known = read_origin(directory, origin)
        store = open_engine()
        on_failure.callback(store.close)
        ready = _ready(root, specification, reader, store)
        if not known:
            note_origin(directory, origin, ready.committed)
        on_failure.pop_all()
    return ready


def ready_copy(root: StateRoot, store: BytesStore, partition: int) -> ReadyEngine:
    """Return the copy *store* of *partition*, whose directory says so, ready to be its owner.

    Raises:
        StateStoreError: The log cannot be read.
    """
    specification = root.store(store.name).specification
    return _ready(root, specification, root.object_log(store.name).reader(partition), store)


def _ready(
    root: StateRoot,
    specification: StoreSpecification[Any, Any],
    reader: ObjectChangelogReader,
    store: BytesStore,
) -> ReadyEngine:
    logged = changelog_partition(specification.name, reader.partition)
    snapshots = ObjectSnapshots(
        log=root.object_log(specification.name), log_id=reader.log_id, partition=reader.partition
    )
    committed = store.committed_offset(logged)
    return ReadyEngine(store, reader, logged, committed, snapshots, specification)


def restorable_engine(
    directory: str | PathLike[str],
    specification: StoreSpecification[Any, Any],
    backend: str | None,
    options: Mapping[str, object] | None,
    durability: Durability,
) -> Callable[[], BytesStore]:
    """Return what opens the engine in *directory*, which the log can always restore."""
    return partial(
        open_bytes_store,
        directory,
        specification,
        backend=backend,
        options=options,
        durability=durability,
        restorable=True,
        deferring=True,
    )
