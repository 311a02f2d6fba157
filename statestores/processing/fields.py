"""Selectors: what is taken from a record, named by a path such as ``value.shop`` or a function."""

import sys
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Protocol, TypeAlias, TypeGuard

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.processing.functions import ONE_RECORD, check_function
from statestores.processing.record import Record
from statestores.spi.shown import shown

Selector: TypeAlias = str | Callable[[Record[Any, Any]], Any]
"""A path from a record, or a function of it."""


class Expression(Protocol):
    """A `pyarrow.compute.Expression`: what is to be done, said so that it can be done on columns.

    Its fields are ``key``, ``value`` and ``time_ms`` of a record, as ``pc.field("value") > 3``.
    """

    def cast(self, *arguments: Any, **more: Any) -> Any:
        """Return the expression as of another type."""

    def is_valid(self) -> Any:
        """Return whether there is a value."""

    def to_substrait(self, *arguments: Any, **more: Any) -> Any:
        """Return the expression as a message."""


_ROOTS = ("key", "value", "time_ms", "headers")


def selector(path: Selector) -> Callable[[Record[Any, Any]], Any]:
    """Return the function that a selector stands for.

    ``key``, ``value``, ``time_ms`` or ``headers``, then names of fields of a mapping or attributes,
    each behind a dot: of a mapping always its own, also where it has a method of that name. A field
    of what is ``None`` is ``None``; one that is missing raises ``KeyError`` when the record comes.

    Raises:
        InvalidTypeError, InvalidArgumentError: It is neither, or the path begins elsewhere.
    """
    if callable(path):
        check_function("a selector", path, ONE_RECORD)
        return path
    if not isinstance(path, str):
        raise InvalidTypeError(
            f"a selector is a path such as 'value.shop', or a function of a record, got {path!r}"
        )
    root, *names = path.split(".")
    if root not in _ROOTS or not all(names):
        raise InvalidArgumentError(
            f"a path begins with one of {', '.join(_ROOTS)}, with field names behind it, such as "
            f"'value.shop'; got {path!r}"
        )
    start = attrgetter(root)
    if not names:
        return start

    def select(record: Record[Any, Any]) -> Any:
        found = start(record)
        for name in names:
            if found is None:
                return None
            try:
                if isinstance(found, Mapping) or not hasattr(found, name):
                    found = found[name]
                else:
                    found = getattr(found, name)
            except (LookupError, TypeError) as error:
                raise KeyError(f"the path {path!r} finds no {name!r} in {shown(found)}") from error
        return found

    return select


def is_expression(value: object) -> TypeGuard[Expression]:
    """Whether *value* is an Arrow expression. Who has one has loaded Arrow."""
    loaded = sys.modules.get("pyarrow.compute")
    return loaded is not None and isinstance(value, loaded.Expression)
