"""One sweep of a timestamped store, step by step: what it deletes, looks at, and remembers."""

import pytest

import statestores as ss
from statestores.semantics.expiry.due_rows import DELETIONS_PER_COMMIT, DELETIONS_PER_WRITE
from statestores.semantics.rows.layout import DATA
from statestores.semantics.rows.progress import NEVER, Progress
from statestores.semantics.timestamped.expiry import (
    LEAST_FACTOR,
    MOST_FACTOR,
    NOTHING_EXPIRES_MS,
    Expiry,
    Sweep,
)
from statestores.semantics.timestamped.rows import stamped_row
from statestores.spi import Durability, TtlClock
from statestores_memory import MemoryEngine

PLENTY = 1 << 20
TTL_MS = 320
BESIDES = 32
"""Rows that a commit may look at, whatever it writes."""

Rows = dict[bytes, bytes | None]


def engine_with(times: dict[bytes, int | None]) -> MemoryEngine:
    """Return an engine with rows of these times."""
    engine = MemoryEngine.open("")
    rows: Rows = {DATA + key: stamped_row(b"v", time_ms) for key, time_ms in times.items()}
    engine.apply(rows, Durability.PROCESS_CRASH)
    return engine


def numbered(count: int, time_ms: int) -> dict[bytes, int | None]:
    """Return so many keys of one time."""
    return {b"%04d" % number: time_ms for number in range(count)}


def written(count: int) -> Rows:
    """Return so many pending rows, of keys below those of the engine."""
    return {DATA + b"!%04d" % number: stamped_row(b"v", 9_000) for number in range(count)}


def deleted(rows: Rows) -> list[bytes]:
    """Return the keys of what *rows* delete."""
    return [key[1:] for key, row in rows.items() if row is None]


def begun() -> Progress:
    """Return the progress of a store that knows nothing of its rows."""
    return Progress(floor_ms=0, pass_floor_ms=NEVER, cursor=DATA)


@pytest.mark.spec("TTL-8")
def test_a_commit_looks_at_three_rows_for_each_that_it_writes_and_at_some_more() -> None:
    """And goes on where it was with the next; what was found expired goes."""
    engine, sweep, progress = engine_with(numbered(500, 5)), Sweep(TTL_MS, 0), begun()
    rows = written(20)
    sweep.run(engine, rows, progress, 1_000)
    assert len(deleted(rows)) == MOST_FACTOR * 20 + BESIDES
    assert progress.cursor == DATA + b"%04d" % (MOST_FACTOR * 20 + BESIDES)
    again = len(rows)
    sweep.run(engine, rows, progress, 1_000)  # nothing was written since
    assert len(rows) == again
    rows |= {DATA + b"?%04d" % number: b"" for number in range(30)}
    sweep.run(engine, rows, progress, 1_000)
    assert len(deleted(rows)) == MOST_FACTOR * 20 + BESIDES + MOST_FACTOR * 30
    sweep.begin_commit()
    rows = written(20)
    sweep.run(engine, rows, progress, 1_000)

    assert len(deleted(rows)) == MOST_FACTOR * 20 + BESIDES


@pytest.mark.spec("TTL-8", "TTL-12")
def test_nothing_is_looked_at_below_the_floor() -> None:
    """At the floor there may be a row that has expired."""
    engine = engine_with(numbered(10, 5))
    for horizon_ms, found in [(4, 0), (5, 10), (6, 10)]:
        sweep, progress = Sweep(TTL_MS, 0), begun()
        progress.floor_ms = 5
        rows = written(40)
        sweep.run(engine, rows, progress, horizon_ms)

        assert len(deleted(rows)) == found
        assert (progress.floor_ms != 5) is (found > 0)


