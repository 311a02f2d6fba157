"""A commit of several logged stores as one (TSK-3).

Each store's own commit point is the append to its changelog, and two appends are two moments. So a
commit of several stores is recorded first: their pending changes, each as a changelog of one frame,
in a directory that gets its name when it is complete. That rename is the commit point. Whoever
opens the task next appends what a crash has kept from being appended.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from statestores.arrow.file_access import make_durable, reporting
from statestores.changelog import ChangelogReader, FileChangelog
from statestores.durable_json import check_format, read_fields, write_json
from statestores.errors import StoreCorruptedError
from statestores.failpoints import reach
from statestores.logged_store import LoggedStore
from statestores.semantics.strict_json import Fields
from statestores.spi.durability import Durability
from statestores.spi.offsets import Position
from statestores.state_root import StateRoot

_RECORD = "commit"
_UNFINISHED = "commit.tmp"
_DONE = "commit.done"
_RECORD_FILE = "commit.json"
_FORMAT = 1


def record_commit(
    directory: Path,
    stores: Sequence[LoggedStore[Any]],
    position: Position,
    durability: Durability,
) -> None:
    """Record the pending changes of *stores* and *position*: from here on they are committed.

    When it raises, nothing is committed.

    Raises:
        StorageError: The record cannot be written.
    """
    unfinished = directory / _UNFINISHED
    with reporting("write", unfinished):
        _remove(directory)
        unfinished.mkdir(parents=True)
    for store in stores:
        with FileChangelog.create(unfinished / store.name, store.changelog.store_kind) as log:
            log.append(store.store.pending_changes(), position=position, durability=durability)
    bases = {store.name: store.changelog.end_offset for store in stores}
    write_json(unfinished / _RECORD_FILE, {"format": _FORMAT, "base_offsets": bases})
    reach("task.recording")
    with reporting("write", directory):
        unfinished.rename(directory / _RECORD)
        if durability is Durability.POWER_LOSS:
            make_durable(directory)


def forget_commit(directory: Path) -> None:
    """Remove the record: every store has its changes. What is left of it is removed later.

    Raises:
        StorageError: It cannot be removed.
    """
    with reporting("remove", directory / _RECORD):
        # First the name, so that a record of which a part is removed is none.
        (directory / _RECORD).rename(directory / _DONE)
        reach("task.forgotten")
        _remove(directory)


def finish_commit(directory: Path, root: StateRoot, partition: int) -> bool:
    """Append what a recorded commit has not come to append; return whether there was one.

    Raises:
        StoreLockedError: Another process writes one of the stores.
        StoreCorruptedError: The record and a changelog contradict each other.
        UnsupportedFormatError, StorageError: It cannot be read, or the disk failed.
    """
    record = directory / _RECORD
    file = record / _RECORD_FILE
    fields = read_fields(file)
    if fields is None:
        return False
    bases = _base_offsets(root, file, fields)
    ends = {name: _end_offset(root, name, partition) for name in bases}
    if all(ends[name] < bases[name] for name in bases):
        # A power failure took the commits before this one, as PROCESS_CRASH allows, whole ones.
        forget_commit(directory)
        return False
    behind = [name for name in bases if ends[name] < bases[name]]
    if behind:
        raise StoreCorruptedError(
            f"the changelog of {behind[0]!r} ends before {ends[behind[0]]}, and the commit "
            f"recorded in {str(record)!r} continues it at {bases[behind[0]]}, while other stores "
            "of the task have what came before: the changelog has lost its end"
        )
    for name, base in bases.items():
        if ends[name] > base:
            _check_appended(record / name, root, name, partition, base)
    for name, base in bases.items():
        if ends[name] == base:
            _append(record / name, root, name, partition)
    forget_commit(directory)
    return True


def _check_appended(record: Path, root: StateRoot, name: str, partition: int, base: int) -> None:
    """Accept a changelog that goes on at *base* with what was recorded.

    Raises:
        StoreCorruptedError: Somebody else has appended since, and did not know of the record.
    """
    kind = root.store(name).specification.kind
    target = root.partition(name, partition).changelog
    with ChangelogReader.open(record, kind) as recorded, ChangelogReader.open(target, kind) as log:
        wanted = next(iter(recorded.read()))
        stop = base + len(wanted.offsets)
        found = next(iter(log.read(base, min(stop, log.end_offset))))
        # A compacted frame no longer says what was appended; the task's own commit was first.
        if found.explicit_offsets is None and not found.batch.equals(wanted.batch):
            raise StoreCorruptedError(
                f"the changelog of {name!r} goes on at offset {base} with other changes than the "
                f"commit recorded in {str(record.parent)!r}: another program has written to the "
                "store after the task died, and before the task was opened again"
            )


def _append(record: Path, root: StateRoot, name: str, partition: int) -> None:
    """Append the recorded frame of the store *name* to its changelog."""
    kind = root.store(name).specification.kind
    target = root.partition(name, partition).changelog
    with ChangelogReader.open(record, kind) as recorded, _writer(target, kind) as log:
        for frame in recorded.read():
            log.append_batch(frame.batch, position=frame.position)


def _writer(directory: Path, kind: str) -> FileChangelog:
    if FileChangelog.exists(directory):
        return FileChangelog.open(directory, kind)
    return FileChangelog.create(directory, kind)


def _end_offset(root: StateRoot, name: str, partition: int) -> int:
    """Return where the changelog of the store *name* ends; 0 when there is none yet."""
    directory = root.partition(name, partition).changelog
    if not FileChangelog.exists(directory):
        return 0
    with ChangelogReader.open(directory, root.store(name).specification.kind) as log:
        return log.end_offset


def _base_offsets(root: StateRoot, file: Path, fields: Fields) -> dict[str, int]:
    """Return the offset at which the recorded changes of each store begin."""
    check_format(fields, file, _FORMAT)
    bases = fields.inside("base_offsets")
    for name in bases:  # which names a directory
        if name not in root.stores:
            bases.refuse(name, f"the name of a store of {str(root.path)!r}")
    return {name: bases.integer(name) for name in bases}


def _remove(directory: Path) -> None:
    """Remove what is no record: one that was not finished, or that has been carried out."""
    for name in (_UNFINISHED, _DONE):
        if (directory / name).is_dir():
            shutil.rmtree(directory / name)
