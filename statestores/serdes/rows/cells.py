"""Values of one type as the cells of a row: of a fixed width, or of any (SRD-36).

What a cell of a fixed width holds depends on the family of its type alone, which is why a type can
grow (SRD-40): all whole numbers have 8 bytes, and a float has those of the double that equals it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import cache
from struct import Struct
from typing import Any, Final

from statestores.serdes.rows.schema import INTEGER_BITS, DecimalType, PlainType, TimestampType
from statestores.spi.shown import shown

INT = Struct("<q")
DOUBLE = Struct("<d")
FLOAT = Struct("<f")
DAYS = Struct("<i")
END = Struct("<I")
DECIMAL_BYTES: Final = 16

NAN: Final = float("nan")
"""The NaN that is written: one value has one form, also where the processor gives another."""

FIRST_DAY: Final = date.min.toordinal() - date(1970, 1, 1).toordinal()
LAST_DAY: Final = date.max.toordinal() - date(1970, 1, 1).toordinal()
"""Days since 1970 of the years 1 to 9999, which are Python's and Spark's."""

DAY_US: Final = 86_400_000_000
FIRST_US: Final = FIRST_DAY * DAY_US
LAST_US: Final = (LAST_DAY + 1) * DAY_US - 1
"""Microseconds since 1970 of the same years; of an instant in UTC."""

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # of times without a zone
_EPOCH_UTC: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


class CellError(ValueError):
    """A value or bytes that are not of a cell's type; the message ends a sentence."""


@dataclass(frozen=True, slots=True)
class Cell:
    """How values of a type become the bytes of a cell and back."""

    width: int | None
    """How many bytes each has; ``None`` if it depends on the value."""

    encode: Callable[[Any], bytes]
    """Return the bytes of a value; raises `CellError`."""

    decode: Callable[[bytes], Any]
    """Return the value of bytes, which have the width; raises `CellError`."""

    slot: int = field(init=False)
    """How many bytes it has in the part of a row that has a fixed size."""

    def __post_init__(self) -> None:
        """Reckon once what each row asks for."""
        object.__setattr__(self, "slot", END.size if self.width is None else self.width)


def expected(what: str, value: object) -> CellError:
    """Return the error for a *value* that is not *what* a cell takes."""
    return CellError(f"expected {what}, got {shown(value)}")


@cache
def scalar_cell(kind: PlainType | DecimalType | TimestampType) -> Cell:
    """Return the cell of a type that has no types in it."""
    if isinstance(kind, DecimalType):
        return _decimal(kind)
    if isinstance(kind, TimestampType):
        return _naive() if kind.zone is None else _instant(kind.zone)
    match kind.text:
        case "bool":
            return Cell(1, _encode_bool, _decode_bool)
        case "float":
            return Cell(DOUBLE.size, _encode_float, _decode_float)
        case "double":
            return Cell(DOUBLE.size, _encode_double, lambda data: DOUBLE.unpack(data)[0])
        case "date32":
            return Cell(DAYS.size, _encode_date, _decode_date)
        case "string":
            return Cell(None, _encode_text, _decode_text)
        case "binary":
            return Cell(None, _encode_bytes, bytes)
    return _integer(kind.text)


def _encode_bool(value: Any) -> bytes:
    if type(value) is not bool:
        raise expected("a bool", value)
    return b"\x01" if value else b"\x00"


def _decode_bool(data: bytes) -> bool:
    if data[0] > 1:
        raise CellError(f"a bool is a byte 0 or 1, got {data[0]}")
    return data[0] == 1


def _integer(text: str) -> Cell:
    bits = INTEGER_BITS[text]
    limit = 1 << (bits - 1)

    def encode(value: Any) -> bytes:
        if type(value) is not int or not -limit <= value < limit:
            raise expected(f"an int of {bits} bits", value)
        return INT.pack(value)

    def decode(data: bytes) -> int:
        value: int = INT.unpack(data)[0]
        if not -limit <= value < limit:
            raise CellError(f"{value} is no int of {bits} bits")
        return value

    return Cell(INT.size, encode, decode)


def _encode_double(value: Any) -> bytes:
    if type(value) is not float:
        value = _whole(value, "a float")
    return DOUBLE.pack(value if value == value else NAN)  # noqa: PLR0124  # what NaN is not


def _encode_float(value: Any) -> bytes:
    if type(value) is not float:
        value = _whole(value, "a float of 32 bits")
    if value == value and not _fits(value):  # noqa: PLR0124  # what NaN is not
        raise expected("a float that 32 bits hold exactly", value)
    return DOUBLE.pack(value if value == value else NAN)  # noqa: PLR0124  # the same


def _decode_float(data: bytes) -> float:
    value: float = DOUBLE.unpack(data)[0]
    if value == value and not _fits(value):  # noqa: PLR0124  # what NaN is not
        raise CellError(f"{value!r} is no float of 32 bits")
    return value


def _whole(value: Any, what: str) -> float:
    """Return an int as the float that equals it: a type checker lets it through."""
    if type(value) is not int:
        raise expected(what, value)
    try:
        converted = float(value)
    except OverflowError as error:
        raise expected(what, value) from error
    if converted != value:
        raise expected(f"{what}, which this int is not exactly", value)
    return converted


