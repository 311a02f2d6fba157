"""Window stores of typed keys and values, over stores of bytes.

As in `key_value`, everything is encoded before anything is written. Windows pass through
unchanged.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

from statestores.serdes.typed_stores.delegation import DelegatingStateStore
from statestores.serdes.typed_stores.encoded_values import decode_values, encode_values
from statestores.serdes.typed_stores.reads import TypedTimedReads
from statestores.spi.records import WindowRecord, new_tuple
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import Isolation, Values
from statestores.spi.stores.window import ReadOnlyWindowStore, WindowStore

K = TypeVar("K")
V = TypeVar("V")


class TypedReadOnlyWindowStore(TypedTimedReads[K, V], ReadOnlyWindowStore[K, V]):
    """The reading half. With a key serde that is not sorted, ranges are still of bytes."""

    _store: ReadOnlyWindowStore[bytes, bytes]

    def __init__(
        self,
        store: ReadOnlyWindowStore[bytes, bytes],
        specification: StoreSpecification[K, V],
    ) -> None:
        """Read *store* through the serdes of *specification*."""
        super().__init__(store, specification)
        # Any, because None goes down as it is: see `encoded_values`.
        self._store_fetch: Callable[[Any, int], bytes | None] = store.fetch

    def fetch(self, key: K, start_ms: int) -> V | None:
        data = self._store_fetch(None if key is None else self._encode_key(key), start_ms)
        return None if data is None else self._decode_value(data)

    def fetch_many(self, keys: Values[K], starts_ms: int | Values[int]) -> list[V | None]:
        encoded = encode_values(self._key_serde, "keys", keys)
        return decode_values(self._value_serde, self._store.fetch_many(encoded, starts_ms))

    def fetch_range(
        self,
        key: K,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[WindowRecord[K, V]]:
        return self._decoded(
            self._store.fetch_range(self._encoded_key(key), first_ms, last_ms, reverse=reverse)
        )

    def fetch_all(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: K | None = None,
        last_key: K | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[WindowRecord[K, V]]:
        return self._decoded(
            self._store.fetch_all(
                first_ms,
                last_ms,
                self._encoded_key(first_key),
                self._encoded_key(last_key),
                reverse=reverse,
            )
        )

    def _decoded(
        self, records: Iterator[WindowRecord[bytes, bytes]]
    ) -> Generator[WindowRecord[K, V], None, None]:
        """Decode *records* as they are asked for."""
        decode_key, decode_value = self._decode_key, self._decode_value
        for key, start_ms, end_ms, value in records:
            parts = decode_key(key), start_ms, end_ms, decode_value(value)
            yield new_tuple(WindowRecord, parts)


class TypedWindowStore(DelegatingStateStore, TypedReadOnlyWindowStore[K, V], WindowStore[K, V]):
    """A window store whose keys and values are those of its specification's serdes."""

    _store: WindowStore[bytes, bytes]

    def __init__(
        self, store: WindowStore[bytes, bytes], specification: StoreSpecification[K, V]
    ) -> None:
        """Take *store* over: closing this store closes it."""
        super().__init__(store, specification)
        self._store_put: Callable[[Any, bytes | None, int], bool] = store.put

    def put(self, key: K, value: V | None, window_start_ms: int) -> bool:
        return self._store_put(
            None if key is None else self._encode_key(key),
            None if value is None else self._encode_value(value),
            window_start_ms,
        )

    def put_many(
        self, keys: Values[K], values: Values[V | None], window_starts_ms: Values[int]
    ) -> int:
        return self._store.put_many(
            encode_values(self._key_serde, "keys", keys),
            encode_values(self._value_serde, "values", values),
            window_starts_ms,
        )

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyWindowStore[K, V]:
        return TypedReadOnlyWindowStore(self._store.read_only(isolation), self._specification)
