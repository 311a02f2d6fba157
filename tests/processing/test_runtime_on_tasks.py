"""The runtime on `statestores.tasks`: stores, times, timers and position as one commit (TSK-3).

A small runner, as the local one is a large one: it commits now and then, and is stopped in between.
"""

import random
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.processing import (
    Context,
    Processor,
    RawRecord,
    Record,
    Topic,
    Topology,
    closed,
    tumbling,
    windowed,
    within,
)
from statestores.processing.runtime import TaskRuntime
from statestores.spi import Durability
from statestores.tasks import open_task

LEFT = Topic("left", key=ss.utf8, value=ss.utf8)
RIGHT = Topic("right", key=ss.utf8, value=ss.utf8)
RECORDS = 120
STOPS = 8


class Every(Processor[str, str, str, int]):
    """Counts its timer's calls in a store."""

    calls = ss.KeyValue("calls", key=ss.utf8, value=ss.int64)

    def open(self, context: Context[str, int]) -> None:
        """Be called every seven milliseconds."""
        context.every(7, self.call)

    def process(self, record: Record[str, str]) -> None:
        """Only time matters."""

    def call(self, now_ms: int) -> None:
        """Count."""
        count = (self.store(self.calls).get("n") or 0) + 1
        self.store(self.calls).put("n", count)
        self.forward(Record("n", count, now_ms))


def topology() -> Topology:
    """Return a topology with two windows stores, a join whose sides come alone, and a timer."""
    made = Topology("whole")
    left, right = made.stream(LEFT), made.stream(RIGHT)
    counts = ss.Window("w", retention_ms=15, window_size_ms=10, key=ss.utf8, value=ss.int64)
    left.group_by_key().window(tumbling(10, grace_ms=5)).count(counts, emit=closed()).to(
        Topic("counted", key=windowed(ss.utf8), value=ss.int64)
    )
    left.join(right, lambda a, b: f"{a}+{b}", within=within(6), how="outer", value=ss.utf8).to(
        Topic("joined", key=ss.utf8, value=ss.utf8)
    )
    left.process(Every).to(Topic("called", key=ss.utf8, value=ss.int64))
    return made


class Runner:
    """Runs one task: what it emits becomes visible with the commit."""

    def __init__(self, state: Path) -> None:
        """Open the task, and go on from its position."""
        (self.part,) = topology().build().sub_topologies
        if not (state / "state").exists():
            root = ss.StateRoot.create(state / "state")
            for store in self.part.stores:
                root.add_store(store, partitions=1)
        self.task = open_task(
            state / "state",
            "0_0",
            [store.name for store in self.part.stores],
            backend="sqlite",
            durability=Durability.PROCESS_CRASH,
        )
        stores = {store.name: self.task.store(store.name) for store in self.part.stores}
        self.runtime = TaskRuntime(self.part, 0, stores, self, wall_ms=0)
        self.pending: list[tuple[str, RawRecord]] = []

    def emit(self, topic: str, record: RawRecord, partition: int | None) -> None:
        """Hold back."""
        self.pending.append((topic, record))

    def next_offset(self, topic: str) -> int:
        """Return where to go on."""
        return self.task.next_offset(ss.TopicPartition(topic, 0))

    def commit(self, output: list[Any]) -> None:
        """Commit; the output is visible then."""
        self.task.commit(self.runtime.prepare_commit())
        output += self.pending
        self.pending = []

    def close(self) -> None:
        """Stop: what is not committed is forgotten."""
        self.runtime.close()
        self.task.close()


def records() -> list[tuple[str, int, RawRecord]]:
    """Return the input: topic, offset and record, times rising with steps back."""
    chosen = random.Random(7)
    offsets = {"left": 0, "right": 0}
    made = []
    for number in range(RECORDS):
        topic = chosen.choice(("left", "right"))
        time_ms = max(0, number + chosen.randint(-9, 3))
        raw: RawRecord = Record(chosen.choice((b"a", b"b")), b"%d" % number, time_ms)
        made.append((topic, offsets[topic], raw))
        offsets[topic] += 1
    return made


def run(state: Path, stops: set[int]) -> list[Any]:
    """Run all input, with a commit every ten records, stopping before some without one."""
    output: list[Any] = []
    waiting = iter(sorted(stops))
    stop = next(waiting, None)
    while True:
        runner = Runner(state)
        stopped = False
        for place, (topic, offset, record) in enumerate(records()):
            if offset < runner.next_offset(topic):
                continue
            if place == stop:
                stop, stopped = next(waiting, None), True
                break
            runner.runtime.process(topic, 0, offset, record)
            if place % 10 == 9:
                runner.commit(output)
        if not stopped:
            runner.commit(output)
            runner.close()
            return output
        runner.close()


@pytest.fixture
def undisturbed(tmp_path: Path) -> list[Any]:
    """Give what comes out of a run that nothing stops."""
    return run(tmp_path / "undisturbed", set())


@pytest.mark.spec("PRC-12", "TSK-3")
def test_a_task_that_is_stopped_gives_what_an_undisturbed_one_gives(
    tmp_path: Path, undisturbed: list[Any]
) -> None:
    """Windows, waiting records of a join, timers and output: none lost, none twice."""
    stops = set(random.Random(3).sample(range(RECORDS), STOPS))

    assert run(tmp_path / "stopped", stops) == undisturbed
    assert {topic for topic, _ in undisturbed} == {"counted", "joined", "called"}
