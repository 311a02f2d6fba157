"""Carrying out a write that is committed: its rows go from the staged files to the changelogs.

Whoever does it, the publisher or the next writer after a crash, finds out from each log how
far it has come. Nothing here can be taken back, and all of it can be done again.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import chain, pairwise
from logging import getLogger
from pathlib import Path
from typing import Any

from statestores.arrow.file_access import reporting
from statestores.arrow.snapshots.directory import list_snapshots
from statestores.begun_partitions import noted, refuse_gone
from statestores.changelog import (
    FileChangelog,
    change_schema,
    changelog_partition,
)
from statestores.changelog.file_log import append_frame
from statestores.errors import (
    StorageError,
    StoreCorruptedError,
    StoreLockedError,
    StoreMismatchError,
)
from statestores.failpoints import reach
from statestores.files.directory_lock import LOCK_FILE, DirectoryLock
from statestores.files.presence import look_for
from statestores.files.tree_removal import remove_tree
from statestores.opening import backend_of
from statestores.spi.durability import Durability
from statestores.spi.specification import StoreSpecification
from statestores.staging.write_intent import (
    WriteIntent,
    finished,
    intended_frames,
    staging_directory,
    store_intent,
    write_directory,
)
from statestores.state_root import PartitionDirectory, StateRoot

_AT_A_TIME = 4
"""Partitions that are appended to at the same time; each has a frame or two in memory."""

_LOGGER = getLogger(__name__)


def carry_out(
    store_directory: Path,
    intent: WriteIntent,
    logs: Mapping[int, FileChangelog],
    kind: str,
    ends: Mapping[int, int],
) -> None:
    """Append to *logs* what *intent* says and they do not have yet; then it is finished.

    *ends* is where writes before this one have left the other partitions.

    Requires: the caller has just checked the files.

    Raises:
        StoreNotFoundError, StoreCorruptedError, StorageError: A staged file is gone or damaged,
            somebody else has written to a log, or the disk failed.
    """
    _several_at_a_time(
        lambda number: _roll_forward(
            store_directory, intent, number, logs[number], kind, checked=True
        ),
        intent.partitions,
    )
    _close(store_directory, intent, ends)


def finish(
    directories: dict[int, PartitionDirectory],
    specification: StoreSpecification[Any, Any],
    intent: WriteIntent | None,
) -> bool:
    """Carry out what is left of *intent*; return whether it was unfinished.

    Raises:
        StoreLockedError: Somebody else has a partition open.
        StoreCorruptedError, StorageError: As `carry_out`.
    """
    if intent is None or intent.finished:
        return False
    store_directory = directories[0].path.parent
    if strangers := intent.partitions.keys() - directories.keys():
        raise StoreCorruptedError(
            f"the unfinished write {intent.write_id!r} in {str(store_directory)!r} has rows for "
            f"the partition {min(strangers)}, and the store has {len(directories)}"
        )

    def finish_one(number: int) -> None:
        with open_log(directories[number], specification) as log:
            _roll_forward(store_directory, intent, number, log, specification.kind)

    _several_at_a_time(finish_one, intent.partitions)
    _close(store_directory, intent, {})
    return True


def open_log(
    partition: PartitionDirectory, specification: StoreSpecification[Any, Any]
) -> FileChangelog:
    """Open the changelog of *partition* for appending; make one where there is nothing yet.

    Raises:
        StoreMismatchError: The store has content and no changelog that this one would continue.
    """
    logged = changelog_partition(specification.name, int(partition.path.name))
    if FileChangelog.exists(partition.changelog):
        log = FileChangelog.open(partition.changelog, specification.kind, partition=logged)
        return noted(log, partition)
    if list_snapshots(partition.snapshots) or backend_of(partition.path) is not None:
        raise StoreMismatchError(
            f"{str(partition.path)!r} has content and no changelog, and what is appended to a new "
            "one would hide it; open the store with a changelog first"
        )
    refuse_gone(partition)
    log = FileChangelog.create(partition.changelog, specification.kind, partition=logged)
    return noted(log, partition)


def remove_write(write: Path) -> None:
    """Remove the directory of a write, if it is there; a second attempt may be staging there still.

    Raises:
        StorageError: It cannot be removed.
    """
    with reporting("remove", write):
        remove_tree(write)


def remove_published(write: Path) -> None:
    """Remove the directory of a write that counts; a log message says if that cannot be done.

    Nobody reads it, and what is left of it is removed as that of a job that died. An error would
    say that nothing was written, and the caller would write it again.
    """
    try:
        remove_write(write)
    except StorageError as error:
        _LOGGER.warning("the write %r counts, and its rows are still there: %s", write.name, error)


@contextmanager
def writing(store_directory: Path) -> Iterator[None]:
    """Keep others from publishing or finishing a write of the store."""
    lock = DirectoryLock.acquire(staging_directory(store_directory))
    try:
        yield
    finally:
        lock.release()


@contextmanager
def unless_published(store_directory: Path) -> Iterator[bool]:
    """Keep others from publishing, and give ``True``; ``False`` if somebody does at this moment.

    Where nobody ever has, there is no lock to take, and none is left behind.
    """
    with ExitStack() as held:
        is_free = True
        if look_for(staging_directory(store_directory) / LOCK_FILE) is not None:
            try:
                held.enter_context(writing(store_directory))
            except StoreLockedError:
                is_free = False
        yield is_free


def partitions_of(root: StateRoot, store: str) -> dict[int, PartitionDirectory]:
    """Return the directories of all partitions of *store*, by number."""
    return {number: root.partition(store, number) for number in range(root.store(store).partitions)}


def _several_at_a_time(work: Callable[[int], None], partitions: Collection[int]) -> None:
    """Do *work* for each of *partitions*, and raise the first error when all have ended.

    Most of it compresses, sums and waits for the disk, and needs no interpreter lock. The write is
    committed, so it is better to append to the partitions after one that failed than not to.
    """
    with ThreadPoolExecutor(_AT_A_TIME, "statestores-publish") as pool:
        for done in [pool.submit(work, number) for number in partitions]:
            done.result()


def _roll_forward(
    store_directory: Path,
    intent: WriteIntent,
    number: int,
    log: FileChangelog,
    kind: str,
    *,
    checked: bool = False,
) -> None:
    """Append to *log* what *intent* says and the log does not have yet.

    Raises:
        StoreCorruptedError: Somebody else has written to the log since.
    """
    write = intent.partitions[number]
    if not write.base_offset <= log.end_offset <= write.end_offset:
        raise StoreCorruptedError(
            f"the changelog of partition {number} in {str(store_directory)!r} ends at "
            f"{log.end_offset}, and the unfinished write {intent.write_id!r} goes from "
            f"{write.base_offset} to {write.end_offset}: another program has written to it"
        )
    if log.end_offset == write.end_offset:
        return
    frames = intended_frames(
        store_directory, intent, number, change_schema(kind), log.end_offset, checked=checked
    )
    for frame, following in pairwise(chain(frames, [None])):
        assert frame is not None  # noqa: S101  # only the end has no frame
        # The last one waits for the disk, and so for all. Until then they can be appended again.
        durability = Durability.POWER_LOSS if following is None else Durability.PROCESS_CRASH
        append_frame(log, frame, durability=durability)
    reach("publish.appended")


def _close(store_directory: Path, intent: WriteIntent, ends: Mapping[int, int]) -> None:
    """Note that *intent* is finished, and only then remove its rows."""
    store_intent(store_directory, finished(intent, ends))
    reach("publish.finished")
    remove_published(write_directory(store_directory, intent.write_id))
