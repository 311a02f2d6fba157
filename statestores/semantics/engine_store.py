"""A store over an engine: commit with offsets, rollback, position, truncate, close.

The kinds derive from `EngineStore` and say what their pending writes are. Invariants:

* the engine holds committed rows only, and each commit is one batch, offsets included (COM-1);
* pending writes change nothing in the engine, so `rollback` and a crash only forget them;
* what is cached here of the engine (offsets, position) changes after the batch is applied;
* a batch with which the engine failed is *in doubt* until the engine has been asked (COM-43).
"""

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from time import perf_counter_ns
from typing import Any, Generic, TypeAlias, TypeVar, cast

from statestores.errors import (
    CapabilityNotSupportedError,
    CommitConflictError,
    InvalidArgumentError,
    InvalidTypeError,
    OffsetRegressionError,
    StateStoreError,
    StoreClosedError,
)
from statestores.failpoints import reach
from statestores.semantics.arguments import durability_of
from statestores.semantics.closed_rows import ClosedRows
from statestores.semantics.key_value_rows import NamespacedRows
from statestores.semantics.layout import (
    POSITION_ROW,
    PROGRESS_ROW,
    TRUNCATING_ROW,
    offset_row,
    pack_offset,
    pack_position,
    read_offsets,
    read_position,
)
from statestores.semantics.metered_store import MeteredStore
from statestores.semantics.self_description import claim
from statestores.semantics.sorted_rows import SortedRows
from statestores.semantics.truncation import delete_all_rows
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine, WriteBatch
from statestores.spi.forking import disown_after_fork
from statestores.spi.offsets import Position, TopicPartition, check_offset, check_partition
from statestores.spi.records import Changes
from statestores.spi.specification import StoreSpecification

Journal: TypeAlias = Callable[[Changes, Position, Durability], tuple[TopicPartition, int]]
"""Makes changes and position durable; returns the changelog partition and the last offset."""

K = TypeVar("K")
V = TypeVar("V")


