"""The key-value store over an engine: a write buffer, a cache of committed rows, and the engine.

Pending writes and cached rows lie under the user's keys, and get their namespace at the commit:
so a read that is served from memory, and all but the last of many puts, never make a row's key.
"""

from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

from statestores.semantics.every_kind.arguments import (
    check_changes,
    check_key,
    check_keys,
    check_lengths,
    check_reverse,
    check_values,
    isolation_of,
    refuse_absent,
    refuse_put,
)
from statestores.semantics.every_kind.engine_store import FEW_ROWS, EngineStore
from statestores.semantics.every_kind.key_ranges import KeyRanges
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.key_value.committed_rows import CommittedRows
from statestores.semantics.key_value.facades import CommittedKeyValues, UncommittedKeyValues
from statestores.semantics.rows.closed_rows import ClosedRows
from statestores.semantics.rows.content_chunks import (
    FIRST_CHUNK_ROWS,
    frozen_content,
    next_chunk_rows,
)
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.rows.namespaced_rows import (
    NamespacedRows,
    key_bounds_of,
    without_namespace,
)
from statestores.semantics.rows.row_cache import DEFAULT_READ_CACHE_BYTES, KEEP_ONE_IN, RowCache
from statestores.semantics.rows.write_buffer import WriteBuffer, merge, total_bytes
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine, EngineReader
from statestores.spi.records import Changes
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.key_value import KeyValueStore, ReadOnlyKeyValueStore
from statestores.spi.stores.store import CommittedContent, Isolation, Values
from statestores.spi.values import as_list

T = TypeVar("T")


