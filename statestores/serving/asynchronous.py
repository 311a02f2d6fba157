"""Queries for asyncio: the same reads, on threads, so that no event loop waits for a network."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, Unpack, overload

from statestores.asynchronous.thread_calls import called
from statestores.errors import InvalidTypeError
from statestores.query.position_bound import AtLeast
from statestores.query.queryable_stores import QueryableStores
from statestores.query.read_terms import GivenTerms
from statestores.query.store_types import QueryableStoreType
from statestores.serving.awaited_stores import (
    AsyncKeyValueStore,
    AsyncSessionStore,
    AsyncStore,
    AsyncTimestampedKeyValueStore,
    AsyncVersionedStore,
    AsyncWindowStore,
)
from statestores.spi import kinds
from statestores.spi.kinds import Kind
from statestores.spi.offsets import Position
from statestores.spi.session_specification import Session
from statestores.spi.specification import (
    KeyValue,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
)
from statestores.spi.stores.store import ReadOnlyStore
from statestores.spi.window_specification import Window

K = TypeVar("K")
V = TypeVar("V")

_AT_ONCE = 32

_CLASSES: Mapping[Kind, type[AsyncStore]] = {
    kinds.KEY_VALUE: AsyncKeyValueStore,
    kinds.TIMESTAMPED_KEY_VALUE: AsyncTimestampedKeyValueStore,
    kinds.VERSIONED: AsyncVersionedStore,
    kinds.WINDOW: AsyncWindowStore,
    kinds.SESSION: AsyncSessionStore,
}


class AsyncStores:
    """Stores by what they are, for asyncio. Close the stores that it is made of, not this.

    Reads wait on threads of its own, up to 32 of them: while instances do not answer, the rest of
    the program has its own threads. They end when nothing refers to it any more.
    """

    def __init__(self, stores: QueryableStores) -> None:
        """Query *stores*, local or routed."""
        self._stores = stores
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="await")

    @overload
    async def store(
        self,
        name: KeyValue[K, V],
        store_type: None = None,
        **terms: Unpack[GivenTerms],
    ) -> AsyncKeyValueStore[K, V]: ...

    @overload
    async def store(
        self,
        name: TimestampedKeyValue[K, V],
        store_type: None = None,
        **terms: Unpack[GivenTerms],
    ) -> AsyncTimestampedKeyValueStore[K, V]: ...

    @overload
    async def store(
        self,
        name: Versioned[K, V],
        store_type: None = None,
        **terms: Unpack[GivenTerms],
    ) -> AsyncVersionedStore[K, V]: ...

    @overload
    async def store(
        self,
        name: Window[K, V],
        store_type: None = None,
        **terms: Unpack[GivenTerms],
    ) -> AsyncWindowStore[K, V]: ...

    @overload
    async def store(
        self,
        name: Session[K, V],
        store_type: None = None,
        **terms: Unpack[GivenTerms],
    ) -> AsyncSessionStore[K, V]: ...

    @overload
    async def store(
        self,
        name: str,
        store_type: QueryableStoreType[Any],
        **terms: Unpack[GivenTerms],
    ) -> Any: ...

    async def store(
        self,
        name: str | StoreSpecification[Any, Any],
        store_type: QueryableStoreType[Any] | None = None,
        *,
        include_stale: bool = False,
        partition: int | None = None,
        at_least: AtLeast | None = None,
        max_lag: int | None = None,
    ) -> Any:
        """Return the store *name*, to be awaited; see `statestores.query.QueryableStores.store`.

        By its name it is of the class of the store's kind; a *store_type* of the caller's own is to
        make something that reads as a store of that kind does.

        Raises:
            InvalidTypeError: *store_type* makes something else.
            StateStoreError: As there.
        """
        find: Any = self._stores.store
        found = await called(
            self._threads,
            find,
            name,
            store_type,
            include_stale=include_stale,
            partition=partition,
            at_least=at_least,
            max_lag=max_lag,
        )
        if not isinstance(found, ReadOnlyStore):
            raise InvalidTypeError(
                f"{type(store_type).__name__} makes a {type(found).__name__}, which is no store of "
                "a known kind; await it on a thread of your own"
            )
        return _CLASSES[found.specification.kind](found, self._threads)

    async def positions(self, name: str, *, include_stale: bool = False) -> dict[int, Position]:
        """Return the input offsets that each partition of *name* reflects, by its number.

        Raises:
            StateStoreError: As `statestores.query.QueryableStores.positions`.
        """
        read = self._stores.positions
        return await called(self._threads, read, name, include_stale=include_stale)
