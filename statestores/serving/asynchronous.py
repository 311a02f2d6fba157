"""Queries for asyncio: the same reads, on threads, so that no event loop waits for a network."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from statestores.query.queryable_stores import QueryableStores

_AT_ONCE = 256
"""Rows that are taken on a thread together."""

_ITERATIONS = frozenset(
    {
        "range",
        "prefix_scan",
        "history",
        "range_history",
        "scan_as_of",
        "fetch_range",
        "fetch_all",
        "find_sessions",
        "find_all_sessions",
        "find_sessions_by_end",
    }
)
_CALLS = frozenset({"get", "get_many", "fetch", "fetch_session", "approximate_num_entries"})


class AsyncStore:
    """A store whose reads are awaited: ``await counts.get("tea")``, ``async for ... in ...``.

    It has the reads of the store that it is made of, by the same names and arguments; those that
    return iterators are asynchronous ones here.
    """

    def __init__(self, store: Any) -> None:
        """Read *store*, on threads."""
        self._store = store

    async def position(self) -> Any:
        """Return the input offsets that what is read reflects."""
        return await asyncio.to_thread(lambda: self._store.position)

    def __getattr__(self, name: str) -> Any:
        if name in _CALLS:
            return partial(asyncio.to_thread, getattr(self._store, name))
        if name in _ITERATIONS:
            return partial(_iterated, getattr(self._store, name))
        raise AttributeError(f"{type(self._store).__name__} has no asynchronous read {name!r}")


class AsyncStores:
    """Stores by what they are, for asyncio. Close the stores that it is made of, not this."""

    def __init__(self, stores: QueryableStores) -> None:
        """Query *stores*, local or routed."""
        self._stores = stores

    async def store(self, specification: Any, store_type: Any = None, **how: Any) -> AsyncStore:
        """Return the store; see `QueryableStores.store`."""
        find: Any = self._stores.store
        found = await asyncio.to_thread(find, specification, store_type, **how)
        return AsyncStore(found)


async def _iterated(
    read: Callable[..., Iterator[Any]], *given: Any, **how: Any
) -> AsyncIterator[Any]:
    """Yield what *read* gives, a chunk from a thread after the other."""
    rows = await asyncio.to_thread(read, *given, **how)
    while chunk := await asyncio.to_thread(lambda: list(islice(rows, _AT_ONCE))):
        for row in chunk:
            yield row
