"""Which files have pages that are not on disk yet, according to the kernel.

A killed process leaves the page cache intact, so no kill shows whether a commit waited for the
disk. Linux has told since 6.5: ``cachestat`` counts the pages of a file that are dirty, or on their
way.
"""

import ctypes
import os
import secrets
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

_CACHESTAT = 451
"""The number of the system call, which is the same on every architecture."""

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
"""What one page of a file holds."""


class _Range(ctypes.Structure):
    """A range of a file; a length of 0 means to its end."""

    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Counts(ctypes.Structure):
    """Numbers of pages."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")
    )


def can_be_observed(directory: Path) -> bool:
    """Return whether the kernel and the file system of *directory* tell what is on the disk.

    A file is written there, looked at, made durable, and looked at again.
    """
    if not sys.platform.startswith("linux"):
        return False
    probe = directory / "page-cache-probe"
    with probe.open("wb", buffering=0) as file:
        file.write(secrets.token_bytes(10_000))
        before = _pages_not_on_disk(file.fileno())
        os.fsync(file.fileno())
        after = _pages_not_on_disk(file.fileno())
    probe.unlink()
    return bool(before) and after == 0


class PageCache:
    """Which parts of the files below a directory are not on disk.

    It keeps the files open until its block ends: closing a file can make ext4 write it out.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptors: dict[Path, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)

    def pages_not_on_disk(self) -> dict[Path, int]:
        """Return for each file how many of its pages a power failure would lose."""
        for path in self._directory.rglob("*"):
            if path not in self._descriptors and path.is_file():
                self._descriptors[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return {path: _pages_not_on_disk(file) for path, file in self._descriptors.items()}


def _pages_not_on_disk(descriptor: int) -> int:
    """Return the number of pages of a file that are not on the disk; 0 when nobody knows."""
    system = ctypes.CDLL(None)
    whole, counts = _Range(0, 0), _Counts()
    if system.syscall(_CACHESTAT, descriptor, ctypes.byref(whole), ctypes.byref(counts), 0):
        return 0
    return int(counts.dirty) + int(counts.writeback)
