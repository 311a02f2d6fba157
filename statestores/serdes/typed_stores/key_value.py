"""Key-value stores of typed keys and values, over stores of bytes.

Methods are bound once, at construction: a call is the serde's function and the store's, and
nothing between them. Everything is encoded before anything is written.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

from statestores.serdes.typed_stores.delegation import DelegatingStateStore
from statestores.serdes.typed_stores.encoded_values import decode_values, encode_values
from statestores.serdes.typed_stores.number_columns import number_columns
from statestores.serdes.typed_stores.reads import TypedReads
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.key_value import KeyValueStore, ReadOnlyKeyValueStore
from statestores.spi.stores.merging import Merge
from statestores.spi.stores.store import Isolation, Values

K = TypeVar("K")
V = TypeVar("V")


class TypedReadOnlyKeyValueStore(TypedReads[K, V], ReadOnlyKeyValueStore[K, V]):
    """The reading half. With a key serde that is not sorted, ranges are still of bytes."""

    _store: ReadOnlyKeyValueStore[bytes, bytes]

    def __init__(
        self,
        store: ReadOnlyKeyValueStore[bytes, bytes],
        specification: StoreSpecification[K, V],
    ) -> None:
        """Read *store* through the serdes of *specification*."""
        super().__init__(store, specification)
        # Any, because None goes down as it is: see `encoded_values`.
        self._store_get: Callable[[Any], bytes | None] = store.get

    def get(self, key: K) -> V | None:
        data = self._store_get(None if key is None else self._encode_key(key))
        return None if data is None else self._decode_value(data)

    def get_many(self, keys: Values[K]) -> list[V | None]:
        found = self._store.get_many(encode_values(self._key_serde, "keys", keys))
        return decode_values(self._value_serde, found)

    def range(
        self, first: K | None = None, last: K | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[K, V]]:
        pairs = self._store.range(
            None if first is None else self._encode_key(first),
            None if last is None else self._encode_key(last),
            reverse=reverse,
        )
        return self._decoded(pairs)

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[K, V]]:
        return self._decoded(self._store.prefix_scan(prefix, reverse=reverse))

    def approximate_num_entries(self) -> int:
        return self._store.approximate_num_entries()

    def _decoded(self, pairs: Iterator[tuple[bytes, bytes]]) -> Generator[tuple[K, V], None, None]:
        """Decode *pairs* as they are asked for."""
        decode_key, decode_value = self._decode_key, self._decode_value
        for key, value in pairs:
            yield decode_key(key), decode_value(value)


class TypedKeyValueStore(
    DelegatingStateStore, TypedReadOnlyKeyValueStore[K, V], KeyValueStore[K, V]
):
    """A key-value store whose keys and values are those of its specification's serdes."""

    _store: KeyValueStore[bytes, bytes]

    def __init__(
        self,
        store: KeyValueStore[bytes, bytes],
        specification: StoreSpecification[K, V],
    ) -> None:
        """Take *store* over: closing this store closes it."""
        super().__init__(store, specification)
        self._store_put: Callable[[Any, bytes | None], None] = store.put

    def put(self, key: K, value: V | None) -> None:
        self._store_put(
            None if key is None else self._encode_key(key),
            None if value is None else self._encode_value(value),
        )

    def put_if_absent(self, key: K, value: V) -> V | None:
        encoded_key: Any = None if key is None else self._encode_key(key)
        encoded_value: Any = None if value is None else self._encode_value(value)
        present = self._store.put_if_absent(encoded_key, encoded_value)
        return None if present is None else self._decode_value(present)

    def put_many(self, keys: Values[K], values: Values[V | None]) -> None:
        self._store.put_many(
            encode_values(self._key_serde, "keys", keys),
            encode_values(self._value_serde, "values", values),
        )

    def _merge_many(self, merge: Merge, keys: Values[K], values: Values[V | None]) -> None:
        rows = number_columns(merge, (self._key_serde, self._value_serde), keys, values)
        merged = None if rows is None else rows.merged(self._store.get_many(rows.keys))
        if rows is None or merged is None:
            super()._merge_many(merge, keys, values)
        else:
            self._store.put_many(rows.keys, merged)

    def delete(self, key: K) -> V | None:
        encoded: Any = None if key is None else self._encode_key(key)
        present = self._store.delete(encoded)
        return None if present is None else self._decode_value(present)

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyKeyValueStore[K, V]:
        return TypedReadOnlyKeyValueStore(self._store.read_only(isolation), self._specification)