@pytest.mark.spec("TTL-5", "TTL-6", "TTL-12")
def test_a_walk_deletes_what_has_expired_and_is_not_pending() -> None:
    """One without a timestamp never has; and the floor is the lowest time of those that stay."""
    times = {b"a": 10, b"b": 11, b"c": None, b"d": 9, b"e": 30, b"f": 2, b"g": 12}
    engine, sweep, progress = engine_with(times), Sweep(TTL_MS, PLENTY), begun()
    rows = written(40) | {DATA + b"f": stamped_row(b"new", 50), DATA + b"g": stamped_row(b"n", 60)}
    sweep.run(engine, rows, progress, 10)

    assert deleted(rows) == [b"a", b"d"]
    assert rows[DATA + b"f"] == stamped_row(b"new", 50)
    assert (progress.floor_ms, progress.pass_floor_ms, progress.cursor) == (11, NEVER, DATA)
    assert sweep._due.is_complete
    known = {key for key in times if DATA + key in sweep._due}
    assert known == {b"b", b"e"}


@pytest.mark.spec("TTL-12")
def test_the_floor_of_a_pass_counts_once_the_pass_is_over() -> None:
    """Until then rows before the cursor are known, and those behind it are not."""
    times = numbered(200, 50) | {b"0003": 20, b"0190": 30}
    engine, sweep, progress = engine_with(times), Sweep(TTL_MS, PLENTY), begun()
    sweep.run(engine, written(20), progress, 10)
    assert (progress.floor_ms, progress.pass_floor_ms) == (0, 20)
    assert not sweep._due.is_complete
    assert DATA + b"0003" in sweep._due
    assert DATA + b"0190" not in sweep._due
    for _ in range(3):
        sweep.begin_commit()
        sweep.run(engine, written(20), progress, 10)

    assert (progress.floor_ms, progress.pass_floor_ms) == (20, NEVER)
    assert sweep._due.is_complete


@pytest.mark.spec("TTL-8")
def test_a_commit_below_the_floor_reads_no_row() -> None:
    """Of a store in which nothing has expired yet each commit read some."""
    engine, sweep, progress = engine_with(numbered(500, 5)), Sweep(TTL_MS, 0), begun()
    progress.floor_ms = 5
    sweep.run(engine, written(20), progress, 4)

    assert progress.cursor == DATA


@pytest.mark.spec("TTL-6")
def test_a_pass_that_was_begun_by_another_opening_is_none_of_this_one() -> None:
    """It has not met the rows before its cursor, and would never look for them again."""
    engine, sweep, progress = engine_with(numbered(200, 50)), Sweep(TTL_MS, PLENTY), begun()
    progress.cursor = DATA + b"0150"
    sweep.run(engine, written(20), progress, 10)
    assert (progress.cursor, sweep._due.is_complete) == (DATA, False)
    for _ in range(3):
        sweep.begin_commit()
        progress.floor_ms = 0
        sweep.run(engine, written(20), progress, 10)

    assert DATA + b"0000" in sweep._due


def test_what_is_found_decides_how_many_are_looked_at() -> None:
    """Where nothing expires it falls to one for each row written; what is found brings it back."""
    engine, sweep, progress = engine_with(numbered(64, 50)), Sweep(TTL_MS, 0), begun()
    for _ in range(40):
        progress.floor_ms = 0
        sweep.begin_commit()
        sweep.run(engine, written(64), progress, 10)
    assert sweep.rate.factor == LEAST_FACTOR
    share = sweep.rate._share
    progress.cursor, progress.floor_ms = DATA, 0
    sweep.begin_commit()
    rows = written(1_024)
    sweep.run(engine_with(numbered(2_000, 5)), rows, progress, 10)
    found = LEAST_FACTOR * 1_024 + BESIDES

    assert len(deleted(rows)) == found
    assert sweep.rate._share == share + 1_024 / 4_096 * (found / 1_024 - share)


def test_rows_that_are_known_go_two_for_each_row_that_is_written() -> None:
    """And some with each commit in any case, once; none is looked for then."""
    sweep, progress = Sweep(TTL_MS, PLENTY), begun()
    engine = engine_with({})
    sweep._due.begin_pass()
    sweep._due.learn({DATA + key: time_ms or 0 for key, time_ms in numbered(400, 5).items()})
    sweep._due.end_pass()
    rows = written(10)
    sweep.run(engine, rows, progress, 1_000)
    assert len(deleted(rows)) == DELETIONS_PER_COMMIT + DELETIONS_PER_WRITE * 10
    rows[DATA + b"one more"] = b""
    sweep.run(engine, rows, progress, 1_000)

    assert len(deleted(rows)) == DELETIONS_PER_COMMIT + DELETIONS_PER_WRITE * 11


