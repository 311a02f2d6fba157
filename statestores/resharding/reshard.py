"""A store gets another number of partitions: all of them are written anew, and then count at once.

The commit point is one small file: ``statestores.json`` says which generation of partitions is the
store (`statestores.generations`). Before it, the new ones are files that nobody reads; after it,
the old ones are. Whatever dies in between leaves one or the other, and what it leaves besides goes
with the next reshard, also one that asks for the number that the store has.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final, Protocol, TypeVar

from statestores.arrow.file_access import reporting
from statestores.arrow.progress import Meter, ProgressCallback
from statestores.errors import InvalidArgumentError, StoreMismatchError
from statestores.failpoints import reach
from statestores.files.directory_lock import DirectoryLock
from statestores.files.durable_directory import make_durable
from statestores.files.local_path import local_path
from statestores.files.lock_waiting import COMMIT_TIMEOUT_MS
from statestores.generations import SCRATCH_DIRECTORY
from statestores.resharding.building import Build, Built
from statestores.resharding.fence import (
    Fenced,
    check_request,
    fenced,
    refuse_recorded_commits,
)
from statestores.resharding.left_over import remove_left_over
from statestores.resharding.next_generation import next_generation, note_batches
from statestores.resharding.routing import Route, Routed
from statestores.root_document import Placement, StoreEntry
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.specification import TtlClock
from statestores.state_root import StateRoot

MEMORY_BYTES: Final = 256 * 1024 * 1024
"""About as much memory as rows take while they are sorted, by default."""

T = TypeVar("T")


class Each(Protocol):
    """How independent pieces of work are done: here one after the other, or elsewhere."""

    def __call__(self, work: Sequence[Callable[[], T]]) -> Iterable[T]:
        """Yield what each piece of *work* gives, in its order. Each can be sent elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshardReport:
    """What `reshard` has done."""

    store: str
    """The store."""

    before: int
    """How many partitions it had."""

    partitions: int
    """How many it has."""

    rows: tuple[int, ...]
    """The rows of each new partition; none where there was nothing to do."""

    bytes: int
    """Bytes of the new snapshots."""

    expired: int
    """Rows that the old partitions had, and that the stream time of the furthest has ended."""

    offset: int | None
    """Where the new snapshots stand; ``None`` where there was nothing to do."""

    position: Position
    """The input that every new partition reflects."""

    behind: tuple[TopicPartition, ...]
    """Inputs of which some old partition had more: resuming there applies that once more."""


