"""Session stores of many partitions, read as one."""

from collections.abc import Iterator

from statestores.query.composite_store import CompositeStore, TimedComposite
from statestores.semantics.every_kind.arguments import check_lengths
from statestores.spi.records import SessionRecord
from statestores.spi.stores.session import ReadOnlySessionStore
from statestores.spi.stores.store import Values
from statestores.spi.values import as_list

Store = ReadOnlySessionStore[bytes, bytes]
Record = SessionRecord[bytes, bytes]


def _order(record: Record) -> tuple[bytes, int, int]:
    return record.key, record.end_ms, record.start_ms


class CompositeSessionStore(
    CompositeStore[Store], TimedComposite, ReadOnlySessionStore[bytes, bytes]
):
    """Keys and values are bytes; stream time, and so the horizon, is each partition's own."""

    def fetch_session(self, key: bytes, start_ms: int, end_ms: int) -> bytes | None:
        return self._partitions.one(key, lambda store: store.fetch_session(key, start_ms, end_ms))

    def fetch_many(
        self, keys: Values[bytes], starts_ms: Values[int], ends_ms: Values[int]
    ) -> list[bytes | None]:
        wanted = as_list("keys", keys)
        starts, ends = as_list("starts_ms", starts_ms), as_list("ends_ms", ends_ms)
        check_lengths(keys=wanted, starts_ms=starts, ends_ms=ends)
        return self._partitions.many(
            wanted,
            lambda store, rows: store.fetch_many(
                *([column[row] for row in rows] for column in (wanted, starts, ends))
            ),
        )

    def find_sessions(
        self,
        key: bytes,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[Record]:
        return self._partitions.iterate(
            key,
            lambda store: store.find_sessions(
                key, earliest_end_ms, latest_start_ms, reverse=reverse
            ),
        )

    def find_all_sessions(
        self,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[Record]:
        return self._partitions.merge(
            lambda store: store.find_all_sessions(
                earliest_end_ms, latest_start_ms, first_key, last_key, reverse=reverse
            ),
            _order,
            reverse=reverse,
        )

    def find_sessions_by_end(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[Record]:
        return self._partitions.merge(
            lambda store: store.find_sessions_by_end(
                first_ms, last_ms, first_key, last_key, reverse=reverse
            ),
            _order,
            reverse=reverse,
        )
