"""The directory of a partition's snapshots: their names, and how one appears whole or not at all.

A snapshot is written under a temporary name, whose directory its writer keeps locked, and renamed
when everything is on disk (SNP-2). The kernel releases the lock of a dead writer, so what it left
behind can be told from what another one is writing right now, whatever its process id says.
"""

import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from statestores.arrow.file_access import reporting
from statestores.failpoints import reach
from statestores.files.durable_directory import make_directory, make_durable
from statestores.files.local_path import local_path

_OFFSET_DIGITS = 20  # those of 2**64, so that names sort as numbers do
_SNAPSHOT_NAME = re.compile(rf"[0-9]{{{_OFFSET_DIGITS}}}")
_TEMPORARY_PREFIX = ".tmp-"
_NATIVE_SUFFIX = ".native"


def snapshot_name(offset: int) -> str:
    """Return the name of the directory of the snapshot at *offset*.

    >>> snapshot_name(41)
    '00000000000000000041'
    """
    return f"{offset:0{_OFFSET_DIGITS}d}"


def offset_from_name(name: str) -> int | None:
    """Return the offset that a snapshot's directory is named for; ``None`` for other names."""
    return int(name) if _SNAPSHOT_NAME.fullmatch(name) else None


def list_snapshots(directory: str | PathLike[str]) -> dict[int, Path]:
    """Return the snapshots in *directory* by offset, ascending, without looking into them.

    Temporary directories and whatever else lies there are no snapshots. A directory that does not
    exist has none.

    Raises:
        StorageError: The directory cannot be read.
    """
    path = local_path(directory, "directory")
    with reporting("list", path):
        try:
            names = sorted(entry.name for entry in path.iterdir())
        except FileNotFoundError:
            names = []
    offsets = {name: offset_from_name(name) for name in names}
    return {offset: path / name for name, offset in offsets.items() if offset is not None}


def native_path(snapshot: Path) -> Path:
    """Return where the native part of the snapshot in the directory *snapshot* lies, if anywhere.

    Its name is not a snapshot's, so that a release which knows no native parts passes it over.
    """
    return snapshot.with_name(snapshot.name + _NATIVE_SUFFIX)


def remove_native_leftovers(directory: Path) -> None:
    """Remove the native parts in *directory* whose snapshots are gone (SNP-30).

    A release that knows none has removed the snapshot alone. No writer is at work on one: it
    appears after its snapshot, and goes before it.

    Raises:
        StorageError: One cannot be removed.
    """
    with reporting("clean up", directory):
        for path in sorted(directory.glob(f"*{_NATIVE_SUFFIX}")):
            snapshot = path.with_name(path.name.removesuffix(_NATIVE_SUFFIX))
            if offset_from_name(snapshot.name) is not None and not snapshot.exists():
                _retire(path)


def remove_stale_temporaries(directory: str | PathLike[str]) -> list[Path]:
    """Remove what writers that died have left in *directory*, and return it.

    A snapshot that is being written, by this process or another, is not touched.

    Raises:
        StorageError: It cannot be removed.
    """
    path = local_path(directory, "directory")
    removed = []
    with reporting("clean up", path):
        candidates = sorted(path.glob(_TEMPORARY_PREFIX + "*")) if path.is_dir() else []
        for candidate in candidates:
            try:
                descriptor = _open_directory(candidate)
            except (FileNotFoundError, NotADirectoryError):
                continue  # another process was faster, or it is a file that is not ours
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # its writer lives
            else:
                if candidate.is_dir():  # nobody else has removed it before we had the lock
                    shutil.rmtree(candidate)
                    removed.append(candidate)
            finally:
                os.close(descriptor)
    return removed


@contextmanager
def temporary_directory(directory: Path) -> Iterator[Path]:
    """Give a new, locked directory inside *directory*; at the end it is gone unless renamed.

    Where it cannot be removed, its lock is released all the same, so that somebody else can.
    """
    path, descriptor = _create_locked(directory)
    try:
        try:
            yield path
        finally:
            if path.is_dir():  # not after `publish`
                shutil.rmtree(path)
    finally:
        os.close(descriptor)


def publish(temporary: Path, target: Path) -> bool:
    """Rename *temporary*, of which every file is on disk, to *target*; return whether it was free.

    The rename is atomic (ASM-6), and when this returns ``True`` the snapshot survives a power
    failure. A directory at *target* that is not empty stays as it is.
    """
    make_durable(temporary)
    reach("snapshot.rename.before")
    try:
        temporary.rename(target)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        return False
    reach("snapshot.rename.after")
    make_durable(target.parent)
    reach("snapshot.durable")
    return True


def retire(snapshot: Path) -> bool:
    """Remove *snapshot* so that nobody sees half of it: it becomes a leftover first.

    Its native part goes before it, so that none is ever there alone. Returns ``False`` where
    another process has removed it meanwhile.
    """
    retire_native(snapshot)
    return _retire(snapshot)


def retire_native(snapshot: Path) -> None:
    """Remove the native part of *snapshot* likewise, if it has one."""
    native = native_path(snapshot)
    if native.exists():
        _retire(native)
        reach("native.removed")


def _retire(path: Path) -> bool:
    try:
        path.rename(_temporary_path(path.parent))
    except FileNotFoundError:
        if path.exists():
            raise
        return False
    make_durable(path.parent)
    remove_stale_temporaries(path.parent)
    return True


def _temporary_path(directory: Path) -> Path:
    """Return a name that nobody has used. The process id in it is for people to read."""
    return directory / f"{_TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"


def _create_locked(directory: Path) -> tuple[Path, int]:
    """Return a new temporary directory and the descriptor that holds its lock."""
    make_directory(directory)
    while True:
        path = _temporary_path(directory)
        path.mkdir()
        try:
            descriptor = _open_directory(path)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if path.is_dir():
                return path, descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # someone cleaned up between the creation and the lock


def _open_directory(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