def reshard(
    root: StateRoot | str | PathLike[str],
    store: str,
    partitions: int,
    *,
    to: str | PathLike[str] | None = None,
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
        root: The state root, or its path; or the URL of an object store, with *to*.
        store: The store's name.
        partitions: How many partitions it is to have.
        to: The directory of a state root that gets the store, made if need be, and has none of
            that name. *root* stays as it is.
        drop_expired: Whether rows may go that live in their old partition, and have expired by the
            stream time of the one that is furthest, which is that of all new ones. Without, such
            a store is refused, and stays.
        keep_old: Whether the old partitions stay on disk, for readers that are still at work; the
            next reshard removes them.
        memory_bytes: About as much memory as rows may take while they are sorted.
        timeout_ms: How long to wait for somebody who has the store open.
        progress: Told how far it has come: each row counts twice, read and written.
        each: How the work of single partitions is done; by default one after the other, here.

    Raises:
        StoreNotFoundError: There is no such state root or store.
        InvalidTypeError, InvalidArgumentError: The store cannot have such partitions.
        CapabilityNotSupportedError: It is in an object store, and *to* is not given.
        StoreLockedError: Somebody has the store open.
        StoreReshardedError: Somebody else has resharded it meanwhile.
        StoreMismatchError: Rows would expire; or the other root has the store already.
        StateStoreError: The store cannot be read, or the new partitions not be written; the store
            is as it was.
    """
    source = root if isinstance(root, StateRoot) else StateRoot.open(root)
    entry = check_request(source, store, partitions, in_place=to is None)
    directory = None if to is None else local_path(to, "to")
    if directory is not None and source.storage is None:
        _refuse_inside(source, directory)
    if memory_bytes < 1:
        raise InvalidArgumentError(f"memory_bytes must be from 1, got {memory_bytes!r}")
    if directory is None and entry.partitions == partitions:
        remove_left_over(source, store)
        return _nothing_done(entry)
    work = _Work(source, entry, partitions, memory_bytes, Meter(progress), each or _one_by_one)
    if directory is not None:
        target = StateRoot.create(directory)
        return _into_another(work, target, timeout_ms, drop_expired=drop_expired)
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


@dataclass(frozen=True, slots=True)
class _Work:
    """One reshard."""

    source: StateRoot
    entry: StoreEntry
    partitions: int
    memory_bytes: int
    meter: Meter
    each: Each

    @property
    def store(self) -> str:
        return self.entry.specification.name

    def build(
        self, fenced: Fenced, home: Path, scratch: Path, *, drop_expired: bool
    ) -> ReshardReport:
        """Make the new partitions in the directory *home*, which does not count yet.

        Raises:
            StoreMismatchError: Rows would expire, and *drop_expired* does not allow it.
            StateStoreError: Something cannot be read or written.
        """
        routes = [
            Route(
                place=place,
                number=number,
                specification=self.entry.specification,
                partitions=self.partitions,
                sources=len(fenced.places),
                scratch=scratch,
                memory_bytes=self.memory_bytes,
            )
            for number, place in enumerate(fenced.places)
        ]
        routed: list[Routed] = []
        for split in self.each(routes):
            routed.append(split)
            self.meter.add(split.rows, split.bytes)
        reach("reshard.routed")
        times = [each.stream_time_ms for each in routed if each.stream_time_ms is not None]
        builds = [
            Build(
                scratch=scratch,
                number=number,
                specification=self.entry.specification,
                sources=tuple(routed),
                offset=fenced.offset,
                position=fenced.position,
                stream_time_ms=max(times, default=None),
            )
            for number in range(self.partitions)
        ]
        built: list[Built] = []
        for made in self.each(builds):
            built.append(made)
            self.meter.add(made.rows, made.bytes)
        # By the wall clock a row expires whether it is moved or not.
        specification = self.entry.specification
        by_wall_clock = getattr(specification, "ttl_clock", None) is TtlClock.WALL
        expired = 0 if by_wall_clock else sum(each.expired for each in built)
        if expired and not drop_expired:
            raise StoreMismatchError(
                f"{expired:,} rows of {self.store!r} live in a partition whose stream time is "
                f"behind, and would have expired by the one of the furthest, {max(times)}: "
                "process the input of those that are behind, or reshard with drop_expired=True "
                "(--drop-expired), which leaves these rows out"
            )
        with reporting("write into", home):
            for number, made in enumerate(built):
                made.path.rename(home / str(number))
            make_durable(home)
        note_batches(home, fenced.batches, "reshard")
        return ReshardReport(
            store=self.store,
            before=self.entry.partitions,
            partitions=self.partitions,
            rows=tuple(each.rows for each in built),
            bytes=sum(each.bytes for each in built),
            expired=expired,
            offset=fenced.offset,
            position=fenced.position,
            behind=fenced.behind,
        )


def _in_place(work: _Work, timeout_ms: int, *, drop_expired: bool, keep_old: bool) -> ReshardReport:
    """Make the next generation of the store, and have it count."""
    root, store = work.source, work.store
    with fenced(root, store, timeout_ms) as fence:
        refuse_recorded_commits(root.path)  # of a task that died while this waited for it
        with next_generation(root, store, work.partitions) as (home, scratch):
            report = work.build(fence, home, scratch, drop_expired=drop_expired)
    reach("reshard.noted")
    with reporting("remove", scratch):
        shutil.rmtree(scratch, ignore_errors=True)
    if not keep_old:
        remove_left_over(root, store)
    return report


def _into_another(
    work: _Work, target: StateRoot, timeout_ms: int, *, drop_expired: bool
) -> ReshardReport:
    """Write the store into the root *target*, where it counts once the root names it."""
    store, home = work.store, target.path / work.store
    scratch = home / SCRATCH_DIRECTORY
    _refuse_present(target, store)
    lock = DirectoryLock.acquire(scratch)
    try:
        _refuse_present(StateRoot.open(target.path), store)
        with reporting("remove", home):
            for path in home.iterdir():  # of a reshard that has died
                if path != scratch:
                    shutil.rmtree(path)
        try:
            with fenced(work.source, store, timeout_ms) as fence:
                report = work.build(fence, home, scratch, drop_expired=drop_expired)
            reach("reshard.built")
            target.note_reshard_into(
                StoreEntry(
                    specification=work.entry.specification,
                    partitions=work.partitions,
                    placement=work.entry.placement or Placement.PARTITIONER,
                )
            )
        except BaseException:
            if store not in StateRoot.open(target.path).stores:
                shutil.rmtree(home, ignore_errors=True)
            raise
        reach("reshard.noted")
    finally:
        lock.release()
    with reporting("remove", scratch):
        shutil.rmtree(scratch)
    return report


def _refuse_inside(source: StateRoot, directory: Path) -> None:
    """Accept a *directory* outside the root that the store is in.

    What lies in the directory of a store is the store's: a root in there would hide from readers
    of old partitions that these were resharded, and go with what a reshard has left.

    Raises:
        InvalidArgumentError: It is that root, or is in it.
    """
    root, target = source.path.resolve(), directory.resolve()
    if target == root:
        raise InvalidArgumentError(
            f"{str(directory)!r} is the state root that the store is in; leave to (--to) out to "
            "reshard it in place"
        )
    if root in target.parents:
        raise InvalidArgumentError(
            f"{str(directory)!r} is inside the state root {str(source.path)!r}, where the stores "
            "have their files; give to (--to) a directory beside it"
        )


def _refuse_present(target: StateRoot, store: str) -> None:
    """Accept a root without *store*, and without files of one that no reshard has left.

    Raises:
        StoreMismatchError: There is one.
    """
    home = target.path / store
    with reporting("look into", home):
        foreign = home.is_dir() and any(home.iterdir()) and not (home / SCRATCH_DIRECTORY).is_dir()
    if store in target.stores or foreign:
        raise StoreMismatchError(
            f"the state root {str(target.path)!r} has a store {store!r} already; reshard into "
            "another one, or leave to (--to) out to reshard that one in place"
        )
