"""Versioned stores of many partitions, read as one."""

from collections.abc import Iterator

from statestores.query.composite_store import CompositeStore, TimedComposite
from statestores.semantics.every_kind.arguments import keys_and_times
from statestores.spi.records import VersionedRecord
from statestores.spi.stores.store import Values
from statestores.spi.stores.versioned import ReadOnlyVersionedStore

Store = ReadOnlyVersionedStore[bytes, bytes]


class CompositeVersionedStore(
    CompositeStore[Store], TimedComposite, ReadOnlyVersionedStore[bytes, bytes]
):
    """Keys and values are bytes; stream time, and so the horizon, is each partition's own."""

    def get(self, key: bytes, as_of_ms: int | None = None) -> VersionedRecord[bytes] | None:
        return self._partitions.one(key, lambda store: store.get(key, as_of_ms))

    def get_many(
        self, keys: Values[bytes], as_of_ms: int | Values[int] | None = None
    ) -> list[VersionedRecord[bytes] | None]:
        wanted, times = keys_and_times(keys, as_of_ms)

        def read(store: Store, rows: list[int]) -> list[VersionedRecord[bytes] | None]:
            asked = [time for time in (times[row] for row in rows) if time is not None]
            return store.get_many([wanted[row] for row in rows], asked or None)

        return self._partitions.many(wanted, read)

    def history(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[VersionedRecord[bytes]]:
        return self._partitions.iterate(
            key, lambda store: store.history(key, first_ms, last_ms, reverse=reverse)
        )

    def range_history(
        self,
        first: bytes | None = None,
        last: bytes | None = None,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, VersionedRecord[bytes]]]:
        return self._partitions.merge(
            lambda store: store.range_history(first, last, first_ms, last_ms, reverse=reverse),
            lambda pair: (pair[0], pair[1].valid_from_ms),
            reverse=reverse,
        )

    def scan_as_of(
        self,
        as_of_ms: int | None = None,
        first: bytes | None = None,
        last: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, VersionedRecord[bytes]]]:
        return self._partitions.merge(
            lambda store: store.scan_as_of(as_of_ms, first, last, reverse=reverse),
            lambda pair: pair[0],
            reverse=reverse,
        )
