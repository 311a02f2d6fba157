"""A record's way through a task: order, context, timers, state, what is dropped."""

from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import CapabilityNotSupportedError, ProcessingError, StoreNotFoundError
from statestores.processing import (
    Cogrouped,
    Context,
    Processor,
    Record,
    Topic,
    Topology,
    closed,
    tumbling,
    windowed,
    within,
)
from statestores.processing.runtime import RecordOrder
from statestores_conformance.many_cases import for_each

LINES = Topic("lines", key=ss.utf8, value=ss.utf8)
OUT = Topic("out", key=ss.utf8, value=ss.json)


def counts(name: str = "counts") -> ss.KeyValue[str, int]:
    """Return a store of counts."""
    return ss.KeyValue(name, key=ss.utf8, value=ss.int64)


class Look(Processor[str, str, str, Any]):
    """Says where a record is from, and what time it is."""

    def open(self, context: Context[str, Any]) -> None:
        """Look every ten milliseconds."""
        context.every(10, self.look)

    def process(self, record: Record[str, str]) -> None:
        """Forward what the context says."""
        context = self.context
        said = [context.topic, context.partition, context.offset, context.stream_time_ms]
        self.forward(record.with_value(said))

    def look(self, now_ms: int) -> None:
        """The same in a timer."""
        self.process(Record("timer", "", now_ms))


@pytest.mark.spec("PRC-8", "PRC-10", "PRC-13")
def test_the_context_of_a_record_and_of_a_timer() -> None:
    """A timer has no topic and no offset; stream time does not go backward."""
    topology = Topology("where")
    topology.stream(LINES).process(Look).to(OUT)
    with topology.test() as driver:
        for time_ms in (25, 7):
            driver.topic("lines").pipe("x", key="a", time_ms=time_ms)
        rows = [record.value for record in driver.topic("out").read_all()]

    assert rows == [["lines", 0, 0, 25], ["", 0, -1, 25], ["lines", 0, 1, 25]]


@pytest.mark.spec("PRC-7")
def test_children_are_served_depth_first_with_headers() -> None:
    """The first child's descendants come before the second child."""
    seen: list[tuple[str, str]] = []
    topology = Topology("order")
    lines = topology.stream(LINES)
    first = lines.flat_map_values(lambda value: [value + "1", value + "2"])
    first.peek(lambda record: seen.append(("first", record.value)))
    lines.peek(lambda record: seen.append(("second", record.value)))
    first.to(OUT)
    with topology.test() as driver:
        driver.topic("lines").pipe("x", key="a", time_ms=1, headers=(("h", b"1"),))
        out = driver.topic("out").read_all()

    assert seen == [("first", "x1"), ("first", "x2"), ("second", "x")]
    assert {record.headers for record in out} == {(("h", b"1"),)}


class Ticks(Processor[str, str, str, int]):
    """Counts by stream time, and cancels itself after three."""

    ticks = ss.KeyValue("ticks", key=ss.utf8, value=ss.int64)

    def open(self, context: Context[str, int]) -> None:
        """Tick."""
        self.timer = context.every(10, self.tick)

    def process(self, record: Record[str, str]) -> None:
        """Only time matters."""

    def tick(self, now_ms: int) -> None:
        """Count, across restarts."""
        store = self.store(self.ticks)
        count = (store.get("n") or 0) + 1
        store.put("n", count)
        self.forward(Record("tick", count, now_ms))
        if count == 3:
            self.timer.cancel()


@pytest.mark.spec("PRC-12", "PRC-13", "PRC-47")
@pytest.mark.parametrize("backend", ["rocksdb", "sqlite"])
def test_timers_and_times_survive_a_restart(tmp_path: Path, backend: str) -> None:
    """With a restart after each record, everything is as without one."""
    topology = Topology("ticking")
    stream = topology.stream(LINES)
    stream.process(Ticks).to(OUT)
    late = ss.Window("w", retention_ms=10, window_size_ms=10, key=ss.utf8, value=ss.int64)
    stream.group_by_key().window(tumbling(10)).count(late)
    got, dropped = [], 0
    for time_ms in (5, 9, 12, 3, 18, 25, 31, 60):
        with topology.test(backend=backend, directory=tmp_path) as driver:
            driver.topic("lines").pipe("x", key="a", time_ms=time_ms)
            got += [(each.value, each.time_ms) for each in driver.topic("out").read_all()]
            dropped += driver.dropped_total

    assert got == [(1, 5), (2, 12), (3, 25)]
    assert dropped == 1  # the record at 3 is late, though the window's time was made anew


