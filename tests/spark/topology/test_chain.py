"""The steps of a topology within a micro-batch, without Spark: answers, crashes, refusals."""

import random
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from chain_without_spark import QUERY, ChainDriver, ChainRun, Given
from chained_topologies import (
    DriverDiedError,
    countdown,
    counted,
    die,
    micro_batches,
    three_parts,
)

import statestores as ss
from statestores import failpoints
from statestores.errors import (
    InvalidArgumentError,
    InvalidTopologyError,
    ProcessingError,
    StoreMismatchError,
    TopologyMismatchError,
)
from statestores.processing import Context, Processor, Record, Topic, Topology, closed, tumbling
from statestores.processing.local import LocalRunner
from statestores.resharding import reshard
from statestores.spark.stateful_functions.task import StatefulTask
from statestores.spark.topology import chain
from statestores.spark.topology.chain import feeding_first
from statestores_conformance.topology_vectors import differences, load

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

CASES = sorted(Path(str(files("statestores_conformance.topology_vectors") / "cases")).glob("*"))

NOT_ON_SPARK = {
    "processor.stream_time_in_punctuator": "a timer of the wall clock",
    "processor.wall_punctuation_cancel": "a timer of the wall clock",
    "processor.two_sources": "its values have the wall clock of the test driver",
}
"""Cases that say what a runner does whose wall clock a test moves, which Spark's has not."""

_ANSWERED = [path for path in CASES if path.stem not in NOT_ON_SPARK]
_FAMILIES = {path.stem.partition(".")[0]: path for path in _ANSWERED}
"""One case of each family: the last."""


@pytest.mark.spec("SPK-1", "SPK-2", "SPK-3", "PRC-95")
@pytest.mark.parametrize("family", [name for name in _FAMILIES if name != "task_order"])
def test_answers_as_kafka_streams_does(family: str, tmp_path: Path) -> None:
    """Each micro-batch by a driver that knows nothing but the files, and tasks without a copy.

    One that has everything is a run, if it has more than one record.
    """
    found = {
        batch: differences(
            load(_FAMILIES[family]),
            batch=batch,
            directory=tmp_path / str(batch),
            runner=partial(ChainDriver, backend="memory", least_run_rows=2),
        )
        for batch in (1, 0)
    }

    assert found == {1: [], 0: []}


@pytest.mark.soak
@pytest.mark.parametrize("path", _ANSWERED, ids=lambda path: path.stem)
def test_answers_every_case_so(path: Path, tmp_path: Path) -> None:
    """At batch sizes 1, 2, 3 and all, as records and as columns, with a cache and without."""
    found = {}
    for batch, rows, cache in ((1, 1_000, 0), (2, 1, 0), (3, 1_000, 1 << 20), (0, 1, 1 << 20)):
        make = partial(
            ChainDriver, backend="rocksdb", least_column_rows=rows, cache_max_bytes=cache
        )
        directory = tmp_path / f"{batch}-{rows}-{cache}"
        found[batch, rows, cache] = differences(
            load(path), batch=batch, directory=directory, runner=make
        )

    assert {name: lines for name, lines in found.items() if lines} == {}


def state_of(root: Path, store: str) -> dict[Any, Any]:
    """Return the rows of a store in all partitions, read from its files."""
    found: dict[Any, Any] = {}
    for number in range(ss.StateRoot.open(root).store(store).partitions):
        with ss.open_logged_store(root, store, number, backend="memory") as logged:
            rows = dict(logged.store.range())
        assert not rows.keys() & found.keys()
        found |= {key: row.value for key, row in rows.items()}
    return found


STEPS = (
    "json.durable",
    "json.renamed",
    "publish.checked",
    "publish.committed",
    "publish.appended",
    "publish.finished",
    "changelog.append.written",
    "stage.files-durable",
)


@pytest.mark.spec("SPK-2")
@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_dies_between_two_steps_is_continued(step: str, tmp_path: Path) -> None:
    """At each step of a commit of each part, in turn: nothing is lost, and nothing counts twice.

    Each life has a chain of its own, so it knows only what is in the files.
    """
    rng = random.Random(step)
    batches = micro_batches(rng, 3)
    emitted: list[dict[str, list[Any]]] = []
    deaths = 0
    for number, given in enumerate(batches):
        for at in range(1, 60, 1 + rng.randrange(3)):
            run = ChainRun(three_parts(), tmp_path / "state", partitions=2)
            failpoints.arm(step, die, at=at)
            try:
                came = run.run(number, given)
                break
            except DriverDiedError:
                deaths += 1
            finally:
                failpoints.disarm()
        again = ChainRun(three_parts(), tmp_path / "state", partitions=2).run(number, given)
        assert again == came
        emitted.append(came)

    words, numbers = counted(batches)
    assert deaths >= len(batches)
    assert state_of(tmp_path / "state", "counts") == words
    of_counts = state_of(tmp_path / "state", "of-counts")
    assert {key: value for key, value in of_counts.items() if value} == numbers
    last = {record.key: record.value for came in emitted for record in came.get("word-counts", ())}
    assert {key.decode(): int.from_bytes(value) for key, value in last.items()} == words


