"""A partition's content on the disk of the machine that computes: a copy, at one offset.

A copy holds nothing that the state root does not hold, so one that is damaged, ahead, or of a
state root that lay at the path before is thrown away and restored: from a snapshot and the
changelog after it. Its owner brings it up to an offset and never commits anything of its own::

    LOCAL/<state root>/<store>/<partition>/<slot>/engine.json, engine/, copy.json, sweep

The *slot* is 0, unless another attempt of the same task is at work on this machine: then it has one
of its own, which is emptied afterwards. So no attempt waits for another one. The file of a slot's
lock stays: a lock on a file that has been removed keeps nobody out.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from statestores.arrow.file_access import reporting
from statestores.errors import (
    OffsetOutOfRangeError,
    StorageError,
    StoreCorruptedError,
    StoreLockedError,
    StoreMismatchError,
    UnsupportedFormatError,
)
from statestores.files.directory_lock import LOCK_FILE, DirectoryLock
from statestores.opening import BytesStore, open_bytes_store
from statestores.semantics.timestamped.store import EngineTimestampedKeyValueStore
from statestores.spark.copied_partition import CopiedPartition, LogMark
from statestores.spark.scratch import scratch_place
from statestores.spi.durability import Durability

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


@contextmanager
def local_copy(
    source: CopiedPartition, end_offset: int, copies: CopyOptions
) -> Iterator[BytesStore]:
    """Give the store of *source* with everything before *end_offset*, and nothing after it.

    What is pending at the end is forgotten.

    Raises:
        OffsetOutOfRangeError, StoreMismatchError: Changelog and snapshots no longer give the
            content at that offset, or do not give it yet.
        ChangelogCorruptedError, SnapshotCorruptedError, StorageError: One cannot be read.
        UnknownBackendError, MissingDriverError, InvalidOptionError: The backend cannot be used.
    """
    name = sha256(os.fsencode(source.place)).hexdigest()[:16]
    slots = _local_directory(copies) / name / source.specification.name / str(source.partition)
    lock, slot = _free_slot(slots)
    try:
        store = _opened(slot, source, end_offset, copies)
        try:
            _bring_up(store, slot, source, end_offset)
            cursor = slot / _SWEEP_FILE
            if isinstance(store, EngineTimestampedKeyValueStore) and cursor.is_file():
                store.sweep_from(cursor.read_bytes())
            yield store
            if isinstance(store, EngineTimestampedKeyValueStore) and store.is_open:
                cursor.write_bytes(store.sweep_cursor)
        finally:
            store.close()
    finally:
        try:
            if slot.name != "0":
                with suppress(StorageError):  # what stays is thrown away by whoever has it next
                    _throw_away(slot)
        finally:
            lock.release()


def _local_directory(copies: CopyOptions) -> Path:
    """Return where the copies of this machine lie."""
    if copies.directory is not None:
        return Path(copies.directory)
    return Path(scratch_place()) / f"statestores-{os.getuid()}"


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
    slot: Path, source: CopiedPartition, end_offset: int, copies: CopyOptions
) -> BytesStore:
    """Open the copy in *slot*, or an empty one in place of one that is of no use."""

    def open_copy() -> BytesStore:
        return open_bytes_store(
            slot,
            source.specification,
            backend=copies.backend,
            options=copies.options,
            durability=Durability.PROCESS_CRASH,
        )

    try:
        store = open_copy()
    except (StoreCorruptedError, StoreMismatchError, UnsupportedFormatError):
        _throw_away(slot)
        return open_copy()
    committed = store.committed_offset(source.logged)
    if committed is None or (
        committed < end_offset and _noted(slot) == (committed, source.mark_at(committed))
    ):
        return store
    store.close()
    _throw_away(slot)
    return open_copy()


def _bring_up(store: BytesStore, slot: Path, source: CopiedPartition, end_offset: int) -> None:
    """Replay what *store* lacks up to *end_offset*, after a snapshot where that is needed."""
    committed = store.committed_offset(source.logged)
    if end_offset == 0 or committed == end_offset - 1:
        return
    log = source.changelog(end_offset)
    (slot / _COPY_FILE).unlink(missing_ok=True)
    report = source.bring_up(store, log)
    loaded = report.from_offset if report.snapshot_offset is None else report.snapshot_offset
    log.check_compaction(0 if loaded is None else loaded + 1)
    if report.offset != end_offset - 1:
        raise OffsetOutOfRangeError(
            f"partition {source.partition} of {source.specification.name!r} cannot be restored to "
            f"the offset {end_offset - 1}: its commits end at {report.offset}"
        )
    mark = source.mark_at(report.offset)
    if store.persistent and mark is not None:
        _note(slot, report.offset, mark)


def _note(slot: Path, offset: int, mark: LogMark) -> None:
    """Note of which log the copy is; it need not survive a power failure."""
    path = slot / _COPY_FILE
    temporary = path.with_suffix(".tmp")
    with reporting("write", path):
        temporary.write_text(json.dumps({"offset": offset, "log": mark}))
        temporary.replace(path)


def _noted(slot: Path) -> tuple[int, LogMark] | None:
    """Return what `_note` has noted; ``None`` if it is not there, or not whole."""
    try:
        content = json.loads((slot / _COPY_FILE).read_text())
        return content["offset"], content["log"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
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
