"""Stores that are right for short keys, small times and few puts, and wrong beyond them.

A model that draws few keys and small times, so that they meet, misses most of them. Relations find
them: the same workload with longer keys, later times or other numbers must come out the same.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Any, ClassVar

from statestores.semantics.retained.rows import RetainedRows, Row
from statestores.semantics.retained.session import EngineSessionStore
from statestores.semantics.retained.window import EngineWindowStore
from statestores.semantics.timestamped.rows import unpack_timestamp
from statestores.semantics.timestamped.store import EngineTimestampedKeyValueStore
from statestores.spi import (
    Changes,
    Durability,
    Engine,
    SessionRecord,
    TimestampedValue,
    Window,
    WindowRecord,
)
from statestores_mutants.registry import mutant
from statestores_mutants.zoo.session import CalledPuts as CalledSessionPuts
from statestores_mutants.zoo.window import CalledPuts

_LONG_BYTES = 255
_FOUR_BYTES = 0xFFFF_FFFF
_AT_THE_END_MS = 2**62 + 2**20
"""Times from here on are left alone: tests of the end of time find what is wrong there."""


def _as_double(time_ms: int) -> int:
    """Return what is left of a time that was a floating-point number on its way."""
    return int(float(time_ms)) if time_ms < _AT_THE_END_MS else time_ms


class _CutKeys(RetainedRows):
    """Rows of which long keys are cut."""

    __slots__ = ()

    def data_key(self, key: bytes, time_ms: int, number: int = 0) -> bytes:
        return super().data_key(key[:_LONG_BYTES], time_ms, number)

    def bounds(
        self, first_key: bytes | None, last_key: bytes | None, first_ms: int, last_ms: int
    ) -> tuple[bytes, bytes]:
        first, last = (key and key[:_LONG_BYTES] for key in (first_key, last_key))
        return super().bounds(first, last, first_ms, last_ms)


class _TurnedKeys(RetainedRows):
    """Rows of which long keys are stored backward."""

    __slots__ = ()

    def data_key(self, key: bytes, time_ms: int, number: int = 0) -> bytes:
        return super().data_key(_turned(key), time_ms, number)

    def key_of(self, data_key: bytes) -> bytes:
        return _turned(super().key_of(data_key))

    def bounds(
        self, first_key: bytes | None, last_key: bytes | None, first_ms: int, last_ms: int
    ) -> tuple[bytes, bytes]:
        first, last = (key and _turned(key) for key in (first_key, last_key))
        return super().bounds(first, last, first_ms, last_ms)


def _turned(key: bytes) -> bytes:
    return key[::-1] if len(key) > _LONG_BYTES else key


class _ShortNumbers(RetainedRows):
    """Rows with numbers of four bytes."""

    __slots__ = ()

    def data_key(self, key: bytes, time_ms: int, number: int = 0) -> bytes:
        return super().data_key(key, time_ms, number & _FOUR_BYTES)


@mutant("SES-2", "SES-11", "SES-13")
class LongSessionKeysAreCut(CalledSessionPuts):
    """Of a key of a session, the first 255 bytes are stored.

    Imitates a column of type `VARCHAR(255)` in a database that cuts instead of refusing.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._rows = _CutKeys(has_number=True)


