"""The timestamped key-value store over an engine: a write buffer of rows with timestamps.

Invariant: replaying `pending_changes` reaches the same stream time, though only the last put of a
key is among them: the put that has moved it the furthest comes first, if it was overwritten.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.semantics.every_kind.arguments import (
    MAX_TIME_MS,
    check_changes,
    check_key,
    check_keys,
    check_lengths,
    check_reverse,
    check_time,
    check_values,
    highest_time,
    isolation_of,
    refuse_absent,
    refuse_put,
)
from statestores.semantics.every_kind.engine_store import FEW_ROWS
from statestores.semantics.every_kind.key_ranges import KeyRanges
from statestores.semantics.every_kind.store_state import kept_durability
from statestores.semantics.expiry.wall_clock import Clock
from statestores.semantics.rows.content_chunks import frozen_content
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.rows.row_cache import DEFAULT_READ_CACHE_BYTES, KEEP_ONE_IN, RowCache
from statestores.semantics.rows.write_buffer import WriteBuffer, merge, total_bytes
from statestores.semantics.timestamped.content import pending_columns, stamped_chunks
from statestores.semantics.timestamped.expiry import Expiry, Sweep
from statestores.semantics.timestamped.facades import CommittedTimestamped, UncommittedTimestamped
from statestores.semantics.timestamped.opening import prepare, read_sweep_progress
from statestores.semantics.timestamped.rows import (
    HEADER_BYTES,
    NO_TIMESTAMP,
    living,
    living_pairs,
    pack_timestamp,
    stamped_rows,
    stamped_values,
    unpack_timestamp,
)
from statestores.semantics.timestamped.swept_commits import SweptCommits
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine
from statestores.spi.records import Changes, TimestampedValue, new_tuple
from statestores.spi.specification import TimestampedKeyValue, TtlClock
from statestores.spi.stores.store import CommittedContent, Isolation, Values
from statestores.spi.stores.timestamped_key_value import (
    ReadOnlyTimestampedKeyValueStore,
    TimestampedKeyValueStore,
)
from statestores.spi.values import as_list


class EngineTimestampedKeyValueStore(
    KeyRanges[TimestampedValue[bytes]], SweptCommits, TimestampedKeyValueStore[bytes, bytes]
):
    """A key-value store of bytes and timestamps over any engine."""

    def __init__(
        self,
        engine: Engine,
        specification: TimestampedKeyValue[bytes, bytes],
        durability: Durability,
        clock: Clock | None = None,
        memory_bytes: int = DEFAULT_READ_CACHE_BYTES,
    ) -> None:
        """Take *engine* over; in *memory_bytes*, remember when rows expire.

        Where they do not, recently used rows are kept there.

        *clock* replaces the machine's, for tests.
        """
        durability = kept_durability(engine, durability)  # before `prepare` writes by it
        prepare(engine, specification, durability)
        super().__init__(engine, specification, durability)
        self._expiry = Expiry(specification, clock)
        self._expires = specification.ttl_ms is not None
        self._sweep = Sweep(specification.ttl_ms, memory_bytes)
        self._cache = RowCache(0 if self._expires else memory_bytes)
        self._cached = self._cache.rows
        self._gets_before = 0  # how often the engine had been asked by the last commit
        self._buffer = WriteBuffer()
        self._rows = self._buffer.rows
        self._next_progress = self._committing = replace(self._progress)
        self._stream_time = self._progress.stream_time_ms
        self._highest: tuple[bytes, bytes] | None = None
        self._is_replayed = False
        self._columns = None

    # Writes.

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int | None = None) -> None:
        if type(key) is not bytes:
            refuse_put(key, value)
        if value is None:
            if timestamp_ms is not None:
                check_time("timestamp_ms", timestamp_ms)
            self._rows[DATA + key] = None
            self._uncommitted_bytes += len(key)
            self._puts += 1
            return
        if timestamp_ms is None:
            timestamp_ms = self._time_of_the_call()
        if (
            type(value) is not bytes
            or type(timestamp_ms) is not int
            or not 0 <= timestamp_ms <= MAX_TIME_MS
        ):
            refuse_put(key, value, timestamp_ms)
        row = pack_timestamp(timestamp_ms) + value
        self._rows[DATA + key] = row
        if timestamp_ms > self._stream_time:
            self._stream_time = timestamp_ms
            self._highest = DATA + key, row
        self._uncommitted_bytes += len(key) + len(row)
        self._puts += 1

    def _time_of_the_call(self) -> int:
        """Return the timestamp of a put without one, where that has a meaning (TKV-3).

        Raises:
            InvalidTypeError: It has none.
        """
        if self._expires and self._expiry.clock is TtlClock.WALL:
            self.check_open()
            return self._expiry.now_ms()
        raise InvalidTypeError(
            f"timestamp_ms must be an int of milliseconds, got None; {self.name!r} does not expire "
            "by the wall clock, whose time it could be"
        )

    def put_if_absent(
        self, key: bytes, value: bytes, timestamp_ms: int | None = None
    ) -> TimestampedValue[bytes] | None:
        if type(value) is not bytes:
            refuse_absent(value)
        if timestamp_ms is None:
            timestamp_ms = self._time_of_the_call()
        check_time("timestamp_ms", timestamp_ms)
        present = self.get(key)
        if present is None:
            self.put(key, value, timestamp_ms)
        return present

    def put_many(
        self,
        keys: Values[bytes],
        values: Values[bytes | None],
        timestamps_ms: Values[int | None] | None = None,
    ) -> None:
        self.check_open()
        key_list, value_list = as_list("keys", keys), as_list("values", values)
        times = (
            [None] * len(key_list)
            if timestamps_ms is None
            else as_list("timestamps_ms", timestamps_ms)
        )
        check_lengths(keys=key_list, values=value_list, timestamps_ms=times)
        check_keys(key_list)
        check_values(value_list)
        if None in times:
            times = [
                self._time_of_the_call() if time_ms is None and value is not None else time_ms
                for value, time_ms in zip(value_list, times, strict=True)
            ]
        self._take(key_list, value_list, times)
        self._puts += len(key_list)

    def _take(
        self, keys: list[bytes], values: list[bytes | None], timestamps_ms: list[int | None]
    ) -> None:
        """Put columns whose keys and values are in order.

        Raises:
            InvalidTypeError, InvalidArgumentError: A timestamp is malformed; nothing is put.
        """
        stamps: list[Any] = timestamps_ms
        if None in stamps:
            stamps = [time_ms for time_ms in timestamps_ms if time_ms is not None]
        reached = highest_time("timestamp_ms", stamps)
        stamped = stamped_rows(values, timestamps_ms)
        row_keys = [DATA + key for key in keys]
        self._columns = None
        self._rows.update(zip(row_keys, stamped, strict=True))
        if reached > self._stream_time:
            place = timestamps_ms.index(reached)
            highest = stamped[place]
            if highest is not None:
                self._stream_time = reached
                self._highest = row_keys[place], highest
        if reached > self._stream_time:  # that of a deletion, which moves no time
            for row_key, row, stamp in zip(row_keys, stamped, timestamps_ms, strict=True):
                if row is not None and stamp is not None and stamp > self._stream_time:
                    self._stream_time = stamp
                    self._highest = row_key, row
        self._uncommitted_bytes += sum(map(len, keys)) + total_bytes(stamped)

    def _wall_clock_ms(self) -> int:
        return self._expiry.now_ms()

    def delete(self, key: bytes) -> TimestampedValue[bytes] | None:
        present = self.get(key)
        self.put(key, None)
        return present

    # Reads.

    def get(self, key: bytes) -> TimestampedValue[bytes] | None:
        if type(key) is not bytes:
            check_key(key)
        row_key = DATA + key
        if row_key in self._rows:
            row = self._rows[row_key]
        elif row_key in self._cached:
            row = self._cached[row_key]
        else:
            self._engine_gets = count = self._engine_gets + 1
            row = self._engine_get(row_key)
            if not count % KEEP_ONE_IN:
                self._cache.keep(row_key, row)
        if row is None:
            return None
        timestamp = unpack_timestamp(row)[0]
        if timestamp == NO_TIMESTAMP:
            timestamp = None
        elif self._expires and timestamp <= self._expiry.horizon_ms(self._stream_time):
            return None
        found: TimestampedValue[bytes] = new_tuple(
            TimestampedValue, (row[HEADER_BYTES:], timestamp)
        )
        return found

    def get_many(self, keys: Values[bytes]) -> list[TimestampedValue[bytes] | None]:
        key_list = as_list("keys", keys)
        if len(key_list) <= FEW_ROWS and not self._expires:  # else all at one time of the clock
            self.check_open()
            return list(map(self.get, key_list))
        found = self._rows_of(key_list)
        if not self._expires:
            return stamped_values(found)
        horizon = self._expiry.horizon_ms(self._stream_time)
        return [living(row, horizon) for row in found]

    def _rows_of(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the rows of *keys*: pending, cached, or the engine's."""
        check_keys(keys)
        return self.read_rows([DATA + key for key in keys])

    def _scan(
        self, start: bytes, stop: bytes, *, reverse: bool
    ) -> Iterator[tuple[bytes, TimestampedValue[bytes]]]:
        check_reverse(reverse)
        self.check_open()
        overlay = self._buffer.slice(start, stop, reverse=reverse) if self._rows else []
        stored = self._engine.scan(start, stop, reverse=reverse)
        rows = self.while_open(merge(stored, overlay, reverse=reverse))
        return living_pairs(rows, self._expiry.horizon_ms(self._stream_time))

    def approximate_num_entries(self) -> int:
        self.check_open()
        stored = self._engine.approximate_num_keys(DATA, HISTORY)
        return stored + sum(1 for row in self._rows.values() if row is not None)

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyTimestampedKeyValueStore[bytes, bytes]:
        self.check_open()
        if isolation_of(isolation) is Isolation.READ_COMMITTED:
            return CommittedTimestamped(self, self._engine, self._expiry, self.uncommitted_rows)
        return UncommittedTimestamped(self, self._engine, self._expiry, self.uncommitted_rows)

    def uncommitted_rows(self) -> tuple[dict[bytes, bytes | None], int]:
        """Return the pending rows, live, and their stream time: for facades."""
        return self._rows, self._stream_time

    # Changes.

    def pending_changes(self) -> Changes:
        self.check_open()
        self._sweep_into_pending()
        return pending_columns(self._rows, self._highest)

    def replay(self, changes: Changes) -> None:
        self.check_open()
        check_changes(changes, self.specification)
        if changes.timestamps_ms is None:
            raise InvalidArgumentError(
                f"the changes carry no timestamps, and {self.name!r} is a store of timestamped "
                "values"
            )
        keys, values = as_list("keys", changes.keys), as_list("values", changes.values)
        timestamps = as_list("timestamps_ms", changes.timestamps_ms)
        check_lengths(keys=keys, values=values, timestamps_ms=timestamps)
        check_keys(keys)
        check_values(values)
        self._take(keys, values, timestamps)
        self._is_replayed = True

    def load(self, changes: Changes, *, stream_time_ms: int | None = None) -> None:
        if stream_time_ms is not None:
            check_time("stream_time_ms", stream_time_ms)
        self.replay(changes)
        if stream_time_ms is not None and stream_time_ms > self._stream_time:
            self._stream_time = stream_time_ms

    def committed_content(self) -> CommittedContent:
        self.check_open()
        snapshot = self._engine.snapshot()
        stream_time = read_sweep_progress(snapshot).stream_time_ms
        horizon = self._expiry.horizon_ms(stream_time)
        return frozen_content(snapshot, stamped_chunks(snapshot, horizon), stream_time)
