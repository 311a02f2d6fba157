"""A schema from its text: the text that a schema prints (see `schema`), or Spark's DDL.

Types may have Spark's names as well, in any case, and the colon behind a name may be missing, so
that ``id BIGINT NOT NULL, tags ARRAY<STRING>`` is a schema, too. What is stored is the first form.
"""

import re
from typing import Final

from statestores.errors import InvalidArgumentError
from statestores.serdes.rows.schema import (
    MAX_DEPTH,
    PLAIN,
    UTC,
    DecimalType,
    Field,
    ListType,
    MapType,
    PlainType,
    RowType,
    StructType,
    TimestampType,
)

_SPARK: Final = {
    "boolean": "bool",
    "tinyint": "int8",
    "byte": "int8",
    "smallint": "int16",
    "short": "int16",
    "int": "int32",
    "integer": "int32",
    "bigint": "int64",
    "long": "int64",
    "real": "float",
    "date": "date32",
}
"""Spark's names of types without parameters, where they are others."""

_MAX_LENGTH: Final = 1 << 20

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<timestamp>timestamp\[us(?:,\s*tz=(?P<zone>[^\]\s]+))?\])"
    r"|(?P<word>\w+)|(?P<mark>[<>:,()]))"
)


_NOT_NULL: Final = re.compile(r"\s+not\s+null\b", re.IGNORECASE)


def schema_from_text(text: str) -> StructType:
    """Return the struct that *text* describes: ``struct<...>``, or its fields alone.

    Raises:
        InvalidArgumentError: It describes none; the message says where it stops being one.
    """
    if len(text) > _MAX_LENGTH:
        raise InvalidArgumentError(f"the text of a schema has at most {_MAX_LENGTH} characters")
    reader = _Reader(text)
    try:
        kind = (
            reader.type(1)
            if re.match(r"\s*struct\s*<", text, re.IGNORECASE)
            else reader.struct(1, "")
        )
        if not reader.at_end():
            raise reader.refused("the end")
    except RecursionError as error:  # a caller that is deep already
        raise InvalidArgumentError("the text of a schema is nested too deep") from error
    assert isinstance(kind, StructType)  # noqa: S101  # both ways give one
    return kind


class _Reader:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text.rstrip()
        self._at = 0

    def at_end(self) -> bool:
        return self._at == len(self._text)

    def refused(self, expected: str) -> InvalidArgumentError:
        found = self._text[self._at : self._at + 40].strip()
        return InvalidArgumentError(
            f"a schema is written as 'id: int64 not null, tags: list<string>'; expected {expected} "
            f"at {found!r}; types are {', '.join(PLAIN)}, decimal128(10, 2), timestamp[us], "
            "timestamp[us, tz=UTC], list<...>, map<..., ...> and struct<...>"
        )

    def type(self, depth: int) -> RowType:
        """Read a type that lies *depth* deep."""
        if depth > MAX_DEPTH:
            raise InvalidArgumentError(f"types lie in each other at most {MAX_DEPTH} deep")
        found = self._next()
        if found is None:
            raise self.refused("a type")
        if found["timestamp"]:
            self._at = found.end()
            return TimestampType(found["zone"])
        word = (found["word"] or "").lower()
        match word:
            case "struct":
                self._at = found.end()
                self._mark("<")
                return self.struct(depth, ">")
            case "list" | "array":
                self._at = found.end()
                self._mark("<")
                kind = self.type(depth + 1)
                listed = ListType(kind, nullable=not self._not_null())
                self._mark(">")
                return listed
            case "map":
                self._at = found.end()
                self._mark("<")
                keys = self.type(depth + 1)
                self._mark(",")
                values = self.type(depth + 1)
                mapped = MapType(keys, values, nullable=not self._not_null())
                self._mark(">")
                return mapped
            case "decimal128" | "decimal":
                self._at = found.end()
                self._mark("(")
                precision = self._number()
                self._mark(",")
                scale = self._number()
                self._mark(")")
                return DecimalType(precision, scale)
            case "timestamp" | "timestamp_ltz" | "timestamp_ntz":
                self._at = found.end()
                return TimestampType(None if word.endswith("ntz") else UTC)
            case _ if _SPARK.get(word, word) in PLAIN:
                self._at = found.end()
                return PlainType(_SPARK.get(word, word))
        raise self.refused("a type")

    def struct(self, depth: int, end: str) -> StructType:
        """Read fields up to *end*, which is read too."""
        fields = [self._field(depth)]
        while self._try_mark(","):
            fields.append(self._field(depth))
        if end:
            self._mark(end)
        return StructType(tuple(fields))

    def _field(self, depth: int) -> Field:
        found = self._next()
        if found is None or not (found["quoted"] or found["word"]):
            raise self.refused("the name of a field")
        self._at = found.end()
        quoted = found["quoted"]
        name = quoted[1:-1].replace("``", "`") if quoted else found["word"]
        self._try_mark(":")
        kind = self.type(depth + 1)
        return Field(name, kind, nullable=not self._not_null())

    def _not_null(self) -> bool:
        found = _NOT_NULL.match(self._text, self._at)
        if found:
            self._at = found.end()
        return found is not None

    def _number(self) -> int:
        found = self._next()
        if found is None or not re.fullmatch("[0-9]{1,3}", found["word"] or ""):
            raise self.refused("a number")
        self._at = found.end()
        return int(found["word"])

    def _mark(self, mark: str) -> None:
        if not self._try_mark(mark):
            raise self.refused(repr(mark))

    def _try_mark(self, mark: str) -> bool:
        found = self._next()
        if found is None or found["mark"] != mark:
            return False
        self._at = found.end()
        return True

    def _next(self) -> re.Match[str] | None:
        return _TOKEN.match(self._text, self._at)
