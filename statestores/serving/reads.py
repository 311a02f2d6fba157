"""What a question reads: rows of key, value and up to two times, whatever the kind of the store."""

from collections.abc import Callable, Iterator, Mapping
from itertools import starmap
from typing import Any, TypeAlias

import pyarrow as pa

from statestores.errors import InvalidArgumentError
from statestores.query.composite_key_value import CompositeKeyValueStore
from statestores.query.composite_session import CompositeSessionStore
from statestores.query.composite_versioned import CompositeVersionedStore
from statestores.query.composite_window import CompositeWindowStore
from statestores.serving.query import Query
from statestores.spi import kinds
from statestores.spi.kinds import Kind
from statestores.spi.values import one_for_each

Row: TypeAlias = tuple[Any, ...]
Reader: TypeAlias = Callable[[Any, Query], Iterator[Row]]

_TIMES: Mapping[Kind, tuple[str, ...]] = {
    kinds.KEY_VALUE: (),
    kinds.TIMESTAMPED_KEY_VALUE: ("timestamp_ms",),
    kinds.VERSIONED: ("valid_from_ms", "valid_to_ms"),
    kinds.WINDOW: ("start_ms", "end_ms"),
    kinds.SESSION: ("start_ms", "end_ms"),
}


def row_names(kind: Kind) -> tuple[str, ...]:
    """Return what the columns of rows of *kind* are called."""
    return ("key", "value", *_TIMES[kind])


def wire_schema(kind: Kind) -> pa.Schema:
    """Return the columns of rows of *kind*; the value of a key that a batch misses is null."""
    times = [pa.field(name, pa.int64()) for name in _TIMES[kind]]
    return pa.schema([pa.field("key", pa.binary()), pa.field("value", pa.binary()), *times])


def rows_of(store: Any, query: Query) -> Iterator[Row]:
    """Return the rows of *query*, read from *store*, a composite of bytes of its kind.

    Raises:
        InvalidArgumentError: Stores of that kind have no such read, or not with such fields.
        StateStoreError: As the read.
    """
    kind: Kind = store.specification.kind
    entry = _READERS.get((kind, query.read))
    if entry is None:
        known = ", ".join(name for each, name in _READERS if each is kind)
        raise InvalidArgumentError(
            f"{store.name!r} is a {kind} store, which has the reads {known}, got {query.read!r}"
        )
    read, needed, allowed = entry
    check_fields(query, needed, allowed)
    return read(store, query)


_ALWAYS = {"store", "read", "limit", "partition", "include_stale", "at_least", "max_lag"}
_ASKED = (
    "key",
    "keys",
    "first",
    "last",
    "prefix",
    "first_ms",
    "last_ms",
    "as_of_ms",
    "start_ms",
    "end_ms",
    "reverse",
    "from_offset",
)


def check_fields(query: Query, needed: set[str], allowed: set[str]) -> None:
    """Accept a question that has the fields *needed*, and none but these and those *allowed*.

    Raises:
        InvalidArgumentError: It lacks one, or has another.
    """
    name = query.store
    for field in _ASKED:
        value = getattr(query, field)
        is_given = value is not None and value is not False  # a time of 0 is one
        if field in needed and not is_given:
            raise InvalidArgumentError(f"{query.read!r} of {name!r} needs {field!r}")
        if is_given and field not in needed and field not in allowed:
            raise InvalidArgumentError(f"{query.read!r} of {name!r} takes no {field!r}")


def _one(time_ms: int | tuple[int, ...] | None) -> int | None:
    if isinstance(time_ms, tuple):
        raise InvalidArgumentError("one time is asked for here; a time for each is for 'get_many'")
    return time_ms


def _one_time(query: Query) -> int | None:
    return _one(query.as_of_ms)


def _key_of(query: Query) -> bytes:
    return query.key or b""


# Each kind's reads. What is found is put behind its key; nothing is decoded.


def _flat(key: bytes, found: Any) -> Row:
    """Return a row: the value of a kind with times is a named tuple that begins with the value."""
    return (key, *found) if isinstance(found, tuple) else (key, found)


def _get(store: CompositeKeyValueStore, query: Query) -> Iterator[Row]:
    found = store.get(_key_of(query))
    return iter(() if found is None else (_flat(_key_of(query), found),))


def _get_many(store: CompositeKeyValueStore, query: Query) -> Iterator[Row]:
    keys = query.keys or ()
    width = len(row_names(store.specification.kind)) - 1
    found = store.get_many(keys)
    return (
        (key, *(None,) * width) if each is None else _flat(key, each)
        for key, each in zip(keys, found, strict=True)
    )


def _range(store: CompositeKeyValueStore, query: Query) -> Iterator[Row]:
    if query.prefix is not None:
        if query.first is not None or query.last is not None:
            raise InvalidArgumentError("give a prefix, or the first and last key, not both")
        return starmap(_flat, store.prefix_scan(query.prefix, reverse=query.reverse))
    return starmap(_flat, store.range(query.first, query.last, reverse=query.reverse))


def _get_version(store: CompositeVersionedStore, query: Query) -> Iterator[Row]:
    found = store.get(_key_of(query), _one_time(query))
    return iter(() if found is None else ((_key_of(query), *found),))


def _get_versions(store: CompositeVersionedStore, query: Query) -> Iterator[Row]:
    keys = query.keys or ()
    found = store.get_many(keys, query.as_of_ms)
    return (
        (key, None, None, None) if each is None else (key, *each)
        for key, each in zip(keys, found, strict=True)
    )


