"""Stores for asyncio: one thread owns a store, and whatever may wait is awaited.

A store belongs to one owner, and its reads and commits wait for disks. Here the owner is a thread:
calls run on it one after the other, in the order in which they were made, and the event loop goes
on meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from statestores.asynchronous.thread_calls import ROWS_AT_ONCE, called
from statestores.errors import InvalidTypeError, StoreClosedError
from statestores.spi.offsets import TopicPartition

T = TypeVar("T")


class _Owned(Protocol):
    """What every store has, alone or with a log, and what has several of them, such as a task."""

    def commit(self, offsets: Mapping[TopicPartition, int], /) -> object: ...

    def close(self) -> None: ...


S = TypeVar("S", bound=_Owned)


class AsyncStateStore(Generic[S]):
    """A store on a thread of its own, for one event loop. Made by `open_async`.

    A call that is cancelled while it waits for its turn is not made. One that runs already runs to
    its end, and only its result is lost: a commit may have happened (ROF-16).
    """

    def __init__(self, store: S, thread: ThreadPoolExecutor) -> None:
        """Own *store* on *thread*, which is the caller's to start and ends with `close`."""
        self._store = store
        self._thread = thread
        self._is_open = True

    async def run(self, use: Callable[[S], T]) -> T:
        """Return what *use* returns of the store, called on the owner's thread (ROF-14).

        No other call comes between what one *use* does, so a read and a write that depends on it
        belong into one. What it gets of the store must not be used after it: iterators neither,
        for which there is `iterate`.

        Raises:
            StoreClosedError: The store is closed.
        """
        if not self._is_open:
            raise StoreClosedError("the asynchronous store is closed; open it again")
        return await called(self._thread, use, self._store)

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit all writes with the *offsets* that they contain; see `StateStore.commit`.

        Raises:
            StoreClosedError: The store is closed.
            StateStoreError: As `StateStore.commit`.
        """
        await self.run(lambda store: store.commit(offsets or {}))

    async def iterate(self, read: Callable[[S], Iterable[T]]) -> AsyncIterator[T]:
        """Yield what *read* yields of the store, some hundred rows at a time from the thread.

        As with every iterator of a store, the rows are those of the moment at which it began.

        Raises:
            StoreClosedError: The store is closed, or was while rows were left.
        """
        rows = await self.run(lambda store: iter(read(store)))
        try:
            while chunk := await self.run(lambda _: list(islice(rows, ROWS_AT_ONCE))):
                for row in chunk:
                    yield row
        finally:
            close = getattr(rows, "close", None)
            if close is not None and self._is_open:
                await self.run(lambda _: close())

    async def close(self) -> None:
        """Close the store after the calls before, and end its thread. Idempotent.

        Pending writes are dropped, as `StateStore.close` says.
        """
        if not self._is_open:
            return
        self._is_open = False
        try:
            await called(self._thread, self._store.close)
        finally:
            self._thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.shield(self.close())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._store!r})"


async def open_async(open_store: Callable[[], S]) -> AsyncStateStore[S]:
    """Return the store that *open_store* opens, on a thread of its own (ROF-15).

    *open_store* may wait as well, for a restore or a lock; the event loop does not.

        counts = await open_async(lambda: ss.open_store("state/counts", COUNTS, backend="rocksdb"))

    Raises:
        InvalidTypeError: *open_store* returns nothing that can be committed and closed; what it
            returned is left as it is.
        StateStoreError: As *open_store*.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix="statestores-owner")
    try:
        return AsyncStateStore(await called(thread, lambda: _checked(open_store())), thread)
    except BaseException:
        thread.shutdown(wait=False)
        raise


def _checked(store: S) -> S:
    """Return *store*, if it can be committed and closed."""
    if not hasattr(store, "commit") or not hasattr(store, "close"):
        raise InvalidTypeError(
            "open_async takes a function that opens a store, as lambda: open_store(...), and got "
            f"one that returns {store!r}"
        )
    return store
