"""Writing to all partitions of a store at once, from many tasks, as one change.

Tasks `stage` rows: files below ``ROOT/<store>/.writes/<write id>/`` that nobody reads. Then one
process publishes the files of the tasks that succeeded: it takes the writer's lock of every
partition, makes an intent durable, which is the commit point, and appends to the changelogs. When
it dies after that, the next writer finishes the write (`unfinished_write`), and readers read it
as finished all along. When it dies before, nothing has happened.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias
from uuid import uuid4

import pyarrow as pa

from statestores.arrow.snapshots.choice import newest_valid_snapshot
from statestores.changelog import (
    FileChangelog,
    Frame,
    change_schema,
    changelog_partition,
)
from statestores.changelog.file_log import wall_clock_ms
from statestores.errors import InvalidArgumentError, StorageError
from statestores.failpoints import reach
from statestores.files.local_path import local_path
from statestores.files.lock_waiting import COMMIT_TIMEOUT_MS, when_unlocked
from statestores.generations import current_home, place_in_root, refuse_staged_before
from statestores.partitioning import partitioner_by_name
from statestores.spi.specification import StoreSpecification
from statestores.staging.committed_write import (
    carry_out,
    finish,
    open_log,
    partitions_of,
    remove_published,
    remove_write,
    unless_published,
    writing,
)
from statestores.staging.next_sequence import next_sequence, numbers_duplicates
from statestores.staging.recorded_commits import refuse_recorded_commits
from statestores.staging.staged_rows import StagedFile, StagedWriter, check_staged
from statestores.staging.unfinished_write import check_has_write
from statestores.staging.write_intent import (
    PartitionWrite,
    StreamBatch,
    WriteIntent,
    check_write_id,
    finished,
    is_unfinished,
    planned,
    read_intent,
    staging_directory,
    store_intent,
    write_directory,
)
from statestores.state_root import PartitionDirectory, StateRoot

Mode: TypeAlias = Literal["append", "overwrite"]
"""Whether a write adds to what is there, or replaces it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """What one attempt of one task has staged. Small; made to be sent to whoever publishes."""

    write_id: str
    """The write to which the rows belong."""

    files: tuple[StagedFile, ...]
    """The files, in the order of their rows."""

    generation: int | None = None
    """The generation of partitions beside which they lie; ``None`` for one that cannot change."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedWrite:
    """What a write has become."""

    rows: int
    """Changes appended, over all partitions."""

    end_offsets: dict[int, int]
    """The end offset of the changelog of each partition, after the write."""


def stage(
    root: str | PathLike[str],
    specification: StoreSpecification[Any, Any],
    partitions: int,
    write_id: str,
    attempt: str,
    changes: Iterable[pa.RecordBatch],
    *,
    partition: int | None = None,
) -> StagedRows:
    """Write *changes* where `publish` finds them; nothing of the store changes.

    *changes* have the columns of the store's changelog, as bytes. *attempt* tells the attempts of
    all tasks apart, so that one that is repeated does not meet its own files. The store need not
    exist yet, and nothing is locked. The store's partitioner says which partition a change belongs
    to, unless all of them are said to belong to *partition*.

    Raises:
        InvalidArgumentError, InvalidTypeError: The changes cannot be changes of the store.
        StorageError: The files cannot be written.
    """
    home = current_home(local_path(root, "root"), specification.name)
    writer = StagedWriter(
        write_directory(home, write_id),
        check_write_id(attempt),
        change_schema(specification.kind),
        partitioner_by_name(specification.partitioner),
        partitions,
        only=partition,
    )
    for batch in changes:
        writer.add(batch)
    return StagedRows(write_id=write_id, files=writer.finish(), generation=place_in_root(home)[2])


@dataclass(frozen=True, slots=True)
class Publisher:
    """The only one who may append to a store's changelogs. Made by `publishing`; publishes once."""

    _directories: Mapping[int, PartitionDirectory]
    _specification: StoreSpecification[Any, Any]
    _batches: Mapping[str, int]
    _logs: Mapping[int, FileChangelog]
    _left_at: Mapping[int, int]
    """Where the writes before this one have left changelogs."""

    @property
    def end_offsets(self) -> dict[int, int]:
        """The end offset of each changelog; nobody else changes it."""
        return {number: log.end_offset for number, log in self._logs.items()}

    @property
    def batches(self) -> Mapping[str, int]:
        """The last batch of each stream that the store has."""
        return self._batches

    def has(self, batch: StreamBatch) -> bool:
        """Return whether *batch*, or a later one of its stream, has been published."""
        return batch.is_in(self._batches)

    def last_batch(self, stream: str) -> int | None:
        """Return the number of the last batch of *stream* that has been published, if any has."""
        return self._batches.get(stream)

    def publish(
        self,
        write_id: str,
        staged: Sequence[StagedRows],
        mode: Mode = "append",
        *,
        batch: StreamBatch | None = None,
    ) -> PublishedWrite:
        """Append what *staged* describes, all of it or nothing: see the function `publish`."""
        if mode not in {"append", "overwrite"}:
            raise InvalidArgumentError(f"the mode is 'append' or 'overwrite', got {mode!r}")
        if strangers := {each.write_id for each in staged} - {write_id}:
            raise InvalidArgumentError(
                f"rows of the write {min(strangers)!r} are among those of {write_id!r}"
            )
        directory = self._directories[0].path.parent
        files = [file for rows in staged for file in rows.files]
        if batch is not None and self.has(batch):
            remove_published(write_directory(directory, write_id))
            return PublishedWrite(rows=0, end_offsets=self.end_offsets)
        refuse_staged_before(directory, (each.generation for each in staged if each.files))
        check_staged(write_directory(directory, write_id), files)
        intent = self._intent(write_id, files, batch, overwrite=mode == "overwrite")
        if intent.partitions:
            try:
                self._carry_out(directory, intent)
            except StorageError as error:
                if not is_unfinished(directory, write_id):
                    raise
                raise StorageError(
                    f"the write {write_id!r} to {self._specification.name!r} is committed, and "
                    f"could not be finished: {error}; finish_staged_writes() or the next writer "
                    "will do it"
                ) from error
        else:
            if batch is not None:
                store_intent(directory, finished(intent, self._left_at))
            remove_published(write_directory(directory, write_id))
        return PublishedWrite(rows=sum(file.rows for file in files), end_offsets=self.end_offsets)

    def _carry_out(self, directory: Path, intent: WriteIntent) -> None:
        reach("publish.checked")
        store_intent(directory, intent)
        reach("publish.committed")
        carry_out(directory, intent, self._logs, self._specification.kind, self._left_at)

    def _intent(
        self,
        write_id: str,
        files: Sequence[StagedFile],
        batch: StreamBatch | None,
        *,
        overwrite: bool,
    ) -> WriteIntent:
        """Return what a write of *files* appends to the changelogs."""
        specification = self._specification
        writes: dict[int, PartitionWrite] = {}
        for number, log in self._logs.items():
            own, sequence = [file for file in files if file.partition == number], None
            if own and numbers_duplicates(specification):
                sequence = 0 if overwrite else self._next_sequence(number, log)
            if own or overwrite:
                writes[number] = planned(
                    log.end_offset, own, overwrite=overwrite, first_sequence=sequence
                )
        applied = {} if batch is None else {batch.stream: batch.number}
        return WriteIntent(
            write_id=write_id,
            overwrite=overwrite,
            finished=False,
            partitions=writes,
            batches={**self._batches, **applied},
            committed_at_ms=wall_clock_ms(),
        )

    def _next_sequence(self, number: int, log: FileChangelog) -> int:
        """Return a number above that of every duplicate that is there (WIN-21)."""
        choice = newest_valid_snapshot(self._directories[number].snapshots)
        logged = changelog_partition(self._specification.name, number)

        def frames_from(start: int) -> Iterable[Frame]:
            return log.read(start) if start < log.end_offset else ()

        return next_sequence(choice, log.first_offset, frames_from, logged)


