"""Keys of several fields as bytes that sort as the fields do (SRD-42).

The bytes of the fields, one after the other, each of which nothing but itself begins with. Before
that of a field that may be null stands a byte 0 for a null, which is then all, or 1. Numbers are
big-endian with the sign turned, in the width of their type; text and bytes end with 00 01, and a
byte 00 in them is 00 ff.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from struct import Struct
from typing import Any, Final

from statestores.errors import InvalidArgumentError
from statestores.serdes.rows.cells import (
    DECIMAL_BYTES,
    FIRST_DAY,
    LAST_DAY,
    CellError,
    expected,
    instant,
    microseconds,
    scalar_cell,
    scaled,
    time_zone,
    unscaled,
)
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
    found_by_identity,
)

NULL: Final = b"\x00"
PRESENT: Final = b"\x01"
END_OF_TEXT: Final = b"\x00\x01"
ESCAPED: Final = b"\x00\xff"

FLOAT_BYTES: Final = {"float": 4, "double": 8}

_BITS: Final = {4: Struct(">I"), 8: Struct(">Q")}
_FLOATS: Final = {4: Struct(">f"), 8: Struct(">d")}
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Part:
    """How values of a type become bytes that sort, and back."""

    encode: Callable[[Any], bytes]
    """Return the bytes of a value; raises `CellError`."""

    decode: Callable[[bytes, int], tuple[Any, int]]
    """Return the value at a place of bytes, and the place behind it; raises `CellError`."""


def check_sortable(kind: RowType, path: str = "") -> None:
    """Accept the types that have an order.

    Raises:
        InvalidArgumentError: One has none; the message names its field.
    """
    if isinstance(kind, ListType | MapType):
        raise InvalidArgumentError(
            f"the field {path!r} is {kind}, which has no order in keys; keys have booleans, "
            "numbers, decimals, dates, timestamps, text, bytes, and structs of these"
        )
    if isinstance(kind, StructType):
        for field in kind.fields:
            check_sortable(field.type, f"{path}.{field.name}" if path else field.name)


def width_of(kind: RowType) -> int | None:
    """Return how many bytes a value has; ``None`` for text, bytes and structs."""
    if isinstance(kind, DecimalType):
        return DECIMAL_BYTES
    if isinstance(kind, TimestampType):
        return 8
    if not isinstance(kind, PlainType) or kind.text in {"string", "binary"}:
        return None
    if kind.text in INTEGER_BITS:
        return INTEGER_BITS[kind.text] // 8
    return FLOAT_BYTES.get(kind.text) or {"bool": 1, "date32": 4}[kind.text]


@cache
def part_of(kind: RowType) -> Part:
    """Return how values of *kind*, which has an order, become bytes."""
    if isinstance(kind, StructType):
        return _struct(kind)
    width = width_of(kind)
    if isinstance(kind, PlainType) and width is None:
        return _text(kind)
    assert width is not None  # noqa: S101  # the others have one
    if isinstance(kind, PlainType) and kind.text in FLOAT_BYTES:
        return _float(kind, width)
    if isinstance(kind, PlainType) and kind.text == "bool":
        cell = scalar_cell(kind)
        return Part(cell.encode, lambda data, at: (cell.decode(_cut(data, at, 1)), at + 1))
    return _number(kind, width)


part_of_key = found_by_identity(part_of)
"""The same of all fields of a key."""


def _cut(data: bytes, at: int, width: int) -> bytes:
    part = data[at : at + width]
    if len(part) < width:
        raise CellError("a field has been cut")
    return part


def _number(kind: RowType, width: int) -> Part:
    """Return the part of what is a whole number in *width* bytes."""
    to_number, from_number = _whole(kind)
    turned = 1 << (8 * width - 1)

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        number = int.from_bytes(_cut(data, at, width), "big") - turned
        return from_number(number), at + width

    return Part(lambda value: (to_number(value) + turned).to_bytes(width, "big"), decode)


def _whole(kind: RowType) -> tuple[Callable[[Any], int], Callable[[int], Any]]:
    """Return the functions from a value to its number and back."""
    if isinstance(kind, DecimalType):

        def decimal(number: int) -> Any:
            if abs(number) >= 10**kind.precision:
                raise CellError(f"{number} has more than {kind.precision} digits")
            return scaled(number, kind)

        return lambda value: unscaled(value, kind), decimal
    if isinstance(kind, TimestampType):
        zone = kind.zone
        return (
            lambda value: microseconds(value, zone),
            lambda number: instant(number, None if zone is None else time_zone(zone)),
        )
    if kind == PlainType("date32"):
        return _days, _day
    check = scalar_cell(PlainType(str(kind))).encode

    def whole(value: Any) -> int:
        check(value)
        number: int = value
        return number

    return whole, lambda number: number


def _days(value: Any) -> int:
    if type(value) is not date:
        raise expected("a date", value)
    return value.toordinal() - _EPOCH_DAY


def _day(number: int) -> date:
    if not FIRST_DAY <= number <= LAST_DAY:
        raise CellError(f"day {number} is not in the years 1 to 9999")
    return date.fromordinal(number + _EPOCH_DAY)


def _float(kind: PlainType, width: int) -> Part:
    """Return the part of floats: -0 is 0, and NaN comes after all others."""
    cell = scalar_cell(kind)
    bits, floats, sign = _BITS[width], _FLOATS[width], 1 << (8 * width - 1)
    nan = bits.unpack(floats.pack(float("nan")))[0]

    def encode(value: Any) -> bytes:
        number = cell.decode(cell.encode(value)) + 0.0  # -0 becomes 0
        found = bits.unpack(floats.pack(number))[0]
        return bits.pack(found ^ (2 * sign - 1) if found & sign else found | sign)

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        (turned,) = bits.unpack(_cut(data, at, width))
        found = turned & ~sign if turned & sign else turned ^ (2 * sign - 1)
        (value,) = floats.unpack(bits.pack(found))
        if found == sign or (value != value and found != nan):  # noqa: PLR0124  # what NaN is not
            raise CellError("a float is written as another than -0, or another NaN")
        return value, at + width

    return Part(encode, decode)


def _text(kind: PlainType) -> Part:
    cell = scalar_cell(kind)

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        end = data.find(END_OF_TEXT, at)
        if end < 0:
            raise CellError("a text or bytes have no end")
        return cell.decode(unescaped(data[at:end])), end + len(END_OF_TEXT)

    return Part(lambda value: escaped(cell.encode(value)) + END_OF_TEXT, decode)


def escaped(data: bytes) -> bytes:
    """Return *data* with each byte 00 as 00 ff."""
    return data.replace(NULL, ESCAPED)


def unescaped(data: bytes) -> bytes:
    """Return what `escaped` was given.

    Raises:
        CellError: *data* is none of its results.
    """
    found = data.replace(ESCAPED, NULL)
    if escaped(found) != data:
        raise CellError("a byte 00 is followed by neither 01 nor ff")
    return found


def _struct(kind: StructType) -> Part:
    names = {field.name for field in kind.fields}
    # Parted here, once, and not at each key.
    writers = _writers(kind.fields)
    readers = [(field.name, field.nullable, part_of(field.type).decode) for field in kind.fields]

    def encode(value: Any) -> bytes:
        if type(value) is not dict or value.keys() != names:
            raise expected(f"a dict with the fields {', '.join(sorted(names))}", value)
        return b"".join([_encoded(writer, value[writer[0]]) for writer in writers])

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        row: dict[str, Any] = {}
        for name, nullable, decode_part in readers:
            if nullable:
                mark = _cut(data, at, 1)
                at += 1
                if mark == NULL:
                    row[name] = None
                    continue
                if mark != PRESENT:
                    raise CellError(f"before {name!r} is neither a byte 0 nor 1")
            row[name], at = decode_part(data, at)
        return row, at

    return Part(encode, decode)


def encode_fields(kind: StructType, values: Mapping[str, Any]) -> bytes:
    """Return the bytes of the fields of *kind* that *values* has, which are its first ones."""
    writers = _writers(kind.fields[: len(values)])
    return b"".join([_encoded(writer, values[writer[0]]) for writer in writers])


_Writer = tuple[str, bool, Callable[[Any], bytes]]
"""A field's name, whether it may be null, and what writes its values."""


def _writers(fields: Sequence[Field]) -> list[_Writer]:
    return [(field.name, field.nullable, part_of(field.type).encode) for field in fields]


def _encoded(writer: _Writer, value: Any) -> bytes:
    name, nullable, encode = writer
    if value is None:
        if not nullable:
            raise CellError(f"in {name!r}: it is None, which the field cannot be")
        return NULL
    try:
        data = encode(value)
    except CellError as error:
        raise CellError(f"in {name!r}: {error}") from error
    return PRESENT + data if nullable else data
