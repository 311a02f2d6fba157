"""Many values in one argument, whatever type they come in (COM-19)."""

from collections.abc import Iterable
from typing import Any

from statestores.errors import InvalidArgumentError, InvalidTypeError


def as_list(name: str, values: object) -> list[Any]:
    """Return the values of an iterable or of an Arrow column, the argument *name*, as a list.

    Raises:
        InvalidTypeError: It is neither, or it is a single ``str`` or ``bytes``.
    """
    if isinstance(values, list):
        return values
    to_pylist = getattr(values, "to_pylist", None)
    if to_pylist is not None:
        listed: list[Any] = to_pylist()
        return listed
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidTypeError(f"{name} must be an iterable or an Arrow column, got {values!r}")
    return list(values)


def one_for_each(name: str, values: object, count: int) -> list[Any]:
    """Return *count* values: those of the argument *name*, or an ``int`` that is the same for all.

    Raises:
        InvalidTypeError: It is neither, see `as_list`.
        InvalidArgumentError: It has another number of values.
    """
    if isinstance(values, int):
        return [values] * count
    listed = as_list(name, values)
    if len(listed) != count:
        raise InvalidArgumentError(
            f"columns must have equal length, got {len(listed)} {name} for {count} keys"
        )
    return listed
