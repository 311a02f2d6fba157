"""The log of one store in an object store: what there is to do with it as a whole."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from statestores.changelog.file_log import wall_clock_ms
from statestores.changelog.frame import Frame
from statestores.object_log.catching_up import catch_up
from statestores.object_log.changelog import unique_id
from statestores.object_log.compaction import (
    ObjectCompactionReport,
    compact_segments,
    survivors_of,
)
from statestores.object_log.documents import Staged
from statestores.object_log.driver import run
from statestores.object_log.folding import create_log, fold
from statestores.object_log.frames import EntryRef, damaged
from statestores.object_log.generations.retiring import never_counts, remove_dead, retire
from statestores.object_log.names import Names, begun_at, write_id
from statestores.object_log.object_segment import frames_of
from statestores.object_log.owners import take
from statestores.object_log.pieces import frame_of
from statestores.object_log.reader import ObjectChangelogReader, check_kind
from statestores.object_log.settling import read_checkpoint
from statestores.object_log.vacuum import vacuum
from statestores.object_log.view import View
from statestores.object_log.writes import begin_write
from statestores.storage import ObjectStorage

ABANDONED_AFTER_MS = 24 * 60 * 60 * 1000
"""What was staged longer ago, and is not committed, belongs to a job that died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectLog:
    """The changelogs of all partitions of a store."""

    storage: ObjectStorage
    """Where they lie."""

    store: str
    """The store's name."""

    store_kind: str
    """The store's kind."""

    partitions: int
    """How many partitions the store has."""

    generation: str = ""
    """The id of the reshard that has made this log; empty for the first one of the store."""

    @property
    def names(self) -> Names:
        """The names of the log's objects."""
        return Names(self.store, self.storage.url, self.generation)

    def log_id(self) -> str:
        """Return the id that the log was given when it was made.

        Raises:
            ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
        """
        return run(read_checkpoint(self.names), self.storage).checkpoint.log

    def create(self) -> None:
        """Begin an empty log, if there is none.

        Raises:
            CommitInDoubtError, StorageError: The object store does not answer; try again.
        """
        run(create_log(self.names, unique_id(), self.store_kind), self.storage)

    def reader(self, partition: int) -> ObjectChangelogReader:
        """Open the changelog of *partition* for reading.

        Raises:
            StoreMismatchError, ChangelogCorruptedError, UnsupportedFormatError, StorageError: As
                `ObjectChangelogReader.open`.
        """
        return ObjectChangelogReader.open(self.storage, self.names, partition, self.store_kind)

    def view(self, partitions: Iterable[int], view: View | None = None) -> View:
        """Return what there is of *partitions* at one moment; of those of *view*, if it is given.

        Raises:
            StoreMismatchError: The log is that of another kind of store.
            ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
        """
        seen = run(catch_up(self.names, partitions, view, tails=True), self.storage)
        check_kind(self.names, seen, self.store_kind)
        return seen

    def reader_at(self, view: View, partition: int) -> ObjectChangelogReader:
        """Return what reads *partition* as far as *view* has it, without a request."""
        return ObjectChangelogReader(self.storage, self.names, partition, view)

    def begin_write(self, nonce: str) -> str:
        """Return an id under which to stage changes; *nonce* is one that nobody else has.

        The log need not exist yet.

        Raises:
            ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
        """
        if self.storage.read(self.names.checkpoint) is None:
            return write_id(0, nonce)
        return run(begin_write(self.names, nonce), self.storage)

    def staged_frames(self, staged: Staged, partition: int) -> Iterator[Frame]:
        """Yield what is staged for *partition*, at offset 0, as it was put.

        Raises:
            ChangelogCorruptedError: It is gone, or something else is there.
            StorageError: It cannot be read.
        """
        name = self.names.data(staged.id, partition)
        ref = EntryRef(name, 0, staged.span - 1, staged.checksum, staged.size, None)
        data = run(frame_of(self.names, ref), self.storage)
        shown = self.names.shown(name)
        if data is None:
            raise damaged(shown, "it was staged, and is not there as it was")
        yield from frames_of(ref, data, self.store_kind, shown, 0)

    def release(self, partition: int) -> None:
        """Have nobody own *partition*, whose owner has died: writes of several may go on then.

        An owner that is alive is fenced; closing its store gives the partition back as well.

        Raises:
            FencedError: Somebody takes it over at this moment.
            CommitInDoubtError: The object store does not answer. Trying again is harmless.
            ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
        """
        run(take(self.names, partition, unique_id(), hold=False), self.storage)

    def fold(self) -> int | None:
        """Fold what was appended into segments; return how many entries it was (OBJ-13).

        ``None`` when somebody else has folded meanwhile. Owners and readers go on undisturbed.

        Raises:
            ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
            CommitInDoubtError: The object store does not answer. Folding again is harmless.
        """
        return run(fold(self.names, unique_id(), range(self.partitions)), self.storage)

    def compact(
        self,
        *,
        history_retention_ms: int | None = None,
        retention_ms: int | None = None,
        partitions: Iterable[int] | None = None,
    ) -> ObjectCompactionReport:
        """Fold, and then leave out the changes that later ones make void (LOG-18).

        All partitions are folded, and those of *partitions* compacted; by default all of them.

        Raises:
            InvalidArgumentError: A retention is negative, or missing, or the store has none.
            CommitConflictError: Somebody else has folded or compacted meanwhile; try again.
            ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
            CommitInDoubtError: The object store does not answer. Trying again is harmless.
        """
        survivors = survivors_of(self.store_kind, history_retention_ms, retention_ms)
        total = ObjectCompactionReport(entries=self.fold() or 0)
        for partition in range(self.partitions) if partitions is None else partitions:
            done = compact_segments(self.storage, self.names, partition, unique_id, survivors)
            total = replace(
                total,
                changes_before=total.changes_before + done.changes_before,
                changes_after=total.changes_after + done.changes_after,
                bytes_before=total.bytes_before + done.bytes_before,
                bytes_after=total.bytes_after + done.bytes_after,
            )
        return total

    def vacuum(self, *, abandoned_after_ms: int = ABANDONED_AFTER_MS) -> int | None:
        """Delete what crashes have left and what can never count; return how many objects (OBJ-15).

        Writes of several partitions that were begun before anything that was staged within
        *abandoned_after_ms* and that are not committed are voided, if they have staged anything
        (OBJ-16); who is late all the same is told so at the commit. ``None`` when somebody else has
        folded meanwhile; the next call does it.

        Raises:
            ChangelogCorruptedError, UnsupportedFormatError, StorageError: The log cannot be read.
            CommitInDoubtError: The object store does not answer. Trying again is harmless.
        """
        before = self._void_before(wall_clock_ms() - abandoned_after_ms)
        removed = run(vacuum(self.names, unique_id(), void_before=before), self.storage)
        if removed is None:
            return None
        return removed + self.remove_dead() + self.retire_former()

    def remove_dead(self) -> int:
        """Remove what reshards have put that nobody needs any more; return how many objects.

        That is what never counts, and the rows that the others have moved (OBJ-48, OBJ-50).

        Raises:
            StoreReshardedError: It has ended.
            ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
        """
        begun = [each.name for each in self.storage.list(self.names.generations)]
        return run(remove_dead(self.names, begun), self.storage)

    def retire_former(self) -> int:
        """Remove what the logs held that were ended before this one; return how many objects.

        Raises:
            ChangelogCorruptedError, UnsupportedFormatError, StorageError: One cannot be read.
            CommitInDoubtError: The object store does not answer. Trying again is harmless.
        """
        known = run(read_checkpoint(self.names), self.storage)
        former = [replace(self, generation=each) for each in known.checkpoint.former]
        return sum(run(retire(each.names, unique_id()), self.storage) or 0 for each in former)

    def _void_before(self, oldest_ms: int) -> int | None:
        """Return before which entry writes were begun that nobody commits any more.

        That is where the oldest write has begun that has staged something since *oldest_ms*;
        ``None`` if nothing would be deleted.
        """
        view = run(catch_up(self.names, ()), self.storage)
        counting = view.counting
        old: list[int] = []
        young: list[int] = []
        names = self.names
        staged = [(names.staged_by(each.name), each) for each in self.storage.list(names.staged)]
        checkpoint, void = view.checkpoint, view.void_before
        begun = [
            (generation, each)
            for each in self.storage.list(names.generations)
            if (generation := names.generation_of(each.name)) not in checkpoint.former
            and generation != checkpoint.generation
            and not never_counts(checkpoint, void, generation)
        ]
        for write, each in (*staged, *begun):
            if begun_at(write) >= 0 and write not in counting:
                (young if each.modified_ms >= oldest_ms else old).append(begun_at(write))
        bound = min(young, default=max(old, default=-1) + 1)
        return bound if any(begun < bound for begun in old) else None
