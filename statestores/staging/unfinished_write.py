"""What a dead writer of all partitions has left: a write to finish, or rows that nobody wants.

A write that `staged_write` has committed is carried out by the next one who writes to the store,
whoever that is; rows that were staged and never published are removed once they are old.
"""

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from statestores.arrow.file_access import reporting
from statestores.errors import CommitConflictError, StoreCorruptedError
from statestores.files.directory_lock import LOCK_FILE
from statestores.staging.committed_write import finish, partitions_of, remove_write, writing
from statestores.staging.write_intent import (
    INTENT_FILE,
    WriteIntent,
    read_intent,
    staging_directory,
    store_intent,
)
from statestores.state_root import StateRoot

ABANDONED_AFTER_MS = 24 * 60 * 60 * 1000
"""Staged rows that nobody has touched for this long belong to a job that died."""


def finish_staged_writes(
    root: StateRoot, store: str, *, abandoned_after_ms: int = ABANDONED_AFTER_MS
) -> bool:
    """Finish a write whose publisher has died after its commit; return whether there was one.

    Every writer calls it before it opens a changelog, and `refuse_unfinished_write` after. Staged
    rows that were never published are removed when nobody has touched them for
    *abandoned_after_ms*. Costs reading one file when there is nothing to do.

    Raises:
        StoreNotFoundError: There is no such store.
        StoreReshardedError: It has other partitions since *root* was opened.
        StoreLockedError: Someone publishes or finishes a write at this moment, or has a partition
            open that the unfinished write needs.
        StoreCorruptedError, StorageError: The intent, a staged file or a changelog is damaged.
    """
    directories = partitions_of(root, store)
    directory = root.home(store)
    root.check_current(store)
    with reporting("look into", directory):
        if not staging_directory(directory).is_dir():
            return False
    intent = read_intent(directory)
    unfinished = intent is not None and not intent.finished
    abandoned = list(_abandoned(directory, abandoned_after_ms))
    if not unfinished and not abandoned:
        return False
    with writing(directory):
        root.check_current(store)
        intent = read_intent(directory)
        found = finish(directories, root.store(store).specification, intent)
        for write in abandoned:
            remove_write(write)
    return found


def refuse_unfinished_write(
    store_directory: Path, end_offsets: Mapping[int, int] | None = None
) -> None:
    """Accept a store that has no unfinished write on its changelogs, and has the last one.

    For a writer that has just taken the lock of changelogs, which end at *end_offsets*: a publisher
    may have committed and died since it called `finish_staged_writes`.

    Raises:
        StoreCorruptedError: A changelog ends before the last write.
        CommitConflictError: There is one; close the changelog and begin again.
        StoreLockedError: Someone publishes at this moment, and a partition begins anew.
    """
    intent = read_intent(store_directory)
    left_at = check_has_write(store_directory, intent, end_offsets or {})
    if intent is not None and not intent.finished:
        raise CommitConflictError(
            f"the write {intent.write_id!r} in {str(store_directory)!r} is committed and not "
            "finished; call finish_staged_writes() and open the store again"
        )
    anew = (end_offsets or {}).keys() - left_at.keys()
    if intent is not None and not anew.isdisjoint(intent.partitions):
        _forget_ends(store_directory, anew)


def _forget_ends(store_directory: Path, numbers: Collection[int]) -> None:
    """Have the last write say nothing of partitions that begin anew.

    Raises:
        StoreLockedError: Someone publishes at this moment.
        StateStoreError: It cannot be noted.
    """
    with writing(store_directory):
        intent = read_intent(store_directory)
        if intent is not None and intent.finished:
            kept = {n: end for n, end in intent.partitions.items() if n not in numbers}
            store_intent(store_directory, replace(intent, partitions=kept))


def check_has_write(
    store_directory: Path, intent: WriteIntent | None, end_offsets: Mapping[int, int]
) -> dict[int, int]:
    """Accept changelogs that end at *end_offsets*, if none lacks what *intent* has finished.

    Returns where that has left them. It is nothing of one that is empty: it begins anew, which
    LAY-35 is about.

    Raises:
        StoreCorruptedError: One does.
    """
    left_at: dict[int, int] = {}
    if intent is None or not intent.finished:
        return left_at
    for number, end in end_offsets.items():
        write = intent.partitions.get(number)
        if write is None or end == 0:
            continue
        left_at[number] = write.end_offset
        if end < write.end_offset:
            raise StoreCorruptedError(
                f"the changelog of {store_directory.name!r} ends before {end} in partition "
                f"{number}, and a staged write has left it at {write.end_offset}: it has been "
                "removed, or put back from an older copy; put back the newest one"
            )
    return left_at


def _abandoned(store_directory: Path, after_ms: int) -> Iterator[Path]:
    """Yield the directories of writes that were staged long ago and never published."""
    oldest_ns = time.time_ns() - after_ms * 1_000_000
    staging = staging_directory(store_directory)
    intent = read_intent(store_directory)
    kept = {INTENT_FILE, LOCK_FILE}
    if intent is not None and not intent.finished:
        kept.add(intent.write_id)
    with reporting("list", staging):
        for path in sorted(staging.iterdir()):
            if path.name not in kept and path.is_dir() and path.stat().st_mtime_ns < oldest_ns:
                yield path