@pytest.mark.spec("SPK-2")
def test_what_a_step_has_emitted_is_given_to_the_next_one_again(tmp_path: Path) -> None:
    """Also where it would be another today: the part that reads it goes on with what was kept."""
    draws: list[int] = []

    def draw(record: Record[Any, Any]) -> int:
        draws.append(random.randrange(1 << 60))
        return draws[-1]

    dice = Topology("dice")
    rolled = dice.stream(Topic("rolls", value=ss.utf8)).rekey(draw, key=ss.int64)
    rolled.repartition("rolled").to(Topic("out", key=ss.int64, value=ss.utf8))
    given: Given = [("rolls", Record(None, b"x", 1))]
    tasks: list[str] = []

    def second_dies(task: StatefulTask) -> None:
        tasks.append(task.plan.name)
        if len(set(tasks)) == 2 and len(tasks) == 2:
            die()

    with pytest.raises(DriverDiedError):
        ChainRun(dice, tmp_path / "state", before_task=second_dies).run(0, given)
    came = ChainRun(dice, tmp_path / "state").run(0, given)

    assert len(draws) == 1
    assert [record.key for record in came["out"]] == [draws[0].to_bytes(8, "big", signed=True)]


@pytest.mark.spec("SPK-1")
def test_rows_are_taken_in_the_order_of_time(tmp_path: Path) -> None:
    """Whatever the shuffle makes of them; equal times in the order in which they came."""
    log = Topology("log")
    stream = log.stream(Topic("in", key=ss.utf8, value=ss.utf8))
    stream.to(Topic("out", key=ss.utf8, value=ss.utf8))
    given: Given = [
        ("in", Record(b"k", name.encode(), at))
        for name, at in (("c", 7), ("a", 3), ("d", 7), ("b", 5))
    ]

    came = ChainRun(log, tmp_path / "state").run(0, given)

    assert [record.value for record in came["out"]] == [b"a", b"b", b"c", b"d"]


@pytest.mark.spec("SPK-3")
def test_a_timer_of_stream_time_fires_in_a_later_micro_batch(tmp_path: Path) -> None:
    """It is in the task's store: each micro-batch has a runtime of its own."""

    class Ticks(Processor[str, str, str, int]):
        def open(self, context: Context[str, int]) -> None:
            self._context = context
            context.every(10, self.tick)

        def process(self, record: Record[str, str]) -> None:
            pass

        def tick(self, now_ms: int) -> None:
            self._context.forward(Record("tick", now_ms, now_ms))

    ticks = Topology("ticks")
    stream = ticks.stream(Topic("in", key=ss.utf8, value=ss.utf8))
    stream.process(Ticks).to(Topic("out", key=ss.utf8, value=ss.int64))
    times = []
    for number, at in enumerate((1, 5, 12, 13, 39)):
        run = ChainRun(ticks, tmp_path / "state")
        came = run.run(number, [("in", Record(b"k", b"v", at))])
        times.append([record.time_ms for record in came.get("out", ())])

    assert times == [[1], [], [12], [], [39]]


@pytest.mark.spec("SPK-4")
def test_what_needs_the_wall_clock_is_refused_by_name(tmp_path: Path) -> None:
    """When it is planned where that can be seen, else by the task that opens the processor."""
    quiet = Topology("quiet")
    quiet.stream(Topic("in", key=ss.utf8, value=ss.utf8)).group_by_key().window(tumbling(10)).count(
        ss.Window("per-ten", retention_ms=100, window_size_ms=10, key=ss.utf8, value=ss.int64),
        emit=closed(idle_ms=5),
    )

    class Clock(Processor[str, str, str, str]):
        def open(self, context: Context[str, str]) -> None:
            context.every(10, lambda now_ms: None, clock="wall")

        def process(self, record: Record[str, str]) -> None:
            pass

    watch = Topology("watch")
    watch.stream(Topic("in", key=ss.utf8, value=ss.utf8)).process(Clock, name="clock")

    with pytest.raises(InvalidTopologyError, match=r"idle_ms.*a task on Spark runs only while"):
        ChainRun(quiet, tmp_path / "quiet")
    with pytest.raises(InvalidTopologyError, match=r"'clock' asks for a timer of the wall clock"):
        ChainRun(watch, tmp_path / "watch").run(0, [("in", Record(b"k", b"v", 1))])


