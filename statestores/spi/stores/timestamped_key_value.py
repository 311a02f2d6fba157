"""The timestamped key-value store: a value and its timestamp, which may expire (KIP-258)."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import TypeVar

from statestores.errors import InvalidArgumentError
from statestores.spi.records import TimestampedValue
from statestores.spi.stores.key_value import ReadOnlyKeyValueStore
from statestores.spi.stores.store import Isolation, StateStore, Values
from statestores.spi.stores.stream_time import ReadOnlyTimedStore
from statestores.spi.values import as_list

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyTimestampedKeyValueStore(
    ReadOnlyTimedStore, ReadOnlyKeyValueStore[K, TimestampedValue[V]]
):
    """The reading half: that of a key-value store whose values have timestamps.

    A key whose value has expired is absent from every read, whether its row has been deleted yet
    or not (TTL-2); `approximate_num_entries` counts rows.
    """


class TimestampedKeyValueStore(StateStore, ReadOnlyTimestampedKeyValueStore[K, V]):
    """A store of the latest value of each key, with the timestamp with which it was put.

    The latest is the last one put, whatever its timestamp (TKV-2).
    """

    @abstractmethod
    def put(self, key: K, value: V | None, timestamp_ms: int | None = None) -> None:
        """Set value and timestamp of *key*; a value of ``None`` deletes it (TKV-1).

        The timestamp may be left out for a deletion, which has none (TKV-4), and where values
        expire by the wall clock: then it is the time of the call (TKV-3).

        Raises:
            StoreClosedError: The store is closed.
            InvalidTypeError: An argument has the wrong type, or the timestamp is missing (COM-19).
            InvalidArgumentError: The timestamp is negative or not an int64.
        """

    @abstractmethod
    def put_if_absent(
        self, key: K, value: V, timestamp_ms: int | None = None
    ) -> TimestampedValue[V] | None:
        """Set the value of *key* unless it has one that has not expired; return that (KVS-2)."""

    def put_all(self, entries: Iterable[tuple[K, V | None, int | None]]) -> None:
        """Put all *entries* of key, value and timestamp in order, or none of them (KVS-3)."""
        triples = as_list("entries", entries)
        try:
            keys = [key for key, _, _ in triples]
            values = [value for _, value, _ in triples]
            timestamps = [timestamp_ms for _, _, timestamp_ms in triples]
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"entries must be triples of key, value and timestamp: {error}"
            ) from error
        self.put_many(keys, values, timestamps)

    @abstractmethod
    def put_many(
        self,
        keys: Values[K],
        values: Values[V | None],
        timestamps_ms: Values[int | None] | None = None,
    ) -> None:
        """Put columns of equal length, or nothing (KVS-3).

        Raises:
            InvalidArgumentError: The columns differ in length.
        """

    @abstractmethod
    def delete(self, key: K) -> TimestampedValue[V] | None:
        """Delete *key* and return what it had (KVS-4)."""

    @abstractmethod
    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyTimestampedKeyValueStore[K, V]:
        """Return a facade without write methods, safe to use from other threads (ROF-1)."""
