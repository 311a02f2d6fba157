"""Making the engine of a new store: the name of its backend is on disk before any of its files is.

What is noted while an engine is made distinguishes a creation that a crash interrupted, which its
backend finishes, from an engine that lost ``engine.json`` (LAY-29).
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidOptionError,
    StorageError,
    StoreCorruptedError,
    StoreLockedError,
)
from statestores.files.directory_lock import LOCK_FILE, DirectoryLock, is_open_at
from statestores.files.durable_directory import make_directory
from statestores.files.durable_json import ENGINE_FILE, read_fields, write_json
from statestores.files.failures import storage_error
from statestores.spi.engine import Engine

ENGINE_DIRECTORY = "engine"

CREATING_FILE = "engine.creating.json"
"""Names the backend while a new engine is being made, and is there before any part of it."""

_LOCK_FILE = "engine.creating.lock"
"""Is locked while a new engine is being made, and goes then; one that is left is nobody's."""

_FORMAT = 1


def create_engine(
    engine_class: type[Engine],
    directory: Path,
    name: str,
    options: Mapping[str, object] | None,
) -> Engine:
    """Open the engine of a new store; its backend is noted before anything is made.

    Where an engine's files lie and nothing says whose they are, another backend would begin an
    empty store beside them (LAY-29).

    Raises:
        StoreCorruptedError: There are such files.
        StoreLockedError: Another creation is under way, or has just made one of another backend.
    """
    path, note = directory / ENGINE_DIRECTORY, directory / CREATING_FILE
    _check_named(directory, name)
    try:
        make_directory(directory)
    except OSError as error:
        raise StorageError(
            f"cannot create {str(path)!r}: {error.strerror or error}; check the path and the rights"
        ) from error
    with creating(directory):
        _check_named(directory, name)  # once more: nobody else begins one from here on
        is_noted = _is_noted(directory, name)
        note_creation(directory, name)
        try:
            return engine_class.open(os.fspath(path), options)
        except (InvalidOptionError, StoreLockedError, CapabilityNotSupportedError):
            # Nothing was begun, or somebody else has: or else the note stays, as after a crash.
            if not is_noted and (not has_files(path) or (directory / ENGINE_FILE).exists()):
                _remove_file(note)
            raise


@contextmanager
def creating(directory: Path) -> Iterator[None]:
    """Keep every other creation of an engine out of *directory*, also that of another backend.

    Its own lock does so only for the engines that have one in the same place, and comes too late:
    the one who came second had noted itself by then. The file goes in the end.

    Raises:
        StoreLockedError: Another creation is under way.
        StorageError: The file of the lock cannot be made.
    """
    path = directory / _LOCK_FILE
    descriptor = _locked(path)
    try:
        yield
    finally:
        with suppress(OSError):  # one that stays is nobody's
            path.unlink()
        os.close(descriptor)


def _locked(path: Path) -> int:
    """Return a descriptor of the file *path*, made if need be, that holds its lock.

    Raises:
        StoreLockedError: Another one holds it.
        StorageError: The file cannot be made or locked.
    """
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise storage_error("create", path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_open_at(path, descriptor):
                return descriptor
        except BlockingIOError as error:
            os.close(descriptor)
            raise StoreLockedError(
                f"another store is just being created in {str(path.parent)!r}; open it when that "
                "has ended, or choose another directory"
            ) from error
        except OSError as error:
            os.close(descriptor)
            raise storage_error("lock", path, error) from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # whoever had it has just removed it


def _check_named(directory: Path, name: str) -> None:
    """Accept a *directory* in which a new engine of the backend *name* can be made.

    Raises:
        StoreLockedError: There is one of another backend by now, or it is being made.
        StoreCorruptedError: There are files of an engine that nothing names.
    """
    fields = read_fields(directory / ENGINE_FILE)
    if fields is not None and (other := fields.text("backend")) != name:
        raise StoreLockedError(
            f"another process has just made a store of the backend {other!r} in "
            f"{str(directory)!r}; open that one, or choose another directory"
        )
    path = directory / ENGINE_DIRECTORY
    if fields is None and not _is_noted(directory, name) and has_files(path):
        if (path / LOCK_FILE).exists():  # who has it open has not named it yet
            DirectoryLock.acquire(path).release()
        raise _unnamed(directory)


def refuse_unnamed(directory: Path) -> None:
    """Accept a *directory* in which no engine's files lie of which nothing says whose they are.

    Raises:
        StoreCorruptedError: There are such files, and no creation of an engine has been noted.
        StorageError: It cannot be looked into.
    """
    if (
        not (directory / CREATING_FILE).exists()
        and has_files(directory / ENGINE_DIRECTORY)
        and not (directory / ENGINE_FILE).exists()  # last: whoever makes one names it at the end
    ):
        raise _unnamed(directory)


def note_creation(directory: Path, name: str) -> None:
    """Note that the backend *name* makes the engine of a new store in *directory*.

    Raises:
        StorageError: It cannot be noted.
    """
    if not _is_noted(directory, name):
        write_json(directory / CREATING_FILE, {"format": _FORMAT, "backend": name})


def _is_noted(directory: Path, name: str) -> bool:
    noted = read_fields(directory / CREATING_FILE)
    return noted is not None and noted.text("backend") == name


def has_files(path: Path) -> bool:
    """Whether the engine's directory *path* has anything but the file of its lock."""
    try:
        return any(each.name != LOCK_FILE for each in path.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StorageError(
            f"cannot look into {str(path)!r}: {error.strerror or error}; check path and rights"
        ) from error


def _remove_file(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot remove {str(path)!r}: {error.strerror or error}; check the rights"
        ) from error


def _unnamed(directory: Path) -> StoreCorruptedError:
    """Return the error for an engine whose backend is not noted anywhere."""
    return StoreCorruptedError(
        f"{str(directory / ENGINE_DIRECTORY)!r} has the files of an engine, and "
        f"{str(directory / ENGINE_FILE)!r}, which says of which backend, is gone; put it back (it "
        'is {"backend": "...", "format": 1}), or remove the files and restore the store from its '
        "changelog or a snapshot"
    )


def forget_creation(directory: Path) -> None:
    """Remove the note of a creation: ``engine.json`` says the same by now.

    Raises:
        StorageError: It cannot be removed.
    """
    _remove_file(directory / CREATING_FILE)
