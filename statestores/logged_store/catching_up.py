"""Bringing an open store up to its changelog, and taking that over as its writer."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from statestores.arrow.progress import ProgressCallback
from statestores.arrow.restoring.restore import RestoreReport, restore
from statestores.arrow.snapshots.choice import SnapshotChoice, newest_valid_snapshot
from statestores.arrow.snapshots.directory import list_snapshots
from statestores.begun_partitions import noted, refuse_gone
from statestores.changelog import (
    ChangelogOptions,
    FileChangelog,
    ReadOnlyChangelog,
    changelog_partition,
)
from statestores.errors import (
    SnapshotCorruptedError,
    StorageError,
    StoreMismatchError,
)
from statestores.logged_store.store import LoggedStore
from statestores.opening import BytesStore, typed_store
from statestores.spi.offsets import TopicPartition
from statestores.spi.specification import (
    StoreSpecification,
)
from statestores.staging.unfinished_write import refuse_unfinished_write
from statestores.state_root import PartitionDirectory, StateRoot


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
        StoreReshardedError: The store has other partitions since *root* was opened.
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
                logged,
            )
        )
        root.check_current(store.name)
        refuse_unfinished_write(directory.path.parent, {partition: changelog.end_offset})
        restored = bring_up(store, changelog, directory, logged, progress)
        typed = typed_store(store, specification)
        opened = LoggedStore(typed, store, changelog, directory.snapshots, restored, logged)
        on_failure.pop_all()
    return opened


def _open_changelog(
    directory: PartitionDirectory,
    specification: StoreSpecification[Any, Any],
    options: ChangelogOptions,
    committed_offset: int | None,
    logged: TopicPartition,
) -> FileChangelog:
    """Open the changelog *logged* of a store that has committed an offset, or begin one.

    Raises:
        StoreMismatchError: There is none, yet the store or a snapshot has come from one, or the
            state root has noted one.
    """
    if FileChangelog.exists(directory.changelog):
        opened = FileChangelog.open(
            directory.changelog,
            specification.kind,
            options,
            committed_offset=committed_offset,
            partition=logged,
        )
        return noted(opened, directory)
    refuse_gone(directory)
    if committed_offset is not None or list_snapshots(directory.snapshots):  # nobody noted it
        raise StoreMismatchError(
            f"the changelog in {str(directory.changelog)!r} is gone, and the store or a snapshot "
            "beside it came from one; put it back, or export the store and import it into a new "
            "state root"
        )
    created = FileChangelog.create(
        directory.changelog, specification.kind, options, partition=logged
    )
    return noted(created, directory)


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
    try:
        with choice.explaining():
            report = restore(
                store,
                snapshot=choice.snapshot,
                changelog=changelog,
                partition=partition,
                progress=progress,
            )
    except (SnapshotCorruptedError, StorageError):
        if choice.snapshot is None or choice.snapshot.is_there:
            raise
        # It was removed while it was read.
        return bring_up(store, changelog, directory, partition, progress)
    if store.begun_from is None or choice.snapshot is not None:
        return report
    offset, rows = store.begun_from
    return replace(
        report, from_offset=None, snapshot_offset=offset, snapshot_rows=rows, native=True
    )
