"""Making the engine of a new store: the name of its backend is on disk before any of its files is.

What is noted while an engine is made distinguishes a creation that a crash interrupted, which its
backend finishes, from an engine that lost ``engine.json`` (LAY-29).
"""

import os
from collections.abc import Mapping
from pathlib import Path

from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidOptionError,
    StorageError,
    StoreCorruptedError,
    StoreLockedError,
)
from statestores.files.directory_lock import LOCK_FILE
from statestores.files.durable_directory import make_directory
from statestores.files.durable_json import ENGINE_FILE, read_fields, write_json
from statestores.spi.engine import Engine

ENGINE_DIRECTORY = "engine"

CREATING_FILE = "engine.creating.json"
"""Names the backend while a new engine is being made, and is there before any part of it."""

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
    """
    path, note = directory / ENGINE_DIRECTORY, directory / CREATING_FILE
    is_noted = _is_noted(directory, name)
    if not is_noted and has_files(path):
        raise _unnamed(directory)
    try:
        make_directory(directory)
    except OSError as error:
        raise StorageError(
            f"cannot create {str(path)!r}: {error.strerror or error}; check the path and the rights"
        ) from error
    note_creation(directory, name)
    try:
        return engine_class.open(os.fspath(path), options)
    except (InvalidOptionError, StoreLockedError, CapabilityNotSupportedError):
        # Nothing was begun, or somebody else has done it: or else the note stays, as after a crash.
        if not is_noted and (not has_files(path) or (directory / ENGINE_FILE).exists()):
            _remove_file(note)
        raise


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
