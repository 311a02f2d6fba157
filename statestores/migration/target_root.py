"""The state root that is imported into, which is as it was when the import is refused.

Invariant: a root that the import has made goes again, with the directories that were made for it,
unless it has a store by then; whoever adds one meanwhile keeps it.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

from statestores.errors import StateStoreError
from statestores.files.directory_lock import LOCK_FILE, DirectoryLock
from statestores.files.local_path import local_path
from statestores.root_document import IMPORT_DIRECTORY
from statestores.state_root import StateRoot, is_state_root
from statestores.stores_in_directory import remove_empty_root


@contextmanager
def importing_root(root: str | PathLike[str]) -> Iterator[StateRoot]:
    """Give the state root at *root*, made if need be, and left as it was if the block raises.

    Raises:
        InvalidArgumentError: It is the URL of an object store.
        StateStoreError: As `StateRoot.create`.
    """
    place = local_path(root, "root")
    was_root = is_state_root(place)
    had_imports = (place / IMPORT_DIRECTORY).is_dir()
    made = [each for each in (place, *place.parents) if not each.is_dir()]
    try:
        yield StateRoot.create(place)
    except BaseException:
        # What cannot be removed is in use, or as full of something else as the disk.
        with suppress(OSError, StateStoreError):
            if not had_imports:
                _remove_lock_of_imports(place / IMPORT_DIRECTORY)
            if not was_root:
                remove_empty_root(place)
                for each in made:
                    each.rmdir()
        raise


def _remove_lock_of_imports(directory: Path) -> None:
    """Remove *directory* if an import has left its lock there and nothing else."""
    if not directory.is_dir():
        return
    lock = DirectoryLock.acquire(directory)
    try:
        if [each.name for each in directory.iterdir()] == [LOCK_FILE]:
            shutil.rmtree(directory)
    finally:
        lock.release()
