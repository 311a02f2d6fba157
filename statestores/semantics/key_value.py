"""The key-value store over an engine: a write buffer of rows, and the engine below it."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from statestores.errors import InvalidArgumentError
from statestores.semantics.arguments import (
    as_list,
    check_key,
    check_key_range,
    check_keys,
    check_lengths,
    check_values,
    isolation_of,
    refuse_absent,
    refuse_put,
)
from statestores.semantics.content_chunks import (
    FIRST_CHUNK_ROWS,
    next_chunk_rows,
    until_closed,
)
from statestores.semantics.engine_store import ClosedRows, EngineStore
from statestores.semantics.key_value_facades import CommittedKeyValues, UncommittedKeyValues
from statestores.semantics.key_value_rows import key_bounds, prefix_bounds, without_namespace
from statestores.semantics.layout import DATA, HISTORY, read_offsets, read_position
from statestores.semantics.sorted_rows import SortedRows
from statestores.semantics.write_buffer import WriteBuffer, merge
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine, EngineReader
from statestores.spi.key_value import KeyValueStore, ReadOnlyKeyValueStore
from statestores.spi.records import Changes
from statestores.spi.specification import StoreSpecification
from statestores.spi.store import CommittedContent, Isolation, Values

T = TypeVar("T")

_ABSENT = object()


class EngineKeyValueStore(EngineStore[bytes, bytes], KeyValueStore[bytes, bytes]):
    """A key-value store of bytes over any engine."""

    def __init__(
        self,
        engine: Engine,
        specification: StoreSpecification[bytes, bytes],
        durability: Durability,
    ) -> None:
        super().__init__(engine, specification, durability)
        self._engine_get = engine.get
        self._buffer = WriteBuffer()
        self._rows = self._buffer.rows

    # Writes.

    def put(self, key: bytes, value: bytes | None) -> None:
        if type(key) is not bytes:
            refuse_put(key, value)
        if value is None:
            self._rows[DATA + key] = None
            self._uncommitted_bytes += len(key)
            self._puts += 1
            return
        if type(value) is not bytes:
            refuse_put(key, value)
        self._rows[DATA + key] = value
        self._uncommitted_bytes += len(key) + len(value)
        self._puts += 1

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        if type(value) is not bytes:
            refuse_absent(value)
        present = self.get(key)
        if present is None:
            self.put(key, value)
        return present

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        pairs = as_list("entries", entries)
        try:
            keys = [key for key, _ in pairs]
            values = [value for _, value in pairs]
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"entries must be pairs of key and value: {error}"
            ) from error
        self.put_many(keys, values)

    def put_many(self, keys: Values[bytes], values: Values[bytes | None]) -> None:
        self.check_open()
        key_list, value_list = as_list("keys", keys), as_list("values", values)
        check_lengths(keys=key_list, values=value_list)
        check_keys(key_list)
        check_values(value_list)
        self._rows.update(zip([DATA + key for key in key_list], value_list, strict=True))
        self._uncommitted_bytes += sum(map(len, key_list)) + sum(map(len, filter(None, value_list)))
        self._puts += len(key_list) * self._put_step

    def delete(self, key: bytes) -> bytes | None:
        present = self.get(key)
        self.put(key, None)
        return present

    # Reads.

    def get(self, key: bytes) -> bytes | None:
        if type(key) is not bytes:
            check_key(key)
        row = DATA + key
        value = self._rows.get(row, _ABSENT)
        if value is _ABSENT:
            self._engine_gets += 1
            return self._engine_get(row)
        return value  # type: ignore[return-value]  # a buffered value, since it is not _ABSENT

    def get_many(self, keys: Values[bytes]) -> list[bytes | None]:
        self.check_open()
        key_list = as_list("keys", keys)
        check_keys(key_list)
        rows = [DATA + key for key in key_list]
        buffered = self._rows
        if not buffered:
            self._engine_gets += len(rows)
            return self._engine.get_many(rows)
        missing = [row for row in rows if row not in buffered]
        self._engine_gets += len(missing)
        stored = dict(zip(missing, self._engine.get_many(missing), strict=True))
        return [stored[row] if row in stored else buffered[row] for row in rows]

    def range(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        check_key_range(first, last)
        return self._scan(*key_bounds(first, last), reverse=reverse)

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        check_key(prefix)
        return self._scan(*prefix_bounds(prefix), reverse=reverse)

    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        self.check_open()
        overlay = self._buffer.slice(start, stop, reverse=reverse) if self._rows else []
        stored = self._engine.scan(start, stop, reverse=reverse)
        rows = merge(stored, overlay, reverse=reverse)
        return self.count_iterator(without_namespace(self.guarded(rows) if overlay else rows))

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

    def uncommitted_rows(self) -> tuple[int, dict[bytes, bytes | None]]:
        """Return the number of commits so far and the pending rows, live: for facades."""
        return self._commits, self._rows

    # Changes.

    def pending_changes(self) -> Changes:
        self.check_open()
        return Changes([row[1:] for row in self._rows], list(self._rows.values()))

    def replay(self, changes: Changes) -> None:
        if changes.times_ms is not None:
            raise InvalidArgumentError(
                f"the changes carry times, and {self.name!r} is a key-value store"
            )
        with self.replaying():
            self.put_many(changes.keys, changes.values)

    def load(self, changes: Changes, *, stream_time_ms: int | None = None) -> None:
        self.replay(changes)

    def committed_content(self) -> CommittedContent:
        self.check_open()
        snapshot = self._engine.snapshot()
        return CommittedContent(
            offsets=read_offsets(snapshot),
            position=read_position(snapshot),
            stream_time_ms=None,
            changes=until_closed(snapshot, _chunks(snapshot)),
        )

    # What the common part asks for.

    def _pending_rows(self) -> dict[bytes, bytes | None]:
        return self._rows.copy()

    def _progress_rows(self, rows: SortedRows) -> dict[bytes, bytes | None]:
        return {}

    def _forget_pending(self, *, committed: bool) -> None:
        self._buffer = WriteBuffer()
        self._rows = self._buffer.rows

    def _close_pending(self, closed: ClosedRows) -> None:
        self._rows = closed


def _chunks(reader: EngineReader) -> Iterator[Changes]:
    """Yield the rows of *reader*."""
    rows = reader.scan(DATA, HISTORY)
    count = FIRST_CHUNK_ROWS
    while True:
        keys: list[bytes] = []
        values: list[bytes] = []
        add_key, add_value = keys.append, values.append
        for key, value in islice(rows, count):
            add_key(key[1:])
            add_value(value)
        if not keys:
            return
        count = next_chunk_rows(len(keys), sum(map(len, values)))
        yield Changes(keys, values)
