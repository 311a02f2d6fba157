"""Removing a directory into which somebody may still be writing."""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from statestores.files.directory_lock import LOCK_FILE

GONE_PREFIX: Final = ".gone-"
"""What the name of a directory begins with that is being removed."""


def remove_tree(directory: Path) -> None:
    """Remove *directory* with what is in it, if it is there, also while files are put into it.

    It loses its name first: one that gets another file while it is emptied cannot be removed. Who
    is late makes a new one. Where the operating system refuses the rest, that has a name beside
    *directory* that begins with `GONE_PREFIX`.

    Raises:
        OSError: It cannot be removed.
    """
    gone = directory.with_name(f"{GONE_PREFIX}{uuid4().hex}")
    try:
        directory.rename(gone)
    except FileNotFoundError:
        return
    shutil.rmtree(gone)


def empty_locked(directory: Path) -> None:
    """Remove what is in *directory* besides the file of its lock, which the caller holds.

    Raises:
        OSError: Something cannot be removed.
    """
    for path in directory.iterdir():
        if path.name == LOCK_FILE:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def remove_locked(directory: Path) -> None:
    """Remove *directory*, in which there is nothing but the lock that the caller holds.

    Where somebody has put something since, it stays with that: whoever takes the lock next.

    Raises:
        OSError: It cannot be removed; or something is in it.
    """
    with suppress(FileNotFoundError):
        (directory / LOCK_FILE).unlink()
        directory.rmdir()
