"""Lives of a topology over stores in memory: batches, commits and crashes, for naive models."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from drawn_bytes import drawn_lists
from hypothesis import strategies as st

import statestores as ss
from statestores.processing import Topic, Topology
from statestores.processing.record import RawRecord, Record
from statestores.processing.runtime import TaskRuntime

MAX_TIME_MS = 24
LEAST_STEPS, MOST_STEPS = 10, 40

COMMIT, CRASH = "commit", "crash"

LEFT = Topic("left", key=ss.utf8, value=ss.json)
RIGHT = Topic("right", key=ss.utf8, value=ss.json)
OUT = Topic("out", key=ss.utf8, value=ss.json)

Result = tuple[Any, Any, int]
"""Key, value and time of what came out."""


def lives(left: Sequence[Any], right: Sequence[Any]) -> Any:
    """Return lives of records of both topics, with one of these keys and values each."""
    kinds = ("left", "left", "right", "right", COMMIT, CRASH)
    drawn = drawn_lists(
        (kinds, range(256), range(MAX_TIME_MS + 1)), min_size=LEAST_STEPS, max_size=MOST_STEPS
    )

    def read(life: list[tuple[Any, ...]]) -> list[Any]:
        rows = {"left": left, "right": right}
        return [
            (kind, rows[kind][row * len(rows[kind]) >> 8], time_ms) if kind in rows else kind
            for kind, row, time_ms in life
        ]

    return st.tuples(drawn.map(read), st.sampled_from([1, 2, 5]))


class Lives:
    """The tasks of all parts over stores in memory, in batches; a crash takes what is since."""

    def __init__(self, topology: Topology) -> None:
        """Open the stores once: they outlive the runtimes."""
        self.parts = topology.build().sub_topologies
        self.stores = {
            part.name: {
                store.name: ss.open_store("unused", store, backend="memory")
                for store in part.stores
            }
            for part in self.parts
        }
        self.output: list[Result] = []
        self.committed = 0
        self.dropped = self.dropped_since = 0
        self.since: list[list[tuple[str, RawRecord]]] = []
        self.ahead: deque[tuple[str, RawRecord]] = deque()
        self.begin()

    def begin(self) -> None:
        """Make runtimes over what the stores have."""
        self.runtimes = [
            TaskRuntime(part, 0, self.stores[part.name], self, wall_ms=0) for part in self.parts
        ]
        self.readers = {
            topic.name: runtime
            for part, runtime in zip(self.parts, self.runtimes, strict=True)
            for topic in part.source_topics
        }

    def emit(self, topic: str, record: RawRecord, partition: int | None) -> None:
        """Take what comes out, or goes on to another part."""
        if topic in self.readers:
            self.ahead.append((topic, record))
            return
        key = None if record.key is None else OUT.key.decode(record.key)
        value = None if record.value is None else OUT.value.decode(record.value)
        self.output.append((key, value, record.time_ms))

    def take(self, batch: list[tuple[str, RawRecord]]) -> None:
        """Process records, those of one topic that follow each other as one batch."""
        self.since.append(batch)
        start = 0
        for end in range(1, len(batch) + 1):
            if end == len(batch) or batch[end][0] != batch[start][0]:
                topic = batch[start][0]
                self.readers[topic].process_batch(
                    topic, 0, 0, [each for _, each in batch[start:end]]
                )
                while self.ahead:
                    topic, record = self.ahead.popleft()
                    self.readers[topic].process(topic, 0, 0, record)
                start = end

    def commit(self) -> None:
        """Make stores and output one."""
        for part, runtime in zip(self.parts, self.runtimes, strict=True):
            runtime.prepare_commit()
            for store in self.stores[part.name].values():
                store.commit({})
            self.dropped += runtime.counts.dropped_total
            runtime.counts.dropped.clear()
        self.committed, self.since = len(self.output), []

    def crash(self) -> None:
        """Forget what is not committed, and process it again in new runtimes."""
        for stores in self.stores.values():
            for store in stores.values():
                store.rollback()
        again, self.since = self.since, []
        del self.output[self.committed :]
        self.begin()
        for batch in again:
            self.take(batch)

    def live(self, steps: list[Any], size: int) -> Iterator[int]:
        """Do every step; yield, after each batch, how many steps are done."""
        batch: list[tuple[str, RawRecord]] = []
        for number, step in enumerate([*steps, COMMIT], 1):
            if step not in (COMMIT, CRASH):
                topic, (key, value), time_ms = step
                raw = None if value is None else ss.json.encode(value)
                batch.append((topic, Record(key and key.encode(), raw, time_ms)))
            if len(batch) == size or (batch and step in (COMMIT, CRASH)):
                self.take(batch)
                batch = []
            if step == COMMIT:
                self.commit()
            elif step == CRASH:
                self.crash()
            if not batch:
                yield number

    def close(self) -> None:
        """Close all."""
        for stores in self.stores.values():
            for store in stores.values():
                store.close()


def both(one: Any, other: Any) -> list[Any]:
    """Return both sides."""
    return [one, other]


def check_output(found: list[Result], wanted: list[Result], size: int) -> None:
    """Compare: a batch may leave out what it overwrites, but no last one of a key (PRC-9)."""
    if size == 1:
        assert found == wanted
        return
    remaining = iter(wanted)
    assert all(any(each == other for other in remaining) for each in found)
    assert {each[0]: each for each in found} == {each[0]: each for each in wanted}


def run_life(topology: Topology, steps: list[Any], size: int) -> tuple[list[Result], int]:
    """Return what came out, and how many records were dropped."""
    life = Lives(topology)
    for _ in life.live(steps, size):
        pass
    life.close()
    return life.output, life.dropped