class EngineKeyValueStore(KeyRanges[bytes], EngineStore[bytes, bytes], KeyValueStore[bytes, bytes]):
    """A key-value store of bytes over any engine."""

    _rows: dict[bytes, bytes | None]
    _shows_pending = True

    def __init__(
        self,
        engine: Engine,
        specification: StoreSpecification[bytes, bytes],
        durability: Durability,
        cache: RowCache | None = None,
    ) -> None:
        """Take *engine* over, and keep its recently used rows in *cache*."""
        super().__init__(engine, specification, durability)
        self._cache = cache or RowCache(DEFAULT_READ_CACHE_BYTES)
        self._cached = self._cache.rows
        self._gets_before = 0  # how often the engine had been asked by the last commit
        self._buffer = WriteBuffer()
        self._rows = self._buffer.rows

    # Writes.

    def put(self, key: bytes, value: bytes | None) -> None:
        if type(key) is not bytes:
            refuse_put(key, value)
        if value is None:
            self._rows[key] = None
            self._uncommitted_bytes += len(key)
            self._puts += 1
            return
        if type(value) is not bytes:
            refuse_put(key, value)
        self._rows[key] = value
        self._uncommitted_bytes += len(key) + len(value)
        self._puts += 1

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        if type(value) is not bytes:
            refuse_absent(value)
        present = self.get(key)
        if present is None:
            self.put(key, value)
        return present

    def put_many(self, keys: Values[bytes], values: Values[bytes | None]) -> None:
        self.check_open()
        key_list, value_list = as_list("keys", keys), as_list("values", values)
        check_lengths(keys=key_list, values=value_list)
        check_keys(key_list)
        check_values(value_list)
        self._rows.update(zip(key_list, value_list, strict=True))
        self._uncommitted_bytes += sum(map(len, key_list)) + total_bytes(value_list)
        self._puts += len(key_list) * self._put_step

    def delete(self, key: bytes) -> bytes | None:
        present = self.get(key)
        self.put(key, None)
        return present

    # Reads.

    def get(self, key: bytes) -> bytes | None:
        if type(key) is not bytes:
            check_key(key)
        if key in self._rows:
            return self._rows[key]
        if key in self._cached:
            return self._cached[key]
        self._engine_gets = count = self._engine_gets + 1
        value = self._engine_get(DATA + key)
        if not count % KEEP_ONE_IN:
            self._cache.keep(key, value)
        return value

    def get_many(self, keys: Values[bytes]) -> list[bytes | None]:
        self.check_open()
        key_list = as_list("keys", keys)
        if len(key_list) <= FEW_ROWS:
            return list(map(self.get, key_list))
        check_keys(key_list)
        pending, cached = self._rows, self._cached
        missing = [DATA + key for key in key_list if key not in pending and key not in cached]
        self._engine_gets += len(missing)
        stored = self._engine.get_many(missing)
        if len(missing) == len(key_list):
            return stored
        values = iter(stored)
        return [
            pending[key] if key in pending else cached[key] if key in cached else next(values)
            for key in key_list
        ]

    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        check_reverse(reverse)
        self.check_open()
        stored = without_namespace(self._engine.scan(start, stop, reverse=reverse))
        if self._rows:
            overlay = self._buffer.slice(*key_bounds_of(start, stop), reverse=reverse)
            if overlay:
                return self.count_iterator(self.guarded(merge(stored, overlay, reverse=reverse)))
        return self.count_iterator(stored)

    def approximate_num_entries(self) -> int:
        self.check_open()
        stored = self._engine.approximate_num_keys(DATA, HISTORY)
        return stored + sum(1 for value in self._rows.values() if value is not None)

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyKeyValueStore[bytes, bytes]:
        self.check_open()
        if isolation_of(isolation) is Isolation.READ_COMMITTED:
            return CommittedKeyValues(self, self._engine)
        return UncommittedKeyValues(self, self._engine, self.uncommitted_rows)

    def uncommitted_rows(self) -> dict[bytes, bytes | None]:
        """Return the pending rows, live: for facades."""
        return self._rows

    # Changes.

    def pending_changes(self) -> Changes:
        return Changes(list(self._rows), list(self._rows.values()))

    def replay(self, changes: Changes) -> None:
        check_changes(changes, self.specification)
        with self.replaying():
            self.put_many(changes.keys, changes.values)

    def load(self, changes: Changes, *, stream_time_ms: int | None = None) -> None:
        self.replay(changes)

    def committed_content(self) -> CommittedContent:
        self.check_open()
        snapshot = self._engine.snapshot()
        return frozen_content(snapshot, _chunks(snapshot))

    def committed_rows(self) -> CommittedRows:
        """Return the rows of `committed_content` as the engine has them, behind `DATA`."""
        self.check_open()
        return CommittedRows(self._engine.snapshot(), DATA, HISTORY)

    # What the common part asks for.

    def _has_pending_writes(self) -> bool:
        return bool(self._rows)

    def _pending_rows(self) -> NamespacedRows:
        return NamespacedRows(self._rows)

    def _progress_rows(self, rows: SortedRows) -> dict[bytes, bytes | None]:
        return {}

    def _forget_pending(self, *, committed: bool) -> None:
        if committed:
            is_read = self._engine_gets != self._gets_before
            self._cache.refresh(self._rows, self._uncommitted_bytes, is_read=is_read)
            self._gets_before = self._engine_gets
        buffer = WriteBuffer()
        self._buffer, self._rows = buffer, buffer.rows  # one line: no interrupt comes in between

    def _forget_cached(self) -> None:
        self._cache.forget()

    def _close_pending(self, closed: ClosedRows) -> None:
        self._rows = closed
        self._cache.forget()


def _chunks(reader: EngineReader) -> Iterator[Changes]:
    """Yield the rows of *reader*."""
    rows = reader.scan(DATA, HISTORY)
    count = FIRST_CHUNK_ROWS
    while pairs := list(islice(rows, count)):
        keys = [key[1:] for key, _ in pairs]
        values = [value for _, value in pairs]
        count = next_chunk_rows(len(keys), sum(map(len, values)))
        yield Changes(keys, values)
