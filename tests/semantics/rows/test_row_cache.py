"""The cache of committed rows: what it holds is what the engine has, and never too much of it."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import statestores as ss
from statestores.errors import StateStoreError, StoreClosedError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.key_value import store as key_value
from statestores.semantics.rows import row_cache
from statestores.semantics.rows.layout import DATA
from statestores.semantics.rows.row_cache import ROW_OVERHEAD_BYTES, RowCache
from statestores.semantics.timestamped import store as timestamped
from statestores.semantics.timestamped.rows import stamped_row
from statestores.semantics.versioned import store as versioned
from statestores.semantics.versioned.rows import latest_row
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.semantics.versioned.vacuum import Vacuum
from statestores.spi import Changes, Engine
from statestores.spi.memory_budget import MemoryBudget
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, Moment

STEPS = 400
RETENTION_MS = 40
KEYS = [b"", b"\x00", b"a", b"a\x00", *(b"key-%d" % number for number in range(12))]
PARTITION = ss.TopicPartition("t", 0)

SPECIFICATIONS: dict[str, Any] = {
    "key-value": ss.KeyValue("s"),
    "timestamped": ss.TimestampedKeyValue("s"),
    "versioned": ss.Versioned("s", history_retention_ms=RETENTION_MS),
}

ROWS = st.dictionaries(st.sampled_from(KEYS), st.none() | st.binary(max_size=900), max_size=8)


def held_bytes(cache: RowCache) -> int:
    """Return what the rows of *cache* take, counted one by one."""
    return sum(
        ROW_OVERHEAD_BYTES + len(key) + len(value or b"") for key, value in cache.rows.items()
    )


@given(commits=st.lists(ROWS, max_size=30), capacity=st.sampled_from([0, 200, 1_000, 5_000]))
def test_the_rows_never_take_more_than_the_capacity(
    commits: list[dict[bytes, bytes | None]], capacity: int
) -> None:
    """Rows that come one by one and rows that come by commits, and the last value counts."""
    cache = RowCache(capacity)
    last: dict[bytes, bytes | None] = {}
    for number, rows in enumerate(commits):
        last.update(rows)
        size = sum(len(key) + len(value or b"") for key, value in rows.items())
        if number % 3 == 1:
            for key, value in rows.items():
                cache.keep(key, value)
        elif number % 3 == 2:
            cache.take(rows, size)
        else:
            cache.refresh(rows, size, is_read=True)

        assert held_bytes(cache) <= capacity
        assert all(last[key] == value for key, value in cache.rows.items())


ROW_BYTES = ROW_OVERHEAD_BYTES + 3
"""What a row takes whose key and value have three bytes together."""


@for_each("value", [None, b""])
def test_rows_that_take_exactly_the_capacity_stay(value: bytes | None) -> None:
    """One by one and all at once, again after everything was forgotten; of a byte more some go."""
    rows = {b"%03d" % number: value for number in range(4)}
    for capacity in (4 * ROW_BYTES, 4 * ROW_BYTES - 1):
        by_one, at_once, read = RowCache(capacity), RowCache(capacity), RowCache(capacity)
        for _ in range(2):
            for key in rows:
                by_one.keep(key, value)
            at_once.take(rows, 12)
            read.refresh(rows, 12, is_read=True)

            if capacity == 4 * ROW_BYTES:
                assert by_one.rows == at_once.rows == read.rows == rows
            else:
                assert list(by_one.rows) == [b"003"]
                assert at_once.rows == read.rows == {}
            for cache in (by_one, at_once, read):
                cache.forget()
    alone = RowCache(ROW_BYTES)
    alone.keep(b"000", value)
    assert alone.rows == {b"000": value}
    alone.keep(b"0000", value)

    assert alone.rows == {b"000": value}


@for_each(("last", "left"), [(b"002", 3), (b"0022", 1)])
def test_room_is_made_where_more_than_three_quarters_are_taken(last: bytes, left: int) -> None:
    """What was replaced was counted with the rest; and what made room takes no more that is read.

    Dropping rows for a count that was too high cost the reads that they would have answered.
    """
    cache = RowCache(4 * ROW_BYTES)
    rows: dict[bytes, bytes | None] = {b"000": b"", b"001": b"", last: b""}
    for _ in range(2):
        cache.take(rows, 9)
    assert list(cache.rows) == list(rows)[-left:]
    cache.refresh({b"new": b""}, 3, is_read=True)

    assert (b"new" in cache.rows) is (left == 3)
    cache.forget()
    cache.refresh({b"new": b""}, 3, is_read=True)
    assert cache.rows == {b"new": b""}


def test_a_budget_lowers_the_capacity_and_never_raises_it() -> None:
    """A quarter of it is for the caches of its stores."""
    budget = MemoryBudget(4 * 300_000, stores=1)

    assert RowCache(1_000, budget)._capacity_bytes == 1_000
    assert RowCache(1_000_000, budget)._capacity_bytes == 300_000
    assert RowCache(1_000_000)._capacity_bytes == 1_000_000


def test_what_came_last_stays() -> None:
    """When room is made, the oldest rows go: no more than it takes for half of the capacity."""
    cache = RowCache(10 * (ROW_OVERHEAD_BYTES + 3))
    for number in range(11):
        cache.keep(b"%03d" % number, b"")

    assert list(cache.rows) == [b"%03d" % number for number in range(6, 11)]


def test_rows_that_are_written_again_and_again_take_their_room_once() -> None:
    """Counting each commit of a few hot keys anew emptied the cache in between."""
    cache = RowCache(20 * (ROW_OVERHEAD_BYTES + 3))
    hot: dict[bytes, bytes | None] = {b"%02d" % number: b"v" for number in range(10)}
    for number in range(100):
        if number % 2:
            cache.take(hot, 30)
        else:
            cache.refresh(hot, 30, is_read=True)

        assert cache.rows == hot


@pytest.mark.parametrize("others", [{}, {b"new": b""}], ids=["known keys", "a new key too"])
def test_rows_that_grow_make_room(others: dict[bytes, bytes | None]) -> None:
    """Nobody reads the store: what is there is brought up to date, and gone when it is too much."""
    cache = RowCache(1_000)
    for key in (b"a", b"b"):
        cache.keep(key, b"")
        cache.refresh({key: b"x" * 600, **others}, 601, is_read=False)

        assert held_bytes(cache) <= 1_000

    assert len(cache.rows) < 2


@pytest.mark.parametrize(("key_bytes", "row_bytes"), [(300, 0), (3, 300)], ids=["keys", "rows"])
def test_rows_that_are_read_take_what_they_are_long(key_bytes: int, row_bytes: int) -> None:
    """Room was made only when many came: long ones took more than the store was given."""
    cache = RowCache(2_000)
    for number in range(40):
        cache.keep(b"%03d".ljust(key_bytes) % number, b"v" * row_bytes)

        assert held_bytes(cache) <= 2_000

    assert cache.rows


def test_a_cache_that_was_full_takes_no_more_rows_that_are_only_written() -> None:
    """However few: what is read has its room."""
    cache = RowCache(1_000)
    cache.keep(b"read", b"")
    cache.refresh({b"large": b"x" * 900}, 905, is_read=True)
    cache.refresh({b"small": b""}, 5, is_read=True)

    assert list(cache.rows) == [b"read"]


def test_rows_that_are_only_written_do_not_push_out_what_is_read() -> None:
    """A load took the room of the rows that were read; each commit then dropped the older half."""
    cache = RowCache(10 * (ROW_OVERHEAD_BYTES + 3) + 10)
    for number in range(4):
        cache.keep(b"r%02d" % number, b"")
    for number in range(100):
        cache.refresh({b"w%02d" % number: b""}, 3, is_read=True)
    cache.refresh({b"r00": b"new", b"w99": b""}, 9, is_read=True)

    assert cache.rows[b"r00"] == b"new"
    assert {b"r%02d" % number for number in range(4)} <= cache.rows.keys()
    assert b"w99" not in cache.rows


def test_the_rows_of_a_store_that_nobody_reads_stay_out() -> None:
    """They took their time and their room; what is there is brought up to date."""
    cache = RowCache(1_000)
    cache.keep(b"a", b"old")

    cache.refresh({b"a": b"new", b"b": b""}, 5, is_read=False)

    assert cache.rows == {b"a": b"new"}


def test_a_load_larger_than_the_cache_leaves_nothing_old_behind() -> None:
    """The rows of the load are not kept, and what they have replaced must go as well."""
    cache = RowCache(10 * ROW_OVERHEAD_BYTES)
    cache.keep(b"k", b"old")

    cache.take(dict.fromkeys(KEYS, b"new"), 100)

    assert cache.rows == {}


class Lockstep:
    """A store with a cache and one without; both are asked the same, and their engines fail alike.

    What a step returns or raises has to be the same of both, and each cached row has to be the
    engine's at any moment.
    """

    def __init__(self, kind: str, capacity: int, seed: int) -> None:
        self.kind = kind
        self.chance = random.Random(seed)
        self.now_ms = 0
        self.engines = [self._engine(), self._engine()]
        self.stores = [
            open_on_engine(engine, SPECIFICATIONS[kind], read_cache_bytes=size)
            for engine, size in zip(self.engines, (capacity, 0), strict=True)
        ]
        for store in self.stores:
            if isinstance(store, EngineVersionedStore):  # so that commits have the same rows
                store._vacuum = Vacuum(store._retention_ms, capacity)
        self.hits = 0

    @staticmethod
    def _engine() -> FaultyEngine:
        return FaultyEngine(load_backend("memory").open("unused"))

    def both(self, call: Callable[[Any], Any]) -> Any:
        """Call both, and return what the stores agree about."""
        outcomes = []
        for store in self.stores:
            try:
                outcome = call(store)
                outcomes.append(list(outcome) if isinstance(outcome, Iterator) else outcome)
            except StateStoreError as error:
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1]
        self.check()
        return outcomes[0]

    def check(self) -> None:
        """Compare each cached row with the engine's."""
        cached: dict[bytes, Any] = self.stores[0]._cached
        for engine in self.engines:
            engine.plan(None)
        for key, known in cached.items():
            is_version = self.kind == "versioned" and known is not None
            row = latest_row(*known) if is_version else known
            assert self.engines[0].get(key if self.kind == "timestamped" else DATA + key) == row

    def fail_next(self, call: str) -> None:
        """Let the next *call* of the engines fail, before or after it has had its effect."""
        moment = self.chance.choice(list(Moment))
        at = self.chance.randint(1, 3) if call == "truncate" else 1
        for engine in self.engines:
            engine.plan(Fault(at=at, call="apply", moment=moment))

    def value(self) -> bytes | None:
        """Return a value, or a deletion."""
        return self.chance.choice([None, b"", b"v%d" % self.chance.randint(0, 99), b"x" * 300])

    def step(self) -> None:
        """Do one thing, drawn at random."""
        weights = {
            self.write: 30,
            self.read: 40,
            self.commit: 12,
            self.fail_to_commit: 3,
            self.roll_back: 3,
            self.replay: 3,
            self.commit_rows: 2,
            self.truncate: 1,
        }
        self.chance.choices(list(weights), list(weights.values()))[0]()

    def write(self) -> None:
        """Put or delete a key; of versions some are late, and some too late."""
        key, value = self.chance.choice(KEYS), self.value()
        if self.kind == "key-value":
            self.both(lambda store: store.put(key, value))
            return
        self.now_ms += self.chance.randint(0, 8)
        time_ms = max(0, self.now_ms - self.chance.choice([0, 0, 0, 5, 30, 60]))
        self.both(lambda store: store.put(key, value, time_ms))

    def read(self) -> None:
        """Read in every way."""
        key = self.chance.choice(KEYS)
        some = self.chance.choices(KEYS, k=5)
        cached_as = DATA + key if self.kind == "timestamped" else key
        self.hits += cached_as in self.stores[0]._cached
        if self.kind != "versioned":
            self.both(lambda store: store.get(key))
            self.both(lambda store: store.get_many(some))
            self.both(lambda store: store.range(key, reverse=True))
            return
        as_of_ms = self.chance.choice([None, max(0, self.now_ms - self.chance.randint(0, 60))])
        self.both(lambda store: store.get(key, as_of_ms))
        self.both(lambda store: store.get_many(some, as_of_ms))
        self.both(lambda store: store.history(key))
        self.both(lambda store: store.scan_as_of(as_of_ms))

    def commit(self) -> None:
        """Commit."""
        self.both(lambda store: store.commit({}))

    def fail_to_commit(self) -> None:
        """Have a commit fail, read, give the writes up if that is possible, and commit again."""
        self.fail_next("commit")
        self.both(lambda store: store.commit({}))
        self.read()
        self.both(lambda store: store.rollback())
        self.both(lambda store: store.commit({}))

    def roll_back(self) -> None:
        """Give the pending writes up."""
        self.both(lambda store: store.rollback())

    def truncate(self) -> None:
        """Have a truncation fail half way, read what is left, and let the next commit finish it."""
        self.fail_next("truncate")
        self.both(lambda store: store.truncate())
        self.read()
        self.both(lambda store: store.commit({}))

    def replay(self) -> None:
        """Replay a few changes."""
        keys = self.chance.choices(KEYS, k=4)
        values = [self.value() for _ in keys]
        times = None if self.kind == "key-value" else [self.now_ms] * len(keys)
        self.both(lambda store: store.replay(Changes(keys, values, times)))

    def commit_rows(self) -> None:
        """Commit rows past the write buffer."""
        self.both(lambda store: store.commit({}))
        keys = sorted(set(self.chance.choices(KEYS, k=4)))
        row_of: dict[str, bytes] = {
            "key-value": b"bulk",
            "timestamped": stamped_row(b"bulk", self.now_ms),
            "versioned": latest_row(self.now_ms, b"bulk"),
        }
        rows = [(DATA + key, row_of[self.kind]) for key in keys]
        if self.chance.random() < 0.3:
            self.fail_next("commit")
        self.both(lambda store: store.commit_rows(SortedRows(rows=rows), {}))


