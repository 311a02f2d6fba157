"""Commits of versions that fail or are in doubt, and what facades see of them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import statestores as ss
from statestores.errors import StorageError, StoreClosedError
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.rows.layout import DATA, HISTORY, PROGRESS_ROW
from statestores.semantics.versioned.rows import history_key, history_row, latest_row
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.spi.durability import Durability
from statestores.spi.engine import EngineSnapshot, WriteBatch
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, Moment
from statestores_memory import MemoryEngine

RETENTION_MS = 30
VERSIONED = ss.Versioned("s", history_retention_ms=RETENTION_MS)


class Watched(MemoryEngine):
    """An engine that has the last batch, counts its reads, and is interrupted by one call."""

    snapshots = 0
    gets = 0
    seeks = 0
    applied: WriteBatch = {}  # noqa: RUF012  # it is replaced, and not changed
    meanwhile: Callable[[], object] | None = None

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        """Apply *batch*, and keep it."""
        self.applied = dict(batch)
        super().apply(batch, durability)

    def get(self, key: bytes) -> bytes | None:
        """Read a row, and count."""
        self.gets += 1
        return super().get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Read rows, and count them."""
        self.gets += len(keys)
        return super().get_many(keys)

    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        """Find the first row, and count."""
        self.seeks += 1
        return super().first(start, stop)

    def snapshot(self) -> EngineSnapshot:
        """Freeze the content, and count; something else comes first."""
        self.snapshots += 1
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super().snapshot()


@pytest.fixture
def engine() -> Watched:
    """An engine in memory that is watched."""
    return Watched.open("unused")


@pytest.fixture
def faulty(engine: Watched) -> FaultyEngine:
    """The same, which fails on request."""
    return FaultyEngine(engine)


@pytest.fixture
def store(faulty: FaultyEngine) -> Iterator[EngineVersionedStore]:
    """A store on the engine that fails on request."""
    with open_on_engine(faulty, VERSIONED) as opened:
        assert isinstance(opened, EngineVersionedStore)
        yield opened


@pytest.mark.spec("COM-43", "VRS-4")
def test_stream_time_is_that_of_rows_which_are_there_although_their_commit_raised(
    store: EngineVersionedStore, faulty: FaultyEngine
) -> None:
    """Mutants took puts below the horizon for ones in time: no read could have found them."""
    faulty.plan(Fault(call="apply", at=1, moment=Moment.AFTER))
    with pytest.raises(StorageError):
        store.commit_rows(SortedRows(highest_ms=500), {})
    faulty.plan(None)

    assert store.stream_time_ms == 500
    assert not store.put(b"k", b"v", 499 - RETENTION_MS).accepted
    assert store.put(b"k", b"v", 500 - RETENTION_MS).accepted


@pytest.mark.spec("COM-43", "VRS-4")
def test_stream_time_is_that_of_rows_which_are_found_after_later_puts(
    store: EngineVersionedStore, faulty: FaultyEngine
) -> None:
    """Nobody could say at first whether they are there, and something was put meanwhile."""
    faulty.plan(Fault(at=1, moment=Moment.AFTER, lasting=True))
    with pytest.raises(StorageError):
        store.commit_rows(SortedRows(highest_ms=500), {})
    faulty.plan(None)
    store.put(b"k", b"v", 100)
    assert store.committed_offsets() == {}  # it asks

    assert store.stream_time_ms == 500


@pytest.mark.spec("COM-43")
def test_stream_time_is_that_of_the_puts_since_a_commit_that_raised(
    store: EngineVersionedStore, faulty: FaultyEngine
) -> None:
    """They wait for the next commit, and are later than what the engine has."""
    store.put(b"k", b"v", 100)
    faulty.plan(Fault(call="apply", at=1))
    with pytest.raises(StorageError):
        store.commit({})
    faulty.plan(None)

    assert store.stream_time_ms == 100
    assert not store.put(b"k", b"v", 99 - RETENTION_MS).accepted


@pytest.mark.spec("VRS-14", "COM-43")
def test_what_a_commit_that_raised_has_removed_is_not_owed_any_more(
    store: Any, faulty: FaultyEngine
) -> None:
    """It is there, so whoever waits for the removal need not commit once more."""
    row = (history_key(b"k", 0), history_row(1, b"v"))
    store.commit_rows(SortedRows(rows=[row], lowest_ms=1, highest_ms=500, removals=100), {})
    assert store.owes_removals
    store.put(b"clock", b"", 500)
    faulty.plan(Fault(call="apply", at=1, moment=Moment.AFTER))
    with pytest.raises(StorageError):
        store.commit({})
    faulty.plan(None)

    assert not store.owes_removals
    assert list(faulty.scan(HISTORY)) == []


