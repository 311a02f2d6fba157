"""Opening a partition whose changelog is in an object store, and its engine on a local disk."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from os import PathLike
from typing import Any, NamedTuple

from statestores.arrow.progress import ProgressCallback
from statestores.arrow.restoring.restore import RestoreReport, restore
from statestores.arrow.snapshots.object_snapshots import ObjectSnapshots
from statestores.changelog import ChangelogOptions, ReadOnlyChangelog, changelog_partition
from statestores.errors import SnapshotCorruptedError, StorageError
from statestores.files.local_path import local_path
from statestores.files.log_origin import LogOrigin, note_origin, read_origin
from statestores.object_log import ObjectChangelog, ObjectChangelogReader
from statestores.object_log.changelog import check_committed
from statestores.opening import BytesStore, open_bytes_store
from statestores.spi.durability import Durability
from statestores.spi.offsets import TopicPartition
from statestores.spi.specification import StoreSpecification
from statestores.state_root import StateRoot

_ATTEMPTS = 3
"""Snapshots that are tried, each removed while it was read, before the changelog alone is."""


class OpenedInObjects(NamedTuple):
    """A store that has everything its changelog holds."""

    store: BytesStore
    """The store."""

    changelog: ObjectChangelog
    """The changelog, taken over."""

    snapshots: ObjectSnapshots
    """Where those of the partition are."""

    restored: RestoreReport
    """What had to be done."""


def open_in_objects(
    root: StateRoot,
    specification: StoreSpecification[Any, Any],
    partition: int,
    *,
    directory: str | PathLike[str],
    backend: str | None,
    options: Mapping[str, object] | None,
    durability: Durability,
    changelog_options: ChangelogOptions,
    progress: ProgressCallback | None,
) -> OpenedInObjects:
    """Open *partition* of *root* with the engine in the local *directory*.

    What can go wrong on this machine goes wrong before anybody is fenced (OBJ-10).

    Raises:
        StateStoreError: As `statestores.logged_store.open_logged_store`.
    """
    with _ready(root, specification, partition, directory, backend, options, durability) as ready:
        changelog = ready.on_failure.enter_context(
            ObjectChangelog.take_over(
                ready.reader, changelog_options, committed_offset=ready.committed
            )
        )
        restored = restore_after_snapshot(
            ready.store, ready.snapshots, changelog, ready.logged, progress
        )
        changelog.forget_read()
        ready.on_failure.pop_all()
    return OpenedInObjects(ready.store, changelog, ready.snapshots, restored)


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
    durability = Durability.POWER_LOSS
    with _ready(root, specification, partition, directory, backend, options, durability) as ready:
        check_committed(ready.reader, ready.committed)
        return restore_after_snapshot(
            ready.store, ready.snapshots, ready.reader, ready.logged, progress
        )


def restore_after_snapshot(
    store: BytesStore,
    snapshots: ObjectSnapshots,
    changelog: ReadOnlyChangelog,
    partition: TopicPartition,
    progress: ProgressCallback | None = None,
) -> RestoreReport:
    """Bring *store* up to *changelog*, after one of *snapshots* if it has nothing yet.

    Only damage keeps a snapshot from being used, and then an older one, or the changelog alone,
    gives the same (OBJ-38).

    Raises:
        StateStoreError: As `restore`.
    """
    is_empty = store.committed_offset(partition) is None
    for _ in range(_ATTEMPTS):
        snapshot = None
        if is_empty and (end := changelog.end_offset):
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


class _Ready(NamedTuple):
    """An engine on this machine that may take what the log of its partition has."""

    store: BytesStore
    reader: ObjectChangelogReader
    logged: TopicPartition
    committed: int | None
    snapshots: ObjectSnapshots
    on_failure: ExitStack


@contextmanager
def _ready(
    root: StateRoot,
    specification: StoreSpecification[Any, Any],
    partition: int,
    directory: str | PathLike[str],
    backend: str | None,
    options: Mapping[str, object] | None,
    durability: Durability,
) -> Iterator[_Ready]:
    """Open the engine in *directory*, and the log for reading; close both, unless they are kept."""
    name = specification.name
    root.check_partition(name, partition)
    logged = changelog_partition(name, partition)
    with ExitStack() as on_failure:
        log = root.object_log(name)
        reader = on_failure.enter_context(log.reader(partition))
        origin = LogOrigin(log=reader.log_id, partition=partition)
        local = local_path(directory, "directory")
        known = read_origin(local, origin)
        store = open_bytes_store(
            directory,
            specification,
            backend=backend,
            options=options,
            durability=durability,
            restorable=True,
        )
        on_failure.enter_context(store)
        committed = store.committed_offset(logged)
        if not known:
            note_origin(local, origin, committed)
        snapshots = ObjectSnapshots(log=log, log_id=reader.log_id, partition=partition)
        yield _Ready(store, reader, logged, committed, snapshots, on_failure)
