"""The session store over an engine, and its facades: rows whose time is the session's end."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import ClassVar, cast

from statestores.semantics.every_kind.arguments import (
    MAX_TIME_MS,
    check_key,
    check_key_range,
    check_keys,
    check_lengths,
    check_session,
    check_sessions,
    check_time,
    check_time_range,
    check_value,
    check_values,
    isolation_of,
)
from statestores.semantics.every_kind.engine_store import FEW_ROWS
from statestores.semantics.retained.checked_changes import times_of
from statestores.semantics.retained.reads import (
    CommittedRetained,
    RetainedReads,
    UncommittedRetained,
)
from statestores.semantics.retained.rows import (
    RetainedRows,
    Row,
    pack_suffix_and_number,
    unpack_times_from,
)
from statestores.semantics.retained.session_cache import Found, SessionCache
from statestores.semantics.retained.store import EngineRetainedStore
from statestores.semantics.rows.closed_rows import ClosedRows
from statestores.semantics.rows.layout import DATA
from statestores.semantics.rows.row_cache import DEFAULT_READ_CACHE_BYTES
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine
from statestores.spi.records import Changes, SessionRecord, new_tuple
from statestores.spi.session_specification import Session
from statestores.spi.stores.session import ReadOnlySessionStore, SessionStore
from statestores.spi.stores.store import Isolation, Values
from statestores.spi.values import as_list

_TIMES_BYTES = 16
"""The end and the start of a session, at the end of the key of its row."""


class SessionReads(RetainedReads, ReadOnlySessionStore[bytes, bytes]):
    """The reads of a session store, for the owner and for facades alike."""

    def fetch_session(self, key: bytes, start_ms: int, end_ms: int) -> bytes | None:
        check_key(key)
        check_session(start_ms, end_ms)
        return self._visible_value(self._rows.data_key(key, end_ms, start_ms), end_ms)

    def fetch_many(
        self, keys: Values[bytes], starts_ms: Values[int], ends_ms: Values[int]
    ) -> list[bytes | None]:
        key_list = as_list("keys", keys)
        starts, ends = as_list("starts_ms", starts_ms), as_list("ends_ms", ends_ms)
        check_lengths(keys=key_list, starts_ms=starts, ends_ms=ends)
        check_keys(key_list)
        check_sessions(starts, ends)
        return self._visible_values(key_list, self._rows.data_keys(key_list, ends, starts), ends)

    def find_sessions(
        self,
        key: bytes,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[SessionRecord[bytes, bytes]]:
        if type(key) is not bytes:
            check_key(key)
        if (
            type(earliest_end_ms) is not int
            or type(latest_start_ms) is not int
            or not 0 <= earliest_end_ms <= MAX_TIME_MS
            or not 0 <= latest_start_ms <= MAX_TIME_MS
        ):
            _check_overlap(earliest_end_ms, latest_start_ms)
        return self.count_iterator(
            self._records_of(key, earliest_end_ms, latest_start_ms, reverse=reverse)
        )

    def _records_of(
        self,
        key: bytes,
        earliest_end_ms: int | None,
        latest_start_ms: int | None,
        *,
        reverse: bool,
    ) -> Generator[SessionRecord[bytes, bytes], None, None]:
        """Return what `find_sessions` yields; the arguments but *reverse* were checked."""
        rows = self._visible_rows_of(key, earliest_end_ms, None, reverse=reverse)
        return self._records(rows, latest_start_ms, key)

    def find_all_sessions(
        self,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[SessionRecord[bytes, bytes]]:
        check_key_range(first_key, last_key)
        _check_overlap(earliest_end_ms, latest_start_ms)
        rows = self._visible_rows(first_key, last_key, earliest_end_ms, None, reverse=reverse)
        key = first_key if first_key == last_key else None
        return self.count_iterator(self._records(rows, latest_start_ms, key))

    def find_sessions_by_end(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[SessionRecord[bytes, bytes]]:
        check_time_range(first_ms, last_ms)
        check_key_range(first_key, last_key)
        rows = self._visible_rows(first_key, last_key, first_ms, last_ms, reverse=reverse)
        return self.count_iterator(self._records(rows, None))

    def _records(
        self, rows: Iterable[Row], latest_start_ms: int | None, key: bytes | None = None
    ) -> Generator[SessionRecord[bytes, bytes], None, None]:
        """Yield those of *rows* that start by *latest_start_ms*, as long as the store is open.

        They are of *key* if it is given.
        """
        owner, key_of, new, times_of_row = (
            self._owner,
            self._rows.key_of,
            new_tuple,
            unpack_times_from,
        )
        latest_ms = MAX_TIME_MS if latest_start_ms is None else latest_start_ms
        record = cast("type[SessionRecord[bytes, bytes]]", SessionRecord)
        for data_key, value in rows:
            if not owner._open:  # noqa: SLF001  # `is_open` is a call, for each row
                owner.check_open()
            end_ms, start_ms = times_of_row(data_key, -_TIMES_BYTES)
            if start_ms <= latest_ms:
                yield new(record, (key or key_of(data_key), start_ms, end_ms, value))
        owner.check_open()


def _check_overlap(earliest_end_ms: object, latest_start_ms: object) -> None:
    """Accept the bounds of a search, each of which is a time or ``None``.

    Raises:
        InvalidTypeError, InvalidArgumentError: One is neither.
    """
    if earliest_end_ms is not None:
        check_time("earliest_end_ms", earliest_end_ms)
    if latest_start_ms is not None:
        check_time("latest_start_ms", latest_start_ms)


class CommittedSessions(CommittedRetained, SessionReads):
    """A session store as its last commit left it."""


class UncommittedSessions(UncommittedRetained, SessionReads):
    """A session store with the writer's pending sessions."""


