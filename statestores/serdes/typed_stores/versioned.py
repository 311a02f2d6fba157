"""Versioned stores of typed keys and values, over stores of bytes.

As in `key_value`, methods are bound once, and everything is encoded before anything is
written. The validity of a version passes through unchanged (VRS-22).
"""

from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

from statestores.serdes.typed_stores.delegation import DelegatingStateStore
from statestores.serdes.typed_stores.encoded_values import encode_values
from statestores.serdes.typed_stores.reads import TypedTimedReads
from statestores.spi.records import PutResult, VersionedRecord, new_tuple
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import Isolation, Values
from statestores.spi.stores.versioned import ReadOnlyVersionedStore, VersionedStore

K = TypeVar("K")
V = TypeVar("V")


class TypedReadOnlyVersionedStore(TypedTimedReads[K, V], ReadOnlyVersionedStore[K, V]):
    """The reading half. With a key serde that is not sorted, ranges are still of bytes."""

    _store: ReadOnlyVersionedStore[bytes, bytes]

    def __init__(
        self,
        store: ReadOnlyVersionedStore[bytes, bytes],
        specification: StoreSpecification[K, V],
    ) -> None:
        """Read *store* through the serdes of *specification*."""
        super().__init__(store, specification)
        # Any, because None goes down as it is: see `encoded_values`.
        self._store_get: Callable[[Any, int | None], VersionedRecord[bytes] | None] = store.get

    def get(self, key: K, as_of_ms: int | None = None) -> VersionedRecord[V] | None:
        found = self._store_get(None if key is None else self._encode_key(key), as_of_ms)
        if found is None:
            return None
        data, valid_from_ms, valid_to_ms = found
        parts = self._decode_value(data), valid_from_ms, valid_to_ms
        return new_tuple(VersionedRecord, parts)

    def get_many(
        self, keys: Values[K], as_of_ms: int | Values[int] | None = None
    ) -> list[VersionedRecord[V] | None]:
        found = self._store.get_many(encode_values(self._key_serde, "keys", keys), as_of_ms)
        decode = self._decode_value
        return [
            None if record is None else new_tuple(VersionedRecord, (decode(record[0]), *record[1:]))
            for record in found
        ]

    def history(
        self,
        key: K,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[VersionedRecord[V]]:
        encoded: Any = None if key is None else self._encode_key(key)
        return self._decoded(self._store.history(encoded, first_ms, last_ms, reverse=reverse))

    def scan_as_of(
        self,
        as_of_ms: int | None = None,
        first: K | None = None,
        last: K | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[K, VersionedRecord[V]]]:
        return self._decoded_pairs(
            self._store.scan_as_of(
                as_of_ms,
                None if first is None else self._encode_key(first),
                None if last is None else self._encode_key(last),
                reverse=reverse,
            )
        )

    def range_history(
        self,
        first: K | None = None,
        last: K | None = None,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[K, VersionedRecord[V]]]:
        return self._decoded_pairs(
            self._store.range_history(
                None if first is None else self._encode_key(first),
                None if last is None else self._encode_key(last),
                first_ms,
                last_ms,
                reverse=reverse,
            )
        )

    def _decoded(
        self, records: Iterator[VersionedRecord[bytes]]
    ) -> Generator[VersionedRecord[V], None, None]:
        """Decode *records* as they are asked for."""
        decode = self._decode_value
        for data, valid_from_ms, valid_to_ms in records:
            yield new_tuple(VersionedRecord, (decode(data), valid_from_ms, valid_to_ms))

    def _decoded_pairs(
        self, pairs: Iterator[tuple[bytes, VersionedRecord[bytes]]]
    ) -> Generator[tuple[K, VersionedRecord[V]], None, None]:
        """Decode *pairs* as they are asked for."""
        decode_key, decode_value = self._decode_key, self._decode_value
        for key, (data, valid_from_ms, valid_to_ms) in pairs:
            yield (
                decode_key(key),
                new_tuple(VersionedRecord, (decode_value(data), valid_from_ms, valid_to_ms)),
            )


class TypedVersionedStore(
    DelegatingStateStore, TypedReadOnlyVersionedStore[K, V], VersionedStore[K, V]
):
    """A versioned store whose keys and values are those of its specification's serdes."""

    _store: VersionedStore[bytes, bytes]

    def __init__(
        self,
        store: VersionedStore[bytes, bytes],
        specification: StoreSpecification[K, V],
    ) -> None:
        """Take *store* over: closing this store closes it."""
        super().__init__(store, specification)
        self._store_put: Callable[[Any, bytes | None, int], PutResult] = store.put

    def put(self, key: K, value: V | None, timestamp_ms: int) -> PutResult:
        return self._store_put(
            None if key is None else self._encode_key(key),
            None if value is None else self._encode_value(value),
            timestamp_ms,
        )

    def put_many(
        self, keys: Values[K], values: Values[V | None], timestamps_ms: Values[int]
    ) -> int:
        return self._store.put_many(
            encode_values(self._key_serde, "keys", keys),
            encode_values(self._value_serde, "values", values),
            timestamps_ms,
        )

    def delete(self, key: K, timestamp_ms: int) -> VersionedRecord[V] | None:
        encoded: Any = None if key is None else self._encode_key(key)
        found = self._store.delete(encoded, timestamp_ms)
        if found is None:
            return None
        data, valid_from_ms, valid_to_ms = found
        parts = self._decode_value(data), valid_from_ms, valid_to_ms
        return new_tuple(VersionedRecord, parts)

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyVersionedStore[K, V]:
        return TypedReadOnlyVersionedStore(self._store.read_only(isolation), self._specification)
