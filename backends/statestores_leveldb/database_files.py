"""Checks of a LevelDB database's files where LevelDB itself is too trusting."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from statestores.errors import StorageError, StoreCorruptedError
from statestores.files.durable_directory import make_durable
from statestores_leveldb.log_records import (
    last_changes,
    packed_changes,
    read_batches,
    read_manifest,
    zeros_before_more,
)

_LOG = re.compile(r"(\d+)\.log")
_MANIFEST = re.compile(rb"(MANIFEST-\d{1,20})\n")
_DATA = re.compile(r"\d+\.(log|ldb|sst)")
_KEPT_INFO_LOG = "LOG.kept"


def check_completeness(directory: Path) -> None:
    """Raise when files are missing whose absence LevelDB would not notice.

    Measured with LevelDB 1.22, also with paranoid checks: without ``CURRENT`` it starts an empty
    database and removes the old files. Without a log that the manifest needs, with zeros in the
    place of records, or with changes missing between two logs, it opens with a hole in the data.
    The last happens through nobody's fault: if the power fails while a full log is being turned
    into a sorted file, and nothing had waited for the disk, the old log may be lost while the new
    one is there (ENG-27).

    Raises:
        StoreCorruptedError: Something is missing. Nothing has been changed.
        StorageError: The files cannot be read.
    """
    try:
        missing = _missing(directory)
    except OSError as error:
        raise StorageError(
            f"cannot read the files in {str(directory)!r}: {error}; check the rights"
        ) from error
    if missing:
        raise StoreCorruptedError(
            f"the database in {str(directory)!r} is incomplete: {missing}; restore the store from "
            "a snapshot or its changelog"
        )


def _missing(directory: Path) -> str | None:
    """Return in words what is missing, or ``None``."""
    current = directory / "CURRENT"
    if not current.exists():
        # A crash while the database was being created leaves a manifest, but never data.
        left = sorted(path.name for path in directory.iterdir() if _DATA.fullmatch(path.name))
        return f"there are data files ({left[0]!r}...) and no 'CURRENT'" if left else None
    named = _MANIFEST.fullmatch(current.read_bytes())
    if named is None:
        return "'CURRENT' names no manifest"
    manifest = directory / os.fsdecode(named[1])
    if not manifest.is_file():
        return None  # LevelDB itself refuses that
    content = manifest.read_bytes()
    state = read_manifest(content)
    logs = [number for number in log_numbers(directory) if number >= state.log_number]
    if state.log_number and state.log_number not in logs:
        return f"the log {state.log_number:06d}.log is gone"
    skipped = _skipped(manifest.name, content)
    return skipped or _missing_in_logs(directory, logs, state.last_sequence + 1)


def _skipped(name: str, content: bytes) -> str | None:
    """Return in words what LevelDB would leave out of the file *name*, or ``None``."""
    zeros = zeros_before_more(content)
    return None if zeros is None else f"{name} has zeros at byte {zeros}, and more after them"


def _missing_in_logs(directory: Path, logs: list[int], expected: int) -> str | None:
    """Return in words what is missing before, within or between *logs*, or ``None``.

    They should begin with change *expected*.
    """
    for number in logs:
        path = _log_path(directory, number)
        content = path.read_bytes()
        skipped = _skipped(path.name, content)
        if skipped:
            return skipped
        batches = read_batches(content)
        first, following = next(batches, (expected, expected))
        if first > expected:
            return f"the log {number:06d}.log begins at change {first}, not at {expected}"
        if number != logs[-1]:  # what the newest log ends with does not matter
            for _, following in batches:  # noqa: B007  # the last one is what counts
                pass
        expected = max(expected, following)
    return None


def log_numbers(directory: Path) -> list[int]:
    """Return the numbers of the write-ahead logs in *directory*, in order.

    Raises:
        StorageError: The directory cannot be read.
    """
    try:
        found = [_LOG.fullmatch(path.name) for path in directory.iterdir()]
    except OSError as error:
        raise StorageError(
            f"cannot list the logs in {str(directory)!r}: {error}; check the rights and the disk"
        ) from error
    return sorted(int(match[1]) for match in found if match)


def _log_path(directory: Path, number: int) -> Path:
    """Return the path of the write-ahead log *number*."""
    return directory / f"{number:06d}.log"


def is_last_batch(changes: Iterable[tuple[bytes, bytes | None]], directory: Path) -> bool:
    """Return whether the newest log in *directory* ends with a batch of *changes*, whole.

    They come in the order in which they were given to LevelDB.

    Raises:
        StorageError: The log cannot be read.
    """
    try:
        newest = max(log_numbers(directory), default=0)  # no log has the number 0
        return last_changes(_log_path(directory, newest).read_bytes()) == packed_changes(changes)
    except OSError as error:
        raise StorageError(
            f"cannot read the log in {str(directory)!r} after a batch has failed: {error}; close "
            "the store and open it again"
        ) from error


def commit_logs(directory: Path) -> None:
    """Wait until everything that was written to the write-ahead logs is on disk.

    A log that disappears meanwhile is not an error: its changes are in a sorted file, on disk.

    Raises:
        StorageError: The operating system could not write.
    """
    for number in log_numbers(directory):
        try:
            make_durable(_log_path(directory, number))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StorageError(
                f"the log {number:06d}.log in {str(directory)!r} cannot be committed: {error}"
            ) from error


@contextmanager
def kept_info_log(directory: Path) -> Iterator[None]:
    """Keep LevelDB's text log ``LOG`` when opening fails inside the block (ENG-31).

    LevelDB keeps one older ``LOG``. A supervisor that keeps trying to open the database would put
    the text of its attempts in place of the text that tells how the trouble began.
    """
    log, kept = directory / "LOG", directory / _KEPT_INFO_LOG
    _rename(log, kept)
    try:
        yield
    except BaseException:
        _rename(kept, log)
        raise
    _rename(kept, directory / "LOG.old")


def _rename(old: Path, new: Path) -> None:
    """Rename *old*, if it is there, to *new*."""
    try:
        old.replace(new)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"cannot rename {str(old)!r}: {error}; check the rights") from error