def _fits(value: float) -> bool:
    """Whether 32 bits hold *value* exactly."""
    try:
        return bool(FLOAT.unpack(FLOAT.pack(value))[0] == value)
    except OverflowError:
        return False


def _encode_date(value: Any) -> bytes:
    if type(value) is not date:
        raise expected("a date", value)
    return DAYS.pack(value.toordinal() - _EPOCH_DAY)


def _decode_date(data: bytes) -> date:
    days = DAYS.unpack(data)[0]
    if not FIRST_DAY <= days <= LAST_DAY:
        raise CellError(f"day {days} is not in the years 1 to 9999")
    return date.fromordinal(days + _EPOCH_DAY)


def microseconds(value: Any, zone: str | None) -> int:
    """Return a datetime as microseconds since 1970.

    Raises:
        CellError: It is none, is outside of the years 1 to 9999, or has a zone where it should have
            none, or the other way round.
    """
    if type(value) is not datetime or (value.utcoffset() is None) != (zone is None):
        what = "a datetime without a zone" if zone is None else "a datetime with a zone"
        raise expected(what, value)
    since = value - (_EPOCH if zone is None else _EPOCH_UTC)
    number = since.days * DAY_US + since.seconds * 1_000_000 + since.microseconds
    if not FIRST_US <= number <= LAST_US:
        raise expected("an instant of the years 1 to 9999 in UTC", value)
    return number


def instant(number: int, zone: tzinfo | None) -> datetime:
    """Return *number* microseconds since 1970 in *zone*.

    Where the zone has no such year, the result is in UTC.

    Raises:
        CellError: It is outside of the years 1 to 9999.
    """
    if not FIRST_US <= number <= LAST_US:
        raise CellError(f"{number} microseconds since 1970 are not in the years 1 to 9999")
    if zone is None:
        return _EPOCH + timedelta(microseconds=number)
    found = _EPOCH_UTC + timedelta(microseconds=number)
    try:
        return found if zone is UTC else found.astimezone(zone)
    except OverflowError:
        return found


def _naive() -> Cell:
    return Cell(
        INT.size,
        lambda value: INT.pack(microseconds(value, None)),
        lambda data: instant(INT.unpack(data)[0], None),
    )


def _instant(zone: str) -> Cell:
    return Cell(
        INT.size,
        lambda value: INT.pack(microseconds(value, zone)),
        lambda data: instant(INT.unpack(data)[0], time_zone(zone)),
    )


@cache
def time_zone(zone: str) -> tzinfo:
    """Return the zone of that name: ``UTC``, an offset as ``+01:00``, or one of IANA's.

    Raises:
        CellError: This machine knows no such zone.
    """
    if zone == "UTC":
        return UTC
    if zone[:1] in {"+", "-"}:
        try:
            found = datetime.strptime(zone, "%z").tzinfo
        except ValueError as error:
            raise CellError(f"the zone {zone!r} is no offset such as +01:00") from error
        return found or timezone.utc  # noqa: UP017  # never: it has an offset
    # Its import looks for the zones of the machine, which whoever has no rows does not wait for.
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # see above

    try:
        return ZoneInfo(zone)
    except (OSError, ValueError, KeyError) as error:  # KeyError: its ZoneInfoNotFoundError
        raise CellError(
            f"the zone {zone!r} is not known here; for those of IANA, install the package tzdata"
        ) from error


def _encode_text(value: Any) -> bytes:
    if type(value) is not str:
        raise expected("a str", value)
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise expected("a str that can be UTF-8", value) from error


def _decode_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CellError(f"a text is not UTF-8, {error.reason}") from error


def _encode_bytes(value: Any) -> bytes:
    if type(value) is not bytes:
        raise expected("bytes", value)
    return value


def _decimal(kind: DecimalType) -> Cell:
    limit = 10**kind.precision

    def encode(value: Any) -> bytes:
        return unscaled(value, kind).to_bytes(DECIMAL_BYTES, "little", signed=True)

    def decode(data: bytes) -> Decimal:
        number = int.from_bytes(data, "little", signed=True)
        if not -limit < number < limit:
            raise CellError(f"{number} has more than {kind.precision} digits")
        return scaled(number, kind)

    return Cell(DECIMAL_BYTES, encode, decode)


def unscaled(value: Any, kind: DecimalType) -> int:
    """Return a Decimal as a count of its last digit, that of the type's scale.

    Raises:
        CellError: It is none, or has more digits than the type.
    """
    if type(value) is not Decimal or not value.is_finite():
        raise expected(f"a Decimal of the type {kind}", value)
    if not value:
        return 0
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)  # noqa: S101  # it is finite
    text = "".join(map(str, digits))
    significant = text.rstrip("0")
    shift = exponent + len(text) - len(significant) + kind.scale
    if value.adjusted() < kind.precision - kind.scale and shift >= 0:
        number: int = int(significant) * 10**shift
        return -number if sign else number
    raise expected(f"a Decimal with no more digits than {kind}", value)


def scaled(number: int, kind: DecimalType) -> Decimal:
    """Return the Decimal of a count of its last digit."""
    return Decimal(f"{number}E-{kind.scale}")
