"""The one text of each JSON value, written and read with the standard library (SRD-15).

Keys sorted, no spaces, characters as UTF-8 and not as escapes, numbers as Python prints them. A
faster library may write the text where it is sure to write the same: see `is_plain`.
"""

import json
from math import isinf
from types import NoneType
from typing import Any, Final

MAX_DEPTH: Final = 128
"""Levels of lists and dicts in a value. Readers have limits too, and give up at 255 and more."""

_MAX_READ_DEPTH: Final = 1024
"""How many levels are read at most: orjson's limit. Up to Python 3.11 the standard library gives up
before that, and from 3.12 on it reads thousands."""

LEAVES = frozenset({str, int, bool, NoneType})
"""The types of values that every JSON library writes alike, or refuses."""

_LOWEST: Final = -(1 << 63)
_BEYOND: Final = 1 << 64
_PLAIN_FROM: Final = 1e-4
_PLAIN_BELOW: Final = 1e16

_encoder = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)


def is_plain(value: Any, depth: int = 0) -> bool:
    """Accept a value of JSON's types; return whether every JSON library writes it alike.

    The libraries, and their versions, differ in when a float has an exponent, and in how it looks.
    None uses an exponent from 0.0001 up to 1e16, and all give the fewest digits that read back.
    Keys and the size of integers are left to the writer: `write` and orjson refuse the same ones.

    Raises:
        TypeError: Something in the value would read back as another type, or not at all.
        ValueError: It is too deep.
    """
    kind = type(value)
    if kind is dict:
        children = value.values()
    elif kind is list:
        children = value
    elif kind in LEAVES:
        return True
    elif kind is float:
        return value == 0 or bool(_PLAIN_FROM <= abs(value) < _PLAIN_BELOW)
    else:
        raise TypeError(f"{kind.__name__!r} has no JSON type to read back from")
    if depth == MAX_DEPTH:
        raise ValueError(f"it is nested in more than {MAX_DEPTH} levels")
    plain = True
    for child in children:
        if type(child) not in LEAVES and not is_plain(child, depth + 1):
            plain = False
    return plain


def write(value: Any) -> bytes:
    """Return the canonical text of a value that `is_plain` accepts.

    Raises:
        TypeError: A key is not exactly a ``str``.
        ValueError: A number is not finite or an integer not of 64 bits, or a text has a lone
            surrogate.
    """
    _check_keys_and_integers(value)
    return _encoder.encode(value).encode()


def _check_keys_and_integers(value: Any) -> None:
    """Refuse what the standard library would write and orjson refuses."""
    kind = type(value)
    if kind is dict:
        if not all(type(key) is str for key in value):
            raise TypeError("the keys of a JSON object are str")
        for child in value.values():
            _check_keys_and_integers(child)
    elif kind is list:
        for child in value:
            _check_keys_and_integers(child)
    elif kind is int and not _LOWEST <= value < _BEYOND:
        raise ValueError("an integer is outside of 64 bits")


def read(data: bytes) -> Any:
    """Return the value of a JSON text, canonical or not.

    Raises:
        ValueError: It is not JSON, or nested too deep.
        RecursionError: It is nested too deep.
    """
    text = data.decode()
    value = _decoder.decode(text)
    if text.count("[") + text.count("{") > _MAX_READ_DEPTH and _is_too_deep(value):
        raise ValueError(f"it is nested in more than {_MAX_READ_DEPTH} levels")
    if "\\u" in text:
        _encoder.encode(value).encode()  # refuses a lone surrogate
    return value


def _is_too_deep(value: Any) -> bool:
    """Whether there are more levels than are read; level by level, so that no depth is too much."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(_MAX_READ_DEPTH):
        children = (each.values() if isinstance(each, dict) else each for each in level)
        level = [child for some in children for child in some if isinstance(child, dict | list)]
    return bool(level)


def _read_int(digits: str) -> int | float:
    """Return an integer, as a float beyond 64 bits: as readers do that know no larger integer."""
    if len(digits) <= len(str(_BEYOND)):
        number = int(digits)
        if _LOWEST <= number < _BEYOND:
            return number
    return _read_float(digits)


def _read_float(digits: str) -> float:
    number = float(digits)
    if isinf(number):
        raise ValueError(f"the number {digits[:40]} is too large")
    return number


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_read_float, parse_int=_read_int
)