@pytest.mark.spec("VRS-14")
def test_a_commit_owes_nothing_for_rows_that_never_got_there(
    store: EngineVersionedStore, faulty: FaultyEngine
) -> None:
    """A mutant had the commit after one of bulk rows that failed owe for them."""
    faulty.plan(Fault(call="apply", at=1))
    with pytest.raises(StorageError):
        store.commit_rows(SortedRows(lowest_ms=0, highest_ms=500, removals=7), {})
    faulty.plan(None)
    store.put(b"k", b"v", 5)
    store.commit({})

    assert not store.owes_removals


def test_one_row_to_be_removed_is_owed(store: EngineVersionedStore) -> None:
    """Whoever waits for the removal would have taken it for done."""
    store.commit_rows(SortedRows(lowest_ms=0, highest_ms=500, removals=1), {})

    assert store.owes_removals


def test_a_commit_that_moves_no_time_writes_no_progress(
    store: EngineVersionedStore, engine: Watched
) -> None:
    """Neither stream time nor what the vacuum goes by is another: one row less."""
    store.put(b"k", b"v", 100)
    store.commit({})
    assert PROGRESS_ROW in engine.applied
    store.put(b"l", b"v", 99)
    store.commit({})
    assert list(engine.applied) == [DATA + b"l"]
    store.commit_rows(SortedRows(rows=[(DATA + b"m", latest_row(98, b"v"))], highest_ms=98), {})
    assert list(engine.applied) == [DATA + b"m"]


@pytest.mark.spec("VRS-8")
def test_a_key_that_looks_like_a_row_which_expires_keeps_its_version(
    store: EngineVersionedStore,
) -> None:
    """A mutant had the cache say of it that there is none."""
    row = history_key(b"k", 0)
    alike = row.removeprefix(HISTORY)
    store.put(alike, b"v", 5)
    store.commit({})
    superseded = (row, history_row(1, b"old"))
    store.commit_rows(SortedRows(rows=[superseded], lowest_ms=1, highest_ms=500, removals=100), {})
    store.put(b"clock", b"", 500)
    store.commit({})

    assert row not in dict(store._engine.scan(HISTORY))
    assert store.get(alike) == (b"v", 5, None)


@pytest.mark.spec("COM-18", "COM-42")
def test_after_a_failed_truncation_no_version_expires_by_the_time_before(
    store: Any, faulty: FaultyEngine
) -> None:
    """The next commit ends it, and stores the stream time of what was put since."""
    store.put(b"old", b"v", 1_000)
    store.commit({})
    faulty.plan(Fault(call="apply", at=2))
    with pytest.raises(StorageError):
        store.truncate()
    faulty.plan(None)
    emptied_ms = store.stream_time_ms
    store.put(b"new", b"v", 5)
    store.commit({})

    assert (emptied_ms, store.stream_time_ms) == (None, 5)
    assert list(store.range_history()) == [(b"new", (b"v", 5, None))]


def test_a_latest_version_that_is_read_alone_takes_no_snapshot(
    store: EngineVersionedStore, engine: Watched
) -> None:
    """One row is of one commit anyway, also for a time from which on it is the latest."""
    store.put(b"k", b"v", 5)
    store.commit({})
    facade = store.read_only()
    before = engine.snapshots

    assert [facade.get(b"k", time_ms) for time_ms in (None, 5, 6)] == [(b"v", 5, None)] * 3
    assert engine.snapshots == before
    assert facade.get(b"k", 4) is None
    assert engine.snapshots == before + 1


@pytest.mark.spec("ROF-8")
def test_a_facade_looks_again_when_a_commit_comes_between(
    store: EngineVersionedStore, engine: Watched
) -> None:
    """Of what it has found until then it lets go the snapshot; it has neither version twice."""
    store.put(b"k", b"v", 5)
    engine.meanwhile = lambda: store.commit({})
    before = engine.snapshots

    assert store.read_only("read_uncommitted").get(b"k") == (b"v", 5, None)
    assert engine.snapshots == before + 2


@pytest.mark.spec("VRS-6", "MET-12")
def test_the_latest_of_several_pending_versions_moves_the_horizon(
    store: EngineVersionedStore,
) -> None:
    """A mutant went by the earliest, and found what the store itself finds no more."""
    store.put(b"k", b"1", 80)
    store.put(b"k", b"2", 100)
    store.commit({})
    store.put(b"other", b"", 95)
    store.put(b"other", b"", 120)

    for reader in (store, store.read_only("read_uncommitted")):
        assert [reader.get(b"k", time_ms) for time_ms in (89, 90)] == [None, (b"1", 80, 100)]


@pytest.mark.spec("COM-15", "ROF-3")
@pytest.mark.parametrize(
    "read",
    [
        lambda facades: facades[0].history(b"k"),
        lambda facades: facades[1].history(b"k"),
        lambda facades: facades[1].get(b"k"),
        lambda facades: facades[1].get_many([b"k"]),
    ],
    ids=["history", "history of pending ones", "get", "get_many"],
)
def test_facades_of_a_closed_store_refuse_in_its_name(
    store: EngineVersionedStore, read: Callable[[object], object]
) -> None:
    """Not in that of the engine, which nobody has opened."""
    facades = store.read_only(), store.read_only("read_uncommitted")
    store.close()

    with pytest.raises(StoreClosedError, match="the store 's' is closed; open it again"):
        read(facades)