class EngineSessionStore(EngineRetainedStore, SessionReads, SessionStore[bytes, bytes]):
    """A session store of bytes over any engine."""

    _times_bytes: ClassVar[int] = _TIMES_BYTES

    def __init__(
        self,
        engine: Engine,
        specification: Session[bytes, bytes],
        durability: Durability,
        cache_bytes: int = DEFAULT_READ_CACHE_BYTES,
        memory_bytes: int = DEFAULT_READ_CACHE_BYTES,
    ) -> None:
        """Keep sessions of keys that are searched in up to *cache_bytes*.

        In *memory_bytes* it remembers names of rows.
        """
        rows = RetainedRows(has_number=True)
        retention_ms = specification.retention_ms
        self._cache = SessionCache(cache_bytes)
        super().__init__(engine, specification, durability, rows, retention_ms, memory_bytes)
        self._cached = self._cache.by_key

    # Writes.

    def put(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> bool:
        if type(key) is not bytes:
            check_key(key)
        if value is not None and type(value) is not bytes:
            check_value(value)
        if (
            type(start_ms) is not int
            or type(end_ms) is not int
            or not 0 <= start_ms <= end_ms <= MAX_TIME_MS
        ):
            check_session(start_ms, end_ms)
        # `_put_checked`, written out: its calls are a third of a put.
        if end_ms <= self._horizon:
            self.check_open()
            self._dropped += 1  # what is replayed comes by another way
            return False
        data_key = (
            DATA + key.replace(b"\x00", b"\x00\xff") + pack_suffix_and_number(0, end_ms, start_ms)
        )
        newest = self._cached.pop(key, None)  # before: an interrupt may come at any place
        self._pending[data_key] = value
        if newest is not None:
            self._cache.follow(key, newest, start_ms, end_ms, value)
        if end_ms > self._stream_time:
            self._advance_stream_time(end_ms)
        self._uncommitted_bytes += len(key) + (16 if value is None else 16 + len(value))
        self._puts += 1
        return True

    def put_many(
        self,
        keys: Values[bytes],
        starts_ms: Values[int],
        ends_ms: Values[int],
        values: Values[bytes | None],
    ) -> int:
        self.check_open()
        key_list, value_list = as_list("keys", keys), as_list("values", values)
        starts, ends = as_list("starts_ms", starts_ms), as_list("ends_ms", ends_ms)
        check_lengths(keys=key_list, starts_ms=starts, ends_ms=ends, values=value_list)
        check_keys(key_list)
        check_values(value_list)
        bounds = check_sessions(starts, ends)
        if len(key_list) <= FEW_ROWS:
            return sum(map(self.put, key_list, starts, ends, value_list))
        self._cache.drop(key_list)
        if bounds is None or not self._are_accepted(bounds):
            return sum(map(self._put_checked, key_list, starts, ends, value_list))
        joined = b"".join(key_list)
        data_keys = self._rows.data_keys(key_list, ends, starts, joined=joined)
        return self._put_rows(data_keys, value_list, bounds, len(joined))

    def remove(self, key: bytes, start_ms: int, end_ms: int) -> bool:
        return self.put(key, start_ms, end_ms, None)

    def _put_checked(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> bool:
        data_key = self._rows.data_key(key, end_ms, start_ms)
        return self._put(data_key, value, end_ms, len(key) + self._times_bytes)

    # Reads.

    def fetch_session(self, key: bytes, start_ms: int, end_ms: int) -> bytes | None:
        check_key(key)
        check_session(start_ms, end_ms)
        newest = self._cached.get(key)
        if newest is None or end_ms < newest[0] or end_ms <= self._horizon:
            return self._visible_value(self._rows.data_key(key, end_ms, start_ms), end_ms)
        for end, start, value in newest[1:]:
            if end == end_ms and start == start_ms:
                return value
        return None

    def find_sessions(
        self,
        key: bytes,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[SessionRecord[bytes, bytes]]:
        if (  # most searches are of sessions that are at hand, before an event is merged into them
            type(key) is bytes
            and key in self._cached
            and reverse is False
            and type(earliest_end_ms) is int
            and type(latest_start_ms) is int
            and 0 <= earliest_end_ms <= MAX_TIME_MS
            and 0 <= latest_start_ms <= MAX_TIME_MS
        ):
            newest = self._cached[key]
            low_ms = self._horizon + 1
            if earliest_end_ms > low_ms:  # noqa: PLR1730  # a call costs a tenth
                low_ms = earliest_end_ms
            if newest[0] <= low_ms:
                return self.count_iterator(self._found(key, newest[1:], low_ms, latest_start_ms))
        return super().find_sessions(key, earliest_end_ms, latest_start_ms, reverse=reverse)

    def _records_of(
        self,
        key: bytes,
        earliest_end_ms: int | None,
        latest_start_ms: int | None,
        *,
        reverse: bool,
    ) -> Generator[SessionRecord[bytes, bytes], None, None]:
        low_ms = self._horizon + 1
        if earliest_end_ms is not None and earliest_end_ms > low_ms:
            low_ms = earliest_end_ms
        latest_ms = MAX_TIME_MS if latest_start_ms is None else latest_start_ms
        newest = self._cached.get(key)
        if newest is not None and newest[0] <= low_ms and reverse is False:
            return self._found(key, newest[1:], low_ms, latest_ms)
        rows = self._visible_rows_of(key, earliest_end_ms, None, reverse=reverse)
        if reverse or not isinstance(rows, list) or not self._cache.takes_next():
            return self._records(rows, latest_start_ms, key)
        sessions = []
        for data_key, value in rows:
            end_ms, start_ms = unpack_times_from(data_key, -_TIMES_BYTES)
            sessions.append((end_ms, start_ms, value))
        self._cache.keep(key, low_ms, sessions)
        return self._found(key, sessions, low_ms, latest_ms)

    def _found(
        self, key: bytes, sessions: Iterable[Found], low_ms: int, latest_ms: int
    ) -> Generator[SessionRecord[bytes, bytes], None, None]:
        """Yield those of *sessions* that end from *low_ms* on and start by *latest_ms*.

        As long as the store is open.
        """
        for end_ms, start_ms, value in sessions:
            if not self._open:
                self.check_open()
            if end_ms >= low_ms and start_ms <= latest_ms:
                yield new_tuple(SessionRecord, (key, start_ms, end_ms, value))
        if not self._open:
            self.check_open()

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlySessionStore[bytes, bytes]:
        self.check_open()
        if isolation_of(isolation) is Isolation.READ_COMMITTED:
            return CommittedSessions(self, self._engine, self._rows, self._retention_ms)
        return UncommittedSessions(
            self, self._engine, self._rows, self._retention_ms, self.uncommitted_rows
        )

    # Changes.

    def replay(self, changes: Changes) -> None:
        self._cache.forget()
        super().replay(changes)

    def load(self, changes: Changes, *, stream_time_ms: int | None = None) -> None:
        self._cache.forget()
        super().load(changes, stream_time_ms=stream_time_ms)

    def _changes(
        self,
        keys: list[bytes],
        values: Sequence[bytes | None],
        times_ms: list[int],
        numbers: list[int],
    ) -> Changes:
        return Changes(keys, values, numbers, end_times_ms=times_ms)

    def _checked_columns(
        self, changes: Changes
    ) -> tuple[list[bytes], list[bytes | None], list[int], list[int]]:
        keys, values = as_list("keys", changes.keys), as_list("values", changes.values)
        check_keys(keys)
        check_values(values)
        starts = times_of("times_ms", self.name, changes.times_ms)
        ends = times_of("end_times_ms", self.name, changes.end_times_ms)
        check_lengths(keys=keys, values=values, times_ms=starts, end_times_ms=ends)
        check_sessions(starts, ends)
        return keys, values, ends, starts

    def _take_note_of(self, numbers: list[int]) -> None:
        """Do nothing: the numbers are starts."""

    # What the common part asks for.

    def _forget_cached(self) -> None:
        super()._forget_cached()
        self._cache.forget()

    def _close_pending(self, closed: ClosedRows) -> None:
        super()._close_pending(closed)
        self._cache.forget()
