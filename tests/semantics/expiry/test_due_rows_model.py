"""What is remembered of rows that expire, step by step: each key once, and every byte counted."""

from collections import Counter
from itertools import product
from random import Random

from statestores.semantics.expiry.due_rows import (
    BUCKETS,
    ROW_OVERHEAD_BYTES,
    Dated,
    DueRows,
)
from statestores_conformance.many_cases import for_each

LIFE_MS = 320
WIDTH_MS = LIFE_MS // BUCKETS
STEPS = 400
PLENTY = 1 << 20
ROW_BYTES = ROW_OVERHEAD_BYTES + 2


def dated(times_ms: dict[bytes, int]) -> Dated | None:
    """Return rows with times; ``None`` for none."""
    times = times_ms.values()
    return Dated(times_ms, min(times), max(times), times_ms.values) if times_ms else None


class Life:
    """Commits of a store that remembers rows, and what is known of each row without it."""

    def __init__(self, seed: int, capacity: int) -> None:
        self.chance = Random(seed)
        self.due = DueRows(LIFE_MS, capacity)
        self.capacity = capacity
        self.times: dict[bytes, int] = {}  # of what the engine has
        self.latest: dict[bytes, int] = {}  # until when a row may wait
        self.has_all = capacity == PLENTY
        self.now_ms = 0

    def written(self) -> tuple[dict[bytes, bytes | None], dict[bytes, int]]:
        """Return what a commit writes, and the times of what it puts."""
        batch: dict[bytes, bytes | None] = {}
        times: dict[bytes, int] = {}
        span_ms = self.chance.choice([1, 15, 75, 400])
        for _ in range(self.chance.choice([1, 4, 40])):
            key = b"%02d" % self.chance.randrange(60)
            is_put = self.chance.random() < 0.8
            batch[key] = b"" if is_put else None
            times.pop(key, None)
            if is_put:
                times[key] = self.now_ms + self.chance.randrange(span_ms)
        return batch, times

    def take(self, batch: dict[bytes, bytes | None]) -> None:
        """Add what has expired to *batch*: nothing before its time, and nothing too late."""
        horizon_ms = self.now_ms - LIFE_MS
        most = self.chance.choice([0, 1, 7, 1_000])
        before = dict(batch)
        waiting = [key for key in self.times if key in self.due and self.latest[key] <= horizon_ms]
        taken = self.due.take(batch, horizon_ms, most)

        assert list(taken) == sorted(set(taken))
        assert len(taken) <= most
        assert self.due.has_begun is (self.capacity > 0)
        assert all(self.times[key] <= horizon_ms for key in taken)
        assert batch == dict.fromkeys(taken) | before
        assert most < 1_000 or set(waiting) <= set(taken)

    def commit(self, batch: dict[bytes, bytes | None], times: dict[bytes, int]) -> None:
        """Have the engine take *batch*."""
        gone = [key for key, row in batch.items() if row is None]
        known = {key for key in times if key in self.due}
        self.due.commit(batch, dated(times), gone)
        for key in gone:
            self.times.pop(key, None)
        for key, time_ms in times.items():
            last_ms = max(times.values())
            is_wide = last_ms - min(times.values()) > 8 * WIDTH_MS
            latest_ms = (time_ms if is_wide else last_ms) + WIDTH_MS - 1
            # One that was there waits in its old bucket first.
            self.latest[key] = max(latest_ms, self.latest[key] if key in known else 0)
            self.times[key] = time_ms
        self.check()

    def walk(self) -> None:
        """Look at every row, if there is memory for more."""
        self.due.begin_pass()
        if self.due.learns and self.times:
            self.due.learn(dict(self.times))
            last_ms = max(self.times.values()) + WIDTH_MS
            self.latest |= {key: max(self.latest[key], last_ms) for key in self.times}
        self.due.end_pass()
        self.has_all = self.has_all or (self.capacity == PLENTY and self.due.is_complete)
        self.check()

    def forget(self) -> None:
        """Forget everything."""
        self.due.forget()
        self.has_all = False
        self.check()

    def check(self) -> None:
        """See that each key is in one place, and that what they take is counted."""
        due = self.due
        placed = Counter(key for keys in due._buckets.values() for key in keys)

        assert due._taken == []
        assert set(placed) == set(due._bucket_of)
        assert set(placed.values()) <= {1}
        assert due._held_bytes == sum(ROW_OVERHEAD_BYTES + len(key) for key in due._bucket_of)
        assert due._held_bytes <= self.capacity
        assert sorted(due._numbers) == sorted(due._buckets)
        assert due.learns is (due._held_bytes < self.capacity)
        if due.is_complete or self.has_all:
            assert all(key in due for key in self.times)


