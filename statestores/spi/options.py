"""Options of a backend: from a mapping of strings to its frozen dataclass, in one place."""

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import Any, TypeVar, get_args, get_type_hints

from statestores.errors import InvalidOptionError

O = TypeVar("O")  # noqa: E741  # an options dataclass

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


def parse_options(schema: type[O], options: Mapping[str, object] | None) -> O:
    """Build *schema*, a dataclass of ``bool``, ``int``, ``float``, ``str`` and enum fields.

    Names are compared without regard to case, since Spark folds them. A value may already have
    the field's type or be its text; ``"none"`` is ``None`` where the field allows it.

    Raises:
        InvalidOptionError: A name is unknown (the message lists the known ones), or a value
            cannot be read (the message says what was expected).
    """
    known = {field.name.lower(): field.name for field in fields(schema)}  # type: ignore[arg-type]  # a dataclass
    hints = get_type_hints(schema) if options else {}  # an engine may be opened often
    values: dict[str, Any] = {}
    for name, value in (options or {}).items():
        field = known.get(name.lower())
        if field is None:
            raise InvalidOptionError(
                f"unknown option {name!r}; known: {', '.join(sorted(known.values())) or 'none'}"
            )
        values[field] = _read(field, hints[field], value)
    try:
        return schema(**values)
    except InvalidOptionError:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidOptionError(f"the options {values!r} do not fit together: {error}") from error


def _read(name: str, hint: object, value: object) -> object:
    """Return *value* as one of the types that *hint* allows."""
    choices: tuple[Any, ...] = get_args(hint) or (hint,)
    if type(None) in choices and (value is None or value == "none"):
        return None
    for choice in choices:
        if choice is type(None):
            continue
        try:
            return _convert(choice, value)
        except ValueError:
            continue
    expected = " or ".join(
        "none" if choice is type(None) else _describe(choice) for choice in choices
    )
    raise InvalidOptionError(f"option {name!r} must be {expected}, got {value!r}")


def _convert(kind: type, value: object) -> object:
    """Return *value* as *kind*; a plain ``ValueError`` when that does not make sense."""
    if kind is bool:
        if isinstance(value, bool):
            return value
        text = str(value).lower()
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        raise ValueError(value)
    if isinstance(value, bool):
        raise ValueError(value)  # noqa: TRY004  # the caller turns it into InvalidOptionError
    if isinstance(value, kind):
        return value
    if issubclass(kind, Enum):
        return kind(value)
    if kind is int and isinstance(value, str):
        return int(value)
    if kind is float and isinstance(value, str | int):
        return float(value)
    raise ValueError(value)


def _describe(kind: type) -> str:
    """Return how a message names *kind*."""
    if issubclass(kind, Enum):
        return "one of " + ", ".join(repr(member.value) for member in kind)
    known = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    return known.get(kind, f"a {kind.__name__}, which only a program can give")
