"""Many updates at once: what the keys have is read once, and what comes of it is put once (KVS-19).

Rows are merged in the order in which they come, from what its key has to what it will have, so what
comes out is that of as many gets and puts, floats included.
"""

import operator
from collections import Counter
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.spi.serde import Serde
from statestores.spi.shown import shown
from statestores.spi.values import as_list

_EXACT: tuple[set[type], ...] = ({bytes}, {str}, {int})
"""Types of keys that are equal exactly where their bytes are, as long as no other is among them:
``1 == True == 1.0``, and a serde may tell them apart."""


class Merge(Enum):
    """What becomes of the value that a key has, and that of a row."""

    SUM = "added"
    """Their sum."""

    LEAST = "compared for the lesser"
    """The lesser one; of equal ones, that which the key has."""

    GREATEST = "compared for the greater"
    """The greater one, likewise."""


class KeyedRows(NamedTuple):
    """The rows of an update, by key. What a key goes by is its name: itself, or its bytes."""

    keys: list[Any]
    """Each key once, in the order in which they first occur."""

    distinct: list[Any]
    """Their names."""

    names: list[Any]
    """For each row that is merged, the name of its key."""

    values: list[Any]
    """What is merged into what that key has."""

    times: list[Any]
    """The timestamps of these rows; none for stores without."""

    has_nulls: bool
    """Whether rows were left out, and perhaps all of a key."""

    def keys_of(self, merged: dict[Any, Any]) -> list[Any]:
        """Return the keys by whose names *merged* is: all, or those into which something was."""
        if len(merged) == len(self.keys):
            return self.keys
        pairs = zip(self.distinct, self.keys, strict=True)
        return [key for name, key in pairs if name in merged]


def keyed_rows(
    keys: object, values: object, serde: Serde[Any] | None, times: list[Any] | None = None
) -> KeyedRows:
    """Return columns by key; *serde* is that of the keys, ``None`` for bytes.

    Rows whose value is ``None`` are left out, though not their keys (KVS-20).

    Raises:
        InvalidTypeError: One is neither an iterable nor an Arrow column.
        InvalidArgumentError: They differ in length.
        SerializationError: A key is not of the serde's type.
    """
    key_list, value_list = as_list("keys", keys), as_list("values", values)
    stamps: list[Any] = [] if times is None else times
    check_equal_length(len(key_list), len(value_list), times)
    found, distinct, names = _by_name(key_list, serde)
    has_nulls = None in value_list
    if has_nulls:
        kept = [place for place, value in enumerate(value_list) if value is not None]
        names, value_list = [names[place] for place in kept], [value_list[place] for place in kept]
        stamps = [stamps[place] for place in kept] if stamps else stamps
    return KeyedRows(found, distinct, names, value_list, stamps, has_nulls)


def check_equal_length(keys: int, values: int, times: list[Any] | None) -> None:
    """Accept columns of equal length; *times* are those of stores with timestamps.

    Raises:
        InvalidArgumentError: They differ.
    """
    if keys != values or (times is not None and len(times) != keys):
        stamps = "" if times is None else f", {len(times)} timestamps_ms"
        raise InvalidArgumentError(
            f"columns must have equal length, got {keys} keys, {values} values{stamps}"
        )


def distinct_keys(keys: object, serde: Serde[Any] | None) -> list[Any]:
    """Return each of *keys* once, in the order in which they first occur.

    Raises:
        InvalidTypeError: They are neither an iterable nor an Arrow column.
        SerializationError: One is not of the serde's type.
    """
    return _by_name(as_list("keys", keys), serde)[0]


def _by_name(keys: list[Any], serde: Serde[Any] | None) -> tuple[list[Any], list[Any], list[Any]]:
    """Return each key once, the names of these, and the name of each of *keys*."""
    if serde is None or set(map(type, keys)) in _EXACT:
        try:
            distinct = list(dict.fromkeys(keys))
        except TypeError as error:
            raise InvalidTypeError(f"a key is bytes, got {shown(keys)}") from error
        return distinct, distinct, keys
    names = [None if key is None else serde.encode(key) for key in keys]
    found: dict[Any, Any] = {}
    for name, key in zip(names, keys, strict=True):
        found.setdefault(name, key)
    return list(found.values()), list(found), names


