"""Timestamped key-value stores of typed keys and values, over stores of bytes.

As in `key_value`, methods are bound once, and everything is encoded before anything is
written. Timestamps pass through unchanged.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

from statestores.serdes.typed_stores.delegation import DelegatingStateStore
from statestores.serdes.typed_stores.encoded_values import decode_values, encode_values
from statestores.serdes.typed_stores.number_columns import number_columns, whole_numbers
from statestores.serdes.typed_stores.reads import TypedTimedReads
from statestores.spi.records import TimestampedValue, new_tuple
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.merging import Merge
from statestores.spi.stores.store import Isolation, Values
from statestores.spi.stores.timestamped_key_value import (
    ReadOnlyTimestampedKeyValueStore,
    TimestampedKeyValueStore,
)

K = TypeVar("K")
V = TypeVar("V")


class TypedReadOnlyTimestampedStore(TypedTimedReads[K, V], ReadOnlyTimestampedKeyValueStore[K, V]):
    """The reading half. With a key serde that is not sorted, ranges are still of bytes."""

    _store: ReadOnlyTimestampedKeyValueStore[bytes, bytes]

    def __init__(
        self,
        store: ReadOnlyTimestampedKeyValueStore[bytes, bytes],
        specification: StoreSpecification[K, V],
    ) -> None:
        """Read *store* through the serdes of *specification*."""
        super().__init__(store, specification)
        # Any, because None goes down as it is: see `encoded_values`.
        self._store_get: Callable[[Any], TimestampedValue[bytes] | None] = store.get

    def get(self, key: K) -> TimestampedValue[V] | None:
        found = self._store_get(None if key is None else self._encode_key(key))
        if found is None:
            return None
        data, timestamp_ms = found  # `_decoded`, written out
        return new_tuple(TimestampedValue, (self._decode_value(data), timestamp_ms))

    def get_many(self, keys: Values[K]) -> list[TimestampedValue[V] | None]:
        found = self._store.get_many(encode_values(self._key_serde, "keys", keys))
        values = decode_values(
            self._value_serde, [None if each is None else each[0] for each in found]
        )
        return [
            None if stamped is None else new_tuple(TimestampedValue, (value, stamped[1]))
            for value, stamped in zip(values, found, strict=True)
        ]

    def range(
        self, first: K | None = None, last: K | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[K, TimestampedValue[V]]]:
        pairs = self._store.range(
            None if first is None else self._encode_key(first),
            None if last is None else self._encode_key(last),
            reverse=reverse,
        )
        return self._decoded_pairs(pairs)

    def prefix_scan(
        self, prefix: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[K, TimestampedValue[V]]]:
        return self._decoded_pairs(self._store.prefix_scan(prefix, reverse=reverse))

    def approximate_num_entries(self) -> int:
        return self._store.approximate_num_entries()

    def _decoded(self, stamped: TimestampedValue[bytes] | None) -> TimestampedValue[V] | None:
        if stamped is None:
            return None
        data, timestamp_ms = stamped
        return new_tuple(TimestampedValue, (self._decode_value(data), timestamp_ms))

    def _decoded_pairs(
        self, pairs: Iterator[tuple[bytes, TimestampedValue[bytes]]]
    ) -> Generator[tuple[K, TimestampedValue[V]], None, None]:
        """Decode *pairs* as they are asked for."""
        decode_key, decode_value = self._decode_key, self._decode_value
        for key, (data, timestamp_ms) in pairs:
            yield decode_key(key), new_tuple(TimestampedValue, (decode_value(data), timestamp_ms))


class TypedTimestampedKeyValueStore(
    DelegatingStateStore, TypedReadOnlyTimestampedStore[K, V], TimestampedKeyValueStore[K, V]
):
    """A timestamped store whose keys and values are those of its specification's serdes."""

    _store: TimestampedKeyValueStore[bytes, bytes]

    def __init__(
        self,
        store: TimestampedKeyValueStore[bytes, bytes],
        specification: StoreSpecification[K, V],
    ) -> None:
        """Take *store* over: closing this store closes it."""
        super().__init__(store, specification)
        self._store_put: Callable[[Any, bytes | None, int | None], None] = store.put

    def put(self, key: K, value: V | None, timestamp_ms: int | None = None) -> None:
        self._store_put(
            None if key is None else self._encode_key(key),
            None if value is None else self._encode_value(value),
            timestamp_ms,
        )

    def put_if_absent(
        self, key: K, value: V, timestamp_ms: int | None = None
    ) -> TimestampedValue[V] | None:
        encoded_key: Any = None if key is None else self._encode_key(key)
        encoded_value: Any = None if value is None else self._encode_value(value)
        return self._decoded(self._store.put_if_absent(encoded_key, encoded_value, timestamp_ms))

    def put_many(
        self,
        keys: Values[K],
        values: Values[V | None],
        timestamps_ms: Values[int | None] | None = None,
    ) -> None:
        self._store.put_many(
            encode_values(self._key_serde, "keys", keys),
            encode_values(self._value_serde, "values", values),
            timestamps_ms,
        )

    def _merge_many(
        self,
        merge: Merge,
        keys: Values[K],
        values: Values[V | None],
        timestamps_ms: Values[int | None] | None,
    ) -> None:
        serdes = self._key_serde, self._value_serde
        times = None if self._expiry_of_rows() else whole_numbers(timestamps_ms)
        rows = None if times is None else number_columns(merge, serdes, keys, values)
        if rows is not None and rows.are_as_many(times):
            present = self._store.get_many(rows.keys)
            merged = rows.merged([None if each is None else each[0] for each in present])
            if merged is not None:
                seen = [None if each is None else each[1] for each in present]
                self._store.put_many(rows.keys, merged, rows.latest(times, seen))
                return
        super()._merge_many(merge, keys, values, timestamps_ms)

    def _wall_clock_ms(self) -> int:
        return self._store._wall_clock_ms()  # noqa: SLF001  # of this class

    def delete(self, key: K) -> TimestampedValue[V] | None:
        encoded: Any = None if key is None else self._encode_key(key)
        return self._decoded(self._store.delete(encoded))

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyTimestampedKeyValueStore[K, V]:
        return TypedReadOnlyTimestampedStore(self._store.read_only(isolation), self._specification)
