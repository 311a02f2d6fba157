"""A question about a store as one value, and as the JSON that crosses the wire.

Everything is checked by type and bound before anything is read, and nothing is decoded but JSON:
keys are bytes, in base64.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NoReturn, TypeAlias, cast, get_args

from statestores.errors import InvalidArgumentError, StateStoreError, StoreCorruptedError
from statestores.files.strict_json import parse_object
from statestores.query.position_bound import AtLeast
from statestores.spi.offsets import Position, TopicPartition

Read: TypeAlias = Literal["get", "get_many", "range", "history", "by_end", "about", "changes"]
"""What can be asked; which of them a store has depends on its kind (`reads`)."""

READS: frozenset[str] = frozenset(get_args(Read))

_MAX_INT64 = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is asked of one store. What a read does not have is refused, not ignored."""

    store: str
    """The store."""

    read: Read
    """What is asked of it."""

    key: bytes | None = None
    """The key of a read of one."""

    keys: tuple[bytes, ...] | None = None
    """The keys of a batch."""

    first: bytes | None = None
    """The first key of a range."""

    last: bytes | None = None
    """The last key of a range, inclusive."""

    prefix: bytes | None = None
    """What the keys of a range begin with."""

    first_ms: int | None = None
    """The first time; for sessions, the earliest end."""

    last_ms: int | None = None
    """The last time, inclusive; for sessions, the latest start."""

    as_of_ms: int | tuple[int, ...] | None = None
    """The time as of which a versioned store is read; of a batch, one for all or for each."""

    start_ms: int | tuple[int, ...] | None = None
    """The start of one window or session; of a batch, one for each key, of windows one for all."""

    end_ms: int | tuple[int, ...] | None = None
    """The end of one session; of a batch, one for each key."""

    reverse: bool = False
    """Whether to begin with the last row."""

    limit: int | None = None
    """How many rows to give at most; ``None``: as many as there are, up to the server's limit."""

    partition: int | None = None
    """The only partition to read."""

    include_stale: bool = False
    """Whether copies may answer."""

    at_least: AtLeast | None = None
    """The position that what is read must have reached."""

    max_lag: int | None = None
    """How many changes what is read may be behind."""

    from_offset: int | None = None
    """Where changes begin; ``None``: at the first that there still is."""

    def as_json(self) -> bytes:
        """Return the question as it crosses the wire."""
        document: dict[str, Any] = {}
        for name in _NAMES:
            value = getattr(self, name)
            if value is None or value is False:
                continue
            document[name] = _encoded(value)
        return json.dumps(document, separators=(",", ":")).encode()


_NAMES = tuple(each.name for each in fields(Query))
_BYTES = {"key", "first", "last", "prefix"}
_NUMBERS = {
    "first_ms",
    "last_ms",
    "limit",
    "partition",
    "max_lag",
    "from_offset",
}
_ONE_OR_EACH = {"as_of_ms", "start_ms", "end_ms"}
_FLAGS = {"reverse", "include_stale"}


def query_from_json(data: bytes, *, max_keys: int) -> Query:
    """Return the question that *data* says.

    Raises:
        InvalidArgumentError: It says none, or one with more than *max_keys* keys.
    """
    try:
        document = parse_object(data, "the question")
    except StoreCorruptedError as error:
        raise InvalidArgumentError(str(error)) from error
    found: dict[str, Any] = {}
    for name, value in document.items():
        if name not in _NAMES:
            _refuse(name, value, f"absent: the fields are {', '.join(_NAMES)}")
        if value is not None:
            found[name] = _decoded(name, value, max_keys)
    for name in ("store", "read"):
        if name not in found:
            _refuse(name, None, "there")
    return Query(**found)


def position_as_json(position: Mapping[TopicPartition, int]) -> list[list[Any]]:
    """Return a position as rows of topic, partition and offset."""
    return [[topic, number, offset] for (topic, number), offset in sorted(position.items())]


def position_from_json(value: object) -> Position:
    """Return the position of rows as `position_as_json` gives them.

    Raises:
        InvalidArgumentError: They are none.
    """
    try:
        rows = cast("list[list[Any]]", value)
        found = Position({TopicPartition(topic, number): offset for topic, number, offset in rows})
    except (StateStoreError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"a position is a list of [topic, partition, offset], got {value!r:.200}"
        ) from error
    if len(found) < len(rows):
        raise InvalidArgumentError(
            f"a position has one offset of each partition, got {value!r:.200}"
        )
    return found


def _encoded(value: Any) -> Any:
    """Return a field's value as JSON has it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Position):
        return position_as_json(value)
    if isinstance(value, Mapping):
        return {str(number): position_as_json(each) for number, each in value.items()}
    if isinstance(value, tuple):
        return [_encoded(each) for each in value]
    return value


def _decoded(name: str, value: Any, max_keys: int) -> Any:
    """Return the field *name*, checked."""
    if name in _BYTES:
        return _bytes(name, value)
    if name in _NUMBERS:
        return _number(name, value)
    if name in _FLAGS:
        if type(value) is not bool:
            _refuse(name, value, "true or false")
        return value
    if name == "keys" or name in _ONE_OR_EACH:
        if type(value) is not list and name in _ONE_OR_EACH:
            return _number(name, value)
        if type(value) is not list or len(value) > max_keys:
            _refuse(name, value, f"a list of up to {max_keys}")
        one: Callable[[str, object], Any] = _bytes if name == "keys" else _number
        return tuple(one(name, each) for each in value)
    return _bound(value) if name == "at_least" else _name(name, value)


def _name(name: str, value: object) -> str:
    if type(value) is not str or not value or (name == "read" and value not in READS):
        _refuse(name, value, "a name" if name == "store" else f"one of {', '.join(sorted(READS))}")
    return value


def _bound(value: Any) -> AtLeast:
    if type(value) is not dict:
        return position_from_json(value)
    found: dict[int, Position] = {}
    for number, each in value.items():
        if re.fullmatch(r"0|[1-9][0-9]{0,9}", number) is None:
            _refuse("at_least", number, "by numbers of partitions")
        found[int(number)] = position_from_json(each)
    return found


def _bytes(name: str, value: object) -> bytes:
    if type(value) is not str:
        _refuse(name, value, "bytes in base64")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        _refuse(name, value, "bytes in base64")


def _number(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_INT64:
        _refuse(name, value, f"an integer from 0 to {_MAX_INT64}")
    return value


def _refuse(name: str, value: object, expected: str) -> NoReturn:
    raise InvalidArgumentError(f"{name!r} of a question must be {expected}, got {value!r:.200}")
