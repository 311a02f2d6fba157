"""Window stores of many partitions, read as one."""

from collections.abc import Iterator

from statestores.query.composite_store import CompositeStore, TimedComposite
from statestores.spi.records import WindowRecord
from statestores.spi.stores.store import Values
from statestores.spi.stores.window import ReadOnlyWindowStore
from statestores.spi.values import as_list, one_for_each

Store = ReadOnlyWindowStore[bytes, bytes]


class CompositeWindowStore(
    CompositeStore[Store], TimedComposite, ReadOnlyWindowStore[bytes, bytes]
):
    """Keys and values are bytes; stream time, and so the horizon, is each partition's own."""

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        return self._partitions.one(key, lambda store: store.fetch(key, start_ms))

    def fetch_many(self, keys: Values[bytes], starts_ms: int | Values[int]) -> list[bytes | None]:
        wanted = as_list("keys", keys)
        starts = one_for_each("starts_ms", starts_ms, len(wanted))
        return self._partitions.many(
            wanted,
            lambda store, rows: store.fetch_many(
                [wanted[row] for row in rows], [starts[row] for row in rows]
            ),
        )

    def fetch_range(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[WindowRecord[bytes, bytes]]:
        return self._partitions.iterate(
            key, lambda store: store.fetch_range(key, first_ms, last_ms, reverse=reverse)
        )

    def fetch_all(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[WindowRecord[bytes, bytes]]:
        return self._partitions.merge(
            lambda store: store.fetch_all(first_ms, last_ms, first_key, last_key, reverse=reverse),
            lambda record: (record.key, record.start_ms),
            reverse=reverse,
        )