@pytest.fixture(autouse=True)
def _every_read_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads fill the cache fastest, so that its mistakes show."""
    monkeypatch.setattr(key_value, "KEEP_ONE_IN", 1)
    monkeypatch.setattr(timestamped, "KEEP_ONE_IN", 1)
    monkeypatch.setattr(versioned, "KEEP_ONE_IN", 1)


@pytest.mark.spec("COM-7", "COM-18", "COM-43", "KVS-1", "VRS-2")
@for_each("capacity", [600, 2_000, row_cache.DEFAULT_READ_CACHE_BYTES])
@for_each("kind", SPECIFICATIONS)
def test_a_cached_store_answers_as_one_without_a_cache(kind: str, capacity: int) -> None:
    """Through failed commits, rollbacks, truncation, replay, bulk commits and expiry."""
    hits = 0
    for seed in range(6):
        lockstep = Lockstep(kind, capacity, seed)
        for _ in range(STEPS):
            lockstep.step()
        hits += lockstep.hits

    assert hits > 0


@pytest.mark.spec("ROF-1", "ROF-2")
@for_each("kind", SPECIFICATIONS)
def test_a_facade_sees_commits_and_not_the_cache(kind: str) -> None:
    """A row that another owner of the engine's files would see is what a facade reads."""
    engine: Engine = load_backend("memory").open("unused")
    time: tuple[int, ...] = () if kind == "key-value" else (1,)
    with open_on_engine(engine, SPECIFICATIONS[kind]) as store:
        put: Any = store.put
        put(b"k", b"committed", *time)
        store.commit({})
        put(b"k", b"pending", *time)
        facade: Any = store.read_only()

        found = facade.get(b"k")

        assert (found if kind == "key-value" else found.value) == b"committed"


