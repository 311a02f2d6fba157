"""Timestamped stores whose values expire at the wrong time, in some reads only, or not at all."""

from collections.abc import Collection, Iterator, Mapping

from statestores.semantics.expiry.due_rows import Dated, DueRows
from statestores.semantics.expiry.wall_clock import Clock
from statestores.semantics.rows.layout import DATA
from statestores.semantics.rows.progress import Progress
from statestores.semantics.rows.row_cache import DEFAULT_READ_CACHE_BYTES
from statestores.semantics.timestamped.content import pending_columns
from statestores.semantics.timestamped.expiry import NOTHING_EXPIRES_MS, Expiry, Sweep
from statestores.semantics.timestamped.facades import UncommittedTimestamped
from statestores.semantics.timestamped.rows import living_pairs, unpack_timestamp
from statestores.semantics.timestamped.store import EngineTimestampedKeyValueStore
from statestores.spi import (
    Changes,
    CommittedContent,
    Durability,
    Engine,
    Isolation,
    ReadOnlyTimestampedKeyValueStore,
    TimestampedKeyValue,
    TimestampedValue,
    TtlClock,
)
from statestores.spi.engine import EngineReader
from statestores_mutants.registry import mutant

Facade = ReadOnlyTimestampedKeyValueStore[bytes, bytes]
Pairs = Iterator[tuple[bytes, TimestampedValue[bytes]]]
Rows = dict[bytes, bytes | None]


