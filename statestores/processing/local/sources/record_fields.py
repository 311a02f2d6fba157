"""From what a source reads to records: which part of it is key, value and time."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from statestores.errors import (
    InvalidArgumentError,
    InvalidTimeError,
    InvalidTypeError,
    SerializationError,
)
from statestores.processing.record import RawRecord, Record
from statestores.processing.serdes import encoded
from statestores.processing.topic import Topic

FieldOf: TypeAlias = str | Callable[[Any], Any]
"""The name of a field, with dots for fields in fields, or a function of the whole."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TIME_MS = (1 << 63) - 1


def field_of(field: FieldOf, name: str) -> Callable[[Any], Any]:
    """Return the function that *field* stands for; *name* is that of the argument.

    Raises:
        InvalidTypeError, InvalidArgumentError: It is neither a name nor a function.
    """
    if callable(field):
        return field
    if not isinstance(field, str):
        raise InvalidTypeError(
            f"{name} must be the name of a field, such as 'user' or 'user.id', or a function of "
            f"what is read, got {field!r}"
        )
    names = field.split(".")
    if not all(names):
        raise InvalidArgumentError(f"{name} must be a field's name, got {field!r}")

    def look(row: Any) -> Any:
        found = row
        for each in names:
            if not isinstance(found, Mapping):
                raise SerializationError(
                    f"there is no field {field!r}: {each!r} is looked for in {found!r}"
                )
            if each not in found:
                raise SerializationError(
                    f"the field {field!r} is missing; there are: {', '.join(map(str, found))}"
                )
            found = found[each]
        return found

    return look


class RecordFields:
    """Makes the records of one topic."""

    def __init__(
        self,
        topic: Topic[Any, Any],
        *,
        key: FieldOf | None,
        value: FieldOf | None,
        time: FieldOf | None,
    ) -> None:
        """Take key, value and time from there; without: no key, all of it, and the wall clock.

        Raises:
            InvalidTypeError, InvalidArgumentError: One is no field.
        """
        self._topic = topic
        self._key = None if key is None else field_of(key, "key")
        self._value = None if value is None else field_of(value, "value")
        self._time = None if time is None else field_of(time, "time")
        self.takes_all = value is None
        """Whether the value is all that is read."""

    def record(self, row: Any, wall_ms: int, value: bytes | None = None) -> RawRecord:
        """Return the record of *row*; *value* are its bytes, where they are known.

        Raises:
            SerializationError: A field is missing, or not what the topic's serdes write.
            InvalidTimeError: The time is none.
        """
        if value is None:
            found = row if self._value is None else self._value(row)
            value = encoded(self._topic.value, found)
        key = None if self._key is None else encoded(self._topic.key, self._key(row))
        time_ms = wall_ms if self._time is None else milliseconds(self._time(row))
        return Record(key, value, time_ms)


def milliseconds(time: Any) -> int:
    """Return *time*, milliseconds or a `datetime`, which is UTC unless it says otherwise.

    Raises:
        InvalidTimeError: It is neither, or before 1970.
    """
    if isinstance(time, datetime):
        aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        passed = aware - _EPOCH
        time = (passed.days * 86_400 + passed.seconds) * 1_000 + passed.microseconds // 1_000
    if type(time) is not int or not 0 <= time <= _MAX_TIME_MS:
        raise InvalidTimeError(
            f"a time is an int of milliseconds from 0 to 2**63 - 1, or a datetime, got {time!r}"
        )
    return time
