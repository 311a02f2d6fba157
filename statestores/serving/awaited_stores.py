"""Stores whose reads are awaited, one class for each kind: the same reads, on threads.

What returns an iterator is an asynchronous one here: ``async for key, value in counts.range()``.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Executor
from itertools import islice
from typing import Any, Generic, ParamSpec, TypeVar

from statestores.asynchronous.thread_calls import ROWS_AT_ONCE, called
from statestores.spi.offsets import Position
from statestores.spi.records import SessionRecord, TimestampedValue, VersionedRecord, WindowRecord
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import Values

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
P = ParamSpec("P")


class AsyncStore:
    """What is read of a store of any kind, awaited."""

    def __init__(self, store: Any, threads: Executor) -> None:
        """Read *store*, which any thread may use, on *threads*."""
        self._store = store
        self._threads = threads

    @property
    def name(self) -> str:
        """The store's name."""
        return str(self._store.name)

    @property
    def specification(self) -> StoreSpecification[Any, Any]:
        """What the store is."""
        found: StoreSpecification[Any, Any] = self._store.specification
        return found

    async def position(self) -> Position:
        """Return the input offsets that what is read reflects."""
        found: Position = await self._read(lambda: self._store.position)
        return found

    async def _read(self, read: Callable[P, T], *given: P.args, **how: P.kwargs) -> T:
        """Return what *read* returns on a thread."""
        return await called(self._threads, read, *given, **how)

    async def _iterated(
        self, read: Callable[P, Iterator[T]], *given: P.args, **how: P.kwargs
    ) -> AsyncGenerator[T, None]:
        """Yield what *read* gives, a chunk from a thread after the other."""
        rows = await self._read(read, *given, **how)
        is_free = True
        try:
            while True:
                is_free = False
                chunk = await self._read(lambda: list(islice(rows, ROWS_AT_ONCE)))
                is_free = True
                if not chunk:
                    return
                for row in chunk:
                    yield row
        finally:
            # A thread that is still at work when the task is cancelled lets go of them itself.
            if is_free and isinstance(rows, Generator):
                rows.close()


class AsyncTimedStore(AsyncStore):
    """The same of kinds whose puts have times."""

    async def stream_time_ms(self) -> int | None:
        """Return the stream time of what is read."""
        found: int | None = await self._read(lambda: self._store.stream_time_ms)
        return found


class AsyncKeyValueStore(AsyncStore, Generic[K, V]):
    """A key-value store; see `statestores.ReadOnlyKeyValueStore`."""

    async def get(self, key: K) -> V | None:
        """Return the value of *key*."""
        found: V | None = await self._read(self._store.get, key)
        return found

    async def get_many(self, keys: Values[K]) -> list[V | None]:
        """Return the value of each of *keys*."""
        found: list[V | None] = await self._read(self._store.get_many, keys)
        return found

    def range(
        self, first: K | None = None, last: K | None = None, *, reverse: bool = False
    ) -> AsyncIterator[tuple[K, V]]:
        """Iterate over the keys from *first* to *last*."""
        return self._iterated(self._store.range, first, last, reverse=reverse)

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> AsyncIterator[tuple[K, V]]:
        """Iterate over the keys that begin with *prefix*."""
        return self._iterated(self._store.prefix_scan, prefix, reverse=reverse)

    async def approximate_num_entries(self) -> int:
        """Return about how many keys there are."""
        found: int = await self._read(self._store.approximate_num_entries)
        return found


class AsyncTimestampedKeyValueStore(AsyncKeyValueStore[K, TimestampedValue[V]], AsyncTimedStore):
    """The same for values with timestamps."""


