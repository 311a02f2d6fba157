"""Rows that are remembered until they expire: they go in time, and only they."""

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

import statestores as ss
from statestores.errors import CommitConflictError, StorageError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.expiry.due_rows import ROW_OVERHEAD_BYTES, Dated, DueRows
from statestores.semantics.rows.layout import DATA, END, HISTORY
from statestores.semantics.timestamped.opening import read_sweep_progress
from statestores.semantics.timestamped.rows import stamped_row, unpack_timestamp
from statestores.spi import Durability, Engine, WriteBatch
from statestores_memory import MemoryEngine

LIFE_MS = 1_000
TTL = ss.TimestampedKeyValue("s", ttl_ms=LIFE_MS)
VERSIONED = ss.Versioned("s", history_retention_ms=LIFE_MS)
PLENTY = 1 << 20
SCARCE = 60 * (ROW_OVERHEAD_BYTES + 10)


@pytest.fixture
def engine() -> Engine:
    """An engine in memory."""
    return load_backend("memory").open("unused")


def rows(engine: Engine, start: bytes = DATA, stop: bytes = HISTORY) -> dict[bytes, bytes]:
    """Return the rows of a namespace."""
    return dict(engine.scan(start, stop))


def settled(store: Any, now_ms: int, commits: int = 60) -> int:
    """Commit a little at a time until what has expired is gone; return the last time."""
    for number in range(commits):
        now_ms += number % 2
        store.put(b"clock", b"", now_ms)
        store.commit({})
    return now_ms


def dated(times_ms: dict[bytes, int]) -> Dated:
    """Return rows with times."""
    times = times_ms.values()
    return Dated(times_ms, min(times), max(times), times_ms.values)


