"""A store of values with a timestamp by itself: its puts, its commits, and how it is opened."""

from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError, InvalidTypeError, StoreClosedError
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.rows.layout import DATA, HISTORY, PROGRESS_ROW
from statestores.semantics.rows.progress import NEVER
from statestores.semantics.timestamped import opening
from statestores.semantics.timestamped.opening import read_sweep_progress
from statestores.semantics.timestamped.rows import stamped_row
from statestores.spi import Changes, TtlClock
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.faulty_engine import FaultyEngine, KeptOpen
from statestores_memory import MemoryEngine

TTL = ss.TimestampedKeyValue("s", ttl_ms=100)
PLAIN = ss.TimestampedKeyValue("s")
MANY = [b"clock %02d" % number for number in range(40)]
"""So many that their commit looks at other rows."""


@pytest.mark.spec("COM-16", "MET-6")
def test_puts_and_their_bytes_are_counted() -> None:
    """One by one and many at a time; the highest timestamp that a value has is stream time."""
    with open_on_engine(MemoryEngine.open(""), PLAIN) as store:
        seen = []

        def note() -> None:
            seen.append((store.uncommitted_bytes, store._puts, store.stream_time_ms))

        store.put(b"key", b"value", 5)
        note()
        store.put(b"key", None, 9)
        note()
        store.put_many([b"a", b"b", b"c"], [b"1", None, b"2"], [3, 50, 4])
        note()
        store.put_many([b"d", b"e", b"f"], [None, b"1", b"2"], [90, 7, 8])
        note()
        store.put_many([b"g"], [b"1"], [8])
        note()

        assert seen == [(16, 1, 5), (19, 2, 5), (40, 5, 5), (61, 8, 8), (71, 9, 8)]
        assert store._highest == (DATA + b"f", stamped_row(b"2", 8))


@pytest.mark.spec("TKV-3", "COM-19")
def test_a_timestamp_that_is_none_or_malformed_is_refused() -> None:
    """Where values do not expire by the wall clock, also where the key is there already."""
    malformed: Any = "5"
    for specification in (PLAIN, TTL):
        with open_on_engine(MemoryEngine.open(""), specification) as store:
            store.put(b"k", b"v", 5)
            with pytest.raises(InvalidTypeError, match="timestamp_ms must be an int"):
                store.put(b"k", b"v")
            for timestamp in (malformed, -1):
                with pytest.raises((InvalidTypeError, InvalidArgumentError)):
                    store.put_if_absent(b"k", b"v", timestamp)
                with pytest.raises((InvalidTypeError, InvalidArgumentError)):
                    store.put(b"k", None, timestamp)
            with pytest.raises(InvalidArgumentError):
                store.replay(Changes([b"k"], [b"v"]))
            assert store.stream_time_ms == 5


@pytest.mark.spec("TKV-3")
def test_by_the_wall_clock_a_put_has_the_time_of_its_call() -> None:
    """Of many those that have none; a deletion needs none."""
    wall = ss.TimestampedKeyValue("s", ttl_ms=100, ttl_clock=TtlClock.WALL)
    with open_on_engine(MemoryEngine.open(""), wall, clock=lambda: 700) as store:
        store.put(b"a", b"v")
        store.put_many([b"b", b"c", b"d"], [b"v", None, b"v"], [650, None, None])

        assert [store.get(key) for key in (b"a", b"b", b"c", b"d")] == [
            (b"v", 700),
            (b"v", 650),
            None,
            (b"v", 700),
        ]


def test_memory_is_for_rows_that_expire_or_for_rows_that_are_read() -> None:
    """Never both: where values expire, what is read is the engine's, unless it is pending."""
    with open_on_engine(MemoryEngine.open(""), TTL, read_cache_bytes=1_000) as store:
        assert store._cache._capacity_bytes == 0
    with open_on_engine(MemoryEngine.open(""), PLAIN, read_cache_bytes=1_000) as plain:
        assert plain._cache._capacity_bytes == 1_000


def test_a_plain_one_keeps_one_read_in_eight() -> None:
    """Keeping costs time, and most rows are not read again soon; one that is kept asks nobody."""
    engine = FaultyEngine(MemoryEngine.open(""))
    with open_on_engine(engine, PLAIN) as store:
        for number in range(24):
            store.put(b"%02d" % number, b"v", 1)
        store.commit({})
        for number in range(24):
            assert store.get(b"%02d" % number) == (b"v", 1)
        assert len(store._cached) == 3
        store.put(b"99", b"v", 1)
        store.commit({})
        assert len(store._cached) == 4  # it was read since the commit before
        store.put(b"98", b"v", 1)
        store.commit({})
        assert len(store._cached) == 4

    assert not store._cached


@pytest.mark.spec("TTL-6", "TTL-8")
def test_the_first_commit_of_an_opening_sweeps() -> None:
    """What a process that died has left expires with the next, whatever it writes."""
    engine = MemoryEngine.open("")
    with open_on_engine(KeptOpen(engine), TTL) as store:
        store.put(b"old", b"v", 1_000)
        store.put(b"clock", b"v", 1_050)
        store.commit({})
    with open_on_engine(KeptOpen(engine), TTL) as store:
        store.put_many(MANY, [b"v"] * 40, [2_000] * 40)
        store.commit({})

    assert [key for key, _ in engine.scan(DATA, HISTORY)] == [DATA + key for key in MANY]


