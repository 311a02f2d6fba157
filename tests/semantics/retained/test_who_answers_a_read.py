"""Which reads of windows the engine is asked for, and which are answered from memory.

Every read is compared with one ``dict``. What the store itself has of the rows, pending or kept, is
asked of it before each read: then no engine need be asked, and none is. Times are near zero, where
the horizon is below them, or of later.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError, StoreClosedError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.engine_store import FEW_ROWS
from statestores.semantics.retained import rows_of_keys
from statestores.semantics.retained.named_starts import NOT_KEPT
from statestores.spi import Engine, Session, Window
from statestores_conformance.many_cases import for_each
from statestores_conformance.models.retained import RetainedModel
from statestores_conformance.subjects.faulty_engine import FaultyEngine, KeptOpen

LIVES = 24
STEPS = 24
RETENTION_MS = 640
"""A span has ten milliseconds."""

LATEST_MS = (1 << 63) - 1
MOST_STARTS = 64
"""With more starts in a range, or pending, the engine is asked."""

KEYS = [b"", b"\x00", b"\x00\xff", b"a\x00", b"b\x00\xff", *(b"k%02d" % each for each in range(25))]
WINDOW = Window("windows", retention_ms=RETENTION_MS, window_size_ms=5)


class Asked(FaultyEngine):
    """An engine that notes what it is asked for."""

    def __init__(self, engine: Engine) -> None:
        """Ask *engine*."""
        super().__init__(KeptOpen(engine))
        self.rows: list[bytes] = []
        self.ranges: list[tuple[bytes, bytes | None, bool]] = []

    def get(self, key: bytes) -> bytes | None:
        """Note a row."""
        self.rows.append(key)
        return super().get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Note some rows."""
        self.rows += keys
        return super().get_many(keys)

    def scan_ahead(
        self, start: bytes, stop: bytes | None, most: int, *, reverse: bool = False
    ) -> Any:
        """Note a range."""
        self.ranges.append((start, stop, reverse))
        return super().scan_ahead(start, stop, most, reverse=reverse)