@pytest.mark.spec("PRC-47")
def test_what_was_not_committed_is_forgotten(tmp_path: Path) -> None:
    """A driver goes on from the last commit, with its offsets."""
    topology = Topology("t")
    topology.stream(LINES).group_by_key().count(counts())
    topology.stream(LINES).process(Look).to(OUT)
    with topology.test(backend="sqlite", directory=tmp_path, commit_each=False) as driver:
        driver.topic("lines").pipe("x", key="a", time_ms=1)
        driver.commit()
        driver.topic("lines").pipe("x", key="a", time_ms=1)
    with topology.test(backend="sqlite", directory=tmp_path) as driver:
        driver.topic("lines").pipe("x", key="a", time_ms=1)

        assert driver.store("counts").get("a") == 2
        assert driver.topic("out").read().value[2] == 1


class Greedy(Processor[str, str, str, str]):
    """Wants to commit."""

    mine = ss.KeyValue("mine", key=ss.utf8, value=ss.utf8)
    other = ss.KeyValue("other", key=ss.utf8, value=ss.utf8)

    def process(self, record: Record[str, str]) -> None:
        """Do what the value says."""
        if record.value == "commit":
            self.store(self.mine).commit({})
        if record.value == "ask":
            self.context.commit()
        if record.value == "foreign":
            self.store(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))


@pytest.mark.spec("PRC-16")
def test_processors_do_not_commit() -> None:
    """Nor do they reach stores that they have not declared; they may ask."""
    topology = Topology("greedy")
    stream = topology.stream(LINES)
    stream.process(Greedy)
    stream.group_by_key().count(counts())
    with topology.test(commit_each=False) as driver:
        driver.topic("lines").pipe("ask", key="a", time_ms=1)
        assert driver._tasks[0].runtime.commit_requested
        with pytest.raises(ProcessingError) as commit:
            driver.topic("lines").pipe("commit", key="a", time_ms=1)
    with topology.test(commit_each=False) as driver, pytest.raises(ProcessingError) as foreign:
        driver.topic("lines").pipe("foreign", key="a", time_ms=1)

    assert isinstance(commit.value.__cause__, CapabilityNotSupportedError)
    assert isinstance(foreign.value.__cause__, StoreNotFoundError)


@pytest.mark.spec("PRC-14", "PRC-15", "PRC-28", "PRC-40")
def test_aggregates_skip_what_is_absent(caplog: pytest.LogCaptureFixture) -> None:
    """Key, value, or the field that is summed; each is counted with its reason, and told once."""
    topology = Topology("sums")
    orders = topology.stream(Topic("orders", key=ss.utf8, value=ss.json))
    sums = orders.group_by_key().sum("value.eur", ss.KeyValue("sums", key=ss.utf8, value=ss.json))
    sums.to(OUT)
    with topology.test() as driver:
        pipe = driver.topic("orders").pipe
        pipe({"eur": 2}, key="a", time_ms=9)
        pipe({"eur": 3}, key="a", time_ms=4)
        pipe({"eur": 1}, key=None, time_ms=5)
        pipe(None, key="a", time_ms=5)
        pipe({"eur": None}, key="a", time_ms=5)
        out = [(record.value, record.time_ms) for record in driver.topic("out").read_all()]
        (dropped,) = (counts.dropped for counts in driver.counts)

        assert driver.store("sums").get("a") == 5
        assert driver.store("sums", stamped=True).get("a") == (5, 9)
    assert out == [(2, 9), (5, 9)]
    assert dropped == {("sums", "null-key"): 1, ("sums", "null-value"): 2}
    assert "sums dropped a record: null-key (topic orders, partition 0, offset 2)" in caplog.text


@pytest.mark.spec("PRC-15")
def test_an_aggregate_that_becomes_none_is_deleted() -> None:
    """The deletion is forwarded."""
    topology = Topology("folds")
    table = (
        topology.stream(LINES)
        .group_by_key()
        .aggregate(
            "",
            lambda so_far, value: None if value == "x" else so_far + value,
            ss.KeyValue("texts", key=ss.utf8, value=ss.utf8),
        )
    )
    table.to_stream().to(Topic("out", key=ss.utf8, value=ss.utf8))
    with topology.test() as driver:
        for value in ("a", "x", "b"):
            driver.topic("lines").pipe(value, key="k", time_ms=1)
        values = [record.value for record in driver.topic("out").read_all()]

    assert values == ["a", None, "b"]