@contextmanager
def publishing(root: StateRoot, store: str) -> Iterator[Publisher]:
    """Keep everybody else from writing to *store*, and finish what another has left unfinished.

    Raises:
        StoreNotFoundError: There is no such store.
        StoreReshardedError: It has other partitions since *root* was opened.
        StoreLockedError: Another writer has a partition open, or publishes at this moment.
        InvalidArgumentError: A task has died in the middle of a commit of the store (TSK-10).
        StoreCorruptedError, StorageError: A changelog is damaged, or the disk failed.
    """
    directories = partitions_of(root, store)
    directory = root.home(store)
    specification = root.store(store).specification
    root.check_current(store)
    with writing(directory), ExitStack() as logs:
        root.check_current(store)
        previous = read_intent(directory)
        if finish(directories, specification, previous):
            previous = read_intent(directory)  # says now where it has left them
        opened = {
            number: logs.enter_context(open_log(partition, specification))
            for number, partition in directories.items()
        }
        ends = {number: log.end_offset for number, log in opened.items()}
        left_at = check_has_write(directory, previous, ends)
        refuse_recorded_commits(root.path, store)  # with the locks that a task would have
        batches = previous.batches if previous else {}
        yield Publisher(directories, specification, batches, opened, left_at)


def publish(
    root: StateRoot,
    store: str,
    write_id: str,
    staged: Sequence[StagedRows],
    mode: Mode = "append",
    *,
    batch: StreamBatch | None = None,
    timeout_ms: int = COMMIT_TIMEOUT_MS,
) -> PublishedWrite:
    """Append what *staged* describes to the store, or replace the store by it; all or nothing.

    Rows of one key are applied in the order of *staged* and of their files; versions, windows and
    sessions in the order of their times. Retained duplicates are numbered after those that are
    there already, for which their partition is read. Files that *staged* does not name, of attempts
    that failed, are ignored and removed. When it raises, nothing has changed, unless the message
    says that the write is committed and could not be finished now: then the next writer finishes
    it, and readers already see it.

    A *batch* of a stream is applied once: when it, or a later one of the stream, has been published
    before, its rows are removed and nothing else happens. That it is applied is committed in the
    same moment as the rows, and other writes to the store do not change it.

    While another writer has a partition open, or publishes, it waits, and holds nothing meanwhile.

    Raises:
        StoreNotFoundError: There is no such store, or a staged file is gone.
        StoreReshardedError: The partitions were replaced since the rows were staged.
        InvalidArgumentError: The mode is unknown, or rows of another write are among *staged*; or a
            task has died in the middle of a commit of the store, and has to be opened first.
        StoreLockedError: Another writer was there for *timeout_ms*; 0 tries once.
        StoreCorruptedError, StorageError: A staged file is damaged, or the disk failed.
    """
    with ExitStack() as held:
        publisher = when_unlocked(
            lambda: held.enter_context(publishing(root, store)),
            timeout_ms,
            f"the write to {store!r}",
            "timeout_ms",
        )
        return publisher.publish(write_id, staged, mode, batch=batch)