class _OtherRule(EngineTimestampedKeyValueStore):
    """Judges and sweeps in another way."""

    expiry: type[Expiry] = Expiry
    sweep: type[Sweep] = Sweep

    def __init__(
        self,
        engine: Engine,
        specification: TimestampedKeyValue[bytes, bytes],
        durability: Durability,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(engine, specification, durability, clock)
        self._expiry = self.expiry(specification, clock)
        self._sweep = self.sweep(specification.ttl_ms, DEFAULT_READ_CACHE_BYTES)


class _OneLater(Expiry):
    __slots__ = ()

    def horizon_ms(self, stream_time_ms: int) -> int:
        return max(NOTHING_EXPIRES_MS, super().horizon_ms(stream_time_ms) - 1)


@mutant("TTL-1", "TTL-2")
class ValuesLiveOneMillisecondLonger(_OtherRule):
    """A value lives as long as `timestamp + ttl` has not been exceeded.

    Imitates `<` in the place of `<=`, as one of Flink's two state backends had it.
    """

    expiry = _OneLater


class _OneEarlier(Expiry):
    __slots__ = ()

    def horizon_ms(self, stream_time_ms: int) -> int:
        return super().horizon_ms(stream_time_ms) + (self.ttl_ms is not None)


@mutant("TTL-1", "TTL-2")
class ValuesLiveOneMillisecondLess(_OtherRule):
    """A value has expired one millisecond before its time to live is over.

    Imitates the same mistake on the other side.
    """

    expiry = _OneEarlier


class _Forgetful(Expiry):
    __slots__ = ()

    def now_ms(self) -> int:
        return self._clock()


@mutant("TTL-4")
class TheWallClockGoesBack(_OtherRule):
    """When the machine's clock is set back, expired values are there again.

    Imitates `time.time()` wherever the time is needed.
    """

    expiry = _Forgetful


class _Other(Expiry):
    __slots__ = ()

    def horizon_ms(self, stream_time_ms: int) -> int:
        if self.ttl_ms is None or self.clock is TtlClock.WALL:
            return super().horizon_ms(stream_time_ms)
        return max(NOTHING_EXPIRES_MS, self.now_ms() - self.ttl_ms)


@mutant("TTL-1", "TTL-2")
class EventTimeIsTheWallClock(_OtherRule):
    """Values that expire by event time are judged by the machine's clock.

    Imitates Flink before FLINK-12005, whose time to live knew processing time only.
    """

    expiry = _Other


@mutant("TTL-2")
class ExpiredRowsShowInReverse(EngineTimestampedKeyValueStore):
    """Reverse ranges and prefix scans give what has expired.

    Imitates two code paths of which one has the filter.
    """

    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Pairs:
        pairs = super()._scan(start, stop, reverse=reverse)
        if not reverse:
            return pairs
        rows = self._engine.scan(start, stop, reverse=True)
        return living_pairs(rows, NOTHING_EXPIRES_MS) if not self._rows else pairs


@mutant("TTL-2")
class PrefixScansForgetExpiry(EngineTimestampedKeyValueStore):
    """A prefix scan gives the keys that have expired and are still stored.

    Imitates faust-streaming's iteration, which does not look at what `get` looks at.
    """

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Pairs:
        pairs = super().prefix_scan(prefix, reverse=reverse)
        if self._rows:
            return pairs
        rows = self._engine.scan(DATA + prefix, DATA + prefix + b"\xff" * 9, reverse=reverse)
        return living_pairs(self.while_open(rows), NOTHING_EXPIRES_MS)


@mutant("TTL-2")
class PutIfAbsentSeesTheExpired(EngineTimestampedKeyValueStore):
    """`put_if_absent` takes a key that has expired for present, and puts nothing.

    Imitates a check of the row's existence, past the read that judges it.
    """

    def put_if_absent(
        self, key: bytes, value: bytes, timestamp_ms: int | None = None
    ) -> TimestampedValue[bytes] | None:
        if type(key) is bytes and type(value) is bytes and self.is_open:
            horizon = self._expiry.horizon_ms(self._stream_time)
            stored = self._rows.get(DATA + key) or self._engine.get(DATA + key)
            if stored is not None and 0 <= unpack_timestamp(stored)[0] <= horizon:
                return None
        return super().put_if_absent(key, value, timestamp_ms)


class _Behind(UncommittedTimestamped):
    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Pairs:
        owner = self._store
        assert isinstance(owner, EngineTimestampedKeyValueStore)
        rows, stream_time = owner.uncommitted_rows()
        behind = owner._progress.stream_time_ms  # noqa: SLF001
        self._uncommitted = lambda: (rows, min(stream_time, behind))
        try:
            return super()._scan(start, stop, reverse=reverse)
        finally:
            self._uncommitted = owner.uncommitted_rows


@mutant("TTL-2", "ROF-8")
class UncommittedFacadesExpireAtTheCommit(EngineTimestampedKeyValueStore):
    """A read-uncommitted facade iterates over what pending puts have made expire.

    Imitates pending rows that are shown without the time that they have moved.
    """

    def read_only(self, isolation: Isolation | str = Isolation.READ_COMMITTED) -> Facade:
        facade = super().read_only(isolation)
        if not isinstance(facade, UncommittedTimestamped):
            return facade
        return _Behind(self, self._engine, self._expiry, self.uncommitted_rows)


@mutant("TTL-3")
class ExpiredPutsAreIgnored(EngineTimestampedKeyValueStore):
    """A put whose timestamp has expired already leaves the older value in place.

    Imitates late records that are dropped, as windows drop them.
    """

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int | None = None) -> None:
        late = type(timestamp_ms) is int and 0 <= timestamp_ms <= self._expiry.horizon_ms(
            self._stream_time
        )
        if not (late and type(key) is bytes and type(value) is bytes and self.is_open):
            super().put(key, value, timestamp_ms)


@mutant("TTL-10")
class ContentHasWhatExpired(EngineTimestampedKeyValueStore):
    """`committed_content` gives rows that have expired.

    Imitates snapshots of Flink before 1.8, which kept expired state for ever (FLINK-10471).
    """

    def committed_content(self) -> CommittedContent:
        judging, self._expiry = self._expiry, Expiry(TimestampedKeyValue(self.name), None)
        try:
            return super().committed_content()
        finally:
            self._expiry = judging


class _Greedy(Sweep):
    __slots__ = ()

    def run(self, reader: EngineReader, rows: Rows, progress: Progress, horizon_ms: int) -> None:
        super().run(reader, rows, progress, horizon_ms)
        for row_key in list(rows):
            stored = reader.get(row_key)
            if stored is not None and 0 <= unpack_timestamp(stored)[0] <= horizon_ms:
                rows[row_key] = None


@mutant("TTL-6")
class SweepDeletesRefreshedKeys(_OtherRule):
    """A key that had expired and was put again is deleted by the commit's sweep.

    Imitates quixio/quix-streams PR 1129: the sweep looked at the stored row alone.
    """

    sweep = _Greedy


