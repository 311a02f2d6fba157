"""A store gets another number of partitions: all of them are written anew, and then count at once.

The commit point is one small file: ``statestores.json`` says which generation of partitions is the
store (`statestores.generations`); in an object store it is the entry that ends the old log
(`in_objects`). Before it, the new ones are files that nobody reads; after it, the old ones are.
Whatever dies in between leaves one or the other, and what it leaves besides goes with the next
reshard, also one that asks for the number that the store has.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Final, TypeVar

from statestores.arrow.progress import Meter, ProgressCallback
from statestores.errors import InvalidArgumentError
from statestores.failpoints import reach
from statestores.files.lock_waiting import COMMIT_TIMEOUT_MS
from statestores.resharding.fence import fenced
from statestores.resharding.in_objects import remove_passed, reshard_in_objects
from statestores.resharding.into_another import into_another, place
from statestores.resharding.into_objects import into_objects
from statestores.resharding.left_over import behind_the_commit_point, remove_left_over
from statestores.resharding.next_generation import next_generation
from statestores.resharding.refusals import check_request
from statestores.resharding.target import target_of
from statestores.resharding.work import Each, ReshardReport, Work
from statestores.root_document import StoreEntry
from statestores.spi.offsets import Position
from statestores.state_root import StateRoot
from statestores.storage import ObjectStorage

MEMORY_BYTES: Final = 256 * 1024 * 1024
"""About as much memory as rows take while they are sorted, by default."""

T = TypeVar("T")


def reshard(
    root: StateRoot | str | PathLike[str],
    store: str,
    partitions: int,
    *,
    to: str | PathLike[str] | ObjectStorage | None = None,
    to_storage_options: Mapping[str, object] | None = None,
    drop_expired: bool = False,
    keep_old: bool = False,
    memory_bytes: int = MEMORY_BYTES,
    timeout_ms: int = COMMIT_TIMEOUT_MS,
    progress: ProgressCallback | None = None,
    each: Each | None = None,
) -> ReshardReport:
    """Give *store* another number of *partitions*, in place or in another state root (RSH-1).

    Each row goes where the store's partitioner looks for it among so many partitions. The new
    partitions are snapshots at one offset, above all that the old changelogs have given, and empty
    changelogs after it. Nobody writes the store meanwhile; whoever reads it sees the old partitions
    until the new ones count, all at once. A store that has as many partitions already is left as it
    is, and what a reshard that died has left is removed.

    Args:
        root: The state root, its path, or its URL in an object store.
        store: The store's name.
        partitions: How many partitions it is to have.
        to: The directory of a state root that gets the store, or its URL in an object store; it is
            made if need be, and has no store of that name. *root* stays as it is, and so does what
            *to* names if this raises.
        to_storage_options: How the object store of *to* is reached (`StateRoot.open`).
        drop_expired: Whether rows may go that live in their old partition, and have expired by the
            stream time of the one that is furthest, which is that of all new ones. Without, such
            a store is refused, and stays.
        keep_old: Whether the old partitions stay on disk, for readers that are still at work; the
            next reshard removes them.
        memory_bytes: About as much memory as rows may take while they are sorted.
        timeout_ms: How long to wait for somebody who has the store open.
        progress: Told how far it has come: each row counts twice, read and written.
        each: How the work of single partitions is done; by default one after the other, here. In
            place in an object store, what is given passes its rows on as objects there.

    Raises:
        StoreNotFoundError: There is no such state root or store.
        InvalidTypeError, InvalidArgumentError: The store cannot have such partitions.
        StoreLockedError: Somebody has the store open.
        CommitConflictError: It is in an object store, and somebody has written it or opened it
            meanwhile; the store is as they left it.
        CommitInDoubtError: It is, or would be, in an object store, which does not answer: the
            store is the old one or the new one, is there or not, and opening the state root again
            finds out.
        StoreReshardedError: Somebody else has resharded it meanwhile.
        StoreMismatchError: Rows would expire; or the other root has the store already.
        StateStoreError: The store cannot be read, or the new partitions not be written; the store
            is as it was.
    """
    source = root if isinstance(root, StateRoot) else StateRoot.open(root)
    entry = check_request(source, store, partitions, in_place=to is None)
    objects, directory = target_of(source, to, to_storage_options)
    if memory_bytes < 1:
        raise InvalidArgumentError(f"memory_bytes must be from 1, got {memory_bytes!r}")
    in_objects = to is None and source.storage is not None
    if in_objects:
        entry = source.note_log_ended(store)  # by a reshard that died before it could
    if to is None and entry.partitions == partitions:
        if in_objects:
            remove_passed(source, store, keep_old=False)
        else:
            remove_left_over(source, store)
        return _nothing_done(entry)
    done_by, is_sent = each or _one_by_one, each is not None
    work = Work(source, entry, partitions, memory_bytes, Meter(progress), done_by, is_sent)
    if objects is not None:
        return into_objects(work, objects, timeout_ms, drop_expired=drop_expired)
    if directory is not None:
        return into_another(work, directory, timeout_ms, drop_expired=drop_expired)
    if in_objects:
        return reshard_in_objects(work, timeout_ms, drop_expired=drop_expired, keep_old=keep_old)
    return _in_place(work, timeout_ms, drop_expired=drop_expired, keep_old=keep_old)


def _one_by_one(work: Sequence[Callable[[], T]]) -> Iterator[T]:
    return (each() for each in work)


def _nothing_done(entry: StoreEntry) -> ReshardReport:
    return ReshardReport(
        store=entry.specification.name,
        before=entry.partitions,
        partitions=entry.partitions,
        rows=(),
        bytes=0,
        expired=0,
        offset=None,
        position=Position(),
        behind=(),
    )


def _in_place(work: Work, timeout_ms: int, *, drop_expired: bool, keep_old: bool) -> ReshardReport:
    """Make the next generation of the store, and have it count."""
    root, store = work.source, work.store
    with (
        fenced(root, store, timeout_ms) as fence,
        next_generation(root, store, work.partitions) as (home, scratch),
    ):
        report, built = work.build(fence, scratch, drop_expired=drop_expired)
        place(built, home, fence.batches)
    reach("reshard.noted")
    if not keep_old:
        with behind_the_commit_point(store):
            remove_left_over(root, store)
    return report
