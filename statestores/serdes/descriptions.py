"""From the stored form of a specification back to the specification."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from statestores.errors import InvalidArgumentError
from statestores.serdes.raw_serde import raw
from statestores.serdes.serde_registry import serde_by_name
from statestores.spi.kinds import KINDS
from statestores.spi.serde import Serde
from statestores.spi.session_specification import Session
from statestores.spi.specification import (
    KeyValue,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
)
from statestores.spi.window_specification import Window

_COMMON: Final = {"kind": str, "name": str, "key": str, "value": str, "partitioner": str}

_FIELDS: Final[Mapping[str, Mapping[str, type]]] = {
    name: {**_COMMON, **{field.name: field.type for field in kind.fields}}
    for name, kind in KINDS.items()
}

SPECIFICATIONS: Final[Mapping[str, Callable[..., StoreSpecification[Any, Any]]]] = {
    each.kind: each for each in (KeyValue, TimestampedKeyValue, Versioned, Window, Session)
}
"""The specification of each kind, by the kind's name."""


def specification_from_description(
    description: Mapping[str, object],
) -> StoreSpecification[Any, Any]:
    """Return the specification that `StoreSpecification.describe` turned into *description*.

    A key or value of the serde "bytes" has no serde in the result.

    Raises:
        InvalidArgumentError: The kind or a serde is unknown, a field is missing, unknown, of
            another type, or has a value that no specification has. Nothing is guessed: a newer
            release may have written it.
    """
    kind = description.get("kind")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise InvalidArgumentError(
            f"no kind of store is called {kind!r}; known: {', '.join(_FIELDS)}"
        )
    fields = _FIELDS[kind]
    if description.keys() != fields.keys():
        missing = ", ".join(sorted(fields.keys() - description.keys())) or "none"
        unknown = ", ".join(sorted(map(repr, description.keys() - fields.keys()))) or "none"
        raise InvalidArgumentError(
            f"the description of a {kind} store has the fields {', '.join(fields)}; "
            f"missing: {missing}; unknown: {unknown}"
        )
    for name, expected in fields.items():
        if type(description[name]) is not expected:
            raise InvalidArgumentError(
                f"the field {name!r} of a store's description is of type {expected.__name__}, "
                f"got {description[name]!r}"
            )
    arguments: dict[str, Any] = {
        name: value for name, value in description.items() if name != "kind"
    }
    arguments["key"] = _serde_or_none(arguments["key"])
    arguments["value"] = _serde_or_none(arguments["value"])
    for field in KINDS[kind].fields:
        if field.is_duration and not field.required:
            arguments[field.name] = arguments[field.name] or None  # 0 means none
    return SPECIFICATIONS[kind](**arguments)


def _serde_or_none(name: str) -> Serde[Any] | None:
    """Return the serde *name*, and ``None`` for bytes, as a specification has it."""
    return None if name == raw.name else serde_by_name(name)
