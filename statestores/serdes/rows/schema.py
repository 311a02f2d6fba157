"""What a row has: named fields of types, as values that have one text each.

The text of a type is what Arrow prints for it, without the names that Arrow gives to the values of
lists: ``struct<id: int64 not null, tags: list<string>>``. It is part of the name of a serde of rows
(SRD-35), so it never changes for a type.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from statestores.errors import InvalidArgumentError

INTEGER_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
"""The whole numbers, by their text, with their width."""

FLOATS: Final = ("float", "double")
"""The floats of 32 and 64 bits, by the text that Arrow prints."""

PLAIN: Final = ("bool", *INTEGER_BITS, *FLOATS, "date32", "string", "binary")
"""The types without parameters."""

MAX_PRECISION: Final = 38
MAX_DEPTH: Final = 32
"""How deep types may lie in each other; bounds the recursion of whoever reads rows."""

MAX_FIELDS: Final = 10_000
"""How many fields a struct may have."""

UTC: Final = "UTC"
"""The zone that every machine knows."""

T = TypeVar("T")

_MOST_FOUND: Final = 1_000
"""Of so many schemas it is known what was made of them; a program has a few."""

_BARE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class PlainType:
    """A type without parameters."""

    text: str
    """One of `PLAIN`."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class DecimalType:
    """Numbers with a fixed count of digits behind the point."""

    precision: int
    """How many digits there are at most, from 1 to 38."""

    scale: int
    """How many of them are behind the point, from 0."""

    def __post_init__(self) -> None:
        """Refuse what 128 bits do not hold."""
        if not 1 <= self.precision <= MAX_PRECISION or not 0 <= self.scale <= self.precision:
            raise InvalidArgumentError(
                f"a decimal has 1 to {MAX_PRECISION} digits, of which 0 to all are behind the "
                f"point, got {self}"
            )

    def __str__(self) -> str:
        return f"decimal128({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class TimestampType:
    """Microseconds since 1970: an instant, or a date and time of day without a zone."""

    zone: str | None
    """The zone in which the instant is shown; ``None`` for a time without one."""

    def __str__(self) -> str:
        return "timestamp[us]" if self.zone is None else f"timestamp[us, tz={self.zone}]"


@dataclass(frozen=True, slots=True)
class ListType:
    """Any number of values of one type."""

    values: "RowType"
    """What they are."""

    nullable: bool
    """Whether some may be null."""

    def __str__(self) -> str:
        return f"list<{self.values}{_required(nullable=self.nullable)}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """Values by keys, in an order."""

    keys: "RowType"
    """What the keys are: no lists, maps, structs, floats, or instants of a zone but UTC."""

    values: "RowType"
    """What the values are."""

    nullable: bool
    """Whether some values may be null."""

    def __post_init__(self) -> None:
        """Refuse keys that a dict does not have, or does not tell apart."""
        if (
            isinstance(self.keys, ListType | MapType | StructType)
            or (isinstance(self.keys, TimestampType) and self.keys.zone not in {None, UTC})
            or (isinstance(self.keys, PlainType) and self.keys.text in FLOATS)
        ):
            raise InvalidArgumentError(
                "the keys of a map are no lists, maps or structs, no floats, and no timestamps of "
                f"a zone but {UTC}, got {self}"
            )

    @property
    def entries(self) -> "StructType":
        """One entry as a struct: how rows hold it."""
        return StructType(
            (Field("key", self.keys, nullable=False), Field("value", self.values, self.nullable))
        )

    def __str__(self) -> str:
        return f"map<{self.keys}, {self.values}{_required(nullable=self.nullable)}>"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    """Any text that is not empty; different in one struct, also in lower case, as Spark has it."""

    type: "RowType"
    """What its values are."""

    nullable: bool
    """Whether it may be null."""

    def __str__(self) -> str:
        bare = _BARE.fullmatch(self.name)
        name = self.name if bare else "`" + self.name.replace("`", "``") + "`"
        return f"{name}: {self.type}{_required(nullable=self.nullable)}"


@dataclass(frozen=True, slots=True)
class StructType:
    """Fields by name, in an order."""

    fields: tuple[Field, ...]
    """From 1 to 10,000."""

    def __post_init__(self) -> None:
        """Refuse names that cannot be told apart."""
        if not 1 <= len(self.fields) <= MAX_FIELDS:
            raise InvalidArgumentError(
                f"a struct has 1 to {MAX_FIELDS} fields, got {len(self.fields)}"
            )
        seen = dict[str, str]()
        for field in self.fields:
            if not field.name or not _is_text(field.name):
                raise InvalidArgumentError(
                    f"a field's name is a text that is not empty, got {field.name!r}"
                )
            if (other := seen.setdefault(field.name.lower(), field.name)) is not field.name:
                raise InvalidArgumentError(
                    f"a struct has the fields {other!r} and {field.name!r}, which Spark cannot "
                    "tell apart; give one of them another name"
                )

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self.fields))}>"


RowType: TypeAlias = PlainType | DecimalType | TimestampType | ListType | MapType | StructType
"""What a value in a row is."""


def check_depth(kind: RowType, depth: int = 1) -> None:
    """Accept types that lie in each other at most `MAX_DEPTH` deep.

    Raises:
        InvalidArgumentError: They lie deeper.
    """
    if depth > MAX_DEPTH:
        raise InvalidArgumentError(f"types lie in each other at most {MAX_DEPTH} deep")
    for inner in inner_types(kind):
        check_depth(inner, depth + 1)


def inner_types(kind: RowType) -> Iterator[RowType]:
    """Yield the types of which *kind* is made."""
    if isinstance(kind, StructType):
        yield from (field.type for field in kind.fields)
    elif isinstance(kind, MapType):
        yield from (kind.keys, kind.values)
    elif isinstance(kind, ListType):
        yield kind.values


def _required(*, nullable: bool) -> str:
    return "" if nullable else " not null"


def _is_text(name: str) -> bool:
    """Whether *name* can be written as UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def found_by_identity(make: Callable[[StructType], T]) -> Callable[[StructType], T]:
    """Return what does as *make*, and finds what that made of the same object before.

    For what every row asks for. A cache would find it by the schema's hash, which goes through all
    fields: of a row with twelve of them that is a third of what its bytes take.
    """
    made: dict[int, tuple[StructType, T]] = {}

    def found(schema: StructType) -> T:
        known = made.get(id(schema))
        if known is None:
            if len(made) >= _MOST_FOUND:
                made.clear()
            # With the schema itself: as long as it is here, no other object has its identity.
            known = made[id(schema)] = schema, make(schema)
        return known[1]

    return found