class Life:
    """One store, and what it must show."""

    def __init__(self, number: int) -> None:
        """Draw everything from *number*."""
        self.draw = Random(number)
        self.engine = load_backend("memory").open("unused")
        self.model = RetainedModel(RETENTION_MS)
        self.committed = RetainedModel(RETENTION_MS)
        self.now = self.draw.choice((0, 0, 5_000))
        self.memory = self.draw.choice((0, 1 << 20, 1 << 20, 1 << 20))
        self.leap = self.draw.choice((1, 5, 20))
        self.deletions = self.draw.choice((0, 0, 0, 0.05))
        self.is_gathered = self.draw.random() < 0.25
        self.is_steady = self.draw.random() < 0.7
        self.sizes = (25, 30) if self.is_steady else (1, 5, 25, 30)
        self.late = (0, 0, 0, 3) if self.is_steady else (0, 0, 3, 639, 640)
        self.open()

    def open(self) -> None:
        """Open a store that knows only what the engine has."""
        self.asked = Asked(self.engine)
        self.store: Any = open_on_engine(self.asked, WINDOW, read_cache_bytes=self.memory)

    def put(self) -> None:
        """Put windows of some starts, one by one or as columns."""
        for _ in range(self.draw.choice((1, 1, 2, 5))):
            self.now += self.draw.randrange(self.leap + 1)
            start_ms = self.now - min(self.now, self.draw.choice(self.late))
            keys = self.draw.sample(KEYS, self.draw.choice(self.sizes))
            is_deleted = self.draw.random() < self.deletions
            values = [None if is_deleted else b"%d" % self.draw.randrange(99) for _ in keys]
            expected = [
                self.model.put(key, start_ms, 0, value)
                for key, value in zip(keys, values, strict=True)
            ]
            if self.draw.random() < 0.4:
                starts = [start_ms] * len(keys)
                assert self.store.put_many(keys, values, starts) == sum(expected)
            else:
                columns = zip(keys, values, strict=True)
                assert [self.store.put(*row, start_ms) for row in columns] == expected

    def commit(self) -> None:
        """Commit, by starts or by rows."""
        if self.is_gathered:
            list(self.store.fetch_all())
        self.store.commit({})
        self.committed = RetainedModel(
            RETENTION_MS, self.model.stream_time_ms, self.model.rows.copy()
        )

    def forget(self) -> None:
        """Roll back, or open again."""
        self.draw.choice((self.store.rollback, self.open))()
        self.model = RetainedModel(
            RETENTION_MS, self.committed.stream_time_ms, self.committed.rows.copy()
        )

    def is_known(self, key: bytes, start_ms: int) -> bool:
        """Return whether the store itself has a row, or knows that there is none."""
        store = self.store
        row = store._rows.data_key(key, start_ms)
        if key in store._by_start.get(start_ms, ()) or row in store._pending:
            return True
        kept = store._by_committed_start.get(start_ms, {}).get(key, NOT_KEPT)
        if kept is NOT_KEPT:
            kept = store._committed.get(start_ms // 10, {}).get(row, NOT_KEPT)
        return kept is not NOT_KEPT

    def time(self) -> int:
        """Return a time at which something is, may be, or has just expired."""
        horizon: int = self.store._horizon
        whole: int = self.store._spans.whole_from_ms
        times = [horizon - 1, horizon, horizon + 1, 0]
        times += [self.now, self.now + 1, whole, whole, whole + 1, whole - 1]
        times += [self.draw.choice([start_ms for _, start_ms, _ in self.model.rows] or [0])] * 6
        return max(0, min(LATEST_MS, self.draw.choice(times)))

    def counts(self) -> tuple[int, int]:
        """Return how often the engine was asked for rows, and how many reads were too early."""
        return self.store._engine_gets, self.store._below_horizon

    def fetch(self) -> None:
        """Ask for one window."""
        key, start_ms = self.draw.choice(KEYS), self.time()
        is_visible = start_ms > self.store._horizon
        is_asked = is_visible and not self.is_known(key, start_ms)
        before, self.asked.rows = self.counts(), []
        found = self.store.fetch(key, start_ms)

        assert found == (self.model.rows.get((key, start_ms, 0)) if is_visible else None)
        assert self.asked.rows == [self.store._rows.data_key(key, start_ms)] * is_asked
        assert self.counts() == (before[0] + is_asked, before[1] + (not is_visible))

    def fetch_many(self) -> None:
        """Ask for several windows."""
        asked = [
            (self.draw.choice(KEYS), self.time()) for _ in range(self.draw.choice((0, 1, 5, 9)))
        ]
        if self.draw.random() < 0.3:
            asked = [(key, asked[0][1]) for key, _ in asked]
        is_visible = [start_ms > self.store._horizon for _, start_ms in asked]
        are_few = len(asked) <= FEW_ROWS  # then those that are not visible are not asked for
        unknown = [
            each
            for each, visible in zip(asked, is_visible, strict=True)
            if not self.is_known(*each) and (visible or not are_few)
        ]
        before, self.asked.rows = self.counts(), []
        found = self.store.fetch_many(
            [key for key, _ in asked], [start_ms for _, start_ms in asked]
        )

        assert found == [
            self.model.rows.get((*each, 0)) if visible else None
            for each, visible in zip(asked, is_visible, strict=True)
        ]
        assert self.asked.rows == [self.store._rows.data_key(*each) for each in unknown]
        expected = (before[0] + len(unknown), before[1] + is_visible.count(False))
        assert self.counts() == expected

    def fetch_range(self) -> None:
        """Ask for windows of a key, in either order."""
        store, key, reverse = self.store, self.draw.choice(KEYS), self.draw.random() < 0.5
        low, high = sorted((self.time(), self.time()))
        bounds: list[tuple[int | None, int | None]]
        bounds = [(low, high), (low, None), (None, high), (None, None)]
        if self.is_steady and self.draw.random() < 0.85:  # or all that waits becomes rows
            low = max(low, min(store._spans.whole_from_ms, LATEST_MS))
            bounds = [(low, max(low, high)), (low, None)]
        first, last = self.draw.choice(bounds)
        expected = [
            (key, start_ms, start_ms + 5, value)
            for (each, start_ms, _), value in self.model.visible()
            if each == key and (first or 0) <= start_ms <= (LATEST_MS if last is None else last)
        ]
        low = max(0, store._horizon + 1, first or 0)
        high = LATEST_MS if last is None else last
        starts = [start_ms for start_ms in store._committed_starts if low <= start_ms <= high]
        is_in_memory = (
            low >= store._spans.whole_from_ms and max(len(starts), len(store._by_start)) <= 64
        )
        is_below = last is not None and last <= store._horizon
        waiting, before, self.asked.ranges = len(store._by_start), self.counts(), []
        found = list(store.fetch_range(key, first, last, reverse=reverse))

        assert found == (expected[::-1] if reverse else expected)
        scanned = (*store._rows.bounds(key, key, low, high), reverse)
        is_scanned = high >= low and not is_in_memory
        assert self.asked.ranges == [scanned] * is_scanned
        assert self.counts() == (before[0], before[1] + is_below)
        assert len(store._by_start) == (0 if is_scanned else waiting)
        self.in_memory += bool(found) and not is_scanned

    def fetch_all(self) -> None:
        """Ask for windows of some keys, for which all that waits has to be rows."""
        reverse = self.draw.random() < 0.5
        low, high = sorted((self.time(), self.time()))
        first, last = self.draw.choice([(low, high), (low, None), (None, high), (None, None)])
        keys = sorted(self.draw.choices(KEYS, k=2))
        first_key, last_key = self.draw.choice(
            [keys, (keys[0], None), (None, keys[1]), (None, None), (keys[0], keys[0])]
        )
        expected = [
            (key, start_ms, start_ms + 5, value)
            for (key, start_ms, _), value in self.model.visible()
            if (first or 0) <= start_ms <= (LATEST_MS if last is None else last)
            and (first_key is None or first_key <= key)
            and (last_key is None or key <= last_key)
        ]
        is_below = last is not None and last <= self.store._horizon
        before = self.counts()
        found = list(self.store.fetch_all(first, last, first_key, last_key, reverse=reverse))

        assert found == (expected[::-1] if reverse else expected)
        assert self.counts() == (before[0], before[1] + is_below)

    def live(self) -> int:
        """Do something, and look; return how many ranges were found in memory."""
        self.in_memory = 0
        for _ in range(STEPS):
            self.draw.choice([self.put] * 6 + [self.commit] * 4 + [self.forget])()
            for _ in range(self.draw.choice((0, 0, 1, 6))):
                self.draw.choice([self.fetch, self.fetch_many] * 2 + [self.fetch_range] * 4)()
            if self.draw.random() < 0.08:
                self.fetch_all()
        return self.in_memory


@pytest.mark.spec("WIN-3", "WIN-8", "WIN-9", "WIN-12", "WIN-24", "MET-12")
def test_the_engine_is_asked_for_what_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """And for nothing else: each row once, each range in its own bounds."""
    in_memory = 0
    for number in range(LIVES):
        with monkeypatch.context() as patched:
            if number % 3 == 0:  # some loads are sorted, and not taken in row by row
                patched.setattr(rows_of_keys, "MOST_FRESH", 20)
            life = Life(number)
            try:
                in_memory += life.live()
            except Exception as error:
                error.add_note(f"in the life {number}")
                raise

    assert in_memory > LIVES


def _filled(*, starts: Sequence[int], pending: Sequence[int] = ()) -> tuple[Any, Asked]:
    """Return a store that keeps windows of all *starts*, with others that wait."""
    asked = Asked(load_backend("memory").open("unused"))
    store: Any = open_on_engine(asked, WINDOW, read_cache_bytes=1 << 24)
    for start_ms in starts:
        store.put_many(KEYS, [b"%d" % start_ms] * len(KEYS), [start_ms] * len(KEYS))
        store.commit({})
    asked.ranges = []
    for start_ms in pending:
        store.put_many(KEYS, [b"new"] * len(KEYS), [start_ms] * len(KEYS))
    return store, asked


@pytest.mark.spec("WIN-12")
@for_each(("count", "ranges"), [(MOST_STARTS, 0), (MOST_STARTS + 1, 1)])
def test_a_range_of_many_starts_is_for_the_engine(count: int, ranges: int) -> None:
    """Which has those of a key together; likewise where so many are pending."""
    starts = list(range(1_000, 1_000 + count))
    store, asked = _filled(starts=[990, *starts, 1_500])
    assert [each.start_ms for each in store.fetch_range(b"k00", 1_000, 1_499)] == starts
    assert len(asked.ranges) == ranges
    store, asked = _filled(starts=[990], pending=starts)
    assert [each.start_ms for each in store.fetch_range(b"k00", 1_000)] == starts
    assert len(asked.ranges) == ranges


@pytest.mark.spec("WIN-16")
@pytest.mark.parametrize("again", [1, 2], ids=["as rows", "under their starts"])
def test_a_range_in_memory_ends_with_its_bounds(again: int) -> None:
    """Both of them belong to it, of what is kept and of what is pending."""
    store, asked = _filled(starts=[700, 710])
    for start_ms in (701, 704, 705, 711):  # a start that comes twice waits under it
        for _ in range(again):
            store.put(b"k00", b"new", start_ms)
    for first, last, expected in [
        (700, 704, [700, 701, 704]),
        (701, 703, [701]),
        (702, 703, []),
        (701, 710, [701, 704, 705, 710]),
        (705, 711, [705, 710, 711]),
        (711, None, [711]),
        (712, None, []),
    ]:
        found = [each.start_ms for each in store.fetch_range(b"k00", first, last)]
        back = [each.start_ms for each in store.fetch_range(b"k00", first, last, reverse=True)]
        assert found == back[::-1] == expected

    assert asked.ranges == []


@pytest.mark.spec("WIN-9", "WIN-24", "ROF-8")
def test_a_facade_asks_for_rows_and_not_for_ranges() -> None:
    """One by one as they are asked for, or all in one call: each is at a known place."""
    for isolation in ("read_committed", "read_uncommitted"):
        store, asked = _filled(starts=[700], pending=[710])
        facade = store.read_only(isolation)
        asked.rows, calls = [], asked._faults.counted["get_many"]
        assert facade.fetch(b"k00", 700) == b"700"
        assert store._rows.data_key(b"k00", 700) in asked.rows
        found = facade.fetch_many([b"k00", b"k01", b"k02"], [700, 710, 700])

        assert found == [b"700", b"new" if "un" in isolation else None, b"700"]
        assert asked.ranges == []
        assert asked._faults.counted["get_many"] == calls + 1
        several = [b"k00", *[b"x"] * FEW_ROWS]
        assert store.fetch_many(several, 700) == [b"700", *[None] * FEW_ROWS]
        assert asked._faults.counted["get_many"] == calls + 2
        assert store.fetch_many(several[1:], 700) == [None] * FEW_ROWS  # one by one
        assert asked._faults.counted["get_many"] == calls + 2


@pytest.mark.spec("WIN-12", "WIN-22")
@pytest.mark.parametrize("first_ms", [None, 700], ids=["engine", "memory"])
def test_a_range_ends_with_its_store_at_each_step(first_ms: int | None) -> None:
    """Before a record, and behind the last one: it is not known then that there is none."""
    for taken in (0, 1, 2):
        store, asked = _filled(starts=[700, 710])
        asked.ranges = []
        if first_ms is None:
            store.put(b"x", None, 700)  # not in memory alone any more
            store.commit({})
        windows = store.fetch_range(b"k00", first_ms)
        assert bool(asked.ranges) is (first_ms is None)
        assert [next(windows).start_ms for _ in range(taken)] == [700, 710][:taken]
        store.close()
        with pytest.raises(StoreClosedError):
            next(windows)


@pytest.mark.spec("WIN-15")
def test_a_window_ends_with_time_itself() -> None:
    """From memory and from the engine, pending or not, to the very last millisecond."""
    starts = [LATEST_MS - 6, LATEST_MS - 5, LATEST_MS - 4, LATEST_MS]
    ends = [LATEST_MS - 1, LATEST_MS, LATEST_MS, LATEST_MS]
    store, asked = _filled(starts=starts[:2], pending=starts[2:])
    in_memory = [each.end_ms for each in store.fetch_range(b"k00", starts[0])]
    with_last = [each.end_ms for each in store.fetch_range(b"k00", starts[0], LATEST_MS)]
    assert not asked.ranges
    store.put_many([b"k00"], [b"v"], [LATEST_MS])
    by_engine = [each.end_ms for each in store.fetch_all(None, None, b"k00", b"k00")]

    assert in_memory == with_last == by_engine == ends
    assert store.fetch(b"k00", LATEST_MS) == b"v"
    assert store.fetch(b"k00", LATEST_MS - 5) == b"%d" % (LATEST_MS - 5)


@pytest.mark.spec("MET-12", "WIN-8")
@for_each("isolation", [None, "read_committed", "read_uncommitted"])
def test_a_range_is_counted_where_all_of_it_has_expired(isolation: str | None) -> None:
    """Up to the horizon itself; a range that ends right above it asks for what may be there."""
    store, _ = _filled(starts=[60, 61, 700])
    reader = store if isolation is None else store.read_only(isolation)
    counted = []
    for last_ms in (60, 61, 59, None):
        for first_ms in (None, 0, 59):
            for found in (
                reader.fetch_range(b"k00", first_ms, last_ms),
                reader.fetch_all(first_ms, last_ms),
                reader.fetch_all(first_ms, last_ms, b"k00", b"k00"),
            ):
                starts = {each.start_ms for each in found}
                assert starts == ({61, 700} if last_ms is None else {61} & {last_ms})
        counted.append(store._below_horizon)

    assert counted == [9, 9, 18, 18]


@pytest.mark.spec("COM-19")
@pytest.mark.parametrize("duplicates", [False, True], ids=["windows", "duplicates"])
def test_what_no_read_can_mean_is_refused_at_the_call(
    subtests: pytest.Subtests, *, duplicates: bool
) -> None:
    """By the owner, in memory and by the engine, and by either facade."""
    engine = load_backend("memory").open("unused")
    specification = Window(
        "windows", retention_ms=640, window_size_ms=5, retain_duplicates=duplicates
    )
    store: Any = open_on_engine(engine, specification)
    store.put_many(KEYS, [b"v"] * len(KEYS), [700] * len(KEYS))
    store.commit({})
    facades = [store.read_only(isolation) for isolation in ("read_committed", "read_uncommitted")]
    wrong_types: list[Any] = [
        lambda reader: reader.fetch("k", 700),
        lambda reader: reader.fetch(None, 700),
        lambda reader: reader.fetch(b"k", 700.0),
        lambda reader: reader.fetch(b"k", True),  # noqa: FBT003  # what is refused
        lambda reader: reader.fetch(b"k", None),
        lambda reader: reader.fetch_many([b"k", "k"], [700, 700]),
        lambda reader: reader.fetch_many([b"k"], [700.0]),
        lambda reader: reader.fetch_many([b"k"], starts_ms=True),
        lambda reader: reader.fetch_range("k", 700, 700),
        lambda reader: reader.fetch_range(b"k", 700.0, 710),
        lambda reader: reader.fetch_range(b"k", 700, "710"),
        lambda reader: reader.fetch_range(b"k", 700, 710, reverse=1),
        lambda reader: reader.fetch_range(b"k", reverse=None),
        lambda reader: reader.fetch_all("700"),
        lambda reader: reader.fetch_all(first_key="k"),
        lambda reader: reader.fetch_all(last_key="k"),
        lambda reader: reader.fetch_all(reverse=0),
    ]
    out_of_bounds: list[Any] = [
        lambda reader: reader.fetch(b"k", -1),
        lambda reader: reader.fetch(b"k", LATEST_MS + 1),
        lambda reader: reader.fetch_many([b"k"], -1),
        lambda reader: reader.fetch_many([], -1),
        lambda reader: reader.fetch_many([b"k"], [LATEST_MS + 1]),
        lambda reader: reader.fetch_many([b"k"], [700, 700]),
        lambda reader: reader.fetch_range(b"k", -1, 700),
        lambda reader: reader.fetch_range(b"k", 700, LATEST_MS + 1),
        lambda reader: reader.fetch_range(b"k", 701, 700),
        lambda reader: reader.fetch_all(701, 700),
        lambda reader: reader.fetch_all(-1),
    ]
    for error, calls in ((InvalidTypeError, wrong_types), (InvalidArgumentError, out_of_bounds)):
        for number, call in enumerate(calls):
            for reader in (store, *facades):
                with (
                    subtests.test(type(reader).__name__, error=error.__name__, number=number),
                    pytest.raises(error),
                ):
                    call(reader)


@pytest.mark.spec("SES-8", "MET-12")
def test_a_session_that_nobody_knows_is_asked_for_once() -> None:
    """One that is pending is not, nor is one that has expired, which is counted."""
    asked = Asked(load_backend("memory").open("unused"))
    store: Any = open_on_engine(asked, Session("s", retention_ms=100), read_cache_bytes=0)
    store.put(b"k", 1_000, 1_000, b"stored")
    store.put(b"k", 900, 900, b"expired")
    store.put(b"k", 901, 901, b"at last")
    store.commit({})
    store.put(b"k", 990, 995, b"pending")
    store.put(b"k", 990, 996, None)
    asked.rows = []
    gets = store._engine_gets
    found = [
        store.fetch_session(b"k", *times)
        for times in ((1_000, 1_000), (900, 900), (901, 901), (990, 995), (990, 996), (5, 950))
    ]

    assert found == [b"stored", None, b"at last", b"pending", None, None]
    assert len(asked.rows) == store._engine_gets - gets == 3
    assert store._below_horizon == 1
    many = store.fetch_many([b"k"] * 3, [1_000, 900, 990], [1_000, 900, 995])
    assert many == [b"stored", None, b"pending"]
    assert len(asked.rows) == store._engine_gets - gets == 5
    assert store._below_horizon == 2