class TestDueRows:
    """The class by itself."""

    def test_a_row_is_taken_once_its_time_has_passed(self) -> None:
        """And with it the times of all its bucket."""
        due = DueRows(320, PLENTY)
        due.commit({b"a": b"", b"b": b""}, dated({b"a": 5, b"b": 300}))
        batch: dict[bytes, bytes | None] = {}

        assert due.take(batch, 4, 10) == []
        assert due.take(batch, 40, 10) == [b"a"]
        assert batch == {b"a": None}

    def test_a_commit_that_spans_some_buckets_goes_at_its_highest_time(self) -> None:
        """In a bucket with others it would wait for the end of that, and so for another commit."""
        due = DueRows(320, PLENTY)
        times = {b"%02d" % number: number for number in range(26, 66)}
        due.commit(dict.fromkeys(times, b""), dated(times))

        assert due.take({}, 64, 100) == []
        assert due.take({}, 65, 100) == sorted(times)

    def test_a_row_waits_for_the_end_of_its_bucket_and_no_longer(self) -> None:
        """A bucket is a 32nd of the lifetime, here ten milliseconds."""
        due = DueRows(320, PLENTY)
        due.commit({b"a": b"", b"b": b""}, dated({b"a": 5, b"b": 300}))

        assert due.take({}, 8, 10) == []
        assert due.take({}, 9, 10) == [b"a"]

    def test_rows_that_are_gone_are_not_known(self) -> None:
        """Their keys would be kept, and another row of the same key be taken for them."""
        due = DueRows(320, PLENTY)
        due.commit({b"a": b""}, dated({b"a": 5}))
        batch: dict[bytes, bytes | None] = {}
        due.take(batch, 100, 10)
        due.commit(batch, None, list(batch))

        assert b"a" not in due

    def test_long_keys_take_their_room(self) -> None:
        """What is remembered is bounded by bytes, and not by rows."""
        due = DueRows(320, SCARCE)
        keys = [b"%d" % number * SCARCE for number in range(2)]
        due.commit(dict.fromkeys(keys, b""), dated(dict.fromkeys(keys, 5)))

        assert [key in due for key in keys] == [False, False]

    def test_many_short_keys_take_their_room(self) -> None:
        """Each has an object and places in tables, however short it is."""
        due = DueRows(320, SCARCE)
        keys = [b"%03d" % number for number in range(500)]
        due.commit(dict.fromkeys(keys, b""), dated(dict.fromkeys(keys, 5)))

        assert keys[0] not in due
        assert not due.is_complete

    def test_what_is_taken_is_in_the_order_of_keys(self) -> None:
        """Engines that sort take it faster so; rows come in any order."""
        due = DueRows(320, PLENTY)
        for key in (b"c", b"a", b"b"):
            due.commit({key: b""}, dated({key: 5}))
        batch: dict[bytes, bytes | None] = {}

        assert due.take(batch, 100, 10) == [b"a", b"b", b"c"]
        assert list(batch) == [b"a", b"b", b"c"]

    def test_a_row_that_was_not_deleted_after_all_comes_again(self) -> None:
        """The batch of a commit that failed is made anew by a versioned store."""
        due = DueRows(320, PLENTY)
        due.commit({b"a": b""}, dated({b"a": 5}))

        due.take({}, 100, 10)
        due.commit({}, None)

        assert due.take({}, 100, 10) == [b"a"]

    def test_a_row_that_is_put_while_its_deletion_waits_stays(self) -> None:
        """Even when its new time is in the same bucket."""
        due = DueRows(320, PLENTY)
        due.commit({b"a": b""}, dated({b"a": 5}))
        batch: dict[bytes, bytes | None] = {}
        due.take(batch, 100, 10)
        batch[b"a"] = b"new"
        due.commit(batch, dated({b"a": 6}))

        assert b"a" in due
        assert due.take({}, 100, 10) == [b"a"]

    def test_no_more_rows_are_taken_than_asked_for(self) -> None:
        """And none is lost where a bucket is divided."""
        due = DueRows(320, PLENTY)
        keys = {b"%d" % number: number for number in range(100)}
        due.commit(dict.fromkeys(keys, b""), dated(keys))
        taken: list[bytes] = []
        for _ in range(10):
            found = due.take({}, 1_000, 10)
            assert len(found) == 10
            taken += found

        assert sorted(taken) == sorted(keys)
        assert due.take({}, 1_000, 10) == []

    def test_memory_is_bounded_and_given_back(self) -> None:
        """What does not fit is not known, and rows that have gone leave their room to others."""
        due = DueRows(320, SCARCE)
        for number in range(100):
            key = b"%03d" % number
            due.commit({key: b""}, dated({key: number}))
        known = [number for number in range(100) if b"%03d" % number in due]

        assert 40 < len(known) < 70
        assert not due.is_complete
        assert not due.learns or known != list(range(100))
        batch: dict[bytes, bytes | None] = {}
        due.take(batch, 1_000, 1_000)
        due.commit(batch, None, list(batch))
        due.commit({b"later": b""}, dated({b"later": 2_000}))

        assert b"later" in due

    def test_only_a_whole_pass_without_misses_is_complete(self) -> None:
        """What a walk has not begun with may still be in the store."""
        due = DueRows(320, PLENTY)
        due.learn({b"b": 1})
        due.end_pass()
        after_half = due.is_complete
        due.begin_pass()
        due.learn({b"a": 1, b"b": 1})
        due.end_pass()
        after_all = due.is_complete
        due.forget()

        assert (after_half, after_all, due.is_complete) == (False, True, False)


class FailingEngine(MemoryEngine):
    """An engine whose next batch fails, before or after it is there."""

    fault = ""

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        """Apply *batch*, and fail before or afterwards if that was told."""
        fault, self.fault = self.fault, ""
        if fault == "before":
            raise StorageError("the disk failed")
        super().apply(batch, durability)
        if fault == "after":
            raise KeyboardInterrupt


def commit_at_last(store: Any, engine: FailingEngine, dice: Random) -> bool:
    """Commit, and if that fails, repeat it or roll back; return whether it is there."""
    engine.fault = dice.choice(["", "", "before", "after"])
    try:
        store.commit({})
    except KeyboardInterrupt:
        store.commit({})
    except StorageError:
        turn = dice.randrange(4)
        if turn == 0:
            with suppress(CommitConflictError):  # the batch would change nothing: it is there
                store.rollback()
                return False
        if turn == 1:
            store.pending_changes()
        store.commit({})
    return True


def check_floors(engine: Engine) -> None:
    """See that no row is below the floor that is to tell of it (TTL-12)."""
    progress = read_sweep_progress(engine)
    for row_key, row in engine.scan(DATA, HISTORY):
        is_behind = row_key < progress.cursor
        floor_ms = max(progress.floor_ms, progress.pass_floor_ms if is_behind else 0)

        assert unpack_timestamp(row)[0] >= floor_ms


