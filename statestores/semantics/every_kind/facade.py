"""What the read-only facades of every kind have in common (ROF)."""

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from typing import Any, ClassVar, Self, TypeVar

from statestores.errors import CapabilityNotSupportedError
from statestores.semantics.every_kind.engine_store import EngineStore
from statestores.semantics.every_kind.frozen_engine import FrozenEngine
from statestores.semantics.rows.layout import read_offset, read_position
from statestores.semantics.rows.progress import known_time
from statestores.spi.engine import Engine, EngineSnapshot
from statestores.spi.offsets import Position, TopicPartition, check_partition
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import Isolation, ReadOnlyStore
from statestores.spi.stores.stream_time import ReadOnlyTimedStore

T = TypeVar("T")


class EngineFacade(ReadOnlyStore):
    """What the facades of every kind have in common. The engine holds committed rows only."""

    isolation: ClassVar[Isolation] = Isolation.READ_COMMITTED
    """What it sees of the writer's pending writes."""

    def __init__(self, store: EngineStore[Any, Any], engine: Engine) -> None:
        self._store = store
        self._engine: Engine | FrozenEngine = engine

    def __repr__(self) -> str:
        return f"<read-only view of the {repr(self._store).strip('<>')}>"

    def at_one_commit(self) -> tuple[Self, EngineSnapshot]:
        """Return a facade whose reads, `position` among them, all see the last commit so far.

        Return with it the snapshot that it reads; close that when everything, iterators included,
        has been read.

        Raises:
            StoreClosedError: The store is closed.
            CapabilityNotSupportedError: This facade sees pending writes.
        """
        if self.isolation is not Isolation.READ_COMMITTED:
            raise CapabilityNotSupportedError(
                f"the facade of {self.name!r} sees pending writes, which are of no commit; read "
                "one with Isolation.READ_COMMITTED"
            )
        self._store.check_open()
        snapshot = self._engine.snapshot()
        frozen = copy(self)
        frozen._engine = FrozenEngine(self._engine, snapshot)  # noqa: SLF001  # of this class
        return frozen, snapshot

    @property
    def name(self) -> str:
        return self._store.name

    @property
    def specification(self) -> StoreSpecification[Any, Any]:
        return self._store.specification

    @property
    def is_open(self) -> bool:
        return self._store.is_open

    @property
    def position(self) -> Position:
        self._store.check_open()
        return read_position(self._engine)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        self._store.check_open()
        check_partition(partition)
        return read_offset(self._engine, partition)

    def next_offset(self, partition: TopicPartition) -> int:
        offset = self.committed_offset(partition)
        if offset is None or self._store.is_input(partition):
            offset = read_position(self._engine).get(partition)
        return 0 if offset is None else offset + 1


class TimedFacade(EngineFacade, ReadOnlyTimedStore):
    """What the facades of the kinds with a stream time have in common."""

    @abstractmethod
    def _stream_time(self) -> int:
        """Return the stream time of the visible content, or `NO_STREAM_TIME`."""

    @property
    def stream_time_ms(self) -> int | None:
        self._store.check_open()
        return known_time(self._stream_time())


class UncommittedFacade(EngineFacade):
    """What the facades that also see the writer's pending writes have in common."""

    isolation = Isolation.READ_UNCOMMITTED

    @property
    def position(self) -> Position:
        self._store.check_open()
        return self._store.position

    def _of_one_commit(
        self, look: Callable[[], T], discard: Callable[[T], object] | None = None
    ) -> T:
        """Return what *look* finds: a copy of the pending writes, and then a view of the engine.

        A commit between the two would hide newer rows behind older ones. What was found then goes
        to *discard*, and *look* is called again.

        Requires: each copy is one step of the interpreter, as ``dict.copy`` is: a loop over the
        live ``dict`` would not be.
        """
        while True:
            commits = self._store.commits
            found = look()
            if self._store.commits == commits:
                return found
            if discard is not None:
                discard(found)


class UncommittedTimedFacade(UncommittedFacade, TimedFacade):
    """Both: the stream time is that of the pending writes."""

    _uncommitted: Callable[[], tuple[object, int]]
    """Returns the pending writes, live, and their stream time."""

    def _stream_time(self) -> int:
        _, stream_time = self._uncommitted()
        return stream_time