@for_each(("name", "wanted"), [("min", 1), ("max", 5), ("sum", 9), ("mean", 3.0)])
def test_the_named_aggregates(name: str, wanted: float) -> None:
    """Minimum, maximum, sum and mean of a field."""
    topology = Topology("named")
    group = topology.stream(Topic("in", key=ss.utf8, value=ss.json)).group_by_key()
    aggregate: Any = getattr(group, name)
    aggregate("value.n", ss.KeyValue("s", key=ss.utf8, value=ss.json)).to(OUT)
    with topology.test() as driver:
        for number in (3, 5, 1):
            driver.topic("in").pipe({"n": number}, key="k", time_ms=1)

        assert driver.store("s").get("k") == wanted
        assert driver.topic("out").read_all()[-1].value == wanted


@pytest.mark.spec("PRC-39")
def test_cogrouped_streams_make_one_row() -> None:
    """Each group has a fold of its own."""
    topology = Topology("cart")
    adds = topology.stream(Topic("adds", key=ss.utf8, value=ss.int64)).group_by_key()
    takes = topology.stream(Topic("takes", key=ss.utf8, value=ss.int64)).group_by_key()
    store = ss.KeyValue("carts", key=ss.utf8, value=ss.int64)
    table = (
        adds.cogroup(lambda cart, value: cart + value)
        .cogroup(takes, lambda cart, value: cart - value)
        .aggregate(int, store)
    )
    table.to(OUT)
    with topology.test() as driver:
        driver.topic("adds").pipe(5, key="a", time_ms=1)
        driver.topic("takes").pipe(2, key="a", time_ms=2)

        assert driver.store("carts").get("a") == 3
        assert [each.value for each in driver.topic("out").read_all()] == [5, 3]


@pytest.mark.spec("PRC-22", "PRC-39")
def test_cogrouped_windows_are_closed_by_each_of_their_streams() -> None:
    """They have one time, and each window comes out once."""
    topology = Topology("cart")
    store = ss.Window("w", retention_ms=10, window_size_ms=10, key=ss.utf8, value=ss.int64)
    adds, takes = (
        topology.stream(Topic(name, key=ss.utf8, value=ss.int64)).group_by_key()
        for name in ("adds", "takes")
    )
    carts: Cogrouped[str, int] = adds.cogroup(lambda cart, value: cart + value)
    carts.cogroup(takes, lambda cart, value: cart - value).window(tumbling(10)).aggregate(
        int, store, emit=closed()
    ).to(Topic("out", key=windowed(ss.utf8), value=ss.json))
    with topology.test() as driver:
        driver.topic("adds").pipe(5, key="a", time_ms=1)
        driver.topic("takes").pipe(2, key="a", time_ms=2)
        driver.topic("takes").pipe(1, key="a", time_ms=12)
        driver.topic("adds").pipe(1, key="a", time_ms=3)
        driver.topic("adds").pipe(1, key="a", time_ms=25)
        out = [(record.key.start_ms, record.value) for record in driver.topic("out").read_all()]

        assert out == [(0, 3), (10, -1)]
        assert driver.dropped_total == 1


@pytest.mark.spec("PRC-34", "PRC-38")
def test_whatever_moves_time_lets_others_come_out_alone(subtests: pytest.Subtests) -> None:
    """A record that a join does not match moved its time, and nothing came out by that.

    What had waited long enough did so until a record with a key and a value was no earlier.
    """
    topology = Topology("alone")
    left, right = topology.stream(LINES), topology.stream(Topic("r", key=ss.utf8, value=ss.utf8))
    joined = left.join(right, lambda one, other: [one, other], within=within(5), how="left")
    joined.to(OUT)
    for moving in (Record(None, "no key", 100), Record("k", None, 100)):
        with subtests.test(repr(moving)), topology.test() as driver:
            driver.topic("lines").pipe("x", key="k", time_ms=1)
            driver.topic("lines").pipe(moving.value, key=moving.key, time_ms=moving.time_ms)
            found = driver.topic("out").read_all()

            assert found[0] == ("k", ["x", None], 1, ())