@pytest.mark.spec("TTL-6")
def test_what_was_deleted_is_not_deleted_again_when_it_would_have_expired(engine: Engine) -> None:
    """A row that is gone was remembered until its time, and a commit deleted what is not there."""
    with open_on_engine(engine, TTL) as store:
        store.put(b"early", b"v", 0)
        store.commit({})
        store.put(b"clock", b"v", 2 * LIFE_MS)
        store.commit({})  # from now on rows are remembered
        keys = [b"%02d" % number for number in range(40)]
        store.put_many(keys, [b"v"] * 40, [2 * LIFE_MS] * 40)
        store.commit({})
        store.put_many(keys[:20], [None] * 20)
        store.commit({})
        deleted: list[bytes] = []
        apply = engine.apply

        def record(batch: WriteBatch, durability: Durability) -> None:
            deleted.extend(key for key, row in batch.items() if row is None)
            apply(batch, durability)

        engine.apply = record  # type: ignore[method-assign]  # to see what a commit deletes
        settled(store, 9 * LIFE_MS)

    assert sorted(deleted) == [DATA + key for key in keys[20:]]


@pytest.mark.spec("TTL-5", "TTL-6", "TTL-12")
@pytest.mark.parametrize("seed", range(6))
def test_values_go_when_they_expire_and_no_others(seed: int, subtests: pytest.Subtests) -> None:
    """Puts, puts again, deletions, rollbacks, reopenings and leaps of time, against a model.

    Some commits fail, and are repeated.
    """
    for memory in (0, SCARCE, PLENTY):
        with subtests.test(memory=memory):
            _let_values_expire(FailingEngine.open("unused"), memory, seed)


