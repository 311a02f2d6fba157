"""Key-value stores of many partitions, read as one."""

from collections.abc import Iterator
from typing import Any

from statestores.query.composite_store import CompositeStore, TimedComposite
from statestores.spi.stores.key_value import ReadOnlyKeyValueStore
from statestores.spi.stores.store import Values
from statestores.spi.stores.timestamped_key_value import ReadOnlyTimestampedKeyValueStore
from statestores.spi.values import as_list

_MAX_ENTRIES = (1 << 63) - 1


def _key(pair: tuple[bytes, Any]) -> bytes:
    return pair[0]


class CompositeKeyValueStore(
    CompositeStore[ReadOnlyKeyValueStore[bytes, Any]], ReadOnlyKeyValueStore[bytes, Any]
):
    """Keys and values are bytes; the partitions' pairs are merged in the order of the keys."""

    def get(self, key: bytes) -> Any:
        return self._partitions.one(key, lambda store: store.get(key))

    def get_many(self, keys: Values[bytes]) -> list[Any]:
        wanted = as_list("keys", keys)
        return self._partitions.many(
            wanted, lambda store, rows: store.get_many([wanted[row] for row in rows])
        )

    def range(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, Any]]:
        return self._partitions.merge(
            lambda store: store.range(first, last, reverse=reverse), _key, reverse=reverse
        )

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, Any]]:
        return self._partitions.merge(
            lambda store: store.prefix_scan(prefix, reverse=reverse), _key, reverse=reverse
        )

    def approximate_num_entries(self) -> int:
        counts = self._partitions.each(lambda store: store.approximate_num_entries())
        return min(_MAX_ENTRIES, sum(counts))


class CompositeTimestampedStore(
    CompositeKeyValueStore, TimedComposite, ReadOnlyTimestampedKeyValueStore[bytes, bytes]
):
    """The same for values with timestamps."""
