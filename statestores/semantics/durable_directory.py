"""Directories whose names are on disk before anything in them counts (ASM-2)."""

import os
from pathlib import Path


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
    descriptor = os.open(directory.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