@mutant("WIN-11", "WIN-12")
class LongWindowKeysLoseTheirOrder(EngineWindowStore):
    """Windows of keys of more than 255 bytes are found, but not in the order of their keys.

    Imitates keys that are replaced by a hash when they do not fit into a page.
    """

    def __init__(
        self, engine: Engine, specification: Window[bytes, bytes], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        self._rows = _TurnedKeys(has_number=specification.retain_duplicates)


@mutant("KVS-7", "KVS-9")
class RangesOfLongKeysAreCut(EngineTimestampedKeyValueStore):
    """A range or prefix scan compares the first 255 bytes of its bounds with keys.

    Imitates an index on the prefix of a column, whose result nobody filters again.
    """

    def _scan(
        self, start: bytes, stop: bytes, *, reverse: bool
    ) -> Iterator[tuple[bytes, TimestampedValue[bytes]]]:
        return super()._scan(start[:_LONG_BYTES], stop[:_LONG_BYTES], reverse=reverse)


@mutant("WIN-6", "WIN-21")
class SequencesAreOfFourBytes(EngineWindowStore):
    """The number of a retained duplicate begins anew at 2^32.

    Imitates Kafka's `seqnum`, an `int` that wraps: later values come before earlier ones.
    """

    def __init__(
        self, engine: Engine, specification: Window[bytes, bytes], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        if specification.retain_duplicates:
            self._rows = _ShortNumbers(has_number=True)


@mutant("WIN-2", "WIN-3", "WIN-8")
class WindowStartsAreDoubles(CalledPuts):
    """The start of a window loses its last bits above 2^53.

    Imitates times that went through JSON, or through JavaScript.
    """

    def _put_checked(self, key: bytes, value: bytes | None, start_ms: int) -> bool:
        return super()._put_checked(key, value, _as_double(start_ms))


@mutant("WIN-3", "WIN-8", "WIN-15")
class WindowEndsAreDoubles(EngineWindowStore):
    """The end of a window is computed in floating point.

    Imitates `start / 1000 + size` and a factor of 1000 behind it.
    """

    def _records(
        self, rows: Iterable[Row], key: bytes | None = None
    ) -> Generator[WindowRecord[bytes, bytes], None, None]:
        for record in super()._records(rows, key):
            yield record._replace(end_ms=_as_double(record.end_ms))


@mutant("SES-3", "SES-8")
class SessionEndsAreDoubles(CalledSessionPuts):
    """The end of a session loses its last bits above 2^53.

    Imitates pandas, which turns a column of integers with a gap in it into floats.
    """

    def _put_checked(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> bool:
        return super()._put_checked(key, start_ms, _as_double(end_ms), value)


@mutant("SES-3", "SES-8", "SES-10")
class LatestStartIsOfFourBytes(EngineSessionStore):
    """The starts of sessions are compared by their lower four bytes.

    Imitates an `int` in the place of a `long`: Kafka's timestamps have not fitted since 1970.
    """

    def _records(
        self, rows: Iterable[Row], latest_start_ms: int | None, key: bytes | None = None
    ) -> Generator[SessionRecord[bytes, bytes], None, None]:
        if latest_start_ms is None or latest_start_ms >= _AT_THE_END_MS:
            yield from super()._records(rows, latest_start_ms, key)
            return
        for record in super()._records(rows, None, key):
            if record.start_ms & _FOUR_BYTES <= latest_start_ms & _FOUR_BYTES:
                yield record


@mutant("TKV-1", "TKV-5", "TTL-1")
class TimestampsAreDoubles(EngineTimestampedKeyValueStore):
    """A timestamp loses its last bits above 2^53.

    Imitates a score of Redis: sorted sets keep times as doubles.
    """

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int | None = None) -> None:
        given = timestamp_ms
        super().put(key, value, _as_double(given) if type(given) is int else given)


@mutant("TKV-1", "TKV-5", "TTL-1")
class MicrosecondsAreRecognized(EngineTimestampedKeyValueStore):
    """A timestamp of more than fifteen digits is taken for microseconds.

    Imitates libraries that guess the unit of a time from its size.
    """

    _GUESS: ClassVar[int] = 10**15

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int | None = None) -> None:
        given = timestamp_ms
        guessed = type(given) is int and self._GUESS <= given < _AT_THE_END_MS
        super().put(key, value, given // 1000 if guessed and given is not None else given)


@mutant("WIN-1", "WIN-3", "WIN-8", "WIN-15")
class WideWindowsLiveLonger(EngineWindowStore):
    """A retention of less than two windows is taken for two windows.

    Imitates Kafka's segments, of which there are always two at least: what a store shows depends on
    how its retention is divided.
    """

    def __init__(
        self, engine: Engine, specification: Window[bytes, bytes], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        self._retention_ms = max(specification.retention_ms, 2 * specification.window_size_ms)
        self._horizon = self._stream_time - self._retention_ms


@mutant("SES-3", "COM-20", "COM-40")
class LoadedSessionsLeaveTheDoorOpen(CalledSessionPuts):
    """After a load, late sessions are accepted until a put moves stream time.

    Imitates a restored task of Kafka Streams, whose observed stream time begins anew.
    """

    def load(self, changes: Changes, *, stream_time_ms: int | None = None) -> None:
        super().load(changes, stream_time_ms=stream_time_ms)
        self._is_restored = True

    def _put(self, data_key: bytes, value: bytes | None, time_ms: int, size: int) -> bool:
        if getattr(self, "_is_restored", False):
            horizon, self._horizon = self._horizon, -1
            accepted = super()._put(data_key, value, time_ms, size)
            if self._horizon < 0:
                self._horizon = horizon
            else:
                self._is_restored = False
            return accepted
        return super()._put(data_key, value, time_ms, size)


@mutant("COM-20", "WIN-21")
class LastChunkNumbersTheNextDuplicate(EngineWindowStore):
    """The next duplicate is numbered after those that were loaded last, not after the highest.

    Imitates a load that expects the order of the log and is given that of the keys.
    """

    def _take_note_of(self, numbers: list[int]) -> None:
        if numbers:
            self._next_sequence = max(numbers) + 1


@mutant("TTL-6", "TTL-2")
class RefreshBeforeTheMoveIsDeleted(EngineTimestampedKeyValueStore):
    """A key that was put again is deleted when time moved behind it in the same batch.

    Imitates a sweep that runs in the middle of a batch: what comes before it does not count.
    """

    def _pending_rows(self) -> dict[bytes, bytes | None]:
        batch = super()._pending_rows()
        if self._highest is None or not self._expires or self._is_replayed:
            return batch
        horizon = self._expiry.horizon_ms(self._stream_time)
        for row_key in list(self._rows):
            if row_key == self._highest[0]:
                break
            stored = self._engine.get(row_key)
            if stored is not None and 0 <= unpack_timestamp(stored)[0] <= horizon:
                batch[row_key] = None
        return batch
