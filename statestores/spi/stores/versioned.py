"""The versioned store: every value of each key within a history retention (KIP-889)."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from statestores.errors import CapabilityNotSupportedError
from statestores.spi.records import PutResult, VersionedRecord
from statestores.spi.stores.store import Isolation, StateStore, Values
from statestores.spi.stores.stream_time import ReadOnlyTimedStore

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyVersionedStore(ReadOnlyTimedStore, Generic[K, V]):
    """The reading half.

    The *retention horizon* is stream time minus the history retention. As of a time below it, only
    the latest version of a key is considered: the rest counts as gone (VRS-9, VRS-11).
    """

    @property
    def horizon_ms(self) -> int | None:
        """Stream time minus the retention, of the visible content.

        As of a time below it, only the latest version of a key is found; ``None`` while the
        store has seen nothing. Negative as long as nothing can have expired (MET-13).
        """
        stream_time_ms = self.stream_time_ms
        specification = self.specification
        retention_ms: int = specification.history_retention_ms  # type: ignore[attr-defined]  # of this kind
        return None if stream_time_ms is None else stream_time_ms - retention_ms

    @abstractmethod
    def get(self, key: K, as_of_ms: int | None = None) -> VersionedRecord[V] | None:
        """Return the version of *key* that is valid at *as_of_ms*, inclusive (VRS-8, VRS-9).

        Without a time, the latest, however old. ``None`` when the key had no value then, or when
        the time is below the retention horizon and the latest version starts after it.

        Raises:
            StoreClosedError: The store is closed.
            InvalidTypeError: The key or the time has the wrong type.
            InvalidArgumentError: The time is negative or not an int64.
        """

    @abstractmethod
    def get_many(
        self, keys: Values[K], as_of_ms: int | Values[int] | None = None
    ) -> list[VersionedRecord[V] | None]:
        """Return `get` of each key, at one time for all or at a time for each (VRS-9).

        Raises:
            InvalidArgumentError: There are not as many times as keys.
        """

    @abstractmethod
    def history(
        self,
        key: K,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[VersionedRecord[V]]:
        """Iterate over the versions of *key* that were valid within ``[first_ms, last_ms]``.

        Both inclusive: a version that began before *first_ms* and was still valid then is
        included. Deletions show only as a gap. Oldest first, unless *reverse* (VRS-10). Versions
        that ended at or before the retention horizon are never returned, others never missed
        (VRS-11). Frozen at the call.

        Raises:
            InvalidArgumentError: ``first_ms > last_ms``, or a negative time.
        """

    @abstractmethod
    def scan_as_of(
        self,
        as_of_ms: int | None = None,
        first: K | None = None,
        last: K | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[K, VersionedRecord[V]]]:
        """Iterate over the keys from *first* to *last*, inclusive, with `get` of each (VRS-12).

        Keys without a value at that time are left out. Frozen at the call.
        """

    def range_history(
        self,
        first: K | None = None,
        last: K | None = None,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[K, VersionedRecord[V]]]:
        """Iterate over the `history` of each key from *first* to *last*, inclusive (KIP-969).

        In the order of the keys, and of one key oldest first; both the other way round if
        *reverse*. Keys that are deleted by now are among them (SRV-10). Frozen at the call.

        Raises:
            InvalidArgumentError: ``first_ms > last_ms``, or a negative time.
            CapabilityNotSupportedError: A store of somebody else's does not have it.
        """
        raise CapabilityNotSupportedError(
            f"{self.name!r} is {type(self).__name__}, which has no history of ranges; read the "
            "keys with scan_as_of, and the history of each"
        )


class VersionedStore(StateStore, ReadOnlyVersionedStore[K, V]):
    """A store of timestamped versions of each key."""

    @abstractmethod
    def put(self, key: K, value: V | None, timestamp_ms: int) -> PutResult:
        """Put a version of *key* that starts at *timestamp_ms*; ``None`` deletes from then on.

        Timestamps need not ascend: the neighbours' validity follows (VRS-6). A version with the
        same timestamp is replaced (VRS-4), a deletion is kept like one (VRS-5). A timestamp below
        the retention horizon is not accepted, and nothing changes (VRS-2).

        Raises:
            StoreClosedError: The store is closed.
            InvalidTypeError: Key, value or timestamp has the wrong type (COM-19).
            InvalidArgumentError: The timestamp is negative or not an int64 (VRS-16).
        """

    @abstractmethod
    def put_many(
        self, keys: Values[K], values: Values[V | None], timestamps_ms: Values[int]
    ) -> int:
        """Put columns of equal length in order; return how many were accepted (VRS-1).

        All arguments are checked before the first put: a malformed one changes nothing. An
        interrupt may leave the first ones put; `rollback`, or the same call, makes it one again.
        """

    @abstractmethod
    def delete(self, key: K, timestamp_ms: int) -> VersionedRecord[V] | None:
        """Delete *key* from *timestamp_ms* on; return what was valid then, before (VRS-7).

        ``None`` when nothing was valid, or when the timestamp is below the retention horizon:
        then nothing changes.
        """

    @abstractmethod
    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyVersionedStore[K, V]:
        """Return a facade without write methods, safe to use from other threads (ROF-1)."""