@for_each(("seed", "capacity"), product(range(3), [0, 10 * ROW_BYTES, 40 * ROW_BYTES + 1, PLENTY]))
def test_each_key_is_in_one_bucket_and_all_of_them_in_their_memory(
    seed: int, capacity: int
) -> None:
    """Through puts of any span, deletions, batches that are given up, and walks.

    No row is taken before its time, or waits for longer than its bucket and what its commit spans;
    and where there is memory for all of them none is forgotten.
    """
    life = Life(seed, capacity)
    assert not life.due.has_begun
    for _ in range(STEPS):
        life.now_ms += life.chance.choice([1, 3, 40, 200])
        batch, times = life.written()
        before = dict(batch)
        life.take(batch)
        is_given_up = life.chance.random() < 0.1  # and made anew, without what was taken
        life.commit(before if is_given_up else batch, times)
        fate = life.chance.random()
        if fate < 0.02:
            life.forget()
        elif fate < 0.1:
            life.walk()


def test_a_commit_of_many_rows_goes_at_its_highest_time_if_it_spans_more_than_a_bucket() -> None:
    """And of few rows, or within a bucket, at the end of one: buckets are few that way."""
    for rows, span, own in [
        (BUCKETS, WIDTH_MS + 1, True),
        (BUCKETS - 1, WIDTH_MS + 1, False),
        (BUCKETS, WIDTH_MS, False),
        (BUCKETS, 8 * WIDTH_MS, True),
    ]:
        due = DueRows(LIFE_MS, PLENTY)
        times = {b"%02d" % number: 1_002 for number in range(rows - 1)} | {b"high": 1_002 + span}
        due.commit(dict.fromkeys(times, b""), dated(times))
        end = (1_002 + span) // WIDTH_MS * WIDTH_MS + WIDTH_MS - 1
        assert set(due._buckets) == {1_002 + span if own else end}


def test_a_commit_that_spans_more_has_each_row_in_its_own_bucket() -> None:
    """One more than eight of them: waiting for the highest would keep the others too long."""
    due = DueRows(LIFE_MS, PLENTY)
    times = {b"low": 1_000, b"mid": 1_005, b"high": 1_000 + 8 * WIDTH_MS + 1}
    due.commit(dict.fromkeys(times, b""), dated(times))

    assert due._buckets == {1_009: [b"low", b"mid"], 1_089: [b"high"]}


@for_each(("lifetime_ms", "width_ms"), [(0, 1), (31, 1), (64, 2), (6_400, 200)])
def test_a_bucket_is_a_32nd_of_the_lifetime_and_a_millisecond_at_least(
    lifetime_ms: int, width_ms: int
) -> None:
    """Of a short lifetime as well: a width of none divided by nothing."""
    due = DueRows(lifetime_ms, PLENTY)
    due.commit({b"a": b""}, dated({b"a": 10 * width_ms}))

    assert set(due._buckets) == {11 * width_ms - 1}


def test_what_has_exactly_its_memory_fits_and_then_nothing_more_is_learnt() -> None:
    """A walk need not report rows for which there is no room, and is not complete without them."""
    due = DueRows(LIFE_MS, 2 * ROW_BYTES)
    due.begin_pass()
    due.learn({b"aa": 5, b"bb": 500})
    assert (b"aa" in due, b"bb" in due, due.learns) == (True, True, False)
    found = []

    def end_pass() -> None:
        due.end_pass()
        found.append(due.is_complete)

    end_pass()
    due.forget()
    end_pass()
    due.begin_pass()
    due.learn({b"aa": 5})
    end_pass()
    end_pass()
    due.commit({b"bb": b"", b"cc": b""}, dated({b"bb": 5, b"cc": 5}))
    end_pass()

    assert found == [False, False, True, True, False]
    assert b"bb" not in due


def test_a_capacity_of_one_byte_begins_and_one_of_none_does_not() -> None:
    """Without memory a commit is not read for when its rows expire."""
    for capacity, begins in [(0, False), (1, True)]:
        due = DueRows(LIFE_MS, capacity)
        due.take({}, 0, 1)

        assert due.has_begun is begins
