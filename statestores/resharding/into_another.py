"""A reshard into another state root, which is made with the store, and else left as it was.

Invariant: the root is made when the partitions are, so that a reshard which is refused, or dies, on
the way leaves no state root that is empty (RSH-11).
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from statestores.arrow.file_access import reporting
from statestores.begun_partitions import note_begun
from statestores.errors import StateStoreError, StoreMismatchError
from statestores.failpoints import reach
from statestores.files.directory_lock import DirectoryLock
from statestores.files.durable_directory import make_durable
from statestores.files.tree_removal import empty_locked, remove_locked
from statestores.generations import SCRATCH_DIRECTORY
from statestores.resharding.building import Built
from statestores.resharding.fence import fenced
from statestores.resharding.left_over import behind_the_commit_point
from statestores.resharding.next_generation import note_batches
from statestores.resharding.work import ReshardReport, Work
from statestores.root_document import Placement, StoreEntry
from statestores.state_root import StateRoot, is_state_root
from statestores.stores_in_directory import refuse_engine, refuse_inside_store, remove_empty_root


def into_another(
    work: Work, directory: Path, timeout_ms: int, *, drop_expired: bool
) -> ReshardReport:
    """Write the store into the root at *directory*, where it counts once the root names it.

    Raises:
        StateStoreError: As `reshard`; what was made in the directory, and it, is gone.
    """
    store, home = work.store, directory / work.store
    scratch = home / SCRATCH_DIRECTORY
    refuse_present(directory, store)
    with _left_as_it_was(directory, home):
        lock = DirectoryLock.acquire(scratch)
        try:
            refuse_present(directory, store)
            with reporting("remove", home):
                for path in home.iterdir():  # of a reshard that has died
                    if path != scratch:
                        shutil.rmtree(path)
            with _removed_unless_noted(directory, store):
                with fenced(work.source, store, timeout_ms) as fence:
                    report, built = work.build(fence, scratch, drop_expired=drop_expired)
                    place(built, home, fence.batches)
                target = StateRoot.create(directory)
                reach("reshard.built")
                with suppress(OSError):  # before others may reshard what the root names
                    empty_locked(scratch)
                target.note_reshard_into(
                    StoreEntry(
                        specification=work.entry.specification,
                        partitions=work.partitions,
                        placement=work.entry.placement or Placement.PARTITIONER,
                    )
                )
            reach("reshard.noted")
            with behind_the_commit_point(store), reporting("remove", scratch):
                remove_locked(scratch)
        finally:
            lock.release()
    return report


def place(built: Sequence[Built], home: Path, batches: Mapping[str, int]) -> None:
    """Have the partitions that were *built* lie in the directory *home*, with the *batches*."""
    with reporting("write into", home):
        for number, made in enumerate(built):
            made.path.rename(home / str(number))
        make_durable(home)
    note_begun(home, range(len(built)))
    note_batches(home, batches, "reshard")


@contextmanager
def _removed_unless_noted(directory: Path, store: str) -> Iterator[None]:
    """Have what is written of *store* go if the block raises before the root names it.

    Requires: the lock of the scratch directory is held, so all of it is this reshard's.
    """
    had_root = is_state_root(directory)
    try:
        yield
    except BaseException:
        if store not in _stores_in(directory):
            home = directory / store
            with suppress(OSError):
                for path in home.iterdir():
                    if path.name != SCRATCH_DIRECTORY:
                        shutil.rmtree(path, ignore_errors=True)
            if not had_root and is_state_root(directory):
                with suppress(StateStoreError):  # somebody adds a store: then it is theirs
                    remove_empty_root(directory)
            with suppress(OSError):  # the last of all: another one begins once it has this lock
                empty_locked(home / SCRATCH_DIRECTORY)
                remove_locked(home / SCRATCH_DIRECTORY)
                home.rmdir()
        raise


@contextmanager
def _left_as_it_was(directory: Path, home: Path) -> Iterator[None]:
    """Have the directories go that the block makes, if it raises; those with files in them stay."""
    was_there = home.is_dir() and not (home / SCRATCH_DIRECTORY).is_dir()
    made = [each for each in (directory, *directory.parents) if not each.is_dir()]
    try:
        yield
    except BaseException:
        with suppress(OSError):  # the innermost first; one in use ends it
            if was_there:
                home.mkdir(exist_ok=True)
            elif home.is_dir():
                home.rmdir()
            for each in made:
                each.rmdir()
        raise


def _stores_in(directory: Path) -> dict[str, StoreEntry]:
    """Return the stores of the root at *directory*, none if there is no root yet.

    Raises:
        StateStoreError: The root cannot be read.
    """
    return StateRoot.open(directory).stores if is_state_root(directory) else {}


def refuse_present(directory: Path, store: str) -> None:
    """Accept a root without *store*, and without files of one that no reshard has left.

    Raises:
        StoreMismatchError: There is one; or it can be no state root.
    """
    home = directory / store
    stores = _stores_in(directory)
    refuse_engine(directory)
    refuse_inside_store(directory)
    with reporting("look into", home):
        foreign = home.is_dir() and any(home.iterdir()) and not (home / SCRATCH_DIRECTORY).is_dir()
    if store in stores or foreign:
        raise StoreMismatchError(
            f"the state root {str(directory)!r} has a store {store!r} already; reshard into "
            "another one, or leave to (--to) out to reshard that one in place"
        )
