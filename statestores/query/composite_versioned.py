"""Versioned stores of many partitions, read as one."""

from collections.abc import Iterator

from statestores.errors import InvalidArgumentError
from statestores.query.local_partitions import CompositeStore
from statestores.spi.records import VersionedRecord
from statestores.spi.store import Values
from statestores.spi.values import as_list
from statestores.spi.versioned import ReadOnlyVersionedStore

Store = ReadOnlyVersionedStore[bytes, bytes]


class CompositeVersionedStore(CompositeStore[Store], ReadOnlyVersionedStore[bytes, bytes]):
    """Keys and values are bytes; stream time, and so the horizon, is each partition's own."""

    @property
    def stream_time_ms(self) -> int | None:
        return self._highest(lambda store: store.stream_time_ms)

    def get(self, key: bytes, as_of_ms: int | None = None) -> VersionedRecord[bytes] | None:
        return self._partitions.one(key, lambda store: store.get(key, as_of_ms))

    def get_many(
        self, keys: Values[bytes], as_of_ms: int | Values[int] | None = None
    ) -> list[VersionedRecord[bytes] | None]:
        wanted = as_list("keys", keys)
        if as_of_ms is None or isinstance(as_of_ms, int):
            return [self.get(key, as_of_ms) for key in wanted]
        times = as_list("as_of_ms", as_of_ms)
        if len(times) != len(wanted):
            raise InvalidArgumentError(
                f"there are {len(wanted)} keys and {len(times)} times; give one time for each key, "
                "or one for all"
            )
        return [self.get(key, time) for key, time in zip(wanted, times, strict=True)]

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
