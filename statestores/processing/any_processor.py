"""What processors of records and of batches have in common: their task, and the stores declared."""

from abc import ABC
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, overload

from statestores.errors import InvalidArgumentError, InvalidTypeError
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

SK = TypeVar("SK")
SV = TypeVar("SV")

Clock: TypeAlias = Literal["stream", "wall"]
"""Stream time moves with the records, and is the same in every run; the wall clock is not."""


class Cancellable(Protocol):
    """What `AnyContext.every` returns."""

    def cancel(self) -> None:
        """Call no more, also not after a restart."""


class AnyContext(Protocol):
    """What every processor can ask and tell its task."""

    @property
    def topic(self) -> str:
        """The topic of the record or batch at hand; empty in a timer."""

    @property
    def partition(self) -> int:
        """The partition of the record or batch at hand; in a timer, that of the task."""

    @property
    def offset(self) -> int:
        """The offset of the record at hand, of a batch that of its first one; -1 in a timer."""

    @property
    def stream_time_ms(self) -> int:
        """The highest timestamp that the task has seen, of any topic; -1 before the first.

        What is at hand has been seen: of a batch, all of it.
        """

    @property
    def wall_time_ms(self) -> int:
        """The wall clock as the runner has it: in tests it moves by hand only."""

    def every(
        self,
        interval_ms: int,
        callback: Callable[[int], None],
        *,
        clock: Clock = "stream",
        start_ms: int | None = None,
    ) -> Cancellable:
        """Call *callback* with the time, every *interval_ms*, from *start_ms* on.

        Args:
            interval_ms: How far apart, from 1.
            callback: Called with the time of the clock, not with the time that was due.
            clock: ``stream`` moves with the records; ``wall`` is the machine's.
            start_ms: The first time; by default the first record's, or one interval from now on
                the wall.

        When several intervals have passed at once it is called once. It survives a crash: a
        processor that asks for the same again in `open` goes on where the last commit was. A timer
        is known by its clock, its interval and its place among those of its clock that the
        processor asks for. So put new ones behind the others: one that stands where a cancelled one
        was is cancelled.

        Raises:
            InvalidTypeError, InvalidArgumentError: An argument is none.
        """

    def commit(self) -> None:
        """Ask for a commit soon. The runner decides when."""


class AnyProcessor(ABC):  # noqa: B024  # a processor is one, and says what is abstract
    """Has the stores that its class declares as attributes."""

    _stores: Callable[[StoreSpecification[Any, Any]], Any] | None = None

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
            InvalidTypeError: It is no declaration of a store.
            InvalidArgumentError: The processor is not open yet.
            StoreNotFoundError: The processor has not declared it, or as another one.
        """
        if not isinstance(specification, StoreSpecification):
            raise InvalidTypeError(
                f"a store is asked for by what declares it, such as self.store(self.counts), got "
                f"{specification!r}"
            )
        if self._stores is None:
            raise InvalidArgumentError(
                f"{type(self).__name__} has no stores yet: they can be had from open(context) on"
            )
        return self._stores(specification)
