"""The options of the data source: from Spark's strings to one frozen value, in one place.

Names are those a user writes, without regard to case. An option that is unknown, or that has no
meaning for what is being done, is an error: an option that is silently ignored is a wrong result.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self, TypeAlias

from statestores.errors import InvalidOptionError

DEFAULT_PARTITIONS = 4
"""Partitions of a store that a write creates without saying how many."""

STORE_KINDS: Final = ("key-value", "timestamped-key-value", "versioned", "window", "session")
"""The kinds of store that a write can make."""

KAFKA_KINDS: Final = (
    *STORE_KINDS,
    "timestamped-window",
    "time-first-window",
    "time-first-session",
)
"""The kinds of store that Kafka Streams writes; those of `KafkaKind`, which needs pyarrow."""

Offsets: TypeAlias = int | Mapping[int, int]
"""One offset for every partition, or one for each partition that is named."""

_READING: Final = "reading"
_WRITING: Final = "writing"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_UNITS_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_DURATION = re.compile(r"([0-9]+)\s*(ms|s|m|h|d|w)?")
_DURATION_EXPECTED = "milliseconds, or a number with ms, s, m, h, d or w"
_MAX_INT64 = (1 << 63) - 1


def _text(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _any_text(text: str) -> str:
    return text


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _time(text: str) -> int:
    """Read milliseconds since the epoch, or an ISO 8601 time; without a zone it is in UTC."""
    try:
        time_ms = int(text)
    except ValueError:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        time_ms = (moment - _EPOCH) // _MILLISECOND
    if not 0 <= time_ms <= _MAX_INT64:
        raise ValueError
    return time_ms


def _duration(text: str) -> int:
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError
    duration_ms = int(match[1]) * _UNITS_MS[match[2] or "ms"]
    if duration_ms > _MAX_INT64:
        raise ValueError
    return duration_ms


def _offsets(text: str) -> Offsets:
    content = json.loads(text)
    if type(content) is int and content >= 0:
        return content
    if not isinstance(content, dict) or not content:
        raise ValueError
    offsets = {int(partition): offset for partition, offset in content.items()}
    if not all(type(offset) is int and offset >= 0 for offset in offsets.values()):
        raise ValueError
    return offsets


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError
    return names


def _numbers(text: str) -> tuple[int, ...]:
    numbers = tuple(int(number) for number in text.split(","))
    if min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise ValueError
    return numbers


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError
        return text.lower()

    return read


def _option(
    name: str, read: Callable[[str], object], expected: str, *purposes: str, default: object = None
) -> Any:
    """Declare an option: how users write it, how it is read, and what it is for."""
    return field(
        default=default,
        metadata={"name": name, "read": read, "expected": expected, "purposes": purposes},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What was asked of the data source."""

    path: str = _option("path", _text, "the path of a state root", _READING, _WRITING, default="")
    """The state root: the directory with ``statestores.json``."""

    store_name: str | None = _option("storeName", _text, "the name of a store", _READING, _WRITING)
    """The store; not needed where the state root has one only."""

    # Reading.

    as_of_ms: int | None = _option(
        "asOf", _time, "milliseconds since the epoch or an ISO 8601 time", _READING
    )
    """Versioned stores: the versions that were valid then, instead of the latest."""

    history: bool = _option("history", _flag, "true or false", _READING, default=False)
    """Versioned stores: every version that the retention keeps."""

    offset: Offsets | None = _option(  # noqa: RUF009  # it returns a field
        "offset", _offsets, 'an offset, or a JSON object such as {"0": 41}', _READING
    )
    """The content at this changelog offset, instead of now; of each partition, or of those named
    (the others are read as they are now)."""

    read_change_feed: bool = _option(
        "readChangeFeed", _flag, "true or false", _READING, default=False
    )
    """The changes, instead of the content."""

    starting_offset: Offsets | None = _option(  # noqa: RUF009  # it returns a field
        "startingOffset", _offsets, 'an offset, or a JSON object such as {"0": 41}', _READING
    )
    """Change feed: the first offset; by default the first that the changelog still has."""

    ending_offset: Offsets | None = _option(  # noqa: RUF009  # it returns a field
        "endingOffset", _offsets, 'an offset, or a JSON object such as {"0": 41}', _READING
    )
    """Change feed: the last offset, inclusive; by default the last that there is."""

    key: str | None = _option("key", _any_text, "a key as text", _READING)
    """This key only."""

    key_prefix: str | None = _option("keyPrefix", _any_text, "the beginning of a key", _READING)
    """The keys that begin so."""

    key_from: str | None = _option("keyFrom", _any_text, "a key as text", _READING)
    """The keys from this one on, inclusive."""

    key_to: str | None = _option("keyTo", _any_text, "a key as text", _READING)
    """The keys up to this one, inclusive."""

    columns: tuple[str, ...] | None = _option(
        "columns", _names, "different column names, separated by commas", _READING
    )
    """Give these columns only. Spark does not tell a Python source which ones it needs."""

    partitions: tuple[int, ...] | None = _option(
        "partitions", _numbers, "different partition numbers, separated by commas", _READING
    )
    """Read these partitions only."""

    raw: bool = _option("raw", _flag, "true or false", _READING, _WRITING, default=False)
    """Keys and values as bytes, and times as milliseconds: everything as it is stored."""

    kafka_kind: str | None = _option(
        "kafkaKind", _one_of(*KAFKA_KINDS), f"one of {', '.join(KAFKA_KINDS)}", _READING
    )
    """State directories of Kafka Streams: what a store is whose bytes can be of several kinds."""

    # Writing. All but the first two say what a store is that does not exist yet.

    if_exists: str | None = _option(
        "ifExists", _one_of("write", "fail", "ignore"), "write, fail or ignore", _WRITING
    )
    """What to do when the store is there already: write as the mode says, raise, or do nothing."""

    store_kind: str | None = _option(
        "storeKind", _one_of(*STORE_KINDS), f"one of {', '.join(STORE_KINDS)}", _WRITING
    )
    """The kind; by default the one that the other options and the columns speak of."""

    history_retention_ms: int | None = _option(
        "historyRetention", _duration, _DURATION_EXPECTED, _WRITING
    )
    """Versioned stores: how far back history goes."""

    retention_ms: int | None = _option("retention", _duration, _DURATION_EXPECTED, _WRITING)
    """Window and session stores: how far behind stream time a window's start, or a session's end,
    is kept."""

    window_size_ms: int | None = _option("windowSize", _duration, _DURATION_EXPECTED, _WRITING)
    """Window stores: how long each window is."""

    retain_duplicates: bool | None = _option("retainDuplicates", _flag, "true or false", _WRITING)
    """Window stores: whether each row adds a value to its window, instead of replacing it."""

    ttl_ms: int | None = _option("ttl", _duration, _DURATION_EXPECTED, _WRITING)
    """Key-value stores with timestamps: how long a value is there; by default for ever."""

    ttl_clock: str | None = _option("ttlClock", _one_of("event", "wall"), "event or wall", _WRITING)
    """By what the age of a value is measured; by default stream time."""

    num_partitions: int | None = _option("numPartitions", _count, "a number from 1", _WRITING)
    """How many partitions; it can never be changed."""

    key_serde: str | None = _option("keySerde", _text, "the name of a serde", _READING, _WRITING)
    """The serde of keys; by default the one for the column's type. Read with: of Kafka's files."""

    value_serde: str | None = _option(
        "valueSerde", _text, "the name of a serde", _READING, _WRITING
    )
    """The serde of values; by default the one for the column's type. Read with: as for keys."""

    partitioner: str | None = _option("partitioner", _text, "the name of a partitioner", _WRITING)
    """The partitioner; by default Kafka's."""

    @classmethod
    def for_reading(cls, options: Mapping[str, str]) -> Self:
        """Read *options* of a load.

        Raises:
            InvalidOptionError: One is unknown, is not for reading, has a value that cannot be
                read, or does not go with another.
        """
        parsed = cls._parse(options, _READING)
        _check_reading(parsed)
        return parsed

    @classmethod
    def for_writing(cls, options: Mapping[str, str]) -> Self:
        """Read *options* of a save.

        Raises:
            InvalidOptionError: As for reading.
        """
        return cls._parse(options, _WRITING)

    @classmethod
    def _parse(cls, options: Mapping[str, str], purpose: str) -> Self:
        known = {each.metadata["name"].lower(): each for each in fields(cls)}
        values: dict[str, Any] = {}
        for name, text in options.items():
            found = known.get(name.lower())
            if found is None or purpose not in found.metadata["purposes"]:
                usable = ", ".join(
                    each.metadata["name"]
                    for each in fields(cls)
                    if purpose in each.metadata["purposes"]
                )
                wrong = (
                    f"unknown option {name!r}"
                    if found is None
                    else f"the option {found.metadata['name']!r} is not for {purpose}"
                )
                raise InvalidOptionError(f"{wrong}; known for {purpose}: {usable}")
            try:
                values[found.name] = found.metadata["read"](text)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise InvalidOptionError(
                    f"option {found.metadata['name']!r} must be {found.metadata['expected']}, "
                    f"got {text!r}"
                ) from error
        if "path" not in values:
            raise InvalidOptionError(
                "the option 'path' is missing: give the directory of a state root to load() or "
                "save(); a table in SQL needs it at each use, WITH (path = '...')"
            )
        return cls(**values)


def _check_reading(options: SourceOptions) -> None:
    """Refuse options that contradict each other."""
    given = {
        each.metadata["name"]
        for each in fields(options)
        if getattr(options, each.name) != each.default
    }
    for one, excluded in _EXCLUSIVE.items():
        if one in given and (both := sorted(given & excluded)):
            raise InvalidOptionError(
                f"the options {one!r} and {both[0]!r} exclude each other; leave one out"
            )
    if not options.read_change_feed and (feed := sorted(given & _CHANGE_FEED_ONLY)):
        raise InvalidOptionError(
            f"the option {feed[0]!r} is for the change feed; add readChangeFeed=true, or give "
            "offset= for the content at an offset"
        )


_CHANGE_FEED_ONLY = frozenset({"startingOffset", "endingOffset"})
_EXCLUSIVE = {
    "asOf": frozenset({"history"}),
    "readChangeFeed": frozenset({"asOf", "history", "offset"}),
    "key": frozenset({"keyPrefix", "keyFrom", "keyTo"}),
    "keyPrefix": frozenset({"keyFrom", "keyTo"}),
}
