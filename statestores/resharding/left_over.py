"""What a reshard leaves behind: partitions from before it, and files of one that has died."""

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from statestores.arrow.file_access import reporting
from statestores.begun_partitions import BEGUN_DIRECTORY
from statestores.errors import StateStoreError
from statestores.failpoints import reach
from statestores.files.directory_lock import DirectoryLock
from statestores.files.durable_directory import make_directory
from statestores.generations import SCRATCH_DIRECTORY, generation_from_name
from statestores.staging.write_intent import STAGING_DIRECTORY, staging_directory
from statestores.state_root import StateRoot

_log = logging.getLogger(__name__)


@contextmanager
def behind_the_commit_point(store: str) -> Iterator[None]:
    """Say in a log message what fails in the block, and raise nothing: the reshard counts (RSH-24).

    Whoever were told of a failure would go on with the partitions that the store had.
    """
    try:
        yield
    except StateStoreError as error:
        _log.warning(
            "the reshard of %r counts, and what it leaves could not be tidied up (%s): the next "
            "reshard of the store does it, in an object store also a vacuum",
            store,
            error,
        )


def remove_left_over(root: StateRoot, store: str) -> None:
    """Remove what is of no generation that counts, and of no reshard that is at work.

    Raises:
        StoreLockedError: One is at work, or somebody publishes.
        StoreReshardedError: Another reshard counts by now, which removes it.
        StorageError: It cannot be removed.
    """
    if not left_over(root.path, store, root.store(store).generation):
        return
    root.check_current(store)  # else its lock would be made anew where partitions have been removed
    lock = DirectoryLock.acquire(staging_directory(root.home(store)))
    try:
        root.check_current(store)
        remove_all_but(root.path, store, root.store(store).generation)
    finally:
        lock.release()


def left_over(root: Path, store: str, generation: int) -> list[Path]:
    """Return what lies in the directory of *store* besides its *generation*."""
    directory = root / store
    with reporting("look into", directory):
        present = list(directory.iterdir()) if directory.is_dir() else []
    left = []
    for path in present:
        of = generation_from_name(path.name)
        if of is None and (
            path.name.isdecimal() or path.name in {STAGING_DIRECTORY, BEGUN_DIRECTORY}
        ):
            of = 0
        if path.name == SCRATCH_DIRECTORY or (of is not None and of != generation):
            left.append(path)
    return left


def remove_all_but(root: Path, store: str, generation: int) -> None:
    """Remove what `left_over` returns.

    What a reader may still be reading loses its name first, so that it finds all of a partition or
    nothing, and nothing is what makes it ask whether the store has been resharded.

    Requires: nobody else reshards the store, and nobody writes to another generation.
    """
    directory = root / store
    for path in left_over(root, store, generation):
        gone = directory / SCRATCH_DIRECTORY / f"gone-{uuid4().hex}"
        with reporting("remove", path):
            if path.name != SCRATCH_DIRECTORY:
                make_directory(gone.parent)
                with suppress(FileNotFoundError):  # another clean-up was faster
                    path.rename(gone)
                reach("reshard.retired")
    with reporting("remove", directory / SCRATCH_DIRECTORY):
        if (directory / SCRATCH_DIRECTORY).is_dir():
            shutil.rmtree(directory / SCRATCH_DIRECTORY)
