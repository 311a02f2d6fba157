"""The window store: a value for each key and window start, within a retention (KIP-67)."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from statestores.spi.records import WindowRecord
from statestores.spi.stores.store import Isolation, StateStore, Values
from statestores.spi.stores.stream_time import ReadOnlyRetainedStore
from statestores.spi.values import as_list, one_for_each

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyWindowStore(ReadOnlyRetainedStore, Generic[K, V]):
    """The reading half.

    A window is *visible* while its start is above the *horizon*: stream time minus the retention.
    No read returns any other, whether its space has been freed or not (WIN-8). Order is that of the
    keys' bytes, then of the starts, then of the puts, in every backend (WIN-12).
    """

    @abstractmethod
    def fetch(self, key: K, start_ms: int) -> V | None:
        """Return the value of *key* in the window that starts at *start_ms* (WIN-9).

        ``None`` when there is none, or when the window is no longer visible. Of retained
        duplicates, the one that was put last.

        Raises:
            StoreClosedError: The store is closed.
            InvalidTypeError: The key or the time has the wrong type.
            InvalidArgumentError: The time is negative or not an int64.
        """

    def fetch_many(self, keys: Values[K], starts_ms: int | Values[int]) -> list[V | None]:
        """Return the results of `fetch` in the order of *keys*, one for each (WIN-24).

        *starts_ms* is one start for all of them, or a column with a start for each. A pair may come
        more than once. This default fetches one after the other.

        Raises:
            InvalidArgumentError: The columns have different lengths, or as `fetch`.
        """
        key_list = as_list("keys", keys)
        return list(map(self.fetch, key_list, one_for_each("starts_ms", starts_ms, len(key_list))))

    @abstractmethod
    def fetch_range(
        self,
        key: K,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[WindowRecord[K, V]]:
        """Iterate over the windows of *key* that start within ``[first_ms, last_ms]`` (WIN-10).

        Both inclusive, ``None`` leaves a side open. Earliest first, and of retained duplicates
        the first put first, unless *reverse*. Frozen at the call (WIN-13).

        Raises:
            InvalidArgumentError: ``first_ms > last_ms``, or a negative time.
        """

    @abstractmethod
    def fetch_all(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: K | None = None,
        last_key: K | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[WindowRecord[K, V]]:
        """Iterate over the windows of many keys that start within ``[first_ms, last_ms]`` (WIN-11).

        Keys are from *first_key* to *last_key*. All four are inclusive, and ``None`` leaves a
        side open; an inverted key range is empty. By key, then as `fetch_range`. Frozen at the
        call.

        Raises:
            InvalidArgumentError: ``first_ms > last_ms``, or a negative time.
        """


class WindowStore(StateStore, ReadOnlyWindowStore[K, V]):
    """A store of values by key and window."""

    @abstractmethod
    def put(self, key: K, value: V | None, window_start_ms: int) -> bool:
        """Set the value of *key* in a window, and return whether that was accepted (WIN-2).

        ``None`` deletes it. A store that retains duplicates adds the value to those of the window
        instead, and does not accept ``None`` (WIN-6). Starts need not ascend. A window that is not
        visible is not accepted either, and nothing changes (WIN-3).

        Raises:
            StoreClosedError: The store is closed.
            InvalidTypeError: Key, value or start has the wrong type (COM-19).
            InvalidArgumentError: The start is negative or not an int64 (WIN-14).
        """

    @abstractmethod
    def put_many(
        self, keys: Values[K], values: Values[V | None], window_starts_ms: Values[int]
    ) -> int:
        """Put columns of equal length in order; return how many were accepted (WIN-7).

        All arguments are checked before the first put: a malformed one changes nothing.
        """

    @abstractmethod
    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyWindowStore[K, V]:
        """Return a facade without write methods, safe to use from other threads (ROF-1)."""