@pytest.mark.spec("SPK-2")
def test_a_topology_that_feeds_itself_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a hundred steps of one part, which are all committed; here after ten."""
    monkeypatch.setattr(chain, "MOST_STEPS", 10)
    echo = Topology("echo")
    loop = Topic("loop", key=ss.utf8, value=ss.utf8)
    echo.stream(Topic("in", key=ss.utf8, value=ss.utf8)).merge(echo.stream(loop)).to(loop)

    with pytest.raises(ProcessingError, match=r"has had 10 steps .* feeds itself without end"):
        ChainRun(echo, tmp_path / "state").run(0, [("in", Record(b"k", b"v", 1))])


@pytest.mark.spec("SPK-5", "RSH-12")
def test_a_state_belongs_to_one_runner_and_one_checkpoint(tmp_path: Path) -> None:
    """The local runner knows another way how far its input is, so neither takes the other's.

    And to one number of partitions, which is that of the topics. Who gave another one was told to
    reshard a store, which is refused as well.
    """
    topology, state = three_parts(), tmp_path / "state"
    given = micro_batches(random.Random(1), 3)
    for number in range(2):
        ChainRun(topology, state).run(number, given[number])

    with pytest.raises(StoreMismatchError, match="one of them is an older copy"):
        ChainRun(topology, state).run(3, given[2])
    with pytest.raises(StoreMismatchError, match="keeps the number that it was begun with"):
        ChainRun(topology, state, partitions=5)
    with pytest.raises(InvalidArgumentError, match="the state of a topology"):
        reshard(state, "counts", 3)
    with pytest.raises(TopologyMismatchError, match="the runner 'spark' runs"):
        LocalRunner(topology, state, tmp_path / "topics", until="idle").run()
    LocalRunner(topology, tmp_path / "local", tmp_path / "topics", until="idle").run()
    with pytest.raises(TopologyMismatchError, match="the runner 'local' runs"):
        ChainRun(topology, tmp_path / "local")


@pytest.mark.spec("SPK-5")
def test_a_part_that_is_new_begins_where_the_query_is(tmp_path: Path) -> None:
    """A topology may grow (PRC-6): what has never run is no older copy of anything."""

    def growing(*, has_grown: bool) -> Topology:
        text = Topology("text")
        words = text.stream(Topic("words", value=ss.utf8)).group_by("value", key=ss.utf8)
        counts = words.count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))
        if has_grown:
            counts.to_stream().group_by("value", key=ss.int64).count(
                ss.KeyValue("of-counts", key=ss.int64, value=ss.int64)
            )
        return text

    given: Given = [("words", Record(None, b"a", 1))]
    ChainRun(growing(has_grown=False), tmp_path / "state").run(0, given)
    for number in (1, 2):
        ChainRun(growing(has_grown=True), tmp_path / "state").run(number, given)

    assert state_of(tmp_path / "state", "counts") == {"a": 3}
    assert state_of(tmp_path / "state", "of-counts") == {2: 1, 3: 1}


@pytest.mark.spec("SPK-2", "SPK-5")
@pytest.mark.parametrize("is_new", [False, True], ids=["same checkpoint", "new checkpoint"])
@pytest.mark.parametrize("step", ["publish.checked", "publish.committed", "publish.finished"])
def test_the_third_step_of_a_part_is_carried_out_first(
    step: str, is_new: bool, tmp_path: Path
) -> None:
    """It was committed when the driver died, so no other step may change its stores before that.

    The same query then does what is left of the micro-batch. Another one has its own first one.
    """

    def given(value: int) -> Given:
        return [("in", Record(b"k", value.to_bytes(8, "big"), 1))]

    run = ChainRun(countdown(), tmp_path / "state")
    failpoints.arm(step, die, at=5)  # of two stores: the first one of the third step
    try:
        with pytest.raises(DriverDiedError):
            run.run(0, given(4))
    finally:
        failpoints.disarm()
    number, query = (0, QUERY[:-1] + "1") if is_new else (0, QUERY)
    ChainRun(countdown(), tmp_path / "state").run(number, given(0 if is_new else 4), query)

    assert state_of(tmp_path / "state", "counts") == {"k": 3 + 1 if is_new else 5}


def test_global_tables_and_what_feeds_others_come_first() -> None:
    """So that a micro-batch has as few steps as may be."""
    shop = Topology("shop")
    orders = shop.stream(Topic("orders", key=ss.utf8, value=ss.utf8))
    rates = shop.global_table(
        Topic("rates", key=ss.utf8, value=ss.utf8),
        ss.KeyValue("rates", key=ss.utf8, value=ss.utf8),
    )
    joined = orders.join(rates, lambda order, rate: order + rate, key=lambda order: order.value)
    joined.group_by("value", key=ss.utf8).count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))

    names = [part.name for part in feeding_first(shop.build())]

    assert names == ["rates", "orders", "shop-counts-repartition"]
