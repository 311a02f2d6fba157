"""A commit of several logged stores as one (TSK-3).

Each store's own commit point is the append to its changelog, and two appends are two moments. So a
commit of several stores is recorded first, in a file that gets its name when it is on disk.
That rename is the commit point. Whoever opens the task next appends what a crash has kept from
being appended.
"""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from statestores.arrow.file_access import reporting
from statestores.changelog import FileChangelog, changelog_partition
from statestores.changelog.encoded_rows import EncodedChanges
from statestores.errors import CommitConflictError, StoreCorruptedError
from statestores.failpoints import reach
from statestores.files.durable_directory import make_durable
from statestores.logged_store import LoggedStore
from statestores.logged_store.encoded_commit import encoded_pending
from statestores.reading.locations import changelog_end, changelog_of
from statestores.spi.durability import Durability
from statestores.spi.offsets import Position
from statestores.state_root import StateRoot
from statestores.tasks.commits.commit_record import (
    RecordedCommit,
    RecordedPart,
    read_record,
    write_record,
)
from statestores.tasks.commits.directory_record import read_directory
from statestores.tasks.commits.task_outputs import OutputFiles, TaskOutputs

RECORD_NAME = "commit"
"""The record, in the directory of the task."""

_UNFINISHED = "commit.tmp"
_DONE = "commit.done"


class Recorded(NamedTuple):
    """What is recorded, and is to be carried out."""

    emitted: OutputFiles | None
    """What is to be published; ``None`` if the commit emits nothing."""

    changes: tuple[tuple[LoggedStore[Any], EncodedChanges], ...]
    """What each store is to commit, encoded: its changelog gets what the record has."""


def record_commit(
    directory: Path,
    stores: Sequence[LoggedStore[Any]],
    position: Position,
    durability: Durability,
    outputs: TaskOutputs | None = None,
) -> Recorded:
    """Record the pending changes of *stores*, *position*, *outputs*: from here on committed.

    When it raises, nothing is committed, unless `is_recorded` says so: the record may have got its
    name before the disk failed, or before an interrupt.

    Raises:
        StorageError: The record cannot be written.
    """
    emitted = outputs.record() if outputs is not None and outputs.has_pending else None
    changes = tuple((store, encoded_pending(store)) for store in stores)
    unfinished = directory / _UNFINISHED
    write_record(unfinished, changes, position, emitted)
    reach("task.recording")
    with reporting("write", directory):
        unfinished.rename(directory / RECORD_NAME)
        if durability is Durability.POWER_LOSS:
            make_durable(directory)
    return Recorded(emitted, changes)


def is_recorded(directory: Path) -> bool:
    """Return whether there is a recorded commit that was not forgotten.

    Raises:
        StorageError: It cannot be told.
    """
    with reporting("read", directory):
        return (directory / RECORD_NAME).exists()


def recorded_commit(directory: Path, root: StateRoot) -> RecordedCommit | None:
    """Return the commit that is recorded in *directory*, that of a task; ``None`` without one.

    Raises:
        StoreCorruptedError: The record is damaged (TSK-10).
        UnsupportedFormatError, StorageError: It cannot be read.
    """
    record = directory / RECORD_NAME
    with reporting("read", record):
        is_directory = record.is_dir()
    return read_directory(record, root) if is_directory else read_record(record, root)


def forget_commit(directory: Path) -> None:
    """Remove the record: every store has its changes. What is left of it is removed later.

    Raises:
        StorageError: It cannot be removed.
    """
    record = directory / RECORD_NAME
    with reporting("remove", record):
        try:
            record.unlink()
        except IsADirectoryError:  # of an earlier release
            # First the name, so that a record of which a part is removed is none.
            record.rename(directory / _DONE)
        reach("task.forgotten")


def changelog_ends(root: StateRoot, partition: int, stores: Iterable[str]) -> dict[str, int]:
    """Return where the changelogs of *stores* end; 0 where there is none yet.

    Raises:
        StoreNotFoundError: The state root has no such store.
        StateStoreError: As `changelog_end`, of one of them.
    """
    return {
        name: changelog_end(root.partition(name, partition), root.store(name).specification)
        for name in stores
    }


def finish_commit(
    directory: Path, root: StateRoot, partition: int, outputs: TaskOutputs | None = None
) -> None:
    """Append what a recorded commit has not come to append, if there is one, and forget it.

    Raises:
        CommitConflictError: The commit emits, and there are no *outputs* to emit to.
        StoreLockedError: Another process writes one of the stores.
        StoreCorruptedError: The record is damaged (TSK-10), or it and a changelog contradict each
            other. Nothing is appended.
        UnsupportedFormatError, StorageError: It cannot be read, or the disk failed.
    """
    with reporting("remove", directory):
        _remove_leftovers(directory)
    record = directory / RECORD_NAME
    recorded = recorded_commit(directory, root)
    if recorded is None:
        return
    parts = recorded.parts
    if recorded.outputs is not None and outputs is None:
        raise CommitConflictError(
            f"the commit recorded in {str(record)!r} emits records, and the task is opened without "
            "the topics that they go to; open it as it was, with outputs=..., to finish the commit"
        )
    ends = changelog_ends(root, partition, parts)
    behind = [name for name, part in parts.items() if ends[name] < part.base_offset]
    if len(behind) == len(parts):
        # A power failure took the commits before this one, as PROCESS_CRASH allows, whole ones.
        forget_commit(directory)
        return
    if behind:
        name = behind[0]
        raise StoreCorruptedError(
            f"the changelog of {name!r} ends before {ends[name]}, and the commit recorded in "
            f"{str(record)!r} continues it at {parts[name].base_offset}, while other stores of the "
            "task have what came before: the changelog has lost its end"
        )
    for name, part in parts.items():
        if ends[name] > part.base_offset:
            _check_appended(record, part, root, name, partition)
    if recorded.outputs is not None and outputs is not None:
        outputs.publish(recorded.outputs)
        reach("task.outputs-appended")
    for name, part in parts.items():
        if ends[name] == part.base_offset:
            _append(part, root, name, partition)
    forget_commit(directory)


def _check_appended(
    record: Path, part: RecordedPart, root: StateRoot, name: str, partition: int
) -> None:
    """Accept a changelog that goes on at its base offset with what was recorded.

    Raises:
        StoreCorruptedError: Somebody else has appended since, and did not know of the record.
    """
    target = root.partition(name, partition)
    base, wanted = part.base_offset, part.frame
    with changelog_of(target, root.store(name).specification) as log:
        found = next(iter(log.read(base)))  # all of it: another's may begin with the same changes
        # A compacted frame no longer says what was appended; the task's own commit was first.
        if found.explicit_offsets is None and not found.batch.equals(wanted.batch):
            raise StoreCorruptedError(
                f"the changelog of {name!r} goes on at offset {base} with other changes than the "
                f"commit recorded in {str(record)!r}: another program has written to the "
                "store after the task died, and before the task was opened again"
            )


def _append(part: RecordedPart, root: StateRoot, name: str, partition: int) -> None:
    """Append the recorded frame of the store *name* to its changelog."""
    kind = root.store(name).specification.kind
    target = root.partition(name, partition).changelog
    logged = changelog_partition(name, partition)
    with FileChangelog.open_or_create(target, kind, partition=logged) as log:
        log.append_batch(part.frame.batch, position=part.frame.position)


def _remove_leftovers(directory: Path) -> None:
    """Remove what is no record: one that was not finished, or that has been carried out."""
    for name in (_UNFINISHED, _DONE):
        path = directory / name
        if path.is_dir():  # of an earlier release
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
