"""What this process may still take from the system: files to open, and how long they may become.

The limits are those of the process (`setrlimit`), so that nothing is mocked: the system itself
refuses.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_DESCRIPTORS = Path("/proc/self/fd")


@contextmanager
def files_left(number: int) -> Iterator[None]:
    """Let this process open *number* files more and no others."""
    if not _DESCRIPTORS.is_dir():
        pytest.skip(f"the process cannot see its own descriptors here: there is no {_DESCRIPTORS}")
    listed = list(_DESCRIPTORS.iterdir())
    used = {int(path.name) for path in listed if path.exists()}  # that of the listing is closed
    limit, free = 0, 0
    while free < number or limit in used:
        free += limit not in used
        limit += 1
    with _limit("RLIMIT_NOFILE", limit):
        yield


@contextmanager
def file_size(number: int) -> Iterator[None]:
    """Let no file of this process grow beyond *number* bytes."""
    with _limit("RLIMIT_FSIZE", number):
        yield


@contextmanager
def _limit(name: str, amount: int) -> Iterator[None]:
    resource = pytest.importorskip("resource", reason="the system has no limits for a process")
    which = getattr(resource, name)
    before = resource.getrlimit(which)
    resource.setrlimit(which, (amount, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(which, before)
