"""Rows as JSON writes them: what `as_json` shows, back into values of a schema.

JSON has no dates, decimals or bytes: they are texts there, as ISO 8601 and people write them. Bytes
are a text in UTF-8, or ``{"hex": "ff00"}``. The keys of maps are texts always.
"""

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from statestores.serdes.rows.cells import FLOAT, CellError, expected
from statestores.serdes.rows.schema import (
    INTEGER_BITS,
    DecimalType,
    Field,
    ListType,
    MapType,
    PlainType,
    RowType,
    StructType,
    TimestampType,
)
from statestores.spi.shown import shown

_FLOATS: Final = {"NaN", "Infinity", "-Infinity"}

_FLOAT_DIGITS: Final = 15
"""A decimal number of so many digits comes back from a float as it was; a longer one may not."""

_BELOW_MICROSECOND: Final = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")
"""What a row's times do not hold, and Python's parser of ISO 8601 cuts off."""


def plain_from_text(text: str) -> Any:
    """Return what the JSON *text* says, for `row_from_plain`; numbers are what is written there.

    Raises:
        ValueError: It is no JSON, is nested too deeply, or names a field twice.
    """
    try:
        return json.loads(text, parse_float=Decimal, object_pairs_hook=_object)
    except (InvalidOperation, RecursionError) as error:
        raise ValueError(
            f"{shown(text)} is nested too deeply, or has too large a number"
        ) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has the field {shown(twice)} twice")
    return fields


def row_from_plain(schema: StructType, value: Any, *, others: bool = False) -> dict[str, Any]:
    """Return the row that *value*, of JSON's types, stands for; a missing field is null.

    With *others*, *value* is read by a schema that it was not written by: fields that the schema
    does not have are left out, and so is what a time has below a microsecond.

    Raises:
        CellError: It stands for none; the message names the field.
    """
    if type(value) is not dict:
        raise expected("an object", value)
    names = {field.name for field in schema.fields}
    if not others and (unknown := [name for name in value if name not in names]):
        raise CellError(f"there is no field {shown(unknown[0])}")
    return {
        field.name: _field(field, value.get(field.name), others=others) for field in schema.fields
    }


def _field(field: Field, value: Any, *, others: bool) -> Any:
    if value is None:
        if not field.nullable:
            raise CellError(f"the field {field.name!r} is missing, and cannot be null")
        return None
    try:
        return _value(field.type, value, others=others)
    except CellError as error:
        raise CellError(f"in {field.name!r}: {error}") from error


def _value(kind: RowType, value: Any, *, others: bool) -> Any:
    if isinstance(kind, StructType):
        return row_from_plain(kind, value, others=others)
    if isinstance(kind, ListType):
        if type(value) is not list:
            raise expected("a list", value)
        element = Field("element", kind.values, kind.nullable)
        return [_field(element, each, others=others) for each in value]
    if isinstance(kind, MapType):
        if type(value) is not dict:
            raise expected("an object", value)
        item = Field("value", kind.values, kind.nullable)
        return {
            _key(kind.keys, key): _field(item, each, others=others) for key, each in value.items()
        }
    if isinstance(kind, DecimalType):
        return _decimal(value)
    if isinstance(kind, TimestampType):
        return _timestamp(kind, value, others=others)
    return _PLAIN[kind.text](value)


def _key(kind: RowType, key: Any) -> Any:
    """Return the key of a map, which JSON has as a text."""
    if type(key) is str and isinstance(kind, PlainType) and kind.text in {"bool", *INTEGER_BITS}:
        try:
            key = json.loads(key)
        except (ValueError, RecursionError) as error:
            raise expected(f"a {kind}", key) from error
    return _value(kind, key, others=False)


def _decimal(value: Any) -> Decimal:
    if type(value) is Decimal:
        return value
    if type(value) not in {str, int, float}:
        raise expected("a decimal number, as text or as a number", value)
    try:
        # What has parsed the JSON has made it a float, and nobody knows what was written there.
        if type(value) is float and _digits(value) > _FLOAT_DIGITS:
            raise expected(
                f"a decimal number of up to {_FLOAT_DIGITS} digits, or a longer one as text", value
            )
        return Decimal(value if type(value) is int else str(value))
    except InvalidOperation as error:
        raise expected("a decimal number", value) from error


def _digits(value: float) -> int:
    """Return how many digits *value* has in decimal, without zeros at the end."""
    return len(Decimal(repr(value)).normalize().as_tuple().digits)


def _timestamp(kind: TimestampType, value: Any, *, others: bool) -> datetime:
    """Return a time; without an offset, an instant is in UTC."""
    found: datetime = _parsed(datetime.fromisoformat, "a time of ISO 8601", value)
    if not others and _BELOW_MICROSECOND.search(value):
        raise expected("a time of whole microseconds", value)
    if kind.zone is not None and found.tzinfo is None:
        return found.replace(tzinfo=UTC)
    if kind.zone is None and found.tzinfo is not None:
        raise expected("a time without an offset", value)
    return found


def _parsed(parse: Callable[[str], Any], what: str, value: Any) -> Any:
    if type(value) is not str:
        raise expected(f"{what}, as text", value)
    try:
        return parse(value)
    except ValueError as error:
        raise expected(what, value) from error


def _bytes(value: Any) -> bytes:
    if type(value) is bytes:  # MessagePack has them
        return value
    if type(value) is dict and value.keys() == {"hex"}:
        found: bytes = _parsed(bytes.fromhex, "hexadecimal bytes", value["hex"])
        return found
    if type(value) is not str:
        raise expected('a text, or {"hex": "ff00"}', value)
    return value.encode("utf-8", "surrogatepass")


def _float(value: Any) -> float:
    if type(value) is str and value in _FLOATS:
        return float(value)
    if type(value) not in {int, float, Decimal}:
        raise expected("a number", value)
    try:
        number = float(value)
    except OverflowError as error:
        raise expected("a number that a float holds", value) from error
    if type(value) is Decimal and math.isinf(number):
        raise expected("a number that a float holds", value)
    return number


def _narrow_float(value: Any) -> float:
    """Return the float of 32 bits that is nearest: people and JSON write decimals."""
    try:
        narrow: float = FLOAT.unpack(FLOAT.pack(_float(value)))[0]
    except OverflowError as error:
        raise expected("a number that a float of 32 bits holds", value) from error
    return narrow


def _itself(value: Any) -> Any:
    return value  # the row's own encoding says whether it fits


_PLAIN: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": _itself,
    **dict.fromkeys(INTEGER_BITS, _itself),
    "float": _narrow_float,
    "double": _float,
    "date32": lambda value: _parsed(date.fromisoformat, "a date of ISO 8601", value),
    "string": _itself,
    "binary": _bytes,
}
