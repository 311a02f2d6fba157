"""The functions, folds and joiners that a case names, as Python functions."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from statestores import json
from statestores.errors import InvalidArgumentError, SerializationError
from statestores.processing import Record, Windowed

Named = list[Any]
"""A function: its name, then its arguments."""

_OTHER, _WINDOW = b"\x00", b"\x01"


@dataclass(frozen=True)
class NeutralKeySerde:
    """Keys of any kind that JSON has, and windowed ones: text as it is, others marked."""

    name = "neutral-key"
    sorted = False

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a key."""
        if isinstance(value, Windowed):
            return _WINDOW + json.encode([value.key, value.start_ms, value.end_ms])
        return value.encode() if isinstance(value, str) else _OTHER + json.encode(value)

    def decode(self, data: bytes) -> Any:
        """Return the key."""
        if data[:1] == _WINDOW:
            return Windowed(*json.decode(data[1:]))
        return json.decode(data[1:]) if data[:1] == _OTHER else data.decode()

    def encode_array(self, values: Any) -> Any:
        """Refuse: cases have no columns."""
        raise SerializationError("keys of cases have no columns")

    def decode_array(self, data: Any) -> Any:
        """Refuse: cases have no columns."""
        raise SerializationError("keys of cases have no columns")

    def arrow_type(self) -> Any:
        """Refuse: cases have no columns."""
        raise SerializationError("keys of cases have no columns")


def shown(value: Any) -> str:
    """Return *value* as Java prints it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    return str(value)


def words(text: str) -> list[str]:
    """Return the words of *text* in lower case, split as Java does, at what is no letter or digit.

    Empty ones at the end are none; one at the beginning is, and so is a text without any.
    """
    lowered = text.lower()
    found = re.split(r"\W+", lowered, flags=re.ASCII)
    while found and not found[-1]:
        found.pop()
    return found if found or lowered else [""]


_FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "key": lambda key, _, __: key,
    "value": lambda _, value, __: value,
    "constant": lambda _, __, wanted: wanted,
    "upper": lambda _, value, __: value.upper(),
    "lower": lambda _, value, __: value.lower(),
    "append": lambda _, value, more: f"{shown(value)}{more}",
    "length": lambda _, value, __: len(value),
    "words": lambda _, value, __: words(value),
    "add": lambda _, value, more: value + more,
    "item": lambda _, value, place: None if value is None else value[place],
    "equals": lambda _, value, other: value == other,
    "key_equals": lambda key, _, other: key == other,
    "greater": lambda _, value, other: value > other,
    "less": lambda _, value, other: value < other,
    "even": lambda _, value, __: value % 2 == 0,
}


def of_pair(named: Named) -> Callable[[Any, Any], Any]:
    """Return the function of a key and a value."""
    name, *arguments = named
    if name not in _FUNCTIONS:
        raise InvalidArgumentError(
            f"a case names the function {name!r}, and known are: {', '.join(_FUNCTIONS)}"
        )
    function, argument = _FUNCTIONS[name], arguments[0] if arguments else None
    return lambda key, value: function(key, value, argument)


def of_record(named: Named) -> Callable[[Record[Any, Any]], Any]:
    """Return the function of a record."""
    function = of_pair(named)
    return lambda record: function(record.key, record.value)


def of_value(named: Named) -> Callable[[Any], Any]:
    """Return the function of a value."""
    function = of_pair(named)
    return lambda value: function(None, value)


_FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda aggregate, value: aggregate + value,
    "subtract": lambda aggregate, value: aggregate - value,
    "append_plus": lambda aggregate, value: f"{shown(aggregate)}+{shown(value)}",
    "append_minus": lambda aggregate, value: f"{shown(aggregate)}-{shown(value)}",
    "max": lambda aggregate, value: value if aggregate is None or value > aggregate else aggregate,
    "null_when_x": lambda aggregate, value: (
        None if value == "x" else f"{shown(aggregate)}+{shown(value)}"
    ),
}


def fold(name: str) -> Callable[[Any, Any], Any]:
    """Return a fold: from an aggregate and a value to the next aggregate."""
    if name not in _FOLDS:
        raise InvalidArgumentError(
            f"a case names the fold {name!r}, and known are: {', '.join(_FOLDS)}"
        )
    return _FOLDS[name]


def merged(one: Any, other: Any) -> Any:
    """Return what two sessions become: the sum of numbers, else both."""
    numbers = (int, float)
    if isinstance(one, numbers) and isinstance(other, numbers):
        return one + other
    return f"{shown(one)}&{shown(other)}"


def plus(left: Any, right: Any) -> str:
    """Return ``left+right``, with ``null`` for what is missing: the only joiner."""
    return f"{shown(left)}+{shown(right)}"
