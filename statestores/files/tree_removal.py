"""Removing a directory into which somebody may still be writing."""

import shutil
from pathlib import Path
from typing import Final
from uuid import uuid4

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
