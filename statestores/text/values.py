r"""Keys and values as text for people and as JSON for programs.

For people everything fits into one line, and nothing in it can steer a terminal: bytes that are
not UTF-8 and control characters are escaped as in ``\xff`` and ``\n``. JSON is exact.
"""

import json
import math
import unicodedata
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

_ESCAPED_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})  # controls, surrogates, line separators
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""What changes the direction of the text around it, and so what people believe they see."""


def as_text(value: object) -> str:
    r"""Return *value* in one line.

    >>> as_text(b"caf\xc3\xa9\xff\n"), as_text({"b": 1}), as_text(1.5)
    ('café\\xff\\n', '{"b":1}', '1.5')
    """
    if isinstance(value, bytes):
        return _escape(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, str):
        return _escape(value)
    return _escape(dump_json(as_json(value)))


def as_json(value: object) -> Any:
    r"""Return *value* as something that `json` can write.

    Bytes are text where they are UTF-8, and ``{"hex": ...}`` where they are not. Numbers that JSON
    does not have are text, decimals with it, and so are dates and times, as ISO 8601 has them.

    >>> as_json(b"a"), as_json(b"\xff"), as_json(float("inf")), as_json({1: (b"\x80",)})
    ('a', {'hex': 'ff'}, 'Infinity', {'1': [{'hex': '80'}]})
    """
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"hex": value.hex()}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {_name(name): as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, date):  # and a datetime, with its offset
        return value.isoformat()
    return repr(value)  # of a serde that was registered by someone else


def dump_json(value: object, *, indent: int | None = None) -> str:
    """Return *value*, of JSON's types, as a JSON text."""
    separators = (",", ": ") if indent else (",", ":")
    return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)


def _name(name: object) -> str:
    """Return the *name* of a member: JSON has text only."""
    converted = as_json(name)
    return converted if isinstance(converted, str) else dump_json(converted)


def _escape(text: str) -> str:
    """Return *text* without what could steer a terminal or break a line."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if character in _TURNING or unicodedata.category(character) in _ESCAPED_CATEGORIES
        else character
        for character in text
    )