def write_at_once(
    root: StateRoot, store: str, changes: Iterable[pa.RecordBatch], mode: Mode = "append"
) -> PublishedWrite:
    """Stage *changes*, in this process alone, and publish them; all or nothing.

    Raises:
        StateStoreError: As `stage` and `publish`; what was staged is removed.
    """
    entry, write_id = root.store(store), uuid4().hex
    with _discarding(root, store, write_id):
        staged = stage(root.path, entry.specification, entry.partitions, write_id, "one", changes)
        return publish(root, store, write_id, [staged], mode)


def create_at_once(
    root: StateRoot,
    specification: StoreSpecification[Any, Any],
    *,
    partitions: int,
    changes: Iterable[pa.RecordBatch],
) -> PublishedWrite:
    """Do as `write_at_once`, into a store that is noted when all *changes* are staged.

    Where they cannot be, as when a serde does not take a value, there is no store: it would have
    the serde that was wrong, and refuse whoever says the right one.

    Raises:
        StoreMismatchError: There is a store of that name, which is another one.
        StateStoreError: As `stage` and `publish`; what was staged is removed.
    """
    name, write_id = specification.name, uuid4().hex
    with _discarding(root, name, write_id):
        staged = stage(root.path, specification, partitions, write_id, "one", changes)
        root.add_store(specification, partitions=partitions)
        return publish(root, name, write_id, [staged])


@contextmanager
def _discarding(root: StateRoot, store: str, write_id: str) -> Iterator[None]:
    """Remove what was staged when the write is given up."""
    try:
        yield
    except BaseException:
        discard(root.path, store, write_id)
        raise


def discard(
    root: str | PathLike[str],
    store: str,
    write_id: str,
    *,
    counts: Callable[[], bool] = lambda: False,
) -> None:
    """Remove what was staged for a write that will not be published; repeating it is no error.

    A write that is committed stays: it has happened. *counts* says that of one which something else
    commits than the store. So do rows while somebody publishes: another driver of the same query
    may have looked at them, and be about to commit; they go as those of a job that died.
    Directories that were made only for the removed write go too.

    Raises:
        StorageError: They cannot be removed.
    """
    directory = current_home(local_path(root, "root"), store)
    with unless_published(directory) as is_free:
        if not is_free or is_unfinished(directory, write_id) or counts():
            return
        remove_write(write_directory(directory, write_id))
    for empty in (staging_directory(directory), directory, directory.parent):
        try:
            empty.rmdir()
        except OSError:  # not empty, or gone: somebody else's
            return