class _Blind(DueRows):
    __slots__ = ()

    def commit(
        self, rows: Mapping[bytes, bytes | None], dated: Dated | None, gone: Collection[bytes] = ()
    ) -> None:
        if dated is not None:
            times = zip(dated.keys, dated.times_ms(), strict=True)
            fresh = {key: time_ms for key, time_ms in times if key not in self}
            dated = dated._replace(keys=fresh, times_ms=fresh.values) if fresh else None
        super().commit(rows, dated, gone)


class _Remembering(Sweep):
    __slots__ = ()

    def __init__(self, ttl_ms: int | None, capacity_bytes: int) -> None:
        super().__init__(ttl_ms, capacity_bytes)
        self._due = _Blind(ttl_ms or 0, capacity_bytes)


@mutant("TTL-6")
class WhatIsRememberedIsNotBroughtUpToDate(_OtherRule):
    """A key that is put again is deleted when its first value would have expired.

    Imitates timers that are registered with each put, and not moved by the next one.
    """

    sweep = _Remembering


class _Broad(Sweep):
    __slots__ = ()

    def run(self, reader: EngineReader, rows: Rows, progress: Progress, horizon_ms: int) -> None:
        before = set(rows)
        super().run(reader, rows, progress, horizon_ms)
        for row_key in set(rows) - before:
            for sibling, _ in reader.scan(row_key, row_key + b"\xff" * 9):
                rows.setdefault(sibling, None)


@mutant("TTL-6")
class SweepDeletesLongerKeys(_OtherRule):
    """When a key is swept, the keys that it is a prefix of go with it.

    Imitates quixio/quix-streams #1122: a prefix deleted the keys of its siblings.
    """

    sweep = _Broad


class _Idle(Sweep):
    __slots__ = ()

    def run(self, reader: EngineReader, rows: Rows, progress: Progress, horizon_ms: int) -> None:
        """Do nothing."""


@mutant("TTL-5", "TTL-8")
class NothingIsEverSwept(_OtherRule):
    """Expired keys are hidden, and neither deleted nor announced.

    Imitates FLINK-40354: a time to live that silently never cleans.
    """

    sweep = _Idle


class _Unbounded(Sweep):
    __slots__ = ()

    def run(self, reader: EngineReader, rows: Rows, progress: Progress, horizon_ms: int) -> None:
        if progress.floor_ms <= horizon_ms:
            self._due.forget()
            self.rate.grant(0, besides=10**9)
        super().run(reader, rows, progress, horizon_ms)
        self.rate.spend(rests=True)


@mutant("TTL-8")
class OneCommitSweepsEverything(_OtherRule):
    """A commit looks at every row, however few it writes.

    Imitates a purge that one commit in a thousand pays for.
    """

    sweep = _Unbounded


@mutant("TTL-5")
class SweepIsNotAmongTheChanges(EngineTimestampedKeyValueStore):
    """The commit deletes expired rows that `pending_changes` has not named.

    Imitates RocksDB's compaction filter: rows vanish, and the changelog keeps them for ever.
    """

    def pending_changes(self) -> Changes:
        self.check_open()
        return pending_columns(self._rows, self._highest)


@mutant("TTL-7")
class ReplaySweeps(EngineTimestampedKeyValueStore):
    """A commit of replayed changes deletes what has expired in the replica.

    Imitates a standby that expires for itself, and differs once it is taken over.
    """

    def replay(self, changes: Changes) -> None:
        super().replay(changes)
        self._is_replayed = False


@mutant("TTL-1", "TTL-2")
class TimeZeroNeverExpires(EngineTimestampedKeyValueStore):
    """A value put at 0 is taken for one without a timestamp.

    Imitates `if not timestamp_ms`.
    """

    def get(self, key: bytes) -> TimestampedValue[bytes] | None:
        found = super().get(key)
        if found is None and type(key) is bytes:
            row = (
                self._rows[DATA + key] if DATA + key in self._rows else self._engine.get(DATA + key)
            )
            if row is not None and unpack_timestamp(row)[0] == 0:
                return TimestampedValue(row[8:], 0)
        return found
