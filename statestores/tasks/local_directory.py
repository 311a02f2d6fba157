"""The local engines of an application's tasks: where they lie, and which are no longer needed.

A state root holds what must not be lost: changelogs and snapshots. A *local directory* holds
engines, which can be restored from them::

    LOCAL/<store>/<partition>/engine.json, engine/

It may be the state root itself, whose layout is the same, or a directory on a local disk.
"""

import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

from statestores.arrow.file_access import reporting
from statestores.engine_creation import (
    ENGINE_DIRECTORY,
    creating,
    forget_creation,
    note_creation,
)
from statestores.errors import (
    InvalidArgumentError,
    StorageError,
    StoreCorruptedError,
    StoreLockedError,
    StoreMismatchError,
    UnsupportedFormatError,
)
from statestores.files.directory_lock import DirectoryLock
from statestores.files.durable_json import ENGINE_FILE
from statestores.files.local_path import local_path
from statestores.files.log_origin import LogOrigin, read_origin
from statestores.generations import current_home, generation_from_name
from statestores.opening import backend_of
from statestores.root_document import IMPORT_DIRECTORY, StoreEntry
from statestores.semantics.every_kind.arguments import check_time
from statestores.spi.offsets import checked_partition
from statestores.spi.specification import KeyValue
from statestores.state_root import StateRoot
from statestores.tasks.rebuilding import DAMAGED_PREFIX, missing_for_restore

CLEANUP_DELAY_MS = 10 * 60 * 1000
"""How long an engine must have been left alone before it is removed, by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """Something in a local directory that belongs to nothing that is known."""

    path: Path
    """Where it is."""

    reason: Literal["unknown store", "unknown partition", "damaged engine", "unexpected file"]
    """Why nobody claims it."""

    bytes: int
    """How much room it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedEngine:
    """An engine, or a damaged one that was kept, which a clean-up has removed."""

    store: str
    """The store's name."""

    partition: int
    """The partition."""

    path: Path
    """Where it was."""

    bytes: int
    """How much room it took."""


class LocalDirectory:
    """The directory in which the engines of tasks and standbys lie."""

    def __init__(self, path: str | PathLike[str]) -> None:
        """Use *path*, which need not exist yet."""
        self._path = local_path(path)

    @property
    def path(self) -> Path:
        """The directory."""
        return self._path

    def partition(self, store: str, partition: int) -> Path:
        """Return where the engine of *partition* of *store* lies, there or not.

        Raises:
            InvalidTypeError, InvalidArgumentError: It is no name of a store, or no number from 0.
        """
        KeyValue(store)  # a name that leaves the directory is no store's
        checked_partition(store, partition)
        return current_home(self._path, store) / str(partition)

    def engines(self) -> dict[tuple[str, int], Path]:
        """Return the engines that are there, by store and partition.

        Raises:
            StorageError: The directory cannot be read.
        """
        with reporting("look into", self._path):
            return {
                (store.name, int(partition.name)): partition
                for store in _directories(self._path)
                for partition in _directories(current_home(self._path, store.name))
                if partition.name.isdecimal() and (partition / ENGINE_DIRECTORY).is_dir()
            }

    def orphans(self, root: StateRoot) -> list[Orphan]:
        """Return what no store of *root* claims. Nothing is removed.

        Raises:
            StorageError: The directory cannot be read.
        """
        with reporting("look into", self._path):
            return sorted(self._orphans(root), key=lambda orphan: orphan.path)

    def _orphans(self, root: StateRoot) -> Iterator[Orphan]:
        known = root.stores
        for store in _directories(self._path):
            if store.name.startswith("@"):
                continue  # the tasks' own
            if store.name not in known:
                yield from _unknown(store)
                continue
            home = current_home(self._path, store.name)
            for partition in _directories(home):
                if partition.name.startswith(".") or generation_from_name(partition.name):
                    continue  # staged writes, and what reshards have left
                if not partition.name.isdecimal():
                    yield Orphan(path=partition, reason="unexpected file", bytes=_size(partition))
                elif int(partition.name) >= known[store.name].partitions:
                    yield Orphan(path=partition, reason="unknown partition", bytes=_size(partition))
                else:
                    for kept in _damaged(partition):
                        yield Orphan(path=kept, reason="damaged engine", bytes=_size(kept))

    def clean_up(
        self,
        assigned: Collection[tuple[str, int]],
        root: StateRoot,
        *,
        older_than_ms: int = CLEANUP_DELAY_MS,
    ) -> list[RemovedEngine]:
        """Remove the engines of *root*'s stores that nobody is assigned, and damaged ones.

        Only engines: changelogs and snapshots are never touched, nor is anything whose store
        `orphans` does not know. What could not be restored from *root* stays: it may be the
        only copy. So does what is open, or was written to within *older_than_ms*.

        Raises:
            InvalidTypeError: *older_than_ms* is no ``int``.
            InvalidArgumentError: It is negative.
            ChangelogCorruptedError: Nobody can tell whether an engine could be restored.
            StorageError: The directory cannot be read, or a file cannot be removed.
        """
        check_time("older_than_ms", older_than_ms)
        newest_ns = time.time_ns() - older_than_ms * 1_000_000
        known = root.stores
        removed: list[RemovedEngine] = []
        for store in _directories(self._path):
            entry = known.get(store.name)
            if entry is None:
                continue
            for partition in _directories(current_home(self._path, store.name)):
                if not partition.name.isdecimal() or int(partition.name) >= entry.partitions:
                    continue
                number = int(partition.name)
                unused = list(_damaged(partition))
                if (store.name, number) not in assigned:
                    unused.append(partition / ENGINE_DIRECTORY)
                if not unused or _missing(root, entry, number, partition) is not None:
                    continue
                removed += [
                    RemovedEngine(store=store.name, partition=number, path=path, bytes=size)
                    for path in unused
                    if (size := _remove_unused(path, newest_ns)) is not None
                ]
        return removed


