"""Windows and joins beside naive models: lists and loops, with late data, commits and crashes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from drawn_bytes import drawn_lists
from hypothesis import given
from hypothesis import strategies as st

import statestores as ss
from statestores.processing import (
    Emission,
    Topic,
    Topology,
    Windowed,
    closed,
    hopping,
    session,
    sliding,
    tumbling,
    updates,
    windowed,
    within,
)
from statestores.processing.record import RawRecord, Record
from statestores.processing.runtime import TaskRuntime
from statestores.processing.windows import SessionWindows, TimeWindows

# Few times and many records: what is right or wrong at a bound happens in most lives.
MAX_TIME_MS = 24
LEAST_STEPS, MOST_STEPS = 12, 50

COMMIT, CRASH = "commit", "crash"

_KINDS = ("record", "record", COMMIT, CRASH)
lives = drawn_lists(
    (_KINDS, "ab", range(MAX_TIME_MS + 1), "lr"), min_size=LEAST_STEPS, max_size=MOST_STEPS
).map(lambda steps: [step[1:] if step[0] == "record" else step[0] for step in steps])

IN = Topic("l", key=ss.utf8, value=ss.utf8)
RIGHT = Topic("r", key=ss.utf8, value=ss.utf8)
OUT = Topic("out", key=windowed(ss.utf8), value=ss.json)


class Life:
    """One task over stores in memory, which commits and crashes when it is told to."""

    def __init__(self, topology: Topology) -> None:
        """Open the stores once: they outlive the runtimes."""
        graph = topology.build()
        (self.part,) = graph.sub_topologies
        self.stores: dict[str, Any] = {
            store.name: ss.open_store("unused", store, backend="memory")
            for store in self.part.stores
        }
        self.output: list[tuple[str, RawRecord]] = []
        self.pending: list[tuple[str, RawRecord]] = []
        self.since: list[tuple[str, RawRecord]] = []
        self.committed_drops = 0
        self.begin()

    def begin(self) -> None:
        """Make a runtime over what the stores have."""
        self.runtime = TaskRuntime(self.part, 0, self.stores, self, wall_ms=0)

    def emit(self, topic: str, record: RawRecord, partition: int | None) -> None:
        """Hold the output back until the commit."""
        self.pending.append((topic, record))

    def process(self, topic: str, record: RawRecord) -> None:
        """Take a record."""
        self.since.append((topic, record))
        self.runtime.process(topic, 0, 0, record)

    def commit(self) -> None:
        """Make stores and output one."""
        self.runtime.prepare_commit()
        for store in self.stores.values():
            store.commit({})
        self.output += self.pending
        self.committed_drops += self.runtime.counts.dropped_total
        self.runtime.counts.dropped.clear()
        self.pending, self.since = [], []

    def crash(self) -> None:
        """Forget what is not committed, and process it again in a new runtime."""
        for store in self.stores.values():
            store.rollback()
        again, self.pending, self.since = self.since, [], []
        self.begin()
        for topic, record in again:
            self.process(topic, record)

    def live(self, steps: list[Any]) -> None:
        """Do every step, then commit."""
        for number, step in enumerate(steps):
            if step == COMMIT:
                self.commit()
            elif step == CRASH:
                self.crash()
            else:
                key, time_ms, topic = step
                raw: RawRecord = Record(key.encode(), f"{topic}{number}".encode(), time_ms)
                self.process(topic, raw)
        self.commit()

    def close(self) -> None:
        """Close all."""
        for store in self.stores.values():
            store.close()


def given_records(steps: list[Any]) -> Iterator[tuple[int, str, int, str]]:
    """Yield number, key, time and topic of each record of a life."""
    for number, step in enumerate(steps):
        if step not in (COMMIT, CRASH):
            yield number, *step


def aggregated(windows: Any, store: Any, emission: Emission) -> Topology:
    """Return the topology that counts by *windows*. Both letters are read as one topic."""
    topology = Topology("model")
    stream = topology.stream(IN).merge(topology.stream(RIGHT))
    stream.group_by_key().window(windows).count(store, emit=emission).to(OUT)
    return topology


def emitted(life: Life) -> list[tuple[Windowed[str], Any, int]]:
    """Return what came out."""
    return [
        (OUT.key.decode(each.key or b""), each.value and int(each.value), each.time_ms)
        for _, each in life.output
    ]


def window_store(windows: Any) -> ss.Window[str, int]:
    """Return a store that fits *windows* exactly."""
    return ss.Window(
        "w",
        retention_ms=windows.least_retention_ms,
        window_size_ms=windows.store_size_ms,
        key=ss.utf8,
        value=ss.int64,
    )


def model_of_windows(
    windows: TimeWindows, steps: list[Any], *, on_close: bool
) -> tuple[list[tuple[Windowed[str], int, int]], int]:
    """Return what a windowed count gives, and how often a record was late: a dict and loops."""
    now, late = -1, 0
    counts: dict[tuple[int, str], tuple[int, int]] = {}
    given_out: set[tuple[int, str]] = set()
    out = []
    for _, key, time_ms, _ in given_records(steps):
        now = max(now, time_ms)
        for start, other in sorted(counts):
            over = start + windows.size_ms + windows.grace_ms <= now
            if on_close and over and (start, other) not in given_out:
                given_out.add((start, other))
                window = Windowed(other, start, start + windows.size_ms)
                out.append((window, *counts[start, other]))
        for start in range(0, time_ms + 1, windows.advance_ms):
            if start + windows.size_ms <= time_ms:
                continue
            if start + windows.size_ms + windows.grace_ms <= now:
                late += 1
                continue
            count, seen = counts.get((start, key), (0, time_ms))
            counts[start, key] = count + 1, max(seen, time_ms)
            if not on_close:
                window = Windowed(key, start, start + windows.size_ms)
                out.append((window, *counts[start, key]))
    return out, late


@pytest.mark.spec("PRC-12", "PRC-20", "PRC-21", "PRC-22")
@pytest.mark.parametrize("on_close", [False, True])
@given(
    steps=lives,
    shape=st.sampled_from([(10, 10), (10, 5), (7, 3), (1, 1)]),
    grace_ms=st.sampled_from([0, 1, 6]),
)
def test_time_windows_are_as_the_model(
    on_close: bool, steps: list[Any], shape: tuple[int, int], grace_ms: int
) -> None:
    """Outputs and late records, with the shortest retention that is allowed."""
    windows = hopping(*shape, grace_ms=grace_ms)
    life = Life(aggregated(windows, window_store(windows), closed() if on_close else updates()))
    life.live(steps)
    found = emitted(life), life.committed_drops
    life.close()

    assert found == model_of_windows(windows, steps, on_close=on_close)


def model_of_sessions(
    windows: SessionWindows, steps: list[Any], *, on_close: bool
) -> tuple[list[tuple[Windowed[str], int | None, int]], int]:
    """Return what a count by sessions gives: a list of sessions and loops."""
    now, late = -1, 0
    open_sessions: list[tuple[int, int, str, int]] = []  # end, start, key, count
    out: list[tuple[Windowed[str], int | None, int]] = []
    for _, key, time_ms, _ in given_records(steps):
        now = max(now, time_ms)
        over = sorted(s for s in open_sessions if s[0] + windows.gap_ms + windows.grace_ms < now)
        open_sessions = [s for s in open_sessions if s not in over]
        if on_close:
            out += [(Windowed(k, start, end), count, end) for end, start, k, count in over]
        near = sorted(
            s
            for s in open_sessions
            if s[2] == key and s[0] >= time_ms - windows.gap_ms and s[1] <= time_ms + windows.gap_ms
        )
        start, end = min([time_ms, *(s[1] for s in near)]), max([time_ms, *(s[0] for s in near)])
        if end + windows.gap_ms + windows.grace_ms < now:
            late += 1
            continue
        if (start, end) != (time_ms, time_ms) and not on_close:
            out += [(Windowed(key, s[1], s[0]), None, s[0]) for s in near]
        open_sessions = [s for s in open_sessions if s not in near]
        merged = (end, start, key, 1 + sum(s[3] for s in near))
        open_sessions.append(merged)
        if not on_close:
            out.append((Windowed(key, start, end), merged[3], end))
    return out, late


@pytest.mark.spec("PRC-12", "PRC-21", "PRC-22", "PRC-25")
@pytest.mark.parametrize("on_close", [False, True])
@given(steps=lives, gap_ms=st.sampled_from([1, 3, 8]), grace_ms=st.sampled_from([0, 1, 6]))
def test_sessions_are_as_the_model(
    on_close: bool, steps: list[Any], gap_ms: int, grace_ms: int
) -> None:
    """Merges, tombstones, late records, final results."""
    windows = session(gap_ms, grace_ms=grace_ms)
    store = ss.Session("s", retention_ms=windows.least_retention_ms, key=ss.utf8, value=ss.int64)
    life = Life(aggregated(windows, store, closed() if on_close else updates()))
    life.live(steps)
    found = emitted(life), life.committed_drops
    life.close()

    assert found == model_of_sessions(windows, steps, on_close=on_close)


@pytest.mark.spec("PRC-24")
@given(steps=lives, difference_ms=st.sampled_from([1, 4, 9, 30]))
def test_sliding_windows_are_as_the_model(steps: list[Any], difference_ms: int) -> None:
    """When nothing is late, the store has each window with each of its records."""
    windows = sliding(difference_ms, grace_ms=MAX_TIME_MS)
    life = Life(aggregated(windows, window_store(windows), updates()))
    life.live(steps)
    found = {(each.key, each.start_ms): each.value.value for each in life.stores["w"].fetch_all()}
    life.close()

    times: dict[str, list[int]] = {}
    for _, key, time_ms, _ in given_records(steps):
        times.setdefault(key, []).append(time_ms)
    wanted = {}
    for key, all_times in times.items():
        for time_ms in all_times:
            for start in (max(0, time_ms - difference_ms), time_ms + 1):
                count = sum(start <= each <= start + difference_ms for each in all_times)
                if count:
                    wanted[key, start] = count
    assert found == wanted


def joiner(one: str | None, other: str | None) -> str:
    """Return both sides."""
    return f"{one}+{other}"


def model_of_join(  # noqa: C901  # naive on purpose: one loop that can be read at once
    how: str, before: int, after: int, grace: int, steps: list[Any]
) -> tuple[list[tuple[str, str, int]], int]:
    """Return what a join of streams gives: two lists and loops."""
    now, late = -1, 0
    kept: dict[str, list[tuple[str, int, str]]] = {"l": [], "r": []}
    alone: list[tuple[int, bool, str, int, str]] = []  # time, is left, key, number, value
    out = []
    for number, key, time_ms, side in given_records(steps):
        value, is_left = f"{side}{number}", side == "l"
        now = max(now, time_ms)
        own_before, own_after = (before, after) if is_left else (after, before)
        comes_alone = how == "outer" or (how == "left" and is_left)
        if how == "inner" and time_ms + own_after + grace < now:
            late += 1
            continue
        if time_ms == now:
            for each in sorted(alone):
                at, was_left, other_key, _, other = each
                if at + (after if was_left else before) + grace < now:
                    alone.remove(each)
                    pair = joiner(other, None) if was_left else joiner(None, other)
                    out.append((other_key, pair, at))
        matched = False
        # The store of the other side keeps what is within reach of the latest record of that side.
        others = kept["r" if is_left else "l"]
        horizon = max((at for _, at, _ in others), default=0) - (before + after + grace + 1)
        for other_key, at, other in sorted(others, key=lambda each: each[1]):
            if other_key == key and -own_before <= at - time_ms <= own_after and at > horizon:
                matched = True
                alone = [a for a in alone if (a[0], a[1], a[2]) != (at, not is_left, key)]
                pair = joiner(value, other) if is_left else joiner(other, value)
                out.append((key, pair, max(time_ms, at)))
        if not matched and comes_alone:
            if time_ms + own_after < now:
                pair = joiner(value, None) if is_left else joiner(None, value)
                out.append((key, pair, time_ms))
            else:
                alone.append((time_ms, is_left, key, number, value))
        own = kept[side]
        newest = max((at for _, at, _ in own), default=time_ms)
        if time_ms > newest - (before + after + grace + 1):
            own.append((key, time_ms, value))
    return out, late


@pytest.mark.spec("PRC-12", "PRC-32", "PRC-33", "PRC-34")
@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@given(
    steps=lives,
    reach=st.sampled_from([(0, 0), (3, 3), (5, 0), (0, 8), (2, 6)]),
    grace_ms=st.sampled_from([0, 1, 6]),
)
def test_stream_joins_are_as_the_model(
    how: Any, steps: list[Any], reach: tuple[int, int], grace_ms: int
) -> None:
    """Matches, what comes out alone and when, and late records."""
    before, after = reach
    topology = Topology("model")
    window = within(0, before_ms=before, after_ms=after, grace_ms=grace_ms)
    topology.stream(IN).join(
        topology.stream(RIGHT), joiner, within=window, how=how, value=ss.utf8
    ).to(Topic("out", key=ss.utf8, value=ss.utf8))
    life = Life(topology)
    life.live(steps)
    found = [
        ((each.key or b"").decode(), (each.value or b"").decode(), each.time_ms)
        for _, each in life.output
    ]
    drops = life.committed_drops
    life.close()

    assert (found, drops) == model_of_join(how, before, after, grace_ms, steps)


@pytest.mark.spec("PRC-36")
@given(steps=lives, wait_ms=st.sampled_from([1, 4, 9]))
def test_as_of_joins_that_wait_are_as_the_model(steps: list[Any], wait_ms: int) -> None:
    """Each record, in the order of times, with the row as of its time when its wait is over."""
    topology = Topology("model")
    rows = ss.Versioned("rows", history_retention_ms=ss.DAY, key=ss.utf8, value=ss.utf8)
    topology.stream(IN).join_as_of(
        topology.table(RIGHT, rows), joiner, how="left", wait_ms=wait_ms, value=ss.utf8
    ).to(Topic("out", key=ss.utf8, value=ss.utf8))
    life = Life(topology)
    life.live(steps)
    found = [((each.value or b"").decode(), each.time_ms) for _, each in life.output]
    life.close()

    now, waiting, versions, wanted = -1, [], dict[tuple[str, int], str](), list[Any]()

    def row(key: str, time_ms: int) -> str | None:
        times = [at for other, at in versions if other == key and at <= time_ms]
        return versions[key, max(times)] if times else None

    for number, key, time_ms, side in given_records(steps):
        if side == "r":
            versions[key, time_ms] = f"r{number}"
            continue
        now = max(now, time_ms)
        if time_ms < now - wait_ms:
            wanted.append((joiner(f"l{number}", row(key, time_ms)), time_ms))
            continue
        waiting.append((time_ms, key, number))
        for each in sorted(waiting):
            if each[0] <= now - wait_ms:
                waiting.remove(each)
                wanted.append((joiner(f"l{each[2]}", row(each[1], each[0])), each[0]))
    assert found == wanted


@pytest.mark.spec("PRC-23")
def test_an_idle_stream_closes_its_windows() -> None:
    """By the wall clock, once; what comes later for them is late."""
    windows = tumbling(10)
    emission = closed(idle_ms=100)
    with aggregated(windows, window_store(windows), emission).test() as driver:
        pipe: Callable[..., None] = driver.topic("l").pipe
        pipe("x", key="a", time_ms=5)
        driver.advance_wall_clock(60)
        pipe("x", key="a", time_ms=6)
        driver.advance_wall_clock(60)
        assert driver.topic("out").is_empty
        driver.advance_wall_clock(40)
        assert driver.topic("out").read() == (Windowed("a", 0, 10), 2, 6, ())
        driver.advance_wall_clock(1000)
        pipe("x", key="a", time_ms=7)
        assert driver.dropped_total == 1
        assert driver.topic("out").is_empty