@pytest.mark.spec("PRC-30")
def test_records_are_repartitioned_only_after_the_key_may_have_changed() -> None:
    """An internal topic costs; after a filter there is none."""
    plain, moved = Topology("plain"), Topology("moved")
    plain.stream(LINES).filter(lambda record: True).group_by_key().count(counts())
    moved.stream(LINES).rekey("value", key=ss.utf8).group_by_key().count(counts())

    assert [topic.name for topic in plain.build().internal_topics] == []
    assert [topic.name for topic in moved.build().internal_topics] == ["moved-counts-repartition"]


@pytest.mark.spec("PRC-31")
def test_a_record_without_key_is_dropped_where_it_is_repartitioned() -> None:
    """It is counted."""
    topology = Topology("moved")
    topology.stream(LINES).rekey("value", key=ss.utf8).group_by_key().count(counts())
    with topology.test(partitions=3) as driver:
        for value in ("a", None, "b", "a"):
            driver.topic("lines").pipe(value, key="k", time_ms=1)
        found: dict[str, int] = {}
        for partition in range(3):
            found |= dict(driver.store("counts", partition).range())

        assert found == {"a": 2, "b": 1}
        assert driver.dropped_total == 1


@pytest.mark.spec("PRC-29")
@for_each("bad", [-1, None, 1.5, "soon", 1 << 63])
def test_bad_times_are_refused_or_replaced(bad: Any) -> None:
    """By the error policy, or by the partition's time."""
    orders = Topic("orders", value=ss.json)
    strict, lenient = Topology("strict"), Topology("lenient")
    strict.stream(orders, time="value.at").to(Topic("out", value=ss.json))
    lenient.stream(orders, time="value.at", use_partition_time=True).to(Topic("out", value=ss.json))
    with strict.test() as driver, pytest.raises(ProcessingError, match="use_partition_time"):
        driver.topic("orders").pipe({"at": bad}, time_ms=1)
    with lenient.test() as driver:
        driver.topic("orders").pipe({"at": 7}, time_ms=1)
        driver.topic("orders").pipe({"at": bad}, time_ms=1)

        assert [record.time_ms for record in driver.topic("out").read_all()] == [7, 7]


@pytest.mark.spec("PRC-11")
def test_a_task_waits_for_an_empty_partition_as_long_as_it_may() -> None:
    """Known to have more: however long. Not known: so long."""
    one, other = ss.TopicPartition("a", 0), ss.TopicPartition("b", 0)
    order: RecordOrder[str] = RecordOrder((one, other), max_task_idle_ms=100)
    order.buffer(one, [(5, "x")])

    assert [order.is_ready(at) for at in (0, 99, 100)] == [False, False, True]
    order.set_lag(other, 3)
    assert not order.is_ready(10_000)
    order.buffer(other, [(2, "y")])
    assert order.is_ready(10_000)
    taken = [order.take(), order.take(), order.take()]
    assert [each and each.item for each in taken] == ["y", "x", None]


@pytest.mark.spec("PRC-46")
def test_the_same_calls_give_the_same_records() -> None:
    """And wall-clock time stands still unless it is moved."""

    def run() -> list[Any]:
        topology = Topology("same")
        topology.stream(LINES).group_by("value", key=ss.utf8).count(counts()).to(OUT)
        with topology.test() as driver:
            for number in range(30):
                driver.topic("lines").pipe(f"v{number % 7}", key="k", time_ms=number)
            driver.advance_wall_clock(10)
            return [*driver.topic("out").read_all(), driver.wall_ms]

    assert run() == run()
    assert run()[-1] == 10


@pytest.mark.spec("PRC-37")
def test_global_tables_have_the_rows_of_every_partition() -> None:
    """Each task of three finds each row."""
    topology = Topology("global")
    rows = topology.global_table(Topic("rows", key=ss.utf8, value=ss.utf8))
    lines = topology.stream(Topic("lines", key=ss.utf8, value=ss.utf8, partitions=3))
    lines.join(rows, lambda one, other: one + other, key="value").to(
        Topic("out", key=ss.utf8, value=ss.utf8)
    )
    with topology.test(partitions=3) as driver:
        for key in "abcdef":
            driver.topic("rows").pipe(key.upper(), key=key)
        for key in "abcdef":
            for other in "abcdef":
                driver.topic("lines").pipe(other, key=key)
        out = driver.topic("out").read_all()

    assert sorted(record.value for record in out) == sorted(
        6 * ["aA", "bB", "cC", "dD", "eE", "fF"]
    )