class AsyncVersionedStore(AsyncTimedStore, Generic[K, V]):
    """A versioned store; see `statestores.ReadOnlyVersionedStore`."""

    async def get(self, key: K, as_of_ms: int | None = None) -> VersionedRecord[V] | None:
        """Return the version of *key* that is valid at a time."""
        found: VersionedRecord[V] | None = await self._read(self._store.get, key, as_of_ms)
        return found

    async def get_many(
        self, keys: Values[K], as_of_ms: int | Values[int] | None = None
    ) -> list[VersionedRecord[V] | None]:
        """Return `get` of each of *keys*."""
        read = self._store.get_many
        found: list[VersionedRecord[V] | None] = await self._read(read, keys, as_of_ms)
        return found

    def history(
        self,
        key: K,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> AsyncIterator[VersionedRecord[V]]:
        """Iterate over the versions of *key*."""
        return self._iterated(self._store.history, key, first_ms, last_ms, reverse=reverse)

    def range_history(
        self,
        first: K | None = None,
        last: K | None = None,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> AsyncIterator[tuple[K, VersionedRecord[V]]]:
        """Iterate over the versions of a range of keys (KIP-969)."""
        read = self._store.range_history
        return self._iterated(read, first, last, first_ms, last_ms, reverse=reverse)

    def scan_as_of(
        self,
        as_of_ms: int | None = None,
        first: K | None = None,
        last: K | None = None,
        *,
        reverse: bool = False,
    ) -> AsyncIterator[tuple[K, VersionedRecord[V]]]:
        """Iterate over the keys from *first* to *last*, as of a time."""
        return self._iterated(self._store.scan_as_of, as_of_ms, first, last, reverse=reverse)


class AsyncWindowStore(AsyncTimedStore, Generic[K, V]):
    """A window store; see `statestores.ReadOnlyWindowStore`."""

    async def fetch(self, key: K, start_ms: int) -> V | None:
        """Return the value of *key* in the window that starts then."""
        found: V | None = await self._read(self._store.fetch, key, start_ms)
        return found

    async def fetch_many(self, keys: Values[K], starts_ms: int | Values[int]) -> list[V | None]:
        """Return `fetch` of each of *keys*."""
        found: list[V | None] = await self._read(self._store.fetch_many, keys, starts_ms)
        return found

    def fetch_range(
        self,
        key: K,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> AsyncIterator[WindowRecord[K, V]]:
        """Iterate over the windows of *key*."""
        return self._iterated(self._store.fetch_range, key, first_ms, last_ms, reverse=reverse)

    def fetch_all(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: K | None = None,
        last_key: K | None = None,
        *,
        reverse: bool = False,
    ) -> AsyncIterator[WindowRecord[K, V]]:
        """Iterate over the windows of many keys."""
        read = self._store.fetch_all
        return self._iterated(read, first_ms, last_ms, first_key, last_key, reverse=reverse)


class AsyncSessionStore(AsyncTimedStore, Generic[K, V]):
    """A session store; see `statestores.ReadOnlySessionStore`."""

    async def fetch_session(self, key: K, start_ms: int, end_ms: int) -> V | None:
        """Return the value of one session."""
        found: V | None = await self._read(self._store.fetch_session, key, start_ms, end_ms)
        return found

    async def fetch_many(
        self, keys: Values[K], starts_ms: Values[int], ends_ms: Values[int]
    ) -> list[V | None]:
        """Return `fetch_session` of each session."""
        read = self._store.fetch_many
        found: list[V | None] = await self._read(read, keys, starts_ms, ends_ms)
        return found

    def find_sessions(
        self,
        key: K,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> AsyncIterator[SessionRecord[K, V]]:
        """Iterate over the sessions of *key*."""
        read = self._store.find_sessions
        return self._iterated(read, key, earliest_end_ms, latest_start_ms, reverse=reverse)

    def find_all_sessions(
        self,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        first_key: K | None = None,
        last_key: K | None = None,
        *,
        reverse: bool = False,
    ) -> AsyncIterator[SessionRecord[K, V]]:
        """Iterate over the sessions of many keys."""
        read, early, late = self._store.find_all_sessions, earliest_end_ms, latest_start_ms
        return self._iterated(read, early, late, first_key, last_key, reverse=reverse)

    def find_sessions_by_end(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: K | None = None,
        last_key: K | None = None,
        *,
        reverse: bool = False,
    ) -> AsyncIterator[SessionRecord[K, V]]:
        """Iterate over the sessions of many keys that end within a time."""
        read = self._store.find_sessions_by_end
        return self._iterated(read, first_ms, last_ms, first_key, last_key, reverse=reverse)
