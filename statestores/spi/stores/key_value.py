"""The key-value store: the latest value of each key."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from statestores.errors import InvalidArgumentError
from statestores.spi.stores.store import Isolation, ReadOnlyStore, StateStore, Values
from statestores.spi.values import as_list

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyKeyValueStore(ReadOnlyStore, Generic[K, V]):
    """The reading half. Order is that of the keys' bytes, unsigned and lexicographic."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Return the value of *key*, or ``None`` when there is none (KVS-5).

        Raises:
            StoreClosedError: The store is closed.
            InvalidTypeError: The key has the wrong type; ``None`` is no key.
        """

    @abstractmethod
    def get_many(self, keys: Values[K]) -> list[V | None]:
        """Return the values of *keys* in their order, ``None`` where there is none (KVS-6)."""

    @abstractmethod
    def range(
        self, first: K | None = None, last: K | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[K, V]]:
        """Iterate over the pairs with ``first <= key <= last``, both inclusive (KVS-7).

        ``None`` leaves a side open; ``range()`` is everything. An inverted range is empty. The
        iterator is frozen at the call: later writes and commits do not show up (KVS-11).
        """

    @abstractmethod
    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[K, V]]:
        """Iterate over the pairs whose key *bytes* begin with *prefix*, and no others (KVS-9).

        The prefix is of bytes, even in a typed store; an empty one matches everything.
        """

    @abstractmethod
    def approximate_num_entries(self) -> int:
        """Estimate the number of keys; the engine's estimate plus pending new ones (KVS-10)."""


class KeyValueStore(StateStore, ReadOnlyKeyValueStore[K, V]):
    """A store of the latest value of each key (KIP-28, KIP-67)."""

    @abstractmethod
    def put(self, key: K, value: V | None) -> None:
        """Set the value of *key*; ``None`` deletes it (KVS-1).

        Raises:
            StoreClosedError: The store is closed.
            InvalidTypeError: Key or value has the wrong type; nothing changes (COM-19).
        """

    @abstractmethod
    def put_if_absent(self, key: K, value: V) -> V | None:
        """Set the value of *key* unless it has one; return the one it had (KVS-2)."""

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """Put all *entries* in order, or none if one of them is malformed (KVS-3)."""
        pairs = as_list("entries", entries)
        try:
            keys = [key for key, _ in pairs]
            values = [value for _, value in pairs]
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"entries must be pairs of key and value: {error}"
            ) from error
        self.put_many(keys, values)

    @abstractmethod
    def put_many(self, keys: Values[K], values: Values[V | None]) -> None:
        """Put columns of *keys* and *values* of equal length, or nothing (KVS-3).

        Raises:
            InvalidArgumentError: The columns differ in length.
        """

    @abstractmethod
    def delete(self, key: K) -> V | None:
        """Delete *key* and return the value that it had (KVS-4)."""

    @abstractmethod
    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyKeyValueStore[K, V]:
        """Return a facade without write methods, safe to use from other threads (ROF-1)."""
