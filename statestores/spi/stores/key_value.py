"""The key-value store: the latest value of each key."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from statestores.errors import InvalidArgumentError
from statestores.spi.stores.merging import (
    Merge,
    distinct_keys,
    keyed_rows,
    merge_rows,
    updated_values,
)
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
                "entries must be pairs of key and value, such as [('word', 1)]; of a dict, its "
                "items()"
            ) from error
        self.put_many(keys, values)

    @abstractmethod
    def put_many(self, keys: Values[K], values: Values[V | None]) -> None:
        """Put columns of *keys* and *values* of equal length, or nothing (KVS-3).

        Raises:
            InvalidArgumentError: The columns differ in length.
        """

    def add_many(self, keys: Values[K], values: Values[V | None]) -> None:
        """Add *values* to those of *keys*, row by row; a key without one takes it (KVS-19).

        ``None`` changes nothing (KVS-20). What a key has in the end must be a value of the store,
        what it has in between need not. Nothing is added if anything is wrong (KVS-22).

        Raises:
            StoreClosedError: The store is closed.
            InvalidArgumentError: The columns differ in length.
            InvalidTypeError: A key or value has the wrong type; bytes do not add up (KVS-23).
            SerializationError: A sum is not of the value serde's type, such as one above int64.
        """
        self._merge_many(Merge.SUM, keys, values)

    def min_many(self, keys: Values[K], values: Values[V | None]) -> None:
        """Keep the lesser of each key's value and that of its row; as `add_many` (KVS-19)."""
        self._merge_many(Merge.LEAST, keys, values)

    def max_many(self, keys: Values[K], values: Values[V | None]) -> None:
        """Keep the greater of each key's value and that of its row; as `add_many` (KVS-19)."""
        self._merge_many(Merge.GREATEST, keys, values)

    def update_many(
        self,
        keys: Values[K],
        function: Callable[[list[K], list[V | None]], Values[V | None]],
    ) -> None:
        """Put what *function* makes of the values of *keys*, as columns, or nothing (KVS-21).

        It is called once, with each key once, in the order in which they first occur, and what
        `get_many` gives for them. It returns a value for each, ``None`` to delete. Without keys
        it is not called.

        Raises:
            StoreClosedError: The store is closed.
            InvalidArgumentError: *function* returned a column of another length.
            InvalidTypeError: A key or value has the wrong type.
        """
        key_list = distinct_keys(keys, self.specification.key)
        present = self.get_many(key_list)
        self.put_many(key_list, updated_values(function, key_list, present))

    def _merge_many(self, merge: Merge, keys: Values[K], values: Values[V | None]) -> None:
        """Merge *values* into those of *keys*, by one read and one put of each key."""
        rows = keyed_rows(keys, values, self.specification.key)
        merged = merge_rows(merge, rows, self.get_many(rows.keys))
        self.put_many(rows.keys_of(merged), list(merged.values()))

    @abstractmethod
    def delete(self, key: K) -> V | None:
        """Delete *key* and return the value that it had (KVS-4)."""

    @abstractmethod
    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyKeyValueStore[K, V]:
        """Return a facade without write methods, safe to use from other threads (ROF-1)."""
