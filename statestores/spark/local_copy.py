"""A partition's content on the disk of the machine that computes: a copy, at one offset.

A copy holds nothing that the state root does not hold, so one that is damaged, ahead, or of a
state root that lay at the path before is thrown away and restored: from a snapshot and the
changelog after it. Its owner brings it up to an offset and never commits anything of its own::

    LOCAL/<state root>/<store>/<partition>/<slot>/engine.json, engine/, copy.json, sweep

The *slot* is 0, unless another attempt of the same task is at work on this machine: then it has one
of its own, which is removed afterwards. So no attempt waits for another one.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from statestores.arrow.file_access import reporting
from statestores.arrow.restoring.restore import restore
from statestores.arrow.snapshots.choice import SnapshotChoice, newest_valid_snapshot
from statestores.arrow.snapshots.directory import list_snapshots
from statestores.arrow.snapshots.reader import read_snapshot
from statestores.changelog import ChangelogReader, Frame, changelog_partition
from statestores.changelog.contract import NO_POSITION, ReadOnlyChangelog
from statestores.errors import (
    OffsetOutOfRangeError,
    SnapshotCorruptedError,
    StoreCorruptedError,
    StoreLockedError,
    StoreMismatchError,
    StoreNotFoundError,
    UnsupportedFormatError,
)
from statestores.files.directory_lock import LOCK_FILE, DirectoryLock
from statestores.generations import current_home
from statestores.opening import BytesStore, open_bytes_store
from statestores.reading.visible_changelog import VisibleChangelog
from statestores.semantics.timestamped.store import EngineTimestampedKeyValueStore
from statestores.spark.scratch import scratch_directory
from statestores.spi.durability import Durability
from statestores.spi.offsets import Position
from statestores.spi.specification import StoreSpecification
from statestores.state_root import PartitionDirectory

_SLOTS = 64
"""More attempts of one task than this are never at work on one machine."""

_COPY_FILE = "copy.json"
"""Which log the copy is of."""

_SWEEP_FILE = "sweep"
"""Where the deletion of expired rows has come to, of stores with a time to live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOptions:
    """Where copies lie, and in which engine."""

    directory: str | None = None
    """The directory for copies on each machine. By default one of Spark's own, which Spark removes
    at the end: the next application restores everything then."""

    backend: str | None = None
    """The backend; by default that of new stores."""

    options: Mapping[str, object] = field(default_factory=dict)
    """The backend's own options."""


class PinnedChangelog(ReadOnlyChangelog):
    """A changelog as it was when it ended at an offset; a committed staged write is part of it."""

    def __init__(
        self,
        directory: PartitionDirectory,
        specification: StoreSpecification[Any, Any],
        end_offset: int,
    ) -> None:
        """Read the changelog in *directory* up to *end_offset*, which it has reached."""
        self._log = VisibleChangelog(directory, specification)
        self._plain = _reader(directory.changelog, specification.kind)
        self._kind = specification.kind
        self._end_offset = end_offset

    @property
    def store_kind(self) -> str:
        """The kind of store."""
        return self._kind

    @property
    def is_open(self) -> bool:
        """Whether it can be read: always, since nothing is held open."""
        return True

    @property
    def first_offset(self) -> int:
        """The lowest offset that is still there."""
        return 0 if self._plain is None else self._plain.first_offset

    @property
    def end_offset(self) -> int:
        """The pinned end."""
        return self._end_offset

    @property
    def position(self) -> Position:
        """No position: frames bring their own."""
        return NO_POSITION

    def read(self, from_offset: int | None = None, to_offset: int | None = None) -> Iterator[Frame]:
        """Yield the frames from *from_offset* up to *to_offset*, or the pinned end."""
        start = self.first_offset if from_offset is None else from_offset
        stop = self._end_offset if to_offset is None else to_offset
        if self._plain is not None and stop <= self._plain.end_offset:
            return self._plain.read(start, stop)
        return self._log.frames(start, stop)

    def check_compaction(self, start: int) -> None:
        """Accept that the changes from *start* on were read, up to the pinned end.

        Raises:
            OffsetOutOfRangeError: A compaction dropped some for the sake of later ones.
        """
        self._log.check_compaction(start, self._end_offset)

    def close(self) -> None:
        """Do nothing: nothing is held open."""


@contextmanager
def local_copy(
    root: Path,
    specification: StoreSpecification[Any, Any],
    partition: int,
    end_offset: int,
    copies: CopyOptions,
) -> Iterator[BytesStore]:
    """Give the store of *partition* with everything before *end_offset*, and nothing after it.

    What is pending at the end is forgotten.

    Raises:
        OffsetOutOfRangeError, StoreMismatchError: Changelog and snapshots no longer give the
            content at that offset, or do not give it yet.
        ChangelogCorruptedError, SnapshotCorruptedError, StorageError: One cannot be read.
        UnknownBackendError, MissingDriverError, InvalidOptionError: The backend cannot be used.
    """
    source = PartitionDirectory(current_home(root, specification.name) / str(partition))
    name = sha256(os.fsencode(root)).hexdigest()[:16]
    slots = _local_directory(copies) / name / specification.name / str(partition)
    lock, slot = _free_slot(slots)
    try:
        store = _opened(slot, source, specification, partition, end_offset, copies)
        try:
            _bring_up(store, slot, source, partition, end_offset)
            cursor = slot / _SWEEP_FILE
            if isinstance(store, EngineTimestampedKeyValueStore) and cursor.is_file():
                store.sweep_from(cursor.read_bytes())
            yield store
            if isinstance(store, EngineTimestampedKeyValueStore) and store.is_open:
                cursor.write_bytes(store.sweep_cursor)
        finally:
            store.close()
    finally:
        if slot.name != "0":
            shutil.rmtree(slot, ignore_errors=True)
        lock.release()


