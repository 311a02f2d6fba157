"""What a restore has to do, and everything that can be said against it before it does anything."""

from dataclasses import dataclass

from statestores.arrow.restore_mark import has_rows, restore_mark
from statestores.arrow.snapshots.reader import Snapshot
from statestores.changelog.contract import ReadOnlyChangelog, changelog_partition
from statestores.errors import InvalidArgumentError, OffsetOutOfRangeError, StoreMismatchError
from statestores.semantics.every_kind.self_description import differences
from statestores.spi.offsets import TopicPartition
from statestores.spi.stores.store import StateStore


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """The steps of one restore."""

    partition: TopicPartition
    """The changelog partition whose offset the store keeps."""

    committed: int | None
    """The offset at which the store stands; ``None`` when it is empty or half restored."""

    start_over: bool
    """Whether the store is emptied first."""

    snapshot: Snapshot | None
    """The snapshot to load; ``None`` when none is needed."""

    start: int
    """The first offset to read from the changelog."""

    stop: int
    """The offset before which to stop; equal to `start` when there is nothing to read."""

    @property
    def rows(self) -> int:
        """Rows and changes to take; fewer when the changelog has been compacted."""
        return (0 if self.snapshot is None else self.snapshot.rows) + self.stop - self.start


def plan_restore(
    store: StateStore,
    *,
    snapshot: Snapshot | None,
    changelog: ReadOnlyChangelog | None,
    partition: TopicPartition | None,
    to_offset: int | None,
) -> RestorePlan:
    """Return what `restore` has to do with these arguments.

    Raises:
        InvalidArgumentError, StoreMismatchError, OffsetOutOfRangeError: See `restore`.
    """
    if snapshot is None and changelog is None:
        raise InvalidArgumentError(
            "there is nothing to restore from; give a snapshot, a changelog, or both"
        )
    if snapshot is not None:
        _check_specification(store, snapshot)
    if changelog is not None and changelog.store_kind != store.specification.kind:
        raise StoreMismatchError(
            f"the changelog is one of a {changelog.store_kind} store, and {store.name!r} is "
            f"{store.specification.kind}"
        )
    partition = _choose(store, snapshot, partition)
    half_restored = store.committed_offset(restore_mark(store.specification)) is not None
    committed = None if half_restored else store.committed_offset(partition)
    if committed is None and not half_restored and has_rows(store):
        raise StoreMismatchError(
            f"the store {store.name!r} holds rows and has no committed offset of {partition!r}, so "
            "nobody knows which changes they reflect; truncate() it, or restore into an empty one"
        )
    _check_goal(store, snapshot, committed, to_offset)
    loaded = snapshot if _needs(snapshot, committed, changelog) else None
    stands = loaded.offset if loaded is not None else committed
    start = 0 if stands is None else stands + 1
    stop = _stop(store.name, changelog, start, loaded, to_offset)
    return RestorePlan(
        partition=partition,
        committed=committed,
        start_over=half_restored or loaded is not None,
        snapshot=loaded,
        start=start,
        stop=stop,
    )


def _check_specification(store: StateStore, snapshot: Snapshot) -> None:
    """Accept a snapshot of the same store.

    Raises:
        StoreMismatchError: It is of another; the message says how they differ.
    """
    differing = differences(
        snapshot.manifest.specification,
        store.specification,
        besides=store.specification.changeable,
    )
    if differing:
        raise StoreMismatchError(
            f"the snapshot {str(snapshot.place)!r} is not one of the store {store.name!r}: "
            f"{'; '.join(differing)}"
        )


def _choose(
    store: StateStore, snapshot: Snapshot | None, partition: TopicPartition | None
) -> TopicPartition:
    """Return the changelog partition whose offset the store keeps.

    Raises:
        StoreMismatchError: The snapshot stands at the offset of another one.
    """
    if snapshot is None:
        return partition or changelog_partition(store.name, 0)
    if partition not in (None, snapshot.manifest.partition):
        raise StoreMismatchError(
            f"the snapshot {str(snapshot.place)!r} is of {snapshot.manifest.partition!r}, "
            f"expected {partition!r}"
        )
    return snapshot.manifest.partition


def _check_goal(
    store: StateStore, snapshot: Snapshot | None, committed: int | None, to_offset: int | None
) -> None:
    """Accept an offset to stop at that is not behind where the restore begins.

    Raises:
        InvalidArgumentError: It is behind.
    """
    if to_offset is None:
        return
    if to_offset < 0:
        raise InvalidArgumentError(f"to_offset must be from 0, got {to_offset!r}")
    if committed is not None and committed > to_offset:
        raise InvalidArgumentError(
            f"the store {store.name!r} stands at offset {committed}, after the offset {to_offset} "
            "to restore to, and a restore only goes forward; truncate() it first"
        )
    if snapshot is not None and snapshot.offset > to_offset:
        raise InvalidArgumentError(
            f"the snapshot stands at offset {snapshot.offset}, after the offset {to_offset} to "
            "restore to; take newest_valid_snapshot(directory, to_offset=...)"
        )


def _needs(
    snapshot: Snapshot | None, committed: int | None, changelog: ReadOnlyChangelog | None
) -> bool:
    """Return whether *snapshot* must be loaded, because the changelog alone is not enough."""
    if snapshot is None:
        return False
    if committed is None:
        return True
    reached = changelog is not None and changelog.first_offset <= committed + 1
    return snapshot.offset > committed and not reached


def _stop(
    name: str,
    changelog: ReadOnlyChangelog | None,
    start: int,
    loaded: Snapshot | None,
    to_offset: int | None,
) -> int:
    """Return the offset before which to stop reading the changelog from *start*.

    Raises:
        StoreMismatchError: What is there is ahead of the changelog.
        OffsetOutOfRangeError: The changelog begins too late, or ends before *to_offset*.
    """
    have = f"the store {name!r}" if loaded is None else f"the snapshot {str(loaded.place)!r}"
    first, end = (
        (start, start) if changelog is None else (changelog.first_offset, changelog.end_offset)
    )
    if start > end:
        raise StoreMismatchError(
            f"{have} stands at offset {start - 1}, and the changelog ends before {end}: it is "
            "another one, or it has lost its end; find the right one, or truncate() the store "
            "and restore what the changelog has"
        )
    if start < first:
        raise OffsetOutOfRangeError(
            f"{have} needs the changelog from offset {start} on, and it begins at {first}, the "
            f"rest having been removed; restore from a snapshot at offset {first - 1} or later"
        )
    if to_offset is not None and to_offset >= end:
        raise OffsetOutOfRangeError(
            f"cannot restore to offset {to_offset}: what there is ends before {end}"
        )
    return end if to_offset is None else to_offset + 1
