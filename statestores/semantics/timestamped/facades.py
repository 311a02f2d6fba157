"""Read-only facades of a timestamped key-value store, for other threads (ROF)."""

from collections.abc import Callable, Iterator
from typing import Any

from statestores.semantics.every_kind.arguments import check_key, check_reverse
from statestores.semantics.every_kind.engine_store import EngineStore
from statestores.semantics.every_kind.facade import TimedFacade, UncommittedTimedFacade
from statestores.semantics.every_kind.key_ranges import KeyRanges
from statestores.semantics.rows.content_chunks import until_closed
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.semantics.rows.write_buffer import merge, rows_between
from statestores.semantics.timestamped.expiry import Expiry
from statestores.semantics.timestamped.opening import read_sweep_progress
from statestores.semantics.timestamped.rows import living, living_pairs
from statestores.spi.engine import Engine, EngineReader
from statestores.spi.records import TimestampedValue
from statestores.spi.stores.store import Values
from statestores.spi.stores.timestamped_key_value import ReadOnlyTimestampedKeyValueStore
from statestores.spi.values import as_list

Uncommitted = Callable[[], tuple[dict[bytes, bytes | None], int]]
"""Returns the pending rows, live, and their stream time."""

_ABSENT = object()


class CommittedTimestamped(
    KeyRanges[TimestampedValue[bytes]], TimedFacade, ReadOnlyTimestampedKeyValueStore[bytes, bytes]
):
    """A timestamped store as its last commit left it.

    Each operation sees exactly one commit: a row and the stream time that it is judged by are read
    at one instant.
    """

    def __init__(
        self,
        store: EngineStore[Any, Any],
        engine: Engine,
        expiry: Expiry,
        uncommitted: Uncommitted,
    ) -> None:
        super().__init__(store, engine)
        self._expiry = expiry
        self._uncommitted = uncommitted

    def _stream_time(self) -> int:
        return read_sweep_progress(self._engine).stream_time_ms

    def _horizon_ms(self, reader: EngineReader) -> int:
        """Return the highest timestamp that has expired in *reader*."""
        if not self._expiry.follows_stream_time:
            return self._expiry.horizon_ms(NO_STREAM_TIME)
        return self._expiry.horizon_ms(read_sweep_progress(reader).stream_time_ms)

    def get(self, key: bytes) -> TimestampedValue[bytes] | None:
        check_key(key)
        row = self._engine.get(DATA + key)
        # The pending stream time is not below any committed one so far: what is alive by it was
        # alive when the row was read.
        _, stream_time = self._uncommitted()
        found = living(row, self._expiry.horizon_ms(stream_time))
        if found is not None or row is None or not self._expiry.follows_stream_time:
            return found
        with self._engine.snapshot() as snapshot:
            return living(snapshot.get(DATA + key), self._horizon_ms(snapshot))

    def get_many(self, keys: Values[bytes]) -> list[TimestampedValue[bytes] | None]:
        rows = []
        for key in as_list("keys", keys):
            check_key(key)
            rows.append(DATA + key)
        with self._engine.snapshot() as snapshot:
            horizon = self._horizon_ms(snapshot)
            return [living(row, horizon) for row in snapshot.get_many(rows)]

    def _scan(
        self, start: bytes, stop: bytes, *, reverse: bool
    ) -> Iterator[tuple[bytes, TimestampedValue[bytes]]]:
        check_reverse(reverse)
        snapshot = self._engine.snapshot()
        rows = until_closed(snapshot, snapshot.scan(start, stop, reverse=reverse))
        return living_pairs(self._store.while_open(rows), self._horizon_ms(snapshot))

    def approximate_num_entries(self) -> int:
        return self._engine.approximate_num_keys(DATA, HISTORY)


class UncommittedTimestamped(UncommittedTimedFacade, CommittedTimestamped):
    """A timestamped store with the writer's pending writes, and their stream time.

    Single reads look at the live buffer; the others copy it.
    """

    _uncommitted: Uncommitted

    def get(self, key: bytes) -> TimestampedValue[bytes] | None:
        check_key(key)
        rows, stream_time = self._uncommitted()
        row = rows.get(DATA + key, _ABSENT)
        if row is _ABSENT:
            row = self._engine.get(DATA + key)
        return living(row, self._expiry.horizon_ms(stream_time))  # type: ignore[arg-type]  # not _ABSENT

    def get_many(self, keys: Values[bytes]) -> list[TimestampedValue[bytes] | None]:
        self._store.check_open()
        return [self.get(key) for key in as_list("keys", keys)]

    def _scan(
        self, start: bytes, stop: bytes, *, reverse: bool
    ) -> Iterator[tuple[bytes, TimestampedValue[bytes]]]:
        check_reverse(reverse)

        def look() -> tuple[dict[bytes, bytes | None], int, Iterator[tuple[bytes, bytes]]]:
            rows, stream_time = self._uncommitted()
            return rows.copy(), stream_time, self._engine.scan(start, stop, reverse=reverse)

        pending, stream_time, stored = self._of_one_commit(look)
        chosen = rows_between(pending, start, stop, reverse=reverse)
        merged = self._store.while_open(merge(stored, chosen, reverse=reverse))
        return living_pairs(merged, self._expiry.horizon_ms(stream_time))

    def approximate_num_entries(self) -> int:
        rows, _ = self._uncommitted()
        return super().approximate_num_entries() + len(rows.copy())
