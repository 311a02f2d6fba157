"""Processors: functions of records with state and time of their own (KIP-28)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, overload

from statestores.processing.record import Record
from statestores.spi import (
    KeyValue,
    KeyValueStore,
    Session,
    SessionStore,
    StoreSpecification,
    TimestampedKeyValue,
    TimestampedKeyValueStore,
    Versioned,
    VersionedStore,
    Window,
    WindowStore,
)

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
SK = TypeVar("SK")
SV = TypeVar("SV")

Clock: TypeAlias = Literal["stream", "wall"]
"""Stream time moves with the records, and is the same in every run; the wall clock is not."""


class Cancellable(Protocol):
    """What `Context.every` returns."""

    def cancel(self) -> None:
        """Call no more, also not after a restart."""


class Context(Protocol[K2, V2]):
    """What a processor can ask and tell its task."""

    @property
    def topic(self) -> str:
        """The topic of the record at hand; empty in a timer."""

    @property
    def partition(self) -> int:
        """The partition of the record at hand; in a timer, that of the task."""

    @property
    def offset(self) -> int:
        """The offset of the record at hand; -1 in a timer."""

    @property
    def stream_time_ms(self) -> int:
        """The highest timestamp that the task has seen, of any topic; -1 before the first."""

    @property
    def wall_time_ms(self) -> int:
        """The wall clock as the runner has it: in tests it moves by hand only."""

    def forward(self, record: Record[K2, V2], to: str | None = None) -> None:
        """Give *record* to every child, or to the one whose name is *to*."""

    def every(
        self,
        interval_ms: int,
        callback: Callable[[int], None],
        *,
        clock: Clock = "stream",
        start_ms: int | None = None,
    ) -> Cancellable:
        """Call *callback* with the time, every *interval_ms*, from *start_ms* on.

        When several intervals have passed at once it is called once. It survives a crash: a
        processor that asks for the same again in `open` goes on where the last commit was.
        """

    def commit(self) -> None:
        """Ask for a commit soon. The runner decides when."""

    def drop(self, record: Record[Any, Any], reason: str) -> None:
        """Count *record* as dropped, and say so in the log."""


class Processor(ABC, Generic[K, V, K2, V2]):
    """A step with code of its own: one instance for each task, used by one thread at a time.

    Stores are declared as class attributes, and read by `store`.
    """

    context: Context[K2, V2]
    """Set before `open`."""

    _stores: Callable[[str], Any]
    _name: str = ""

    def open(self, context: Context[K2, V2]) -> None:  # may do nothing
        """Get ready: stores and timers can be had from here on."""

    @abstractmethod
    def process(self, record: Record[K, V]) -> None:
        """Take a record."""

    def close(self) -> None:  # may do nothing
        """Let go of what is not a store."""

    def forward(self, record: Record[K2, V2], to: str | None = None) -> None:
        """Give *record* to every child, or to the one whose name is *to*."""
        self.context.forward(record, to)

    @overload
    def store(
        self, specification: TimestampedKeyValue[SK, SV]
    ) -> TimestampedKeyValueStore[SK, SV]: ...
    @overload
    def store(self, specification: KeyValue[SK, SV]) -> KeyValueStore[SK, SV]: ...
    @overload
    def store(self, specification: Versioned[SK, SV]) -> VersionedStore[SK, SV]: ...
    @overload
    def store(self, specification: Window[SK, SV]) -> WindowStore[SK, SV]: ...
    @overload
    def store(self, specification: Session[SK, SV]) -> SessionStore[SK, SV]: ...
    def store(self, specification: StoreSpecification[Any, Any]) -> Any:
        """Return the task's store of *specification*, which the processor has declared.

        It refuses what would tear the task's commit apart: `commit`, `rollback` and the like.

        Raises:
            StoreNotFoundError: The processor has not declared it.
        """
        return self._stores(specification.name)


def declared_stores(processor: object) -> tuple[StoreSpecification[Any, Any], ...]:
    """Return the stores that a processor's class declares as attributes."""
    cls = processor if isinstance(processor, type) else type(processor)
    found: dict[str, StoreSpecification[Any, Any]] = {}
    for each in reversed(cls.__mro__):
        for value in vars(each).values():
            if isinstance(value, StoreSpecification):
                found[value.name] = value
    return tuple(found.values())
