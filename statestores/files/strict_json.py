"""Small JSON documents of ours, read strictly: what no writer of ours writes is damage.

A file in a state root may come from another machine, a broken disk, or someone who wants harm. So a
document is UTF-8, one object, no name twice in it, nested a few levels, its numbers integers of 64
bits; and each field is asked for by name, with its type and bounds. Everything else raises
`StoreCorruptedError` that says where the document is and what is wrong with it (LAY-24).
"""

import json
from collections.abc import Iterator, Mapping
from reprlib import Repr
from typing import Any, NoReturn, cast

from statestores.errors import StoreCorruptedError

MAX_DEPTH = 32
"""Levels of objects and lists in a document; ours have up to five."""

MAX_INTEGER = (1 << 63) - 1
"""The highest integer in a document: offsets, times and sizes are int64."""

_MAX_DIGITS = len(str(MAX_INTEGER)) + 1  # and a sign

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80
_SHORT.maxlevel = 3


def parse(data: bytes, where: str) -> Any:
    """Return the value of the JSON text *data*; *where* names its source in messages.

    Raises:
        StoreCorruptedError: It is not JSON, or not as strict as the module says.
    """
    try:
        text = data.decode("utf-8")
        content = _decoder.decode(text)
        _check_depth(content, 0)
        if "\\u" in text:  # an escape can name half of a character
            json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise StoreCorruptedError(f"{where} is no JSON of ours: {_reason(error)}") from error
    return content


def parse_object(data: bytes, where: str) -> dict[str, Any]:
    """Return *data* as a JSON object, read as `parse` does.

    Raises:
        StoreCorruptedError: They are not one, or not as strict as the module says.
    """
    content = parse(data, where)
    if type(content) is not dict:
        raise StoreCorruptedError(f"{where} must be a JSON object, got {_SHORT.repr(content)}")
    return content


class Fields:
    """The fields of a JSON object, each asked for by its name, type and bounds."""

    __slots__ = ("_content", "_path", "_where")

    def __init__(self, content: Mapping[str, Any], where: str, path: str = "") -> None:
        """Read *content*; *where* names the document in messages, and *path* the object in it."""
        self._content = content
        self._where = where
        self._path = path

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def as_is(self) -> Mapping[str, Any]:
        """Return all of the fields, none of them looked at."""
        return self._content

    def text(self, name: str) -> str:
        """Return a text that is not empty."""
        value = self._content.get(name)
        if type(value) is not str or not value:
            self.refuse(name, "a text that is not empty")
        return value

    def text_or_none(self, name: str) -> str | None:
        """Return a text, which may be empty, or ``None`` for null; the field must be there."""
        value = self._content.get(name, 0)
        if value is not None and type(value) is not str:
            self.refuse(name, "a text or null")
        return value

    def text_or_integer(self, name: str) -> str | int:
        """Return a text, an integer of 64 bits, or true or false."""
        value = self._content.get(name)
        if type(value) not in {str, int, bool}:
            self.refuse(name, "a text, an integer, or true or false")
        return cast("str | int", value)

    def row(self, name: str) -> list[Any]:
        """Return a list of texts and integers; whoever unpacks it checks the types."""
        value = self._content.get(name)
        if type(value) is not list or not _is_row(value):
            self.refuse(name, "a list of texts and integers")
        return value

    def rows(self, name: str) -> list[list[Any]]:
        """Return a list of lists of texts and integers, likewise."""
        value = self._content.get(name)
        if type(value) is not list or not all(type(row) is list and _is_row(row) for row in value):
            self.refuse(name, "a list of lists of texts and integers")
        return value

    def integer(self, name: str, first: int = 0, last: int = MAX_INTEGER) -> int:
        """Return an integer from *first* to *last*."""
        value = self._content.get(name)
        if type(value) is not int or not first <= value <= last:
            self.refuse(name, f"an integer from {first} to {last}")
        return value

    def integer_or_none(self, name: str) -> int | None:
        """Return an integer from 0, or ``None`` where the field is absent or null."""
        return None if self._content.get(name) is None else self.integer(name)

    def flag(self, name: str) -> bool:
        """Return true or false."""
        value = self._content.get(name)
        if type(value) is not bool:
            self.refuse(name, "true or false")
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        """Return an object as it is."""
        value = self._content.get(name)
        if type(value) is not dict:
            self.refuse(name, "an object")
        return value

    def mapping_or_none(self, name: str) -> dict[str, Any] | None:
        """Return an object as it is, or ``None`` where the field is absent or null."""
        return None if self._content.get(name) is None else self.mapping(name)

    def inside(self, name: str) -> "Fields":
        """Return the fields of the object *name*."""
        return Fields(self.mapping(name), self._where, self._below(name))

    def items(self) -> Iterator[tuple[str, "Fields"]]:
        """Yield the name and fields of each object in this one, which holds nothing else."""
        for name in self._content:
            yield name, self.inside(name)

    def numbered(self) -> Iterator[tuple[int, str]]:
        """Yield the number that each field's name is, and the name."""
        for name in self._content:
            if not (name.isascii() and name.isdigit() and len(name) < _MAX_DIGITS):
                self.refuse(name, "named by a number from 0")
            if str(int(name)) != name:
                self.refuse(name, "named by a number without zeros in front")
            yield int(name), name

    def objects(self, name: str) -> Iterator["Fields"]:
        """Yield the fields of each object of the list *name*."""
        value = self._content.get(name)
        if type(value) is not list or not all(type(each) is dict for each in value):
            self.refuse(name, "a list of objects")
        for number, each in enumerate(value):
            yield Fields(each, self._where, self._below(f"{name}[{number}]"))

    def only(self, *names: str) -> None:
        """Accept an object that has no fields but *names*."""
        for name in self._content:
            if name not in names:
                self.refuse(name, f"absent: the fields are {', '.join(names)}")

    def refuse(self, name: str, expected: str) -> NoReturn:
        """Raise for the field *name*, which must be what is *expected*.

        Raises:
            StoreCorruptedError: Always.
        """
        found = _SHORT.repr(self._content[name]) if name in self._content else "nothing"
        raise StoreCorruptedError(
            f"{self._where} is malformed: {_SHORT.repr(self._below(name))} must be {expected}, got "
            f"{found}; it is damaged, was edited, or is of a later release"
        )

    def _below(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name


def _is_row(value: list[Any]) -> bool:
    return all(type(each) in {str, int} for each in value)


def _reason(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return f"it is nested in more than {MAX_DEPTH} levels"
    if isinstance(error, UnicodeError):
        return f"it is not UTF-8: {error}"
    return str(error)


def _check_depth(value: object, depth: int) -> None:
    """Accept lists and objects in up to `MAX_DEPTH` levels.

    Raises:
        ValueError: There are more.
    """
    children = value.values() if type(value) is dict else value if type(value) is list else ()
    if children and depth == MAX_DEPTH:
        raise ValueError(f"it is nested in more than {MAX_DEPTH} levels")
    for child in children:
        if type(child) in {dict, list}:
            _check_depth(child, depth + 1)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"it has the name {_SHORT.repr(name)} twice")
            seen.add(name)
    return content


def _integer(digits: str) -> int:
    if len(digits) <= _MAX_DIGITS and -MAX_INTEGER <= (number := int(digits)) <= MAX_INTEGER:
        return number
    raise ValueError(f"the number {_SHORT.repr(digits)} is outside of 64 bits")


def _no_number(digits: str) -> NoReturn:
    raise ValueError(f"the number {_SHORT.repr(digits)} is no integer")


_decoder = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_constant=_no_number,
    parse_float=_no_number,
    parse_int=_integer,
)
