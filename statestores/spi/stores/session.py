"""The session store: a value for each key, session start and session end, within a retention."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from statestores.spi.records import SessionRecord
from statestores.spi.stores.store import Isolation, StateStore, Values
from statestores.spi.stores.stream_time import ReadOnlyRetainedStore
from statestores.spi.values import as_list, one_for_each

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlySessionStore(ReadOnlyRetainedStore, Generic[K, V]):
    """The reading half.

    A session is *visible* while its end is above the *horizon*: stream time minus the retention.
    No read returns any other, whether its space has been freed or not (SES-8). Order is that of the
    keys' bytes, then of the ends, then of the starts, in every backend (SES-13).
    """

    @abstractmethod
    def fetch_session(self, key: K, start_ms: int, end_ms: int) -> V | None:
        """Return the value of exactly this session of *key* (SES-9).

        ``None`` when there is none, or when the session is no longer visible.

        Raises:
            StoreClosedError: The store is closed.
            InvalidTypeError: The key or a time has the wrong type.
            InvalidArgumentError: A time is negative or not an int64, or the end comes before the
                start.
        """

    def fetch_many(
        self, keys: Values[K], starts_ms: Values[int], ends_ms: Values[int]
    ) -> list[V | None]:
        """Return the results of `fetch_session` in the order of the columns (SES-23).

        A session may come more than once. This default fetches one after the other.

        Raises:
            InvalidArgumentError: The columns have different lengths, or as `fetch_session`.
        """
        key_list = as_list("keys", keys)
        starts = one_for_each("starts_ms", as_list("starts_ms", starts_ms), len(key_list))
        ends = one_for_each("ends_ms", as_list("ends_ms", ends_ms), len(key_list))
        return list(map(self.fetch_session, key_list, starts, ends))

    @abstractmethod
    def find_sessions(
        self,
        key: K,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[SessionRecord[K, V]]:
        """Iterate over the sessions of *key* that end and start within the bounds (SES-10).

        Those with ``end_ms >= earliest_end_ms`` and ``start_ms <= latest_start_ms``: the sessions
        that overlap the time between the two, or contain it when *earliest_end_ms* is the later.
        ``None`` is no bound. By end, then by start, ascending unless *reverse*. Frozen at the
        call (SES-14).

        Raises:
            InvalidArgumentError: A time is negative or not an int64.
        """

    @abstractmethod
    def find_all_sessions(
        self,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        first_key: K | None = None,
        last_key: K | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[SessionRecord[K, V]]:
        """Iterate over the sessions of many keys that end and start within the bounds (SES-11).

        Keys are from *first_key* to *last_key*, both inclusive and open where ``None``; an
        inverted key range is empty. By key, then as `find_sessions`. Frozen at the call.
        """

    @abstractmethod
    def find_sessions_by_end(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: K | None = None,
        last_key: K | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[SessionRecord[K, V]]:
        """Iterate over the sessions of many keys that end within ``[first_ms, last_ms]`` (SES-12).

        Both inclusive and open where ``None``; keys and order as in `find_all_sessions`. Frozen
        at the call.

        Raises:
            InvalidArgumentError: ``first_ms > last_ms``, or a negative time.
        """


class SessionStore(StateStore, ReadOnlySessionStore[K, V]):
    """A store of values by key and session. It merges nothing: that is up to its owner (SES-7)."""

    @abstractmethod
    def put(self, key: K, start_ms: int, end_ms: int, value: V | None) -> bool:
        """Set the value of a session of *key*, and return whether that was accepted (SES-2).

        ``None`` removes the session. Ends need not ascend. A session that is not visible is not
        accepted, and nothing changes (SES-3).

        Raises:
            StoreClosedError: The store is closed.
            InvalidTypeError: Key, value or a time has the wrong type (COM-19).
            InvalidArgumentError: A time is negative or not an int64, or the end comes before the
                start (SES-15).
        """

    @abstractmethod
    def put_many(
        self,
        keys: Values[K],
        starts_ms: Values[int],
        ends_ms: Values[int],
        values: Values[V | None],
    ) -> int:
        """Put columns of equal length in order; return how many were accepted (SES-6).

        All arguments are checked before the first put: a malformed one changes nothing. An
        interrupt may leave the first ones put; `rollback`, or the same call, makes it one again.
        """

    @abstractmethod
    def remove(self, key: K, start_ms: int, end_ms: int) -> bool:
        """Put ``None``: remove exactly this session, if it is there (SES-5)."""

    @abstractmethod
    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlySessionStore[K, V]:
        """Return a facade without write methods, safe to use from other threads (ROF-1)."""