def _let_values_expire(engine: FailingEngine, memory: int, seed: int) -> None:
    """Compare a store that remembers rows in *memory* bytes with the model."""
    dice = Random(seed)
    store = open_on_engine(engine, TTL, read_cache_bytes=memory)
    model: dict[bytes, int] = {}
    pending: dict[bytes, int | None] = {}
    now_ms = 0
    for step in range(4_000):
        now_ms += 900 if dice.random() < 0.001 else dice.randrange(4)
        key = b"%d" % dice.randrange(300)
        if dice.random() < 0.1:
            store.delete(key)
            pending[key] = None
        else:
            time_ms = max(0, now_ms - dice.choice((0, 0, 0, dice.randrange(1_500))))
            store.put(key, b"v%d" % step, time_ms)
            pending[key] = time_ms
        choice = dice.random()
        if choice < 0.05:
            if choice < 0.02:
                store.pending_changes()  # it sweeps as well
            if commit_at_last(store, engine, dice):
                rows_then = {**model, **pending}
                model = {key: time for key, time in rows_then.items() if time is not None}
            pending = {}
            check_floors(engine)
        elif choice < 0.055:
            store.rollback()
            pending = {}
            if choice >= 0.053:
                store = open_on_engine(engine, TTL, read_cache_bytes=memory)
        if not pending:
            horizon = (store.stream_time_ms or 0) - LIFE_MS
            living = {DATA + key for key, time in model.items() if time > horizon}
            there = rows(engine).keys()
            assert living <= there
            assert there <= {DATA + key for key in model}
    store.rollback()
    now_ms = settled(store, (store.stream_time_ms or 0) + LIFE_MS // 2)
    living = {DATA + key for key, time in model.items() if time > now_ms - LIFE_MS} | {
        DATA + b"clock"
    }
    left = rows(engine).keys()

    assert living <= left
    assert len(left) <= len(living) + LIFE_MS * 3 // 32


def assert_alike(stores: list[Any], now_ms: int) -> None:
    """Compare what versioned stores have now, and had a while ago."""
    for as_of_ms in (None, now_ms - 300, now_ms - 900):
        *found, expected = (
            list(store.scan_as_of(as_of_ms and max(0, as_of_ms))) for store in stores
        )
        assert found == [expected] * len(found)


@pytest.mark.spec("VRS-14", "VRS-15")
@pytest.mark.parametrize("seed", range(4))
def test_versions_go_when_they_expire_and_no_others(seed: int) -> None:
    """A store that remembers nothing gives the same answers, and in the end has the same rows.

    It stays open, and the others, which remember nothing, little or all, are opened again.
    """
    dice = Random(seed)
    memories = (0, SCARCE, PLENTY)
    engines = [MemoryEngine.open("unused") for _ in (*memories, 0)]
    stores = [
        open_on_engine(engine, VERSIONED, read_cache_bytes=memory)
        for engine, memory in zip(engines, (*memories, 0), strict=True)
    ]
    now_ms = 0
    for step in range(3_000):
        now_ms += 900 if dice.random() < 0.001 else dice.randrange(4)
        key = b"%d" % dice.randrange(100)
        time_ms = max(0, now_ms - dice.choice((0, 0, dice.randrange(1_200))))
        value = dice.choice((None, b"", b"%d" % step))
        choice = dice.random()
        for store in stores:
            store.put(key, value, time_ms)
            if choice < 0.05:
                store.commit({})
            elif choice < 0.052:
                store.rollback()
        if choice < 0.002:
            stores[-1].rollback()
            for at, memory in enumerate(memories):
                stores[at].rollback()
                stores[at] = open_on_engine(engines[at], VERSIONED, read_cache_bytes=memory)
        if step % 50 == 0:
            assert_alike(stores, now_ms)
    for store in stores:
        settled(store, now_ms + 3 * LIFE_MS, 400)

    expected_rows = rows(engines[-1]), rows(engines[-1], HISTORY, END)
    for engine in engines[:-1]:
        assert (rows(engine), rows(engine, HISTORY, END)) == expected_rows
    assert all(key.startswith(HISTORY + b"clock") for key in expected_rows[1])


@pytest.mark.spec("TTL-8", "VRS-27")
def test_what_is_known_is_not_looked_for(subtests: pytest.Subtests) -> None:
    """After one pass over rows from before, commits read no rows to find those that expire.

    A time to live cost 2.8 times the puts without one, since each row that expired was found by
    looking at three, between the deletions of others.
    """
    for specification in (TTL, VERSIONED):
        with subtests.test(str(specification.kind)):
            engine = load_backend("memory").open("unused")
            _look_for_what_is_known(engine, specification)


def _look_for_what_is_known(engine: Engine, specification: Any) -> None:
    """Put rows until all that expire are known, and see that no commit scans for them."""
    store: Any = open_on_engine(engine, specification)
    for now_ms in range(3 * LIFE_MS):
        store.put(b"key-%d" % (now_ms % 700), b"v", now_ms)
        if now_ms % 50 == 0:
            store.commit({})
    scan, scans = engine.scan, []

    def counted(
        start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        scans.append(start)
        return scan(start, stop, reverse=reverse)

    engine.scan = counted  # type: ignore[method-assign]  # to see what a commit reads
    for now_ms in range(3 * LIFE_MS, 6 * LIFE_MS):
        store.put(b"key-%d" % now_ms, b"v", now_ms)
        store.put(b"key-%d" % (now_ms % 50), b"v", now_ms)
        if now_ms % 50 == 0:
            store.commit({})

    assert scans == []
    if specification is TTL:
        assert len(dict(scan(DATA, HISTORY))) <= 1.1 * (LIFE_MS + 50)
    else:
        assert len(dict(scan(HISTORY, END))) <= 1.1 * LIFE_MS


@pytest.mark.spec("TTL-5")
def test_rows_that_were_committed_in_bulk_expire(engine: Engine) -> None:
    """They come past the puts, when all other rows were known."""
    store = open_on_engine(engine, TTL)
    for now_ms in range(0, 2 * LIFE_MS, 10):
        store.put(b"key-%d" % now_ms, b"v", now_ms)
        store.commit({})
    loaded = {DATA + b"bulk-%03d" % number: stamped_row(b"v", 2 * LIFE_MS) for number in range(90)}
    bulk = SortedRows(rows=list(loaded.items()), lowest_ms=2 * LIFE_MS, highest_ms=2 * LIFE_MS)
    store.commit_rows(bulk, {})
    settled(store, 4 * LIFE_MS)

    assert rows(engine).keys() == {DATA + b"clock"}
