"""Processors: functions of records with state and time of their own (KIP-28)."""

from abc import abstractmethod
from collections.abc import Iterable
from inspect import isabstract
from typing import Any, Generic, Protocol, TypeVar

from statestores.errors import InvalidTopologyError, InvalidTypeError
from statestores.processing.any_processor import AnyContext, AnyProcessor
from statestores.processing.functions import check_function
from statestores.processing.record import Record
from statestores.spi import StoreSpecification

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class Context(AnyContext, Protocol[K2, V2]):
    """What a processor can ask and tell its task."""

    def forward(self, record: Record[K2, V2], to: str | None = None) -> None:
        """Give *record* to every child, or to the one whose name is *to*; in `process` or a timer.

        Raises:
            InvalidTypeError: It is no `Record`.
            InvalidArgumentError: There is no such child, or the processor is not at work.
        """

    def drop(self, record: Record[Any, Any], reason: str) -> None:
        """Count *record* as dropped, and say so in the log."""


class Processor(AnyProcessor, Generic[K, V, K2, V2]):
    """A step with code of its own: one instance for each task, used by one thread at a time.

    Stores are declared as class attributes, and read by `store`.
    """

    context: Context[K2, V2]
    """Set before `open`."""

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


def check_supply(supply: object, kind: type | None = None) -> None:
    """Accept what makes a processor of *kind*, by default a `Processor`, for each task.

    Raises:
        InvalidTypeError: It makes none, or cannot be called without arguments.
    """
    if not callable(supply):
        raise InvalidTypeError(
            f"process needs a class of processors, or a function that makes one, got {supply!r}; a "
            "processor is made for each task, so hand over its class"
        )
    if isinstance(supply, type):
        wanted = kind or Processor
        if not issubclass(supply, wanted):
            raise InvalidTypeError(
                f"a processor is a statestores.processing.{wanted.__name__}, and {supply!r} is none"
            )
        if isabstract(supply):
            raise InvalidTypeError(f"{supply!r} has no process(self, record); write it")
    try:
        check_function("process", supply, ())
    except InvalidTypeError as error:
        raise InvalidTypeError(
            f"{error}; it is called for each task, to make a processor. A function of records goes "
            "into map, flat_map, filter or peek"
        ) from error


def declared_stores(processor: object) -> dict[str, StoreSpecification[Any, Any]]:
    """Return the stores that a processor's class declares, by its attributes (PRC-107).

    An attribute of a subclass takes the place of that of the same name, whatever the store's name.
    """
    cls = processor if isinstance(processor, type) else type(processor)
    attributes: dict[str, object] = {}
    for each in reversed(cls.__mro__):
        attributes |= vars(each)
    return {
        name: value for name, value in attributes.items() if isinstance(value, StoreSpecification)
    }


def one_of_each_name(
    processor: str, declared: Iterable[tuple[str, StoreSpecification[Any, Any]]]
) -> dict[str, StoreSpecification[Any, Any]]:
    """Return the stores of *processor* by their names; *declared* says where each is declared.

    Raises:
        InvalidTypeError: What is declared is no store.
        InvalidTopologyError: A store has two descriptions (PRC-3).
    """
    found: dict[str, tuple[str, StoreSpecification[Any, Any]]] = {}
    for place, store in declared:
        if not isinstance(store, StoreSpecification):
            raise InvalidTypeError(
                f"a processor's store is a specification, such as statestores.KeyValue(...); "
                f"{place} of {processor!r} is {store!r}"
            )
        before, other = found.setdefault(store.name, (place, store))
        if other.describe() != store.describe():
            raise InvalidTopologyError(
                f"{processor!r} declares the store {store.name!r} by {before} as "
                f"{other.describe()!r} and by {place} as {store.describe()!r}; give one of them "
                "another name"
            )
    return {name: store for name, (_, store) in found.items()}