@pytest.mark.spec("COM-15")
@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.put(b"k", b"v", 50),
        lambda store: store.put(b"k", b"late", 1),
        lambda store: store.put_many([], [], []),
        lambda store: store.delete(b"k", 1),
        lambda store: store.history(b"k"),
        lambda store: store.read_only(),
        lambda store: store.read_only("read_uncommitted"),
        lambda store: store.view().__enter__(),
        lambda store: store.pending_changes(),
        lambda store: store.load(ss.Changes([], [], [])),
        lambda store: store.replay(ss.Changes([], [], [])),
        lambda store: store.committed_content(),
    ],
)
def test_a_closed_store_refuses_in_its_own_name_whatever_it_is_asked(
    store: EngineVersionedStore, call: Callable[[object], object]
) -> None:
    """Also what is too late anyway, and what has no rows."""
    store.put(b"k", b"v", 100)
    store.commit({})
    store.close()

    with pytest.raises(StoreClosedError, match="the store 's' is closed; open it again"):
        call(store)


def test_stream_time_of_what_is_loaded_is_the_highest_that_is_known(
    store: EngineVersionedStore,
) -> None:
    """That of the content may be above all its versions, and below what the store has seen."""
    seen = []
    for time_ms, stream_time_ms in ((5, 500), (6, 400), (700, 600)):
        store.load(ss.Changes([b"k"], [b"v"], [time_ms]), stream_time_ms=stream_time_ms)
        seen.append(store.stream_time_ms)

    assert seen == [500, 500, 700]


@pytest.mark.spec("MET-6")
def test_puts_and_what_came_too_late_are_counted(store: EngineVersionedStore) -> None:
    """One by one and as columns: each row once, as what has become of it."""
    store.put(b"a", b"1", 100)
    store.put(b"a", b"2", 100)
    store.put(b"a", b"0", 69)
    store.put_many([b"a", b"b", b"c", b"d", b"e"], [b""] * 5, [69, 101, 70, 71, 60])
    counted = {metric.name: metric.value for metric in store.metrics()}

    assert counted["put-total"] == 2 + 2
    assert counted["dropped-records-total"] == 1 + 3


def test_a_put_in_time_reads_nothing(store: EngineVersionedStore, engine: Watched) -> None:
    """At stream time or above it is the newest of its key, pending or not."""
    store.put_many([b"k", b"l"], [b"v", b"v"], [100, 100])
    store.commit({})
    store._cache.forget()
    before = engine.gets, engine.seeks

    for key, time_ms in ((b"k", 100), (b"k", 100), (b"l", 101), (b"l", 101), (b"k", 102)):
        assert store.put(key, b"v", time_ms) == ss.PutResult(accepted=True, valid_to_ms=None)
    assert (engine.gets, engine.seeks) == before


def test_a_late_put_reads_the_latest_version_once(
    store: EngineVersionedStore, engine: Watched
) -> None:
    """It is cached: neither the next late put nor the commit reads it again."""
    store.put_many([b"k", b"l"], [b"v", b"v"], [100, 100])
    store.commit({})
    store._cache.forget()
    before = engine.gets

    assert store.put(b"k", b"late", 90).valid_to_ms == 100
    assert engine.gets == before + 1
    store._cache.keep(b"l", (100, b"v"))
    assert store.put(b"l", b"late", 90).valid_to_ms == 100
    assert engine.gets == before + 1
    store.commit({})
    assert engine.gets == before + 1


@pytest.mark.spec("VRS-15")
def test_at_the_end_of_time_a_late_version_ends_where_the_next_one_starts(
    store: EngineVersionedStore,
) -> None:
    """Before all others: what is stored of the next one lies at the beginning of the key's rows.

    A put would have found it before.
    """
    for before_ms in (20, 10):
        store.put(b"k", b"%d" % before_ms, MAX_TIME_MS - before_ms)
        store.commit({})
    store.replay(ss.Changes([b"k"], [b"late"], [MAX_TIME_MS - 30]))
    store.commit({})

    found = [(each.value, MAX_TIME_MS - (each.valid_to_ms or 0)) for each in store.history(b"k")]

    assert found[:2] == [(b"late", 20), (b"20", 10)]


def test_a_store_remembers_what_expires_in_as_many_bytes_as_it_was_given() -> None:
    """A mutant took the retention for the number of bytes."""
    for memory_bytes in (0, 1 << 20):
        with EngineVersionedStore(
            MemoryEngine.open("unused"),
            VERSIONED,
            Durability.PROCESS_CRASH,
            memory_bytes=memory_bytes,
        ) as store:
            for number in range(10):
                store.put(b"k", b"v", 20 * number)
                store.commit({})

            assert (history_key(b"k", 160) in store._vacuum._due) == (memory_bytes > 0)
        assert history_key(b"k", 160) not in store._vacuum._due  # nor once it is closed
