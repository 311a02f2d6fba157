"""Kafka's names for what stores have under another name, or do not have: an error that says which.

They are descriptors of the class, not a ``__getattr__``, which would make every other attribute
slower; and they raise `AttributeError`, so that ``hasattr`` is false.
"""

from typing import Any, NoReturn

FOREIGN_NAMES: dict[str, str] = {
    "committedOffset": "use committed_offset(partition)",
    "managesOffsets": "every store keeps its own offsets: there is nothing to ask",
    "managesChangelog": "open the store by open_logged_store(), which keeps its changelog",
    "flush": "use commit(offsets), which makes writes and offsets durable together",
    "init": "open_store() gives a store that is ready, without a context",
    "isOpen": "use is_open",
    "getPosition": "use position, or next_offset(partition) to resume reading",
    "stateRestoreCallback": "use load() and replay()",
    "putIfAbsent": "use put_if_absent(key, value)",
    "putAll": "use put_all(entries), or put_many(keys, values)",
    "all": "use range() without bounds, or scan_as_of() or fetch_all()",
    "reverseAll": "use range(reverse=True), or fetch_all(reverse=True)",
    "reverseRange": "use range(first, last, reverse=True)",
    "prefixScan": "use prefix_scan(prefix)",
    "approximateNumEntries": "use approximate_num_entries()",
    "approximateNumUncommittedBytes": "use uncommitted_bytes, or has_pending_writes",
    "fetchAll": "use fetch_all(first_ms, last_ms)",
    "backwardFetch": "use fetch_range(key, first_ms, last_ms, reverse=True)",
    "backwardFetchAll": "use fetch_all(first_ms, last_ms, reverse=True)",
    "findSessions": "use find_sessions(key, earliest_end_ms, latest_start_ms)",
    "backwardFindSessions": "use find_sessions(..., reverse=True)",
    "fetchSession": "use fetch_session(key, start_ms, end_ms)",
    "query": "use read_only(), and the reads of the facade",
}
"""Kafka's name, and what to do here."""


class ForeignName:
    """An attribute that no store has, and that says what to use."""

    __slots__ = ("_hint", "_name")

    def __init__(self, name: str, hint: str) -> None:
        self._name = name
        self._hint = hint

    def __get__(self, store: object, kind: type[Any] | None = None) -> NoReturn:
        owner = kind if store is None else type(store)
        raise AttributeError(
            f"{getattr(owner, '__name__', owner)!r} has no attribute {self._name!r}, which is "
            f"Kafka's name: {self._hint}",
            name=self._name,
            obj=store,
        )


def with_foreign_names(kind: type[Any]) -> None:
    """Have *kind* answer to Kafka's names with what to use."""
    for name, hint in FOREIGN_NAMES.items():
        setattr(kind, name, ForeignName(name, hint))
