"""What a copy of a store lacks that its changelog no longer has, and the snapshot that has it.

A writer deletes the beginning of its changelog once a snapshot covers it, without asking who still
reads there (STB-1).
"""

from collections.abc import Callable

from statestores.arrow.restore_mark import restore_mark
from statestores.arrow.snapshots.choice import newest_valid_snapshot
from statestores.arrow.snapshots.directory import list_snapshots
from statestores.arrow.snapshots.reader import Snapshot
from statestores.begun_partitions import refuse_gone
from statestores.changelog import ReadOnlyChangelog
from statestores.errors import OffsetOutOfRangeError, StoreNotFoundError
from statestores.opening import BytesStore
from statestores.reading.locations import changelog_of
from statestores.spi.offsets import TopicPartition, offset_after
from statestores.state_root import PartitionDirectory


def snapshot_before(
    store: BytesStore,
    source: PartitionDirectory,
    partition: TopicPartition,
    log: ReadOnlyChangelog,
    end_for_readers: Callable[[], int],
) -> Snapshot | None:
    """Return what *store* must load before *log*, whose end is pinned, if it must load anything.

    A snapshot may be newer than that end: its writer has committed since, or has died before it
    appended what it had committed, which *end_for_readers* counts. Then it is an older one.

    Raises:
        OffsetOutOfRangeError: It must, and no valid snapshot reaches the changelog.
        StorageError: The snapshots cannot be read.
    """
    committed, first_offset = store.committed_offset(partition), log.first_offset
    if committed is not None and first_offset <= committed + 1:
        return None
    candidates = list_snapshots(source.snapshots)
    newest = max(candidates, default=-1)
    last: int | None = log.end_offset - 1
    if newest >= log.end_offset and newest >= end_for_readers():
        last = None  # the changelog has lost its end, as the restore will say
    snapshot = None
    if newest + 1 >= first_offset:
        snapshot = newest_valid_snapshot(source.snapshots, to_offset=last).snapshot
    if first_offset > 0 and (snapshot is None or snapshot.offset + 1 < first_offset):
        stands = "before the first change" if committed is None else f"at offset {committed}"
        raise OffsetOutOfRangeError(
            f"the standby of partition {partition.partition} of {store.name!r} stands {stands}, "
            f"its changelog begins at offset {first_offset}, and no valid snapshot in "
            f"{str(source.snapshots)!r} reaches that; write one of the active store, and the "
            "standby goes on from there"
        )
    return snapshot


def is_left_behind(
    store: BytesStore, source: PartitionDirectory, partition: TopicPartition
) -> bool:
    """Return whether the changelog begins, or is complete, only after what *store* has."""
    committed = store.committed_offset(partition)
    next_offset = offset_after(committed)
    try:
        with changelog_of(source, store.specification) as log:
            first = log.segments()[0]
            complete = first.end_offset if first.compacted else None
            return (first.first_offset if complete is None else complete) > next_offset
    except StoreNotFoundError:
        refuse_gone(source, next_offset)
        return False


def is_unloaded(store: BytesStore, source: PartitionDirectory, partition: TopicPartition) -> bool:
    """Return whether what *store* holds is no commit: a snapshot is missing, or half loaded."""
    if store.committed_offset(partition) is not None:
        return False
    half_loaded = store.committed_offset(restore_mark(store.specification)) is not None
    return half_loaded or bool(list_snapshots(source.snapshots))
