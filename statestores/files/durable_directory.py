"""Files and directories that are on disk before anything that rests on them counts (ASM-2)."""

import os
from pathlib import Path


def make_durable(path: Path) -> None:
    """Wait until the file *path* is on disk; of a directory, until the names in it are (ASM-1).

    Raises:
        OSError: It is not there, or cannot be brought there.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(directory: Path) -> None:
    """Make *directory* and those above it, each durably: a power failure takes none of them.

    Raises:
        OSError: One cannot be made.
    """
    if directory.is_dir():
        return
    if directory.parent != directory:
        make_directory(directory.parent)
    directory.mkdir(exist_ok=True)
    make_durable(directory.parent)