def merge_rows(merge: Merge, rows: KeyedRows, present: list[Any]) -> dict[Any, Any]:
    """Return by name what the keys of *rows* have at the end; *present* is what they have now.

    Keys into which nothing is merged are left out.

    Raises:
        InvalidTypeError: Two values cannot be merged.
    """
    merged = dict(zip(rows.distinct, present, strict=True))
    if rows.has_nulls:
        touched = set(rows.names)
        merged = {name: value for name, value in merged.items() if name in touched}
    types = value_types(merge, rows.values)
    try:
        if merge is Merge.SUM:
            _add(merged, rows, are_whole=types == {int})
        else:
            _keep(merged, rows, is_less=merge is Merge.LEAST)
    except TypeError as error:
        raise unmergeable(merge, error) from error
    return merged


def value_types(merge: Merge, values: list[Any]) -> set[type]:
    """Return the types of *values* that are to be merged.

    Raises:
        InvalidTypeError: They are bytes, which are to be added (KVS-23).
    """
    types = set(map(type, values))
    if merge is Merge.SUM and bytes in types:
        raise InvalidTypeError(
            "bytes do not add up, whatever they stand for; open the store with a value serde of "
            "numbers such as int64, or use update_many"
        )
    return types


def unmergeable(merge: Merge, error: TypeError) -> InvalidTypeError:
    """Return the error of values that cannot be merged, as *error* says."""
    return InvalidTypeError(f"the values cannot be {merge.value}: {error}")


def merging(merge: Merge) -> Callable[[Any, Any], Any]:
    """Return what makes one value of that which a key has, and that of a row."""
    return _FUNCTIONS[merge]


_FUNCTIONS: dict[Merge, Callable[[Any, Any], Any]] = {
    Merge.SUM: operator.add,
    Merge.LEAST: min,
    Merge.GREATEST: max,
}


def _add(merged: dict[Any, Any], rows: KeyedRows, *, are_whole: bool) -> None:
    """Add the rows up; *are_whole*: a key without a value may begin at 0, for all there is."""
    if not are_whole:
        for name, amount in zip(rows.names, rows.values, strict=True):
            value = merged[name]
            merged[name] = amount if value is None else value + amount
        return
    if rows.values.count(1) == len(rows.values):  # they are counted, which `Counter` does in C
        for name, amount in Counter(rows.names).items():
            value = merged[name]
            merged[name] = amount if value is None else value + amount
        return
    for name, value in merged.items():
        if value is None:
            merged[name] = 0
    for name, amount in zip(rows.names, rows.values, strict=True):
        merged[name] += amount


def _keep(merged: dict[Any, Any], rows: KeyedRows, *, is_less: bool) -> None:
    """Keep the lesser values, or the greater ones."""
    for name, value in zip(rows.names, rows.values, strict=True):
        present = merged[name]
        if present is None or (value < present if is_less else value > present):
            merged[name] = value


def updated_values(function: object, keys: list[Any], present: list[Any]) -> list[Any]:
    """Return what *function* makes of what *keys* have.

    Raises:
        InvalidTypeError: It is no function, or what it returns is no column.
        InvalidArgumentError: What it returns has another length.
    """
    if not callable(function):
        raise InvalidTypeError(
            f"update_many takes a function of the keys and what they have, got {shown(function)}"
        )
    if not keys:
        return []
    updated = as_list("what the function returns", function(list(keys), present))
    if len(updated) != len(keys):
        raise InvalidArgumentError(
            f"the function was given {len(keys)} keys, and has returned {len(updated)} values; "
            "return one for each key, in their order, and None to delete"
        )
    return updated