@pytest.mark.spec("TTL-6", "COM-31")
def test_what_is_replayed_is_swept_by_nobody_else() -> None:
    """The changelog has the deletions; and after it a commit sweeps again."""
    engine = MemoryEngine.open("")
    with open_on_engine(engine, TTL) as store:
        store.put(b"old", b"v", 1_000)
        store.commit({})
        store.replay(Changes(MANY, [b"v"] * 40, timestamps_ms=[2_000] * 40))
        store.commit({})
        assert engine.get(DATA + b"old") is not None
        store.put_many(MANY, [b"v"] * 40, [2_001] * 40)
        store.commit({})

        assert engine.get(DATA + b"old") is None


@pytest.mark.spec("TTL-12", "VRS-14")
@for_each(
    ("highest_ms", "lowest_ms", "stream_ms", "floor_ms"),
    [(5_000, 4_000, 5_000, 900), (500, 400, 1_000, 400)],
)
def test_rows_past_the_writes_say_their_highest_and_lowest_time(
    highest_ms: int, lowest_ms: int, stream_ms: int, floor_ms: int
) -> None:
    """And what was higher, or lower, before stays so; where nothing expires no floor is kept."""
    for specification, floor in ((TTL, floor_ms), (PLAIN, NEVER)):
        engine = MemoryEngine.open("")
        with open_on_engine(engine, specification) as store:
            store.put(b"k", b"v", 1_000)
            store.put(b"l", b"v", 900)
            store.commit({})
            key, row = DATA + b"z", stamped_row(b"v", highest_ms)
            rows = SortedRows(rows=[(key, row)], highest_ms=highest_ms, lowest_ms=lowest_ms)
            store.commit_rows(rows, {})
            assert store.stream_time_ms == stream_ms
            stored = read_sweep_progress(engine)
            assert (stored.stream_time_ms, stored.floor_ms) == (stream_ms, floor)
            engine.apply({PROGRESS_ROW: None}, store._durability)
            store.commit_rows(SortedRows(rows=[(key, row)]), {})

            assert engine.get(PROGRESS_ROW) is None  # it would say nothing new


@pytest.mark.spec("TTL-8")
def test_a_sweep_goes_on_where_a_copy_says_that_it_was() -> None:
    """For who commits elsewhere: the same rows would be looked at with each commit."""
    with open_on_engine(MemoryEngine.open(""), TTL) as store:
        for number in range(300):
            store.put(b"%03d" % number, b"v", 1_000)
        store.commit({})
        assert store.sweep_cursor == DATA
        store.put_many(MANY, [b"v"] * 40, [2_000] * 40)
        store.pending_changes()
        cursor = store.sweep_cursor
        assert cursor > DATA
        store.rollback()
        assert store.sweep_cursor == DATA
        store._sweep._due.take({}, 0, 0)
        store._sweep._due.learn({DATA + b"x": 5})
        store.sweep_from(cursor)

        assert store.sweep_cursor == cursor
        assert DATA + b"x" not in store._sweep._due
    with pytest.raises(StoreClosedError, match="the store 's' is closed"):
        store.sweep_from(cursor)
    with pytest.raises(StoreClosedError, match="the store 's' is closed"):
        store.pending_changes()
    with pytest.raises(StoreClosedError, match="the store 's' is closed"):
        store.committed_content()
    with pytest.raises(StoreClosedError, match="the store 's' is closed"):
        store.range()


@pytest.mark.spec("TTL-13")
@pytest.mark.parametrize("count", [0, 1, 4, 5, 8, 9])
def test_rows_of_a_plain_store_get_their_headers_some_at_a_time(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, whether the last batch is full or not."""
    monkeypatch.setattr(opening, "_STAMPED_ROWS", 4)
    engine = MemoryEngine.open("")
    with open_on_engine(KeptOpen(engine), ss.KeyValue("s")) as store:
        for number in range(count):
            store.put(b"%d" % number, b"v")
        store.commit({})
    with open_on_engine(engine, PLAIN) as stamped:
        assert dict(stamped.range()) == {b"%d" % number: (b"v", None) for number in range(count)}


@pytest.mark.spec("TTL-5")
def test_a_value_that_has_expired_is_not_found_while_its_row_is_there() -> None:
    """Nobody has swept yet; of several that are asked for either, nor in a range."""
    engine = MemoryEngine.open("")
    with open_on_engine(engine, TTL) as store:
        store.put(b"old", b"v", 1_000)
        store.put(b"new", b"v", 1_001)
        store.commit({})
        store.put(b"clock", b"v", 1_100)

        assert engine.get(DATA + b"old") is not None
        assert [store.get(key) for key in (b"old", b"new")] == [None, (b"v", 1_001)]
        assert store.get_many([b"old", b"new"]) == [None, (b"v", 1_001)]
        assert [key for key, _ in store.range()] == [b"clock", b"new"]


@pytest.mark.spec("TTL-6", "COM-1")
def test_a_commit_that_writes_nothing_sweeps_nothing() -> None:
    """It may be that of a copy which follows a changelog: the deletions come from there."""
    engine = MemoryEngine.open("")
    with open_on_engine(KeptOpen(engine), TTL) as store:
        store.put(b"old", b"v", 1_000)
        store.put(b"clock", b"v", 2_000)
        store.commit({})
        for _ in range(5):
            store.commit({})

    assert engine.get(DATA + b"old") is not None


def test_a_commit_has_the_row_of_the_progress_when_it_says_something_new() -> None:
    """One at the same stream time writes none."""
    engine = MemoryEngine.open("")
    with open_on_engine(engine, PLAIN) as store:
        store.put(b"k", b"v", 5)
        store.commit({})
        engine.apply({PROGRESS_ROW: None}, store._durability)
        store.put(b"k", b"w", 5)
        store.commit({})

        assert engine.get(PROGRESS_ROW) is None
