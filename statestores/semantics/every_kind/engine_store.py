"""A store over an engine: commit with offsets, rollback, position.

The kinds derive from `EngineStore` and say what their pending writes are. Invariants:

* the engine holds committed rows only, and each commit is one batch, offsets included (COM-1);
* pending writes change nothing in the engine, so `rollback` and a crash only forget them;
* what a commit that ended with an error has left is in doubt (`settling`).
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from itertools import chain
from time import perf_counter_ns
from typing import Any, TypeVar, cast

from statestores.errors import (
    CommitConflictError,
    CommitInDoubtError,
    InvalidArgumentError,
    StateStoreError,
)
from statestores.failpoints import reach
from statestores.semantics.every_kind.arguments import durability_of
from statestores.semantics.every_kind.journal import Journal
from statestores.semantics.every_kind.offsets_to_commit import (
    judge_offsets,
    refuse_journal_partition,
)
from statestores.semantics.every_kind.settling import HALF_ROLLED_BACK, NOTHING_GIVEN
from statestores.semantics.every_kind.sorted_rows import SortedRows, sampled
from statestores.semantics.every_kind.truncation import TruncatingStore
from statestores.semantics.rows.commit_batch import CommitBatch
from statestores.semantics.rows.layout import (
    POSITION_ROW,
    TRUNCATING_ROW,
    offset_row,
    pack_offset,
    pack_position,
)
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine
from statestores.spi.forking import disown_after_fork
from statestores.spi.offsets import Position, TopicPartition, check_partition
from statestores.spi.records import Changes
from statestores.spi.specification import StoreSpecification

K = TypeVar("K")
V = TypeVar("V")

FEW_ROWS = 4
"""Up to so many rows of one call are read or put by single calls, where these take less
(docs/decisions/0210-what-a-put-of-many-versions-cannot-leave-out.md)."""


class EngineStore(TruncatingStore[K, V]):
    """What every kind of store over an engine has in common."""

    def __init__(
        self, engine: Engine, specification: StoreSpecification[K, V], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        self._is_truncating = engine.get(TRUNCATING_ROW) is not None
        if self._is_truncating:
            self._finish_truncating()
        else:
            self._read_committed()
        disown_after_fork(self)

    # What a kind defines.

    @abstractmethod
    def _pending_rows(self) -> CommitBatch:
        """Return a new batch of the rows that the pending writes change.

        It may be a view of these writes, if the kind says so (`_shows_pending`): they are
        forgotten, or parted from it, before another write is made.
        """

    @abstractmethod
    def _has_pending_writes(self) -> bool:
        """Return whether a write of whatever size waits for the commit (COM-45)."""

    @abstractmethod
    def _forget_pending(self, *, committed: bool) -> None:
        """Start with no pending writes: they are *committed*, or rolled back."""

    @abstractmethod
    def _progress_rows(self, rows: SortedRows) -> dict[bytes, bytes | None]:
        """Return a new batch of what the commit of encoded *rows* changes in addition to them."""

    def _forget_progress(self) -> None:
        """Treat the store as one that has seen nothing: neither a time nor an expiry."""

    def pending_columns(self) -> tuple[Any, ...] | None:
        """Return `pending_changes` as the Arrow columns of a changelog, if they are at hand."""
        return None

    # What all kinds do.

    @property
    def has_pending_writes(self) -> bool:
        self.check_open()
        return self._has_pending_writes()

    def advance_position(self, position: Mapping[TopicPartition, int]) -> None:
        self.check_open()
        if self._journal is not None:
            refuse_journal_partition(self.name, self._journal.partition, position)
        merged = self._position.merge(Position(position))
        if merged != self._position:  # so that identity tells whether there is one to commit
            self._position = merged

    def committed_offset(self, partition: TopicPartition) -> int | None:
        self.check_open()
        check_partition(partition)
        if self._unsettled is not None:
            self._settle()
        return self._offsets.get(partition)

    def committed_offsets(self) -> dict[TopicPartition, int]:
        self.check_open()
        if self._unsettled is not None:
            self._settle()
        return dict(self._offsets)

    def next_offset(self, partition: TopicPartition) -> int:
        offset = self.committed_offset(partition)
        if offset is None or self.is_input(partition):
            offset = self._committed_position.get(partition)
        return 0 if offset is None else offset + 1

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | None],
        *,
        durability: Durability | None = None,
    ) -> None:
        self.commit_and_tell(offsets, durability)

    def commit_and_tell(
        self,
        offsets: Mapping[TopicPartition, int | None],
        durability: Durability | None = None,
        changes: Changes | None = None,
    ) -> int | None:
        """Commit, and return the committed offset of the journal; ``None`` without one.

        Asking for it afterwards would be one more step, and the caller would take an interrupt
        there for an interrupted commit.

        The journal is given *changes*, if there are any. Requires: they are the pending changes.
        """
        began_ns = perf_counter_ns()
        staged = self._begin_commit(offsets)
        durability = self._durability if durability is None else durability_of(durability)
        batch: CommitBatch | None = None
        try:
            journal = self._journal
            if journal is not None and self._has_something_to_journal():
                staged[journal.partition] = self._append(journal, durability, changes)
                durability = None  # what a failure takes from the engine is in the journal
            rows = self._pending_rows()
            self._add_metadata(rows, staged)
            self.commits += 1
            reach("commit.apply.before")
            batch, self._commit_began_ns = rows, began_ns
            self._give(batch, durability)
            reach("commit.apply.after")
            self._measure_commit(len(batch))
            self._end_commit(staged)
            return None if journal is None else self._offsets.get(journal.partition)
        except CommitInDoubtError as error:
            self._unsettled = error
            self._forget_cached()
            raise
        except BaseException:  # also an interrupt that came after the engine was done
            self._unsettled = NOTHING_GIVEN if batch is None else batch  # no call: see `_find_out`
            if self._shows_pending:  # no call either: no write that comes next is in the batch
                self._rows = self._buffer.rows = {**self._rows}
            try:
                self._find_out()
            except BaseException:
                self._find_out()
                raise
            raise

    def _append(self, journal: Journal, durability: Durability, changes: Changes | None) -> int:
        """Have *journal* take the pending changes, and note that it has them (LGS-10)."""
        if changes is None:
            changes = self.pending_changes()
        before = self._is_journaled
        end_offset = journal.end_offset
        self._is_journaled = True  # before it is: an interrupt may come before it is known
        try:
            return journal.append(changes, self._position, durability)
        except CommitInDoubtError:
            raise
        except StateStoreError:
            self._is_journaled = before or journal.end_offset != end_offset
            raise

    def commit_rows(
        self,
        rows: SortedRows,
        offsets: Mapping[TopicPartition, int | None],
        *,
        durability: Durability | None = None,
    ) -> None:
        """Commit encoded *rows* with *offsets* and the position, past the write buffer (COM-1).

        This is the same as putting what they stand for, and is one batch as well. An engine with
        bulk ingestion takes them that way, unless something is deleted, and the commit is then
        durable as `Durability.POWER_LOSS`.

        Requires: the rows are those that the kind would write, in its namespaces.

        Raises:
            InvalidArgumentError: Writes are pending, or a journal is attached, which would miss
                them. The keys do not ascend, and the engine found out.
            StateStoreError: As for `commit`.
        """
        staged = self._begin_commit(offsets)
        durability = self._durability if durability is None else durability_of(durability)
        if self._has_pending_writes() or self._journal is not None:
            raise InvalidArgumentError(
                f"{self.name!r} has pending writes or a journal, and rows are committed past them; "
                "commit or roll back first, and attach the journal later"
            )
        batch = self._progress_rows(rows)
        self._add_metadata(batch, staged)
        self._forget_cached()
        deletes = rows.has_deletions or None in batch.values()
        self.commits += 1
        reach("commit.apply.before")
        given: dict[bytes, bytes | None] = {}  # rows that tell whether the engine has all of them
        try:
            if self._engine.capabilities.bulk_ingest and not deletes:
                # Nothing is None, and all of it lies below the rows.
                metadata = cast("list[tuple[bytes, bytes]]", sorted(batch.items()))
                data = cast("Iterable[tuple[bytes, bytes]]", rows.rows)
                self._engine.ingest(sampled(chain(metadata, data), given))
            else:
                batch.update(rows.rows)
                given = batch
                self._engine.apply(batch, durability)
            reach("commit.apply.after")
            self._end_commit(staged)
        except CommitInDoubtError as error:
            self._unsettled = error
            raise
        except BaseException:
            self._unsettled = given  # no call: see `_find_out`
            try:
                self._find_out()
            except BaseException:
                self._find_out()
                raise
            raise

    def _begin_commit(
        self, offsets: Mapping[TopicPartition, int | None]
    ) -> dict[TopicPartition, int | None]:
        """Return a copy of *offsets* once they may be committed, and nothing stands in the way."""
        self.check_open()
        if self._unsettled is not None:
            self._settle()
        if self._is_truncating:  # one that has failed: what follows must not be deleted (COM-42)
            self._finish_truncating()
            self._forget_cached()
        return self._judge_offsets(offsets)

    def _judge_offsets(
        self, offsets: Mapping[TopicPartition, int | None]
    ) -> dict[TopicPartition, int | None]:
        """Return a copy of *offsets* once all of them may be committed."""
        return judge_offsets(self.name, offsets, self._offsets, self._journal)

    def _add_metadata(
        self, batch: CommitBatch, staged: Mapping[TopicPartition, int | None]
    ) -> None:
        """Add the rows of the offsets and the position to *batch*."""
        for partition, offset in staged.items():
            batch[offset_row(partition)] = None if offset is None else pack_offset(offset)
        if self._position is not self._committed_position:
            batch[POSITION_ROW] = pack_position(self._position)

    def _end_commit(self, staged: Mapping[TopicPartition, int | None]) -> None:
        """Note that the engine has a commit with the offsets *staged*."""
        self._is_journaled = self._is_applied = False
        for partition, offset in staged.items():
            if offset is None:
                self._offsets.pop(partition, None)
            else:
                self._offsets[partition] = offset
        self._committed_position = self._position
        self.commits += 1
        self._forget_pending(committed=True)
        self._uncommitted_bytes = 0

    def _has_something_to_journal(self) -> bool:
        """Return whether a commit would change content or position."""
        return self._has_pending_writes() or self._position is not self._committed_position

    def clear_offsets(self) -> None:
        offsets = self.committed_offsets()
        if self._journal is not None:
            raise InvalidArgumentError(
                f"the committed offset of {self.name!r} is that of its changelog, and without it "
                "the store could not be opened again; truncate() the store to begin anew"
            )
        try:
            self._engine.apply({offset_row(key): None for key in offsets}, self._durability)
            self._offsets.clear()
        except CommitInDoubtError as error:
            self._unsettled = error
            raise
        except BaseException:
            self._unsettled = {}  # the pending writes are not in the batch
            try:
                self._find_out()
            except BaseException:
                self._find_out()
                raise
            raise

    def rollback(self) -> None:
        self.check_open()
        if self._unsettled is not None and self._unsettled is not HALF_ROLLED_BACK:
            self._settle()
        self._refuse_forgetting_what_is_there()
        # Commits no part of it if this is interrupted. What the engine has was told of.
        self._is_applied, self._unsettled = False, HALF_ROLLED_BACK
        self._forget_everything_pending()
        self._unsettled = None

    def _refuse_forgetting_what_is_there(self) -> None:
        """Accept a rollback that takes nothing back which is committed, as far as its caller knows.

        Raises:
            CommitConflictError: See `StateStore.rollback`.
        """
        if self._is_journaled:
            raise CommitConflictError(
                f"the changelog of {self.name!r} has, or may have, the pending writes already: a "
                "commit failed after it was given them; commit again, or close the store and open "
                "it"
            )
        is_written = self._has_pending_writes() or self._position is not self._committed_position
        if self._is_applied and not (self._is_told and is_written):
            self._is_told = True
            raise CommitConflictError(
                f"the engine of {self.name!r} has what a commit that failed was to bring, and that "
                "stays; what was written since, if anything, is pending: commit again, or roll "
                "back once more to forget that alone"
            )

    def _forget_everything_pending(self) -> None:
        if self._is_truncating:  # also while the engine still has it
            self._forget_progress()
        self._position = self._committed_position
        self._uncommitted_bytes = 0
        self._forget_cached()
        self._forget_pending(committed=False)
