"""Which files this process has open, for the tests that ask whether one was left open."""

import os
import re
from pathlib import Path

DESCRIPTORS = Path("/proc/self/fd")
"""Where the system lists them, if it does."""

_NO_FILE = re.compile(r"(?!/)|/proc/|/dev/(?!shm/)")
"""Sockets, pipes and devices; but the directories of tests may be in `/dev/shm`."""


def open_files() -> set[tuple[str, str]]:
    """Return descriptor and path of each file that this process has open."""
    files = set()
    for descriptor in os.listdir(DESCRIPTORS):  # noqa: PTH208  # a thousand tests ask
        try:
            target = os.readlink(f"{DESCRIPTORS}/{descriptor}")  # noqa: PTH115  # paths take six times as long
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
        if not _NO_FILE.match(target):
            files.add((descriptor, target))
    return files
