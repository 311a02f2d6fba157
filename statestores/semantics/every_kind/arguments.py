"""Judging arguments: each function says in a sentence what is wrong, or returns (COM-19).

The hot paths test types in line and come here only to complain.
"""

from collections.abc import Iterable
from operator import le
from typing import Any, NoReturn

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.spi.durability import Durability
from statestores.spi.kinds import NUMBER_ATTRIBUTES
from statestores.spi.milliseconds import in_milliseconds
from statestores.spi.records import Changes
from statestores.spi.shown import shown
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import Isolation, Values
from statestores.spi.values import as_list

MAX_TIME_MS = (1 << 63) - 1
"""Times are int64 milliseconds since the epoch, from 0."""

_KEY_TYPES = frozenset({bytes})
_VALUE_TYPES = frozenset({bytes, type(None)})
_TIME_TYPES = frozenset({int})
"""A set of the types of a column takes two thirds of a list of them, or of a look at each."""


def check_key(key: object) -> None:
    """Accept ``bytes``.

    Raises:
        InvalidTypeError: The key is ``None`` or of another type.
    """
    if type(key) is not bytes:
        raise InvalidTypeError(
            "a key cannot be None: every row needs one"
            if key is None
            else f"a key is bytes, got {shown(key)}; encode it, or open the store with a key serde"
        )


def check_value(value: object) -> None:
    """Accept ``bytes``, and ``None`` for a deletion.

    Raises:
        InvalidTypeError: The value is of another type.
    """
    if value is not None and type(value) is not bytes:
        raise InvalidTypeError(
            f"a value is bytes or None, got {shown(value)}; encode it, or open the store with a "
            "value serde"
        )


def check_keys(keys: list[Any]) -> None:
    """Accept a list of ``bytes``; the common case is one look at their types.

    Raises:
        InvalidTypeError: A key is of another type.
    """
    if not set(map(type, keys)) <= _KEY_TYPES:
        for key in keys:
            check_key(key)


def check_values(values: list[Any]) -> None:
    """Accept a list of ``bytes`` and ``None``, likewise.

    Raises:
        InvalidTypeError: A value is of another type.
    """
    if not set(map(type, values)) <= _VALUE_TYPES:
        for value in values:
            check_value(value)


def check_changes(changes: object, specification: StoreSpecification[Any, Any]) -> None:
    """Accept `Changes` without columns that stores of the specification's kind do not have.

    Raises:
        InvalidTypeError: It is something else.
        InvalidArgumentError: It has such a column: it is another kind's, and more than its keys and
            values would be lost here.
    """
    if not isinstance(changes, Changes):
        raise InvalidTypeError(f"changes must be statestores.Changes, got {shown(changes)}")
    kind = specification.kind
    own = {number.attribute for number in kind.numbers}
    for column in NUMBER_ATTRIBUTES:
        if column not in own and getattr(changes, column) is not None:
            raise InvalidArgumentError(
                f"the changes carry {column}, and {specification.name!r} is a {kind.name} store, "
                "which has none: they are of another kind of store"
            )


def check_reverse(reverse: object) -> None:
    """Accept a ``bool``: each engine would take a 2 or a ``None`` in its own way.

    Raises:
        InvalidTypeError: It is something else.
    """
    if type(reverse) is not bool:
        raise InvalidTypeError(f"reverse must be a bool, got {shown(reverse)}")


def check_time(name: str, time_ms: object) -> None:
    """Accept an ``int`` from 0 to `MAX_TIME_MS`.

    Raises:
        InvalidTypeError: It is not an ``int``.
        InvalidArgumentError: It is out of bounds.
    """
    if type(time_ms) is not int:
        raise InvalidTypeError(
            f"{name} must be an int of milliseconds, got {time_ms!r}{in_milliseconds(time_ms)}"
        )
    if not 0 <= time_ms <= MAX_TIME_MS:
        raise InvalidArgumentError(
            f"{name} must be from 0 to 2**63 - 1 milliseconds since the epoch, got {time_ms!r}"
        )


def check_times(name: str, times_ms: list[Any]) -> None:
    """Accept a list of times; the common case is a look at their types and bounds.

    Raises:
        InvalidTypeError, InvalidArgumentError: One is not a time.
    """
    highest_time(name, times_ms)


def highest_time(name: str, times_ms: list[Any]) -> int:
    """Accept a list of times, and return the highest, or -1 of none.

    Raises:
        InvalidTypeError, InvalidArgumentError: One is not a time.
    """
    if not times_ms:
        return -1
    highest: int = max(times_ms) if _are_ints(times_ms) else MAX_TIME_MS + 1
    if highest > MAX_TIME_MS or min(times_ms) < 0:
        for time_ms in times_ms:
            check_time(name, time_ms)
    return highest


def distinct_times(name: str, times_ms: list[Any]) -> set[int]:
    """Accept a list of times, and return each of them once.

    Raises:
        InvalidTypeError, InvalidArgumentError: One is not a time.
    """
    distinct = set(times_ms) if _are_ints(times_ms) else {MAX_TIME_MS + 1}
    if distinct and (max(distinct) > MAX_TIME_MS or min(distinct) < 0):
        highest_time(name, times_ms)
    return distinct


def _are_ints(values: list[Any]) -> bool:
    """Return whether each is an ``int``, and of no class derived from it."""
    return set(map(type, values)) <= _TIME_TYPES


