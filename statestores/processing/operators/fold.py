"""Folds: how values are gathered into one, taken out of it again, and merged."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from statestores.errors import InvalidTypeError
from statestores.processing.fields import Selector, selector
from statestores.processing.functions import check_function
from statestores.processing.record import Record
from statestores.serdes.mean_serde import Mean

_REDUCERS = ((min, "min"), (max, "max"), (operator.add, "add"))
"""Functions of two values that have a kernel."""


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

    def __post_init__(self) -> None:
        """Check the functions that are given.

        Raises:
            InvalidTypeError: One cannot be called with what it is for.
        """
        check_function("an aggregate", self.add, ("aggregate", "value"))
        if self.subtract is not None:
            check_function("an aggregate of a table", self.subtract, ("aggregate", "value"))
        if self.merge is not None:
            check_function("merge", self.merge, ("one", "other"))


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
        subtract=_less,
        merge=lambda one, other: Mean(one[0] + other[0], one[1] + other[1]),
        select=_selected(of),
        result=lambda aggregate: aggregate.mean,
        kernel="mean",
    )


def _less(aggregate: Mean, value: Any) -> Mean | None:
    """Return the mean without a value; of nothing there is none."""
    values = aggregate.values - 1
    return Mean(aggregate.total - value, values) if values > 0 else None


def reduction(
    function: Callable[[Any, Any], Any],
    subtract: Callable[[Any, Any], Any] | None,
    of: Selector = "value",
) -> Fold:
    """Return the fold that begins with the first value."""
    check_function("reduce", function, ("aggregate", "value"))

    def add(aggregate: Any, value: Any) -> Any:
        return value if aggregate is None else function(aggregate, value)

    def merge(one: Any, other: Any) -> Any:
        return other if one is None else one if other is None else function(one, other)

    return Fold(
        initial=_nothing,
        add=add,
        subtract=subtract,
        merge=merge,
        select=_selected(of),
        kernel=next((name for each, name in _REDUCERS if each is function), None),
    )


def beginning(initial: Any) -> Callable[[], Any]:
    """Return the function that gives the aggregate of nothing.

    Raises:
        InvalidTypeError: It is a value that changes in place: all keys would share it.
    """
    if callable(initial):
        check_function("initial", initial, ())
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