class EngineStore(MeteredStore, Generic[K, V]):
    """What every kind of store over an engine has in common."""

    _specification: StoreSpecification[K, V]

    def __init__(
        self, engine: Engine, specification: StoreSpecification[K, V], durability: Durability
    ) -> None:
        """Take *engine* over: the store closes it.

        Raises:
            CapabilityNotSupportedError: The engine cannot keep *durability*.
            StoreMismatchError, UnsupportedFormatError: The engine holds another store.
        """
        durability = durability_of(durability)
        capabilities = engine.capabilities
        if (
            durability is Durability.POWER_LOSS
            and capabilities.persistent
            and not capabilities.durable_commit
        ):
            raise CapabilityNotSupportedError(
                f"the {engine.name!r} backend does not declare durable commits; "
                "open the store with Durability.PROCESS_CRASH"
            )
        claim(engine, specification, durability)
        self._engine = engine
        self._engine_get = engine.get
        self._begin_measuring()
        self._specification = specification
        self._durability = durability
        self._open = True
        self._uncommitted_bytes = 0
        self._journal: Journal | None = None
        self._is_journaled = False  # whether the journal has the pending writes, or some of them
        self._in_doubt: WriteBatch | None = None  # failed, and the engine may have it
        self._is_applied = False  # whether the engine has the pending writes, or some of them
        self._commits = 0  # counted before and after each: see the facades of pending writes
        self._is_truncating = engine.get(TRUNCATING_ROW) is not None
        if self._is_truncating:
            self._finish_truncating()
        else:
            self._read_committed()
        disown_after_fork(self)

    def _read_committed(self) -> None:
        """Take from the engine what is kept of it in memory."""
        self._offsets = read_offsets(self._engine)
        self._committed_position = self._position = read_position(self._engine)

    # What a kind says.

    @abstractmethod
    def _pending_rows(self) -> dict[bytes, bytes | None] | NamespacedRows:
        """Return a new batch of the rows that the pending writes change.

        It may be a view of these writes: it is done with when another write is made.
        """

    @abstractmethod
    def _forget_pending(self, *, committed: bool) -> None:
        """Start with no pending writes: they are *committed*, or rolled back."""

    @abstractmethod
    def _progress_rows(self, rows: SortedRows) -> dict[bytes, bytes | None]:
        """Return a new batch of what the commit of encoded *rows* changes besides them."""

    def _forget_cached(self) -> None:
        """Forget the rows that are kept of the engine in memory: it may have others now."""

    @abstractmethod
    def _close_pending(self, closed: ClosedRows) -> None:
        """Put *closed* in the place of the pending writes."""

    # What all kinds do.

    @property
    def name(self) -> str:
        return self._specification.name

    @property
    def specification(self) -> StoreSpecification[K, V]:
        return self._specification

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def persistent(self) -> bool:
        return self._engine.capabilities.persistent

    @property
    def ingests(self) -> bool:
        """Whether the engine takes the rows of `commit_rows` in sorted files."""
        return self._engine.capabilities.bulk_ingest

    @property
    def has_journal(self) -> bool:
        """Whether a journal takes the changes of each commit first, and so needs them pending."""
        return self._journal is not None

    @property
    def position(self) -> Position:
        return self._position

    @property
    def uncommitted_bytes(self) -> int:
        return self._uncommitted_bytes

    def advance_position(self, position: Mapping[TopicPartition, int]) -> None:
        self.check_open()
        merged = self._position.merge(Position(position))
        if merged != self._position:  # so that identity tells whether there is one to commit
            self._position = merged

    def committed_offset(self, partition: TopicPartition) -> int | None:
        self.check_open()
        check_partition(partition)
        if self._in_doubt is not None:
            self._settle()
        return self._offsets.get(partition)

    def committed_offsets(self) -> dict[TopicPartition, int]:
        self.check_open()
        if self._in_doubt is not None:
            self._settle()
        return dict(self._offsets)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | None],
        *,
        durability: Durability | None = None,
    ) -> None:
        began_ns = perf_counter_ns()
        staged = self._begin_commit(offsets)
        durability = self._durability if durability is None else durability_of(durability)
        if self._journal is not None and self._has_something_to_journal():
            logged, last = self._journal(self.pending_changes(), self._position, durability)
            self._is_journaled = True
            staged[logged] = last
            # What a power failure takes from the store is in the journal, durably.
            durability = Durability.PROCESS_CRASH
        batch = self._pending_rows()
        self._add_metadata(batch, staged)
        self._commits += 1
        reach("commit.apply.before")
        self._apply(batch, durability)
        reach("commit.apply.after")
        self._measure_commit(began_ns, len(batch))
        self._end_commit(staged)

    def commit_rows(
        self,
        rows: SortedRows,
        offsets: Mapping[TopicPartition, int | None],
        *,
        durability: Durability | None = None,
    ) -> None:
        """Commit encoded *rows* with *offsets* and the position, past the write buffer (COM-1).

        The same as putting what they stand for, and one batch as well. An engine with bulk
        ingestion takes them so, unless something is deleted, and then it is durable as
        `Durability.POWER_LOSS`.

        Requires: the rows are those that the kind would write, in its namespaces.

        Raises:
            InvalidArgumentError: Writes are pending, or a journal is attached, which would miss
                them. The keys do not ascend, and the engine found it out.
            StateStoreError: As for `commit`.
        """
        staged = self._begin_commit(offsets)
        durability = self._durability if durability is None else durability_of(durability)
        if self._uncommitted_bytes or self._journal is not None:
            raise InvalidArgumentError(
                f"{self.name!r} has pending writes or a journal, and rows are committed past them; "
                "commit or roll back first, and attach the journal later"
            )
        batch = self._progress_rows(rows)
        self._add_metadata(batch, staged)
        self._forget_cached()
        deletes = rows.has_deletions or None in batch.values()
        self._commits += 1
        reach("commit.apply.before")
        try:
            if self._engine.capabilities.bulk_ingest and not deletes:
                # Nothing is None, and all of it lies below the rows.
                metadata = cast("list[tuple[bytes, bytes]]", sorted(batch.items()))
                data = cast("Iterable[tuple[bytes, bytes]]", rows.rows)
                self._engine.ingest(chain(metadata, data))
            else:
                batch.update(rows.rows)
                self._engine.apply(batch, durability)
        except BaseException:
            self._in_doubt = {}  # nothing is pending: the engine is asked what it has
            raise
        reach("commit.apply.after")
        self._end_commit(staged)

    def _begin_commit(
        self, offsets: Mapping[TopicPartition, int | None]
    ) -> dict[TopicPartition, int | None]:
        """Return a copy of *offsets* once they may be committed, and nothing stands in the way."""
        self.check_open()
        if self._in_doubt is not None:
            self._settle()
        if self._is_truncating:  # one that has failed: what follows must not be deleted (COM-42)
            advanced = self._position
            self._finish_truncating()
            self._forget_cached()
            self._position = advanced or self._position
        return self._judge_offsets(offsets)

    def _add_metadata(
        self,
        batch: dict[bytes, bytes | None] | NamespacedRows,
        staged: Mapping[TopicPartition, int | None],
    ) -> None:
        """Add the rows of offsets and position to *batch*."""
        for partition, offset in staged.items():
            batch[offset_row(partition)] = None if offset is None else pack_offset(offset)
        if self._position is not self._committed_position:
            batch[POSITION_ROW] = pack_position(self._position)

    def _end_commit(self, staged: Mapping[TopicPartition, int | None]) -> None:
        """Take note that the engine has a commit with the offsets *staged*."""
        self._is_journaled = self._is_applied = False
        for partition, offset in staged.items():
            if offset is None:
                self._offsets.pop(partition, None)
            else:
                self._offsets[partition] = offset
        self._committed_position = self._position
        self._commits += 1
        self._forget_pending(committed=True)
        self._uncommitted_bytes = 0

    def _apply(self, batch: WriteBatch, durability: Durability) -> None:
        """Apply *batch*; when that fails, find out what has become of it (COM-43)."""
        try:
            self._engine.apply(batch, durability)
        except BaseException:  # also an interrupt that came after the engine was done
            self._in_doubt = dict(batch)
            with suppress(StateStoreError):  # it cannot be asked now: whoever needs to know asks
                self._settle()
            raise

    def _settle(self) -> None:
        """Ask the engine whether it has the batch in doubt: a batch is there whole, or not at all.

        Raises:
            StateStoreError: The engine cannot be read; the batch stays in doubt.
        """
        batch = self._in_doubt
        if batch is not None:
            stored = self._engine.get_many(list(batch))
            self._is_applied = self._is_applied or (bool(batch) and stored == list(batch.values()))
            position = self._position
            self._read_committed()
            self._forget_cached()
            if position != self._committed_position:
                self._position = position  # still to be committed
        self._in_doubt = None

    def attach_journal(self, journal: Journal) -> None:
        """Have *journal* take the pending changes of each commit before the engine does.

        Requires: the store has what the journal holds so far.
        """
        self._journal = journal

    def _has_something_to_journal(self) -> bool:
        """Return whether a commit would change content or position."""
        return bool(self._uncommitted_bytes) or self._position is not self._committed_position

    def _judge_offsets(
        self, offsets: Mapping[TopicPartition, int | None]
    ) -> dict[TopicPartition, int | None]:
        """Return a copy of *offsets* once all of them may be committed."""
        if not isinstance(offsets, Mapping):
            raise InvalidTypeError(
                f"offsets must map a TopicPartition to an offset, got {offsets!r}; "
                "use {} to leave them as they are"
            )
        staged = dict(offsets)
        for partition, offset in staged.items():
            check_partition(partition)
            if offset is None:
                continue
            check_offset(partition, offset)
            committed = self._offsets.get(partition)
            if committed is not None and offset < committed:
                raise OffsetRegressionError(
                    f"offset {offset} of {partition.topic}-{partition.partition} is lower than "
                    f"the committed {committed}; to start over, commit None or clear_offsets()"
                )
        return staged

    def clear_offsets(self) -> None:
        offsets = self.committed_offsets()
        self._apply({offset_row(key): None for key in offsets}, self._durability)
        self._offsets.clear()

    def rollback(self) -> None:
        self.check_open()
        if self._in_doubt is not None:
            self._settle()
        if self._is_journaled or self._is_applied:
            where = "changelog" if self._is_journaled else "engine"
            raise CommitConflictError(
                f"the {where} of {self.name!r} has the pending writes already, since a commit "
                "failed after it took them; commit again, or close the store and open it"
            )
        self._forget_everything_pending()

    def _forget_everything_pending(self) -> None:
        self._position = self._committed_position
        self._uncommitted_bytes = 0
        self._forget_cached()
        self._forget_pending(committed=False)

    def truncate(self) -> None:
        self.check_open()
        self._forget_everything_pending()
        self._is_journaled = self._is_applied = False
        self._in_doubt = None
        self._commits += 1
        self._is_truncating = True  # from now on: who knows what an engine that fails has done
        self._position = self._committed_position = Position()
        self._finish_truncating()
        self._commits += 1
        self._forget_everything_pending()

    def _finish_truncating(self) -> None:
        """Set the mark, delete all rows but the description, offsets first, and then the mark.

        It can be called again when it fails: the mark stays until nothing else is left.
        """
        self._engine.apply({TRUNCATING_ROW: b""}, self._durability)
        reach("truncate.marked")
        delete_all_rows(self._engine, self.name)
        self._engine.apply(
            {POSITION_ROW: None, PROGRESS_ROW: None, TRUNCATING_ROW: None}, self._durability
        )
        self._is_truncating = False
        self._read_committed()

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        self._close_pending(ClosedRows(self.name))
        self._engine.close()

    def disown(self) -> None:
        """Be closed in a forked child, and leave the engine to the parent (COM-44)."""
        if self._open and self._engine.capabilities.persistent:
            self._open = False
            self._close_pending(ClosedRows(self.name))

    def check_open(self) -> None:
        """Return while the store is open.

        Raises:
            StoreClosedError: It is closed.
        """
        if not self._open:
            raise StoreClosedError(f"the store {self.name!r} is closed; open it again")

    def while_open(self, items: Iterator[Any]) -> Generator[Any, None, None]:
        """Do as `guarded`, and count the iterator among the open ones."""
        return self.count_iterator(self.guarded(items))

    def guarded(self, items: Iterator[Any]) -> Generator[Any, None, None]:
        """Pass *items* on as long as the store is open (KVS-13).

        Raises:
            StoreClosedError: The store was closed before the end was reached: also at the last
                item, since nobody can say any more whether it was the last.
        """
        for item in items:
            if not self._open:
                self.check_open()
            yield item
        self.check_open()
