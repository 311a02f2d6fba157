"""A directory for what nobody needs when its process has ended, however that ends.

It lies among the temporary files. A process that is killed leaves its own, and the next one removes
it: whose lock nobody holds is abandoned.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Final
from uuid import uuid4

from statestores.errors import StateStoreError, StorageError
from statestores.files.directory_lock import LOCK_FILE, DirectoryLock
from statestores.files.failures import storage_error

_PREFIX: Final = "statestores-scratch-"
"""What names begin with that have a lock; nothing has such a name before it is locked."""

_FILES: Final = "files"
"""The directory beside the lock that is given. It goes first: what has no lock stays for good."""


@contextmanager
def scratch_directory(parent: str | PathLike[str] | None = None) -> Iterator[Path]:
    """Give an empty directory of this process, which goes with the block; first, remove others'.

    It is made in *parent*, by default the system's directory for temporary files. A forked child
    that leaves the block removes nothing.

    Raises:
        StorageError: It cannot be made.
    """
    try:
        place = Path(tempfile.gettempdir() if parent is None else parent)
    except OSError as error:  # nowhere can a file be written
        raise StorageError(
            f"no directory takes temporary files: {error.strerror or error}; make room, or name a "
            "directory that does by the environment's TMPDIR"
        ) from error
    _remove_abandoned(place)
    try:
        made = Path(tempfile.mkdtemp(prefix="statestores-", dir=place))
    except OSError as error:
        raise storage_error("make a directory in", place, error) from error
    named = place / f"{_PREFIX}{uuid4().hex}"
    owner = os.getpid()
    try:
        lock = DirectoryLock.acquire(made)
        try:
            directory = named / _FILES
            try:
                made.rename(named)
                directory.mkdir()
            except OSError as error:
                raise storage_error("make", directory, error) from error
            yield directory
        finally:
            if os.getpid() == owner:
                _remove(named)
            lock.release()
    finally:
        if os.getpid() == owner:
            _remove(made)


def _remove(directory: Path) -> None:
    """Remove *directory*, if there is one, with its lock at the end."""
    shutil.rmtree(directory / _FILES, ignore_errors=True)
    shutil.rmtree(directory, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    """Remove the directories in *parent* that processes of this user have left, which are gone."""
    for directory in parent.glob(f"{_PREFIX}*"):
        # What cannot be locked is in use, and what cannot be removed is in nobody's way.
        with suppress(OSError, StateStoreError):
            if directory.lstat().st_uid == os.getuid() and (directory / LOCK_FILE).is_file():
                lock = DirectoryLock.acquire(directory)
                try:
                    _remove(directory)
                finally:
                    lock.release()