@pytest.mark.spec("TTL-6")
def test_what_a_commit_has_written_is_remembered_by_its_time() -> None:
    """Once rows expire; what it has deleted is not, nor what has no timestamp any more."""
    for begins in (False, True):
        sweep = Sweep(TTL_MS, PLENTY)
        if begins:
            sweep._due.take({}, 0, 0)
        first: Rows = {
            b"\x02a": stamped_row(b"v", 1_000),
            b"\x02b": stamped_row(b"v", 1_040),
            b"\x02c": stamped_row(b"v", None),
            b"\x02d": None,
            b"\x02e": stamped_row(b"v", 999),
        }
        assert sweep.read_times(first) == 999
        sweep.end_commit(first)
        assert [key[1:] for key in first if key in sweep._due] == ([b"a", b"b", b"e"] * begins)
        second: Rows = {b"\x02a": None, b"\x02e": stamped_row(b"v", None)}
        assert sweep.read_times(second) == NEVER
        sweep.end_commit(second)
        taken = sweep._due.take({}, 5_000, 10)

        assert list(taken) == ([b"\x02b"] * begins)
        assert sweep._dated is None
        assert sweep._undated == []


def test_what_was_read_of_a_commit_that_failed_is_forgotten() -> None:
    """Its rows may not be there; and of a commit without rows that expire there are none."""
    sweep = Sweep(TTL_MS, PLENTY)
    sweep._due.take({}, 0, 0)
    sweep.read_times({b"\x02a": stamped_row(b"v", 5), b"\x02b": stamped_row(b"v", None)})
    assert (sweep._dated is None, sweep._undated) == (False, [b"\x02b"])
    sweep.forget()
    assert (sweep._dated, sweep._undated) == (None, [])
    sweep.read_times({b"\x02a": stamped_row(b"v", 5), b"\x02b": stamped_row(b"v", None)})
    sweep.read_times({b"\x02d": None})
    sweep.end_commit({b"\x02d": None})

    assert b"\x02a" not in sweep._due


@pytest.mark.spec("TTL-6")
def test_the_times_of_a_commit_are_those_of_its_rows() -> None:
    """In any order: each row goes into the bucket of its own, where they are far apart."""
    sweep = Sweep(TTL_MS, PLENTY)
    sweep._due.take({}, 0, 0)
    rows: Rows = {b"\x02%d" % time: stamped_row(b"v", time) for time in (9_000, 1_000, 5_000)}
    assert sweep.read_times(rows) == 1_000
    sweep.end_commit(rows)

    assert list(sweep._due.take({}, 1_100, 10)) == [b"\x021000"]
    assert list(sweep._due.take({}, 5_100, 10)) == [b"\x025000"]


@pytest.mark.spec("TTL-4")
def test_the_clock_of_an_opening_does_not_go_back() -> None:
    """What has expired stays so, whatever is done to the machine's clock."""
    times = iter([1_000, 400, 1_001, 0])
    specification = ss.TimestampedKeyValue("s", ttl_ms=100, ttl_clock=TtlClock.WALL)
    expiry = Expiry(specification, lambda: next(times))

    assert [expiry.horizon_ms(5) for _ in range(4)] == [900, 900, 901, 901]
    assert not expiry.follows_stream_time
    early = Expiry(specification, lambda: 0)
    assert early.now_ms() == 0


@pytest.mark.spec("TTL-5")
def test_the_horizon_is_the_stream_time_less_the_time_to_live() -> None:
    """Without one nothing expires, and no clock is asked."""
    event = Expiry(ss.TimestampedKeyValue("s", ttl_ms=100), None)
    never = Expiry(ss.TimestampedKeyValue("s"), None)

    assert (event.horizon_ms(5_000), event.follows_stream_time) == (4_900, True)
    assert (never.horizon_ms(5_000), never.follows_stream_time) == (NOTHING_EXPIRES_MS, False)