@pytest.mark.spec("KVS-13", "COM-15")
@for_each("kind", SPECIFICATIONS)
def test_a_closed_store_does_not_answer_from_its_cache(kind: str) -> None:
    """A key that is cached is refused like any other."""
    store: Any = open_on_engine(load_backend("memory").open("unused"), SPECIFICATIONS[kind])
    store.put(b"k", b"v", *(() if kind == "key-value" else (1,)))
    store.commit({})
    store.close()

    with pytest.raises(StoreClosedError):
        store.get(b"k")


@for_each("kind", SPECIFICATIONS)
def test_hot_rows_ask_no_engine(kind: str) -> None:
    """What was committed is read, and superseded, without a read of the engine."""
    engine = FaultyEngine(load_backend("memory").open("unused"))
    store: Any = open_on_engine(engine, SPECIFICATIONS[kind])
    engine.plan(None)
    for number in range(20):
        store.put(b"k", b"%d" % number, *(() if kind == "key-value" else (number,)))
        store.commit({})
        store.get(b"k")

    assert engine.calls["get"] + engine.calls["get_many"] <= 1


@for_each("kind", SPECIFICATIONS)
def test_rows_that_are_read_again_and_again_ask_no_engine(kind: str) -> None:
    """Also of a store that nobody writes, as after an opening: a mutant asked for each read."""
    engine = FaultyEngine(load_backend("memory").open("unused"))
    store: Any = open_on_engine(engine, SPECIFICATIONS[kind])
    store.put(b"k", b"v", *(() if kind == "key-value" else (1,)))
    store.commit({})
    expected = store.get(b"k")
    again: Any = open_on_engine(engine, SPECIFICATIONS[kind])
    engine.plan(None)
    found = [again.get(b"k") for _ in range(20)]

    assert found == [expected] * 20
    assert engine.calls["get"] + engine.calls["get_many"] <= 1
