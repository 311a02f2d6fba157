"""A directory of links and copies, to open a database in that must not be written to.

It lies among the temporary files. A process that is killed leaves its own, and the next one removes
it: whose lock nobody holds is abandoned.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from statestores.errors import StateStoreError
from statestores.files.directory_lock import LOCK_FILE, DirectoryLock
from statestores.files.failures import storage_error

_PREFIX = "statestores-import-"
"""What names begin with that have a lock; nothing has such a name before it is locked."""


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """Give an empty directory of this process, which goes with the block; first, remove others'.

    Raises:
        StorageError: It cannot be made.
    """
    parent = Path(tempfile.gettempdir())
    _remove_abandoned(parent)
    try:
        made = Path(tempfile.mkdtemp(prefix="statestores-", dir=parent))
    except OSError as error:
        raise storage_error("make a directory in", parent, error) from error
    named = parent / f"{_PREFIX}{uuid4().hex}"
    owner = os.getpid()
    try:
        lock = DirectoryLock.acquire(made)
        try:
            directory = named / "database"
            try:
                made.rename(named)
                directory.mkdir()
            except OSError as error:
                raise storage_error("make", directory, error) from error
            yield directory
        finally:
            _remove(named, owner)
            lock.release()
    finally:
        _remove(made, owner)


def _remove(directory: Path, owner: int) -> None:
    """Remove *directory*, if there is one, unless this is a child of the process *owner*."""
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    """Remove the directories in *parent* that processes of this user have left, which are gone."""
    for directory in parent.glob(f"{_PREFIX}*"):
        # What cannot be locked is in use, and what cannot be removed is in nobody's way.
        with suppress(OSError, StateStoreError):
            if directory.lstat().st_uid == os.getuid() and (directory / LOCK_FILE).is_file():
                lock = DirectoryLock.acquire(directory)
                try:
                    shutil.rmtree(directory)
                finally:
                    lock.release()
