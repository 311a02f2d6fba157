"""What a store over an engine knows about itself, and how it ends.

Invariants:

* what is cached here of the engine (offsets, position) changes after a batch is applied;
* what must be settled before anything else is one attribute, `_unsettled`: a commit that nothing
  hinders looks at it once.
"""

from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from statestores.errors import CapabilityNotSupportedError, StateStoreError, StoreClosedError
from statestores.metering.metered_store import MeteredStore
from statestores.semantics.every_kind.arguments import durability_of
from statestores.semantics.every_kind.deferring_engine import DeferringEngine
from statestores.semantics.every_kind.journal import Journal
from statestores.semantics.every_kind.self_description import claim
from statestores.semantics.rows.closed_rows import ClosedRows
from statestores.semantics.rows.commit_batch import CommitBatch
from statestores.semantics.rows.layout import read_offsets, read_position
from statestores.semantics.rows.write_buffer import WriteBuffer
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine, WriteBatch
from statestores.spi.forking import of_parent
from statestores.spi.offsets import Position, TopicPartition, check_partition
from statestores.spi.specification import StoreSpecification

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


def kept_durability(engine: Engine, durability: Durability | str) -> Durability:
    """Return the *durability* of a store over *engine*, before anything is written there.

    Raises:
        InvalidArgumentError: There is no such durability.
        CapabilityNotSupportedError: The engine cannot keep it.
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
    return durability


class StoreState(MeteredStore, Generic[K, V]):
    """The state of every kind of store over an engine."""

    _specification: StoreSpecification[K, V]
    _offsets: dict[TopicPartition, int]
    _position: Position
    """It includes what is still to be committed."""

    _committed_position: Position
    _is_truncating: bool
    """Whether the engine has the mark of an unfinished truncation (COM-42)."""

    _shows_pending = False
    """Whether the batch of a commit shows the pending writes as they are, `_rows` of `_buffer`."""

    _buffer: WriteBuffer
    _rows: Any

    opened_at: Path | None = None
    """The directory of the engine, as far as whoever opened it has said it."""

    begun_from: tuple[int, int] | None = None
    """Offset and rows of the snapshot whose native part the engine was, if whoever opened it has
    made it of one (SNP-28)."""

    def __init__(
        self, engine: Engine, specification: StoreSpecification[K, V], durability: Durability
    ) -> None:
        """Take *engine* over: the store closes it.

        Raises:
            CapabilityNotSupportedError: The engine cannot keep *durability*.
            StoreMismatchError, UnsupportedFormatError: The engine holds another store.
        """
        durability = kept_durability(engine, durability)
        claim(engine, specification, durability)
        self._engine = engine
        self._engine_get = engine.get
        self._deferring = engine if isinstance(engine, DeferringEngine) else None
        self._begin_measuring()
        self._specification = specification
        self._durability = durability
        self._open = True
        self._is_of_parent = False
        self._uncommitted_bytes = 0
        self._position = self._committed_position = Position()
        self._journal: Journal | None = None
        self._is_journaled = False  # whether the journal may have pending writes
        self._is_applied = False  # whether the engine has a commit that raised
        self._is_told = False  # whether a rollback has said so
        self._unsettled: WriteBatch | StateStoreError | None = None
        self._cleared_at: int | None = None  # the journal's offset of the last truncation
        self.commits = 0  # counted before and after each: see the facades of pending writes

    def __repr__(self) -> str:
        kind = self._specification.kind
        place = "" if self.opened_at is None else f" in {str(self.opened_at)!r}"
        state = f"{self._uncommitted_bytes} bytes pending" if self._open else "closed"
        return f"<{kind} store {self.name!r}, {self._engine.name}{place}, {state}>"

    # What derived classes define.

    @abstractmethod
    def _forget_everything_pending(self) -> None:
        """Take back every write and position change since the last commit."""

    @abstractmethod
    def _close_pending(self, closed: ClosedRows) -> None:
        """Put *closed* in place of the pending writes."""

    # What all kinds do.

    def _read_committed(self) -> None:
        """Read from the engine what is kept of it in memory; a pending position stays."""
        self._offsets = read_offsets(self._engine)
        stored = read_position(self._engine)
        pending = stored if self._position is self._committed_position else self._position
        # One line, so that no interrupt comes in between.
        self._committed_position, self._position = stored, stored if pending == stored else pending

    def _give(self, batch: CommitBatch, durability: Durability | None) -> None:
        """Give the engine the *batch* of a commit; ``None``: the journal has it, durably."""
        if durability is not None:
            self._engine.apply(batch, durability)
        elif self._deferring is None:
            self._engine.apply(batch, Durability.PROCESS_CRASH)
        else:
            self._deferring.defer(batch, self._uncommitted_bytes)

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
    def engine_class(self) -> type[Engine]:
        """What opens the copies that `checkpoint` makes."""
        return type(self._engine if self._deferring is None else self._deferring.behind)

    def checkpoint(self, path: Path) -> None:
        """Copy the engine as it is now, committed rows alone, into the new directory *path*.

        Any thread may call it.

        Raises:
            StoreClosedError: The store is closed.
            CapabilityNotSupportedError: The engine has no native checkpoint.
            StorageError: The copy cannot be written.
        """
        self.check_open()
        self._engine.checkpoint(path)

    @property
    def owes_removals(self) -> bool:
        """Whether expired rows wait for the next commits, since `commit_rows` removes none."""
        return False

    @property
    def has_journal(self) -> bool:
        """Whether a journal takes the changes of each commit first, and so needs them pending."""
        return self._journal is not None

    @property
    def position(self) -> Position:
        return self._position

    def replace_position(self, position: Mapping[TopicPartition, int | None]) -> None:
        """Have the position say exactly *position* of its partitions, and of others what it says.

        ``None`` is for a partition of which the content reflects nothing. The next commit stores
        it, and a rollback forgets it. It may go back, as `advance_position` does not (COM-11): it
        is for whoever knows from elsewhere what the content reflects.

        Requires: no journal is attached, whose frames have merged positions (LOG-6).

        Raises:
            StoreClosedError: The store is closed.
            InvalidTypeError, InvalidArgumentError: A partition or offset is malformed.
        """
        self.check_open()
        for partition in position:
            check_partition(partition)
        kept = {place: at for place, at in self._position.items() if place not in position}
        said = {place: at for place, at in position.items() if at is not None}
        replaced = Position(kept | said)
        if replaced != self._position:  # so that identity tells whether there is one to commit
            self._position = replaced

    @property
    def uncommitted_bytes(self) -> int:
        return self._uncommitted_bytes

    def is_input(self, partition: TopicPartition) -> bool:
        """Whether only the position can say how far *partition* has been read (LGS-13)."""
        return self._journal is not None and partition != self._journal.partition

    def attach_journal(self, journal: Journal) -> None:
        """Have *journal* take the pending changes of each commit before the engine does.

        Requires: the store has what the journal holds so far.
        """
        self._journal = journal

    def close(self) -> None:
        # Each step may be repeated, so that an interrupted close can be repeated too.
        if self._open:
            self._close_pending(ClosedRows(self._why_closed()))
            self._open = False
        self._engine.close()

    def disown(self) -> None:
        """Be closed in a forked child, and leave the engine to the parent (COM-44)."""
        if self._open and self._engine.capabilities.persistent:
            self._open, self._is_of_parent = False, True
            self._close_pending(ClosedRows(self._why_closed()))

    def _why_closed(self) -> str:
        what = f"the store {self.name!r}"
        return of_parent(what) if self._is_of_parent else f"{what} is closed; open it again"

    def check_open(self) -> None:
        """Return while the store is open.

        Raises:
            StoreClosedError: It is closed.
        """
        if not self._open:
            raise StoreClosedError(self._why_closed())

    def while_open(self, items: Iterator[T]) -> Generator[T, None, None]:
        """Do as `guarded`, and count the iterator among the open ones."""
        return self.count_iterator(self.guarded(items))

    def guarded(self, items: Iterator[T]) -> Generator[T, None, None]:
        """Pass *items* on as long as the store is open (KVS-13).

        Raises:
            StoreClosedError: The store was closed before the end was reached: even at the last
                item, since nobody can now say whether it was the last.
        """
        for item in items:
            if not self._open:
                self.check_open()
            yield item
        self.check_open()