def _local_directory(copies: CopyOptions) -> Path:
    """Return where the copies of this machine lie."""
    if copies.directory is not None:
        return Path(copies.directory)
    return Path(scratch_directory()) / f"statestores-{os.getuid()}"


def _free_slot(slots: Path) -> tuple[DirectoryLock, Path]:
    """Lock the first slot that nobody uses.

    Raises:
        StoreLockedError: All of them are in use.
    """
    for number in range(_SLOTS):
        slot = slots / str(number)
        try:
            return DirectoryLock.acquire(slot), slot
        except StoreLockedError:
            continue
    raise StoreLockedError(
        f"all {_SLOTS} slots of {str(slots)!r} are in use by other processes; is the directory "
        "shared by several machines? give each its own local_directory"
    )


def _opened(
    slot: Path,
    source: PartitionDirectory,
    specification: StoreSpecification[Any, Any],
    partition: int,
    end_offset: int,
    copies: CopyOptions,
) -> BytesStore:
    """Open the copy in *slot*, or an empty one in place of one that is of no use."""

    def open_copy() -> BytesStore:
        return open_bytes_store(
            slot,
            specification,
            backend=copies.backend,
            options=copies.options,
            durability=Durability.PROCESS_CRASH,
        )

    try:
        store = open_copy()
    except (StoreCorruptedError, StoreMismatchError, UnsupportedFormatError):
        _throw_away(slot)
        return open_copy()
    committed = store.committed_offset(changelog_partition(specification.name, partition))
    if committed is None or (
        committed < end_offset
        and _noted(slot) == (committed, _written_at_ms(source, specification, committed))
    ):
        return store
    store.close()
    _throw_away(slot)
    return open_copy()


def _bring_up(
    store: BytesStore, slot: Path, source: PartitionDirectory, partition: int, end_offset: int
) -> None:
    """Replay what *store* lacks up to *end_offset*, after a snapshot where that is needed."""
    specification = store.specification
    logged = changelog_partition(specification.name, partition)
    committed = store.committed_offset(logged)
    if end_offset == 0 or committed == end_offset - 1:
        return
    log = PinnedChangelog(source, specification, end_offset)
    choice = SnapshotChoice(None, {})
    if committed is None or log.first_offset > committed + 1:
        choice = newest_valid_snapshot(source.snapshots, to_offset=end_offset - 1)
    (slot / _COPY_FILE).unlink(missing_ok=True)
    loaded = committed if choice.snapshot is None else choice.snapshot.offset
    with choice.explaining():
        restore(store, snapshot=choice.snapshot, changelog=log, partition=logged)
    log.check_compaction(0 if loaded is None else loaded + 1)
    reached = store.committed_offset(logged)
    if reached != end_offset - 1:
        raise OffsetOutOfRangeError(
            f"partition {partition} of {specification.name!r} cannot be restored to the offset "
            f"{end_offset - 1}: its commits end at {reached}"
        )
    written_at_ms = _written_at_ms(source, specification, reached)
    if store.persistent and written_at_ms is not None:
        _note(slot, reached, written_at_ms)


def _written_at_ms(
    source: PartitionDirectory, specification: StoreSpecification[Any, Any], offset: int
) -> int | None:
    """Return when the change with *offset* was appended; without it, when its snapshot was written.

    It differs between two logs at one path, one after the other. ``None`` if nothing is left
    that would tell.
    """
    log = _reader(source.changelog, specification.kind)
    if log is not None and log.first_offset <= offset < log.end_offset:
        try:
            return next(iter(log.read(offset, offset + 1))).appended_at_ms
        except OffsetOutOfRangeError:
            return None  # compacted at this moment
    snapshot = list_snapshots(source.snapshots).get(offset)
    if snapshot is None:
        return None
    try:
        return read_snapshot(snapshot).manifest.created_at_ms
    except (SnapshotCorruptedError, UnsupportedFormatError, StoreNotFoundError):
        return None


def _note(slot: Path, offset: int, written_at_ms: int) -> None:
    """Note of which log the copy is; it need not survive a power failure."""
    path = slot / _COPY_FILE
    temporary = path.with_suffix(".tmp")
    with reporting("write", path):
        temporary.write_text(json.dumps({"offset": offset, "written_at_ms": written_at_ms}))
        temporary.replace(path)


def _noted(slot: Path) -> tuple[int, int] | None:
    """Return what `_note` has noted; ``None`` if it is not there, or not whole."""
    try:
        content = json.loads((slot / _COPY_FILE).read_text())
        return content["offset"], content["written_at_ms"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _throw_away(slot: Path) -> None:
    """Remove everything in *slot* but its lock."""
    with reporting("remove", slot):
        for path in slot.iterdir():
            if path.name == LOCK_FILE:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _reader(directory: Path, kind: str) -> ChangelogReader | None:
    """Return a reader of the changelog in *directory*; ``None`` while there is none.

    It is kept for the next task of this process: it goes on reading where it ended, and a log's
    last segment is long.
    """
    try:
        return _kept_reader(directory, kind)
    except StoreNotFoundError:
        return None


@lru_cache(maxsize=256)
def _kept_reader(directory: Path, kind: str) -> ChangelogReader:
    return ChangelogReader.open(directory, kind)