def _scan(store: CompositeVersionedStore, query: Query) -> Iterator[Row]:
    found = store.scan_as_of(_one_time(query), query.first, query.last, reverse=query.reverse)
    return ((key, *version) for key, version in found)


def _history(store: CompositeVersionedStore, query: Query) -> Iterator[Row]:
    if query.key is None:
        found = store.range_history(
            query.first, query.last, query.first_ms, query.last_ms, reverse=query.reverse
        )
        return ((key, *version) for key, version in found)
    if query.first is not None or query.last is not None:
        raise InvalidArgumentError("give a key, or the first and last key, not both")
    key = query.key
    versions = store.history(key, query.first_ms, query.last_ms, reverse=query.reverse)
    return ((key, *version) for version in versions)


def _get_window(store: CompositeWindowStore, query: Query) -> Iterator[Row]:
    start_ms = _one(query.start_ms) or 0
    found = store.fetch(_key_of(query), start_ms)
    if found is None:
        return iter(())
    return iter(((_key_of(query), found, start_ms, _end_of(store, start_ms)),))


def _end_of(store: CompositeWindowStore, start_ms: int) -> int:
    size: int = store.specification.window_size_ms  # type: ignore[attr-defined]  # of this kind
    return min(start_ms + size, (1 << 63) - 1)


def _get_windows(store: CompositeWindowStore, query: Query) -> Iterator[Row]:
    keys = query.keys or ()
    starts = one_for_each("start_ms", query.start_ms, len(keys))
    found = store.fetch_many(keys, starts)
    return (
        (key, None, None, None) if value is None else (key, value, start, _end_of(store, start))
        for key, value, start in zip(keys, found, starts, strict=True)
    )


def _windows_of(store: CompositeWindowStore, query: Query) -> Iterator[Row]:
    found = store.fetch_range(_key_of(query), query.first_ms, query.last_ms, reverse=query.reverse)
    return ((each.key, each.value, each.start_ms, each.end_ms) for each in found)


def _windows(store: CompositeWindowStore, query: Query) -> Iterator[Row]:
    found = store.fetch_all(
        query.first_ms, query.last_ms, query.first, query.last, reverse=query.reverse
    )
    return ((each.key, each.value, each.start_ms, each.end_ms) for each in found)


def _get_session(store: CompositeSessionStore, query: Query) -> Iterator[Row]:
    start_ms, end_ms = _one(query.start_ms) or 0, _one(query.end_ms) or 0
    found = store.fetch_session(_key_of(query), start_ms, end_ms)
    return iter(() if found is None else ((_key_of(query), found, start_ms, end_ms),))


def _get_sessions(store: CompositeSessionStore, query: Query) -> Iterator[Row]:
    keys = query.keys or ()
    starts = one_for_each("start_ms", query.start_ms, len(keys))
    ends = one_for_each("end_ms", query.end_ms, len(keys))
    found = store.fetch_many(keys, starts, ends)
    return (
        (key, None, None, None) if value is None else (key, value, start, end)
        for key, value, start, end in zip(keys, found, starts, ends, strict=True)
    )


def _sessions_of(store: CompositeSessionStore, query: Query) -> Iterator[Row]:
    found = store.find_sessions(
        _key_of(query), query.first_ms, query.last_ms, reverse=query.reverse
    )
    return ((each.key, each.value, each.start_ms, each.end_ms) for each in found)


def _sessions(store: CompositeSessionStore, query: Query) -> Iterator[Row]:
    find = store.find_sessions_by_end if query.read == "by_end" else store.find_all_sessions
    found = find(query.first_ms, query.last_ms, query.first, query.last, reverse=query.reverse)
    return ((each.key, each.value, each.start_ms, each.end_ms) for each in found)


_KEYS = {"first", "last", "reverse"}
_SPAN = {"first_ms", "last_ms"}

_READERS: dict[tuple[Kind, str], tuple[Reader, set[str], set[str]]] = {
    **{
        (kind, read): entry
        for kind in (kinds.KEY_VALUE, kinds.TIMESTAMPED_KEY_VALUE)
        for read, entry in {
            "get": (_get, {"key"}, set[str]()),
            "get_many": (_get_many, {"keys"}, set[str]()),
            "range": (_range, set[str](), _KEYS | {"prefix"}),
        }.items()
    },
    (kinds.VERSIONED, "get"): (_get_version, {"key"}, {"as_of_ms"}),
    (kinds.VERSIONED, "get_many"): (_get_versions, {"keys"}, {"as_of_ms"}),
    (kinds.VERSIONED, "range"): (_scan, set(), _KEYS | {"as_of_ms"}),
    (kinds.VERSIONED, "history"): (_history, set(), _KEYS | _SPAN | {"key"}),
    (kinds.WINDOW, "get"): (_get_window, {"key", "start_ms"}, set()),
    (kinds.WINDOW, "get_many"): (_get_windows, {"keys", "start_ms"}, set()),
    (kinds.WINDOW, "history"): (_windows_of, {"key"}, _SPAN | {"reverse"}),
    (kinds.WINDOW, "range"): (_windows, set(), _SPAN | _KEYS),
    (kinds.SESSION, "get"): (_get_session, {"key", "start_ms", "end_ms"}, set()),
    (kinds.SESSION, "get_many"): (_get_sessions, {"keys", "start_ms", "end_ms"}, set()),
    (kinds.SESSION, "history"): (_sessions_of, {"key"}, _SPAN | {"reverse"}),
    (kinds.SESSION, "range"): (_sessions, set(), _SPAN | _KEYS),
    (kinds.SESSION, "by_end"): (_sessions, set(), _SPAN | _KEYS),
}
"""For each kind and read: what reads, which fields it needs, and which it takes."""
