"""The values of the data source's options, from Spark's strings."""

import json
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, cast

from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.text.times import parse_duration, parse_time

Offsets: TypeAlias = int | Mapping[int, int]
"""One offset for every partition, or one for each partition that is named."""

ANY_AGE_MS: Final = MAX_TIME_MS
"""No snapshot is older."""


def read_text(text: str) -> str:
    """Read a text that is not empty."""
    if not text:
        raise ValueError
    return text


def read_any_text(text: str) -> str:
    """Read any text."""
    return text


def read_flag(text: str) -> bool:
    """Read true or false."""
    return {"true": True, "false": False}[text.lower()]


def read_count(text: str) -> int:
    """Read a number from 1."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def read_time(text: str) -> int:
    """Read milliseconds since the epoch, or an ISO 8601 time; without a zone it is in UTC."""
    return parse_time(text.strip())


def read_duration(text: str) -> int:
    """Read milliseconds, or a number with a unit, as milliseconds."""
    return parse_duration(text.strip())


def _parsed(text: str) -> object:
    """Return what the JSON *text* says; one that is nested too deep is as wrong as any other."""
    try:
        return cast("object", json.loads(text))
    except RecursionError as error:
        raise ValueError from error


def read_offsets(text: str, *, least: int = 0) -> Offsets:
    """Read one offset, or a JSON object of offsets by partition; none is below *least*."""
    content = _parsed(text)
    if type(content) is int and content >= least:
        return content
    if not isinstance(content, dict) or not content:
        raise ValueError
    offsets = {int(partition): offset for partition, offset in content.items()}
    if len(offsets) < len(content):
        raise ValueError
    if not all(type(offset) is int and offset >= least for offset in offsets.values()):
        raise ValueError
    return offsets


def read_last_offsets(text: str) -> Offsets:
    """Read offsets of the last changes that are there; -1 where there is none."""
    return read_offsets(text, least=-1)


def read_names(text: str) -> tuple[str, ...]:
    """Read different names, separated by commas."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError
    return names


def read_texts(text: str) -> tuple[str, ...]:
    """Read a JSON list of any texts."""
    content = _parsed(text)
    if not isinstance(content, list) or not all(type(each) is str for each in content):
        raise ValueError
    return tuple(content)


def read_numbers(text: str) -> tuple[int, ...]:
    """Read different partition numbers, separated by commas."""
    numbers = tuple(int(number) for number in text.split(","))
    if min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise ValueError
    return numbers


def read_one_of(*choices: str) -> Callable[[str], str]:
    """Return what reads one of *choices*."""

    def read(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError
        return text.lower()

    return read


def read_freshness(text: str) -> int | None:
    """Read how old a snapshot may be, in milliseconds: ``snapshot`` is any age, ``latest`` none."""
    if text.lower() == "snapshot":
        return ANY_AGE_MS
    return None if text.lower() == "latest" else read_duration(text)
