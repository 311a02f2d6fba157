"""Session stores of typed keys and values, over stores of bytes.

As in `key_value`, everything is encoded before anything is written. Sessions pass through
unchanged.
"""

from collections.abc import Generator, Iterator
from typing import TypeVar

from statestores.serdes.typed_stores.delegation import DelegatingStateStore
from statestores.serdes.typed_stores.encoded_values import decode_values, encode_values
from statestores.serdes.typed_stores.reads import TypedTimedReads
from statestores.spi.records import SessionRecord, new_tuple
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.session import ReadOnlySessionStore, SessionStore
from statestores.spi.stores.store import Isolation, Values

K = TypeVar("K")
V = TypeVar("V")


class TypedReadOnlySessionStore(TypedTimedReads[K, V], ReadOnlySessionStore[K, V]):
    """The reading half. With a key serde that is not sorted, ranges are still of bytes."""

    _store: ReadOnlySessionStore[bytes, bytes]

    def fetch_session(self, key: K, start_ms: int, end_ms: int) -> V | None:
        data = self._store.fetch_session(self._encoded_key(key), start_ms, end_ms)
        return None if data is None else self._decode_value(data)

    def fetch_many(
        self, keys: Values[K], starts_ms: Values[int], ends_ms: Values[int]
    ) -> list[V | None]:
        encoded = encode_values(self._key_serde, "keys", keys)
        return decode_values(self._value_serde, self._store.fetch_many(encoded, starts_ms, ends_ms))

    def find_sessions(
        self,
        key: K,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[SessionRecord[K, V]]:
        return self._decoded(
            self._store.find_sessions(
                self._encoded_key(key), earliest_end_ms, latest_start_ms, reverse=reverse
            )
        )

    def find_all_sessions(
        self,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        first_key: K | None = None,
        last_key: K | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[SessionRecord[K, V]]:
        return self._decoded(
            self._store.find_all_sessions(
                earliest_end_ms,
                latest_start_ms,
                self._encoded_key(first_key),
                self._encoded_key(last_key),
                reverse=reverse,
            )
        )

    def find_sessions_by_end(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: K | None = None,
        last_key: K | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[SessionRecord[K, V]]:
        return self._decoded(
            self._store.find_sessions_by_end(
                first_ms,
                last_ms,
                self._encoded_key(first_key),
                self._encoded_key(last_key),
                reverse=reverse,
            )
        )

    def _decoded(
        self, records: Iterator[SessionRecord[bytes, bytes]]
    ) -> Generator[SessionRecord[K, V], None, None]:
        """Decode *records* as they are asked for."""
        decode_key, decode_value = self._decode_key, self._decode_value
        for key, start_ms, end_ms, value in records:
            parts = decode_key(key), start_ms, end_ms, decode_value(value)
            yield new_tuple(SessionRecord, parts)


class TypedSessionStore(DelegatingStateStore, TypedReadOnlySessionStore[K, V], SessionStore[K, V]):
    """A session store whose keys and values are those of its specification's serdes."""

    _store: SessionStore[bytes, bytes]

    def __init__(
        self, store: SessionStore[bytes, bytes], specification: StoreSpecification[K, V]
    ) -> None:
        """Take *store* over: closing this store closes it."""
        super().__init__(store, specification)

    def put(self, key: K, start_ms: int, end_ms: int, value: V | None) -> bool:
        encoded = None if value is None else self._encode_value(value)
        return self._store.put(self._encoded_key(key), start_ms, end_ms, encoded)

    def put_many(
        self,
        keys: Values[K],
        starts_ms: Values[int],
        ends_ms: Values[int],
        values: Values[V | None],
    ) -> int:
        return self._store.put_many(
            encode_values(self._key_serde, "keys", keys),
            starts_ms,
            ends_ms,
            encode_values(self._value_serde, "values", values),
        )

    def remove(self, key: K, start_ms: int, end_ms: int) -> bool:
        return self._store.remove(self._encoded_key(key), start_ms, end_ms)

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlySessionStore[K, V]:
        return TypedReadOnlySessionStore(self._store.read_only(isolation), self._specification)
