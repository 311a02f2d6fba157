"""Folds: how values are gathered into one, taken out of it again, and merged."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, NamedTuple, cast

from statestores.errors import InvalidTypeError, SerializationError
from statestores.processing.fields import Selector, selector
from statestores.processing.record import Record

_MEAN = Struct(">dq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """What an aggregate does with the values of a key."""

    initial: Callable[[], Any]
    """What there is before the first value."""

    add: Callable[[Any, Any], Any]
    """From the aggregate and a value to the new aggregate; ``None`` deletes it."""

    subtract: Callable[[Any, Any], Any] | None = None
    """Takes a value out again; a table needs it, whose rows change."""

    merge: Callable[[Any, Any], Any] | None = None
    """From the aggregates of two sessions to that of both."""

    select: Callable[[Record[Any, Any]], Any] | None = None
    """What of a record is folded; ``None``: its value."""

    result: Callable[[Any], Any] | None = None
    """From the aggregate to what is forwarded; ``None``: itself."""

    kernel: Any = None
    """What does the same on columns: a name, or a numpy ufunc. ``None``: nothing."""


class Mean(NamedTuple):
    """What a mean is made of."""

    total: float
    """The sum of the values."""

    values: int
    """How many there were."""

    @property
    def mean(self) -> float:
        """The mean; 0.0 of nothing."""
        return self.total / self.values if self.values else 0.0


class MeanSerde:
    """A `Mean` as sixteen bytes."""

    name = "mean"
    sorted = False

    def encode(self, value: Mean) -> bytes:
        """Return the sum and the count."""
        return _MEAN.pack(*value)

    def decode(self, data: bytes) -> Mean:
        """Return the mean of *data*."""
        if len(data) != _MEAN.size:
            raise SerializationError(f"{data!r} is no mean: it has not {_MEAN.size} bytes")
        return Mean(*_MEAN.unpack(data))

    def encode_array(self, values: Any) -> Any:
        """Refuse: means have no columns."""
        raise SerializationError("means have no columns; encode them one by one")

    def decode_array(self, data: Any) -> Any:
        """Refuse: means have no columns."""
        raise SerializationError("means have no columns; decode them one by one")

    def arrow_type(self) -> Any:
        """Refuse: means have no columns."""
        raise SerializationError("means have no columns")


def count() -> Fold:
    """Return the fold that counts."""
    return Fold(
        initial=int,
        add=lambda aggregate, _: aggregate + 1,
        subtract=lambda aggregate, _: aggregate - 1,
        merge=lambda one, other: one + other,
        kernel="count",
    )


def total(of: Selector) -> Fold:
    """Return the fold that sums."""
    return Fold(
        initial=int,
        add=lambda aggregate, value: aggregate + value,
        subtract=lambda aggregate, value: aggregate - value,
        merge=lambda one, other: one + other,
        select=_selected(of),
        kernel="sum",
    )


def least(of: Selector) -> Fold:
    """Return the fold that keeps the lowest value."""
    return replace(reduction(min, None, of), kernel="min")


def greatest(of: Selector) -> Fold:
    """Return the fold that keeps the highest value."""
    return replace(reduction(max, None, of), kernel="max")


def mean(of: Selector) -> Fold:
    """Return the fold that averages."""
    return Fold(
        initial=lambda: Mean(0.0, 0),
        add=lambda aggregate, value: Mean(aggregate[0] + value, aggregate[1] + 1),
        subtract=lambda aggregate, value: Mean(aggregate[0] - value, aggregate[1] - 1),
        merge=lambda one, other: Mean(one[0] + other[0], one[1] + other[1]),
        select=_selected(of),
        result=lambda aggregate: aggregate.mean,
        kernel="mean",
    )


def reduction(
    function: Callable[[Any, Any], Any],
    subtract: Callable[[Any, Any], Any] | None,
    of: Selector = "value",
) -> Fold:
    """Return the fold that begins with the first value."""

    def add(aggregate: Any, value: Any) -> Any:
        return value if aggregate is None else function(aggregate, value)

    def merge(one: Any, other: Any) -> Any:
        return other if one is None else one if other is None else function(one, other)

    return Fold(initial=_nothing, add=add, subtract=subtract, merge=merge, select=_selected(of))


def beginning(initial: Any) -> Callable[[], Any]:
    """Return the function that gives the aggregate of nothing.

    Raises:
        InvalidTypeError: It is a value that changes in place: all keys would share it.
    """
    if callable(initial):
        return cast("Callable[[], Any]", initial)
    if isinstance(initial, (list, dict, set, bytearray)):
        raise InvalidTypeError(
            f"initial is {initial!r}, which all keys would share; give a function such as "
            f"{type(initial).__name__}"
        )
    return lambda: initial


def _nothing() -> None:
    return None


def _selected(of: Selector) -> Callable[[Record[Any, Any]], Any] | None:
    return None if of == "value" else selector(of)