def check_time_range(first_ms: int | None, last_ms: int | None) -> None:
    """Accept a time range, inclusive at both ends and open where ``None``.

    Raises:
        InvalidTypeError, InvalidArgumentError: An end is not a time, or the range is inverted.
    """
    if first_ms is not None:
        check_time("first_ms", first_ms)
    if last_ms is not None:
        check_time("last_ms", last_ms)
    if first_ms is not None and last_ms is not None and first_ms > last_ms:
        raise InvalidArgumentError(
            f"first_ms must not be after last_ms, got {first_ms} and {last_ms}"
        )


def check_session(start_ms: object, end_ms: object) -> None:
    """Accept the two inclusive ends of a session.

    Raises:
        InvalidTypeError, InvalidArgumentError: One is not a time, or the end comes before the
            start.
    """
    check_time("start_ms", start_ms)
    check_time("end_ms", end_ms)
    if isinstance(start_ms, int) and isinstance(end_ms, int) and start_ms > end_ms:
        raise InvalidArgumentError(
            f"a session must not end before it starts, got start_ms={start_ms} and end_ms={end_ms}"
        )


def check_sessions(starts_ms: list[Any], ends_ms: list[Any]) -> tuple[int, int] | None:
    """Accept two columns of equal length: the inclusive ends of sessions.

    Return the lowest and the highest of *ends_ms*, ``None`` if there are none.

    Raises:
        InvalidTypeError, InvalidArgumentError: As for `check_session`.
    """
    if (
        ends_ms
        and _are_ints(starts_ms)
        and _are_ints(ends_ms)
        and min(starts_ms) >= 0
        and (highest := max(ends_ms)) <= MAX_TIME_MS
        and all(map(le, starts_ms, ends_ms))
    ):
        return min(ends_ms), highest
    for start_ms, end_ms in zip(starts_ms, ends_ms, strict=True):
        check_session(start_ms, end_ms)
    return None


def check_key_range(first: object, last: object) -> None:
    """Accept the ends of a key range; ``None`` is an open end.

    Raises:
        InvalidTypeError: An end is neither ``bytes`` nor ``None``.
    """
    if first is not None:
        check_key(first)
    if last is not None:
        check_key(last)


def refuse_absent(value: object) -> NoReturn:
    """Raise for a value that is not ``bytes``, where ``None`` would not be a deletion (KVS-14).

    Raises:
        InvalidTypeError: Always.
    """
    check_value(value)
    raise InvalidTypeError("put_if_absent needs a value, got None; use delete() to delete")


def refuse_put(key: object, value: object, timestamp_ms: object = 0) -> NoReturn:
    """Raise for the first malformed argument of a put; one of them is malformed."""
    check_key(key)
    check_value(value)
    check_time("timestamp_ms", timestamp_ms)
    raise AssertionError(f"{key!r}, {value!r} and {timestamp_ms!r} are in order")


def check_specification(specification: object) -> None:
    """Accept what describes a store.

    Raises:
        InvalidTypeError: It is something else.
    """
    if not isinstance(specification, StoreSpecification):
        raise InvalidTypeError(
            "a store is described by a KeyValue, Versioned, Window or Session, such as "
            f"KeyValue('counts'), got {shown(specification)}"
        )


def check_store_name(name: object) -> None:
    """Accept the name of an existing store: text.

    Raises:
        InvalidTypeError: It is something else.
    """
    if not isinstance(name, str):
        raise InvalidTypeError(f"a store is named by a str, got {shown(name)}")


def store_names(names: Iterable[str]) -> list[str]:
    """Return several *names* of stores; one text would be a name for each letter.

    Raises:
        InvalidTypeError: They are something else.
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidTypeError(f"stores are given as a list of names, got {shown(names)}")
    found = list(names)
    for name in found:
        check_store_name(name)
    return found


def check_lengths(**columns: list[Any]) -> None:
    """Accept columns of equal length.

    Raises:
        InvalidArgumentError: They differ.
    """
    if len(set(map(len, columns.values()))) > 1:
        lengths = ", ".join(f"{len(column)} {name}" for name, column in columns.items())
        raise InvalidArgumentError(f"columns must have equal length, got {lengths}")


def durability_of(durability: Durability | str) -> Durability:
    """Return the durability, given as itself or by its name.

    Raises:
        InvalidArgumentError: There is no such durability.
    """
    try:
        return Durability(durability)
    except ValueError as error:
        known = ", ".join(repr(level.value) for level in Durability)
        raise InvalidArgumentError(
            f"durability must be one of {known}, got {durability!r}"
        ) from error


def isolation_of(isolation: Isolation | str) -> Isolation:
    """Return the isolation level, given as itself or by its name.

    Raises:
        InvalidArgumentError: There is no such level.
    """
    try:
        return Isolation(isolation)
    except ValueError as error:
        known = ", ".join(repr(level.value) for level in Isolation)
        raise InvalidArgumentError(
            f"isolation must be one of {known}, got {isolation!r}"
        ) from error


def keys_and_times(
    keys: Values[bytes], as_of_ms: int | Values[int] | None
) -> tuple[list[bytes], list[int | None]]:
    """Return keys and a time for each, checked: the arguments of a `get_many`.

    Raises:
        InvalidTypeError, InvalidArgumentError: A key or time is malformed, or the lengths differ.
    """
    key_list = as_list("keys", keys)
    check_keys(key_list)
    if as_of_ms is None:
        return key_list, [None] * len(key_list)
    if isinstance(as_of_ms, int):
        check_time("as_of_ms", as_of_ms)
        return key_list, [as_of_ms] * len(key_list)
    times = as_list("as_of_ms", as_of_ms)
    check_lengths(keys=key_list, as_of_ms=times)
    check_times("as_of_ms", times)
    return key_list, times