def local_engines(root: StateRoot, directory: str | PathLike[str] | None) -> LocalDirectory:
    """Return the local directory *directory* of tasks of *root*; by default *root* itself.

    Raises:
        InvalidArgumentError: It is not given, and *root* is in an object store.
    """
    if directory is None and root.storage is not None:
        raise InvalidArgumentError(
            f"engines of tasks lie on a local disk, and {root.storage.url!r} is in an object "
            "store; give a local_directory of this machine"
        )
    return LocalDirectory(root.path if directory is None else directory)


def _missing(root: StateRoot, entry: StoreEntry, number: int, directory: Path) -> str | None:
    """Return what keeps the engine in *directory* from being restored; ``None`` if nothing."""
    specification = entry.specification
    if root.storage is None:
        return missing_for_restore(root.partition(specification.name, number), specification)
    origin = LogOrigin(log=root.object_log(specification.name).log_id(), partition=number)
    try:
        return None if read_origin(directory, origin) else "nobody knows of which log it is"
    except StoreMismatchError as error:
        return str(error)


def _remove_unused(engine: Path, newest_ns: int) -> int | None:
    """Remove an engine's directory; return the bytes, or ``None`` when it stays."""
    try:
        if not engine.is_dir() or _last_written_ns(engine) > newest_ns:
            return None
        size = _size(engine)
        try:
            with ExitStack() as held:
                held.enter_context(creating(engine.parent))
                held.callback(DirectoryLock.acquire(engine).release)
                going = _out_of_the_way(engine)
        except StoreLockedError:
            return None
        shutil.rmtree(going)
    except OSError as error:
        raise StorageError(f"cannot remove {str(engine)!r}: {error.strerror or error}") from error
    return size


def _out_of_the_way(engine: Path) -> Path:
    """Give *engine* a name that is none: half removed, it must not look like a whole one.

    The note of its backend goes first: once the place is free, it could be of another engine.

    Requires: nobody has it open, and nobody begins one there.
    """
    home = engine.parent
    going = engine.with_name(f"{DAMAGED_PREFIX}removed-{time.time_ns()}")
    is_damaged = engine.name != ENGINE_DIRECTORY
    if not is_damaged:
        with suppress(StoreCorruptedError, UnsupportedFormatError):  # which goes all the same
            backend = backend_of(home)
            if backend is not None:  # else a crash would leave files of which nobody knows whose
                note_creation(home, backend)
        (home / ENGINE_FILE).unlink(missing_ok=True)
    engine.rename(going)
    if not is_damaged:
        forget_creation(home)
    return going


def _damaged(partition: Path) -> Iterator[Path]:
    """Yield the damaged engines that were set aside in *partition*."""
    return (path for path in _directories(partition) if path.name.startswith(DAMAGED_PREFIX))


def _unknown(directory: Path) -> Iterator[Orphan]:
    """Yield what is in the place of a store that the root does not know.

    Of the directory of imports, whose note later imports go by, what one that has died has left, or
    one at work needs.
    """
    if directory.name != IMPORT_DIRECTORY:
        yield Orphan(path=directory, reason="unknown store", bytes=_size(directory))
        return
    for left in _directories(directory):
        yield Orphan(path=left, reason="unexpected file", bytes=_size(left))


def _directories(path: Path) -> list[Path]:
    """Return the directories in *path*, in order; none when it is not there."""
    try:
        return sorted(entry for entry in path.iterdir() if entry.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"cannot list {str(path)!r}: {error.strerror or error}") from error


def _files(path: Path) -> Iterator[Path]:
    return (file for file in path.rglob("*") if file.is_file())


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in _files(path))


def _last_written_ns(path: Path) -> int:
    return max((file.stat().st_mtime_ns for file in _files(path)), default=0)
