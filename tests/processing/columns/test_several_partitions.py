"""Tasks that read several topics: blocks of columns against the same records one by one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from drawn_bytes import drawn_lists
from hypothesis import given, settings
from hypothesis import strategies as st

import statestores as ss
from statestores.processing import Processor, Topic, Topology, within
from statestores.processing.local import LocalRunner, LocalTopics
from statestores.processing.record import RawRecord, Record
from statestores.processing.record_rows import batch_records
from statestores.processing.runtime import RecordOrder, TaskRuntime, head_times
from statestores.processing.runtime.row_order import RowOrder, block_of

MAX_TIME_MS = 24
MOST_RECORDS = 40
RETENTION_MS = 12

LEFT = Topic("left", key=ss.utf8, value=ss.int64)
RIGHT = Topic("right", key=ss.utf8, value=ss.int64)
OUT = Topic("out", key=ss.utf8, value=ss.int64)
OTHER = Topic("other", key=ss.utf8, value=ss.int64)
STORE = ss.KeyValue("store", key=ss.utf8, value=ss.int64)
PLACES = {topic.name: ss.TopicPartition(topic.name, 0) for topic in (LEFT, RIGHT)}

_NUMBERS = tuple(map(ss.int64.encode, range(-5, 6)))
records = drawn_lists(
    (
        (b"a", b"b", b"c", None),
        (*[None] * len(_NUMBERS), *_NUMBERS),
        range(MAX_TIME_MS + 1),
    ),
    min_size=0,
    max_size=MOST_RECORDS,
).map(lambda rows: [Record(*row) for row in rows])
rising = records.map(lambda several: sorted(several, key=lambda each: each.time_ms))
inputs = st.tuples(rising | records, rising | records)
Places = list[ss.TopicPartition]
Input = tuple[list[RawRecord], list[RawRecord]]


def _versions(history_ms: int = 1_000) -> ss.Versioned[str, int]:
    return ss.Versioned("rates", history_retention_ms=history_ms, key=ss.utf8, value=ss.int64)


def _joined_as_of(topology: Topology, **more: Any) -> Any:
    rates: Any = topology.table(RIGHT, _versions(more.pop("history_ms", 1_000)))
    joiner: Any = more.pop("joiner", pc.add(pc.field("value"), pc.field("other")))
    stream: Any = more.pop("stream", lambda left: left)(topology.stream(LEFT))
    return stream.join_as_of(rates, joiner, value=ss.int64, **more)


def _as_of(topology: Topology) -> None:
    _joined_as_of(topology).to(OUT)


def _as_of_by_function(topology: Topology) -> None:
    """A left join by a function, behind steps that keep the times."""
    _joined_as_of(
        topology,
        how="left",
        joiner=lambda value, other: value - (other or 0),
        stream=lambda left: left.filter(lambda record: record.value != 3).map_values(
            lambda value: None if value is None else -value, value=ss.int64
        ),
    ).to(OUT)


def _as_of_with_late_rows(topology: Topology) -> None:
    _joined_as_of(topology, history_ms=RETENTION_MS, wait_ms=4).to(OUT)


def _as_of_with_little_history(topology: Topology) -> None:
    _joined_as_of(topology, history_ms=RETENTION_MS).to(OUT)


def _as_of_behind_functions(topology: Topology) -> None:
    """A function may give records of other times, so the topics may not change places."""
    _joined_as_of(
        topology, stream=lambda left: left.flat_map_values(lambda value: [value], value=ss.int64)
    ).to(OUT)


def _as_of_by_another_key(topology: Topology) -> None:
    rates: Any = topology.table(RIGHT, _versions())
    stream: Any = topology.stream(LEFT).filter(lambda record: record.value is not None)
    stream.join_as_of(rates, lambda value, other: value + other, value=ss.int64).to(OUT)
    topology.stream(LEFT).group_by_key().count(STORE).to(OTHER)


def _current(topology: Topology) -> None:
    table: Any = topology.table(RIGHT, STORE)
    left: Any = topology.stream(LEFT)
    left.join(table, lambda value, other: value + other, value=ss.int64).to(OUT)


def _streams(topology: Topology) -> None:
    left: Any = topology.stream(LEFT).filter(lambda record: record.value != 2)
    right: Any = topology.stream(RIGHT)
    left.join(
        right,
        lambda value, other: (value or 0) + (other or 0),
        within=within(5, grace_ms=3),
        how="outer",
        value=ss.int64,
    ).to(OUT)


def _merged(topology: Topology) -> None:
    merged: Any = topology.stream(LEFT).merge(topology.stream(RIGHT))
    merged.group_by_key().count(STORE).to(OUT)


AS_OF: list[Callable[[Topology], None]] = [
    _as_of,
    _as_of_by_function,
    _as_of_with_late_rows,
    _as_of_with_little_history,
]
TOPOLOGIES: list[Callable[[Topology], None]] = [
    _as_of,
    _as_of_behind_functions,
    _as_of_by_another_key,
    _current,
    _streams,
    _merged,
]


def _topology(build: Callable[[Topology], None]) -> Topology:
    topology = Topology("several")
    build(topology)
    return topology


class Task:
    """The one task of a topology over stores in memory, and what comes out of it."""

    def __init__(self, build: Callable[[Topology], None], least_rows: int = 1) -> None:
        (self.part,) = _topology(build).build().sub_topologies
        self.stores: dict[str, Any] = {
            store.name: ss.open_store("unused", store, backend="memory")
            for store in self.part.stores
        }
        self.output: dict[str, list[RawRecord]] = {}
        self.emitted_rows: dict[str, list[int]] = {}
        self.runtime = TaskRuntime(
            self.part, 0, self.stores, self, wall_ms=0, least_column_rows=least_rows
        )

    def emit(self, topic: str, record: RawRecord, partition: int | None) -> None:
        """Keep *record*."""
        del partition
        self.output.setdefault(topic, []).append(record)

    def emit_rows(self, topic: str, rows: pa.RecordBatch) -> None:
        """Keep the records of *rows*, and how many came at once."""
        self.output.setdefault(topic, []).extend(batch_records(rows))
        self.emitted_rows.setdefault(topic, []).append(rows.num_rows)

    def found(self) -> tuple[Any, ...]:
        """Return what is in the stores, what was dropped, and how far time and position are."""
        position = self.runtime.prepare_commit()
        rows = {}
        for name, store in self.stores.items():
            store.commit({})
            changes = list(store.committed_content().changes)
            rows[name] = [row for each in changes for row in zip(*_columns(each), strict=True)]
        return rows, self.runtime.counts.dropped, self.runtime.stream_time_ms, position


def _columns(changes: Any) -> list[list[Any]]:
    columns = (changes.keys, changes.values, changes.times_ms, changes.timestamps_ms)
    return [list(each) for each in columns if each is not None]


def _one_by_one(build: Callable[[Topology], None], given: Input, places: Places) -> Task:
    """Process *given* in the order of head timestamps, each record for itself."""
    task = Task(build)
    order: RecordOrder[tuple[int, RawRecord]] = RecordOrder(places)
    for place, several in zip(PLACES.values(), given, strict=True):
        order.buffer(place, [(each.time_ms, (at, each)) for at, each in enumerate(several)])
    while (following := order.take()) is not None:
        task.runtime.process(*following.partition, *following.item)
    return task


def _in_blocks(
    build: Callable[[Topology], None], given: Input, places: Places, limit: int, least_rows: int
) -> Task:
    """Process *given* in blocks of up to *limit*."""
    task = Task(build, least_rows)
    order = RowOrder(places)
    times = head_times(task.part)
    for (name, place), several in zip(PLACES.items(), given, strict=True):
        block = block_of([(name, each) for each in several], {name: place}, {place: 0}, times)
        assert block is not None
        order.buffer(block.lots[0])
    while order.is_ready(0):
        block = order.block(limit)
        done = task.runtime.process_block(block)
        assert done == np.bincount(block.order).tolist()
        for lot, count in zip(block.lots, done, strict=True):
            order.remove(lot.partition, count)
    return task


def _is_part(some: list[Any], every: list[Any]) -> bool:
    remaining = iter(every)
    return all(any(each == other for other in remaining) for each in some)


def _check_outputs(some: dict[str, list[RawRecord]], every: dict[str, list[RawRecord]]) -> None:
    """What came out is a part of the other, with the last of each key (PRC-9)."""
    assert some.keys() == every.keys()
    for topic, found in some.items():
        assert _is_part(found, every[topic])
        assert {each.key: each for each in found} == {each.key: each for each in every[topic]}


def _check(
    build: Callable[[Topology], None], given: Input, places: Places, limit: int, least_rows: int
) -> None:
    one_by_one = _one_by_one(build, given, places)
    in_blocks = _in_blocks(build, given, places, limit, least_rows)

    assert in_blocks.found() == one_by_one.found()
    _check_outputs(in_blocks.output, one_by_one.output)
    if build is not _merged:
        assert in_blocks.output.get("out") == one_by_one.output.get("out")


@pytest.mark.spec("PRC-9", "PRC-11", "PRC-87")
@settings(max_examples=max(1, settings().max_examples // 3))
@given(
    build=st.sampled_from(TOPOLOGIES),
    given=inputs,
    limit=st.sampled_from([3, 7, 1_000]),
    least_rows=st.sampled_from([1, 4]),
)
def test_blocks_are_records_in_their_order(
    build: Callable[[Topology], None], given: Input, limit: int, least_rows: int
) -> None:
    """Stores, drops, time and position are equal, and so are all joined records."""
    _check(build, given, list(PLACES.values()), limit, least_rows)


@pytest.mark.spec("PRC-88", "PRC-89")
@given(
    build=st.sampled_from(AS_OF),
    given=inputs,
    places=st.permutations(list(PLACES.values())),
    limit=st.sampled_from([7, 1_000]),
)
def test_topics_change_places_where_a_join_as_of_cannot_tell(
    build: Callable[[Topology], None], given: Input, places: Places, limit: int
) -> None:
    """Also with rows of equal times, late rows, and a history that ends within the block."""
    _check(build, given, places, limit, 1)


@pytest.mark.spec("PRC-87", "PRC-88")
@pytest.mark.parametrize("least_rows", [1, 1_000])
def test_the_local_runner_takes_several_topics_as_columns(tmp_path: Path, least_rows: int) -> None:
    """What a join as of gives is that of records one by one; and no step went back to records."""
    rates: list[RawRecord] = [
        Record(b"ab"[at % 2 :][:1], ss.int64.encode(at), 10 * at) for at in range(300)
    ]
    lefts: list[RawRecord] = [
        Record(b"abc"[at % 3 :][:1], ss.int64.encode(at), at) for at in range(3_000)
    ]
    one_by_one = _one_by_one(_as_of, (lefts, rates), [PLACES["right"], PLACES["left"]])
    with LocalTopics(tmp_path / "topics", durability=ss.Durability.PROCESS_CRASH) as topics:
        for name, several in (("left", lefts), ("right", rates)):
            typed: Any = Topic(name)
            topics.topic(typed).append(several)
    LocalRunner(
        _topology(_as_of),
        tmp_path / "state",
        tmp_path / "topics",
        backend="memory",
        durability=ss.Durability.PROCESS_CRASH,
        least_column_rows=least_rows,
        until="idle",
    ).run()
    with LocalTopics(tmp_path / "topics") as topics:
        typed = Topic("out")
        found = [row.record for row in topics.topic(typed).read()]

    assert found == one_by_one.output["out"]


@pytest.mark.spec("PRC-88")
def test_rows_that_alternate_are_taken_topic_by_topic() -> None:
    """Each join looks all records of the block up at once; no step goes back to records."""
    rates: list[RawRecord] = [Record(b"a", ss.int64.encode(at), 2 * at) for at in range(50)]
    lefts: list[RawRecord] = [Record(b"a", ss.int64.encode(at), 2 * at + 1) for at in range(50)]
    task = _in_blocks(_as_of, (lefts, rates), list(PLACES.values()), 1_000, 30)

    assert [ss.int64.decode(each.value or b"") for each in task.output["out"]] == [
        2 * at for at in range(50)
    ]
    assert task.emitted_rows == {"out": [49]}  # then "right" has no more at hand


@pytest.mark.spec("PRC-88")
def test_a_processor_sees_records_in_their_order() -> None:
    """Code that may ask for the time is reached, so no topic goes first."""
    topology = Topology("seen")
    seen: list[int] = []
    topology.table(RIGHT, _versions())
    topology.stream(LEFT).peek(lambda record: seen.append(record.time_ms))
    topology.stream(RIGHT).peek(lambda record: seen.append(record.time_ms))
    with topology.test() as driver:
        driver.to_batches(20, least_column_rows=1)
        for time_ms in range(20):
            driver.topic(("left", "right")[time_ms % 2]).pipe(1, "a", time_ms=time_ms)
        driver.settle()

    assert seen == list(range(20))


@pytest.mark.spec("PRC-87")
def test_a_block_ends_where_a_commit_is_asked_for() -> None:
    """The rows behind it wait."""

    class Asking(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.commit()

    def build(topology: Topology) -> None:
        topology.stream(LEFT).process(Asking, key=ss.utf8, value=ss.int64)
        topology.stream(RIGHT).group_by_key().count(STORE)
        topology.stream(LEFT).merge(topology.stream(RIGHT)).to(OTHER)

    task = Task(build)
    one: RawRecord = Record(b"a", ss.int64.encode(1), 1)
    several = [(name, one) for name in ("right", "left") * 3]
    block = block_of(several, PLACES, dict.fromkeys(PLACES.values(), 0), head_times(task.part))
    assert block is not None

    assert task.runtime.process_block(block) == [1, 1]


@pytest.mark.spec("PRC-89")
def test_a_join_that_waits_stays_on_columns() -> None:
    """What waits comes out by time; what still waits is in the store, and out when time comes."""
    with _topology(_as_of_with_late_rows).test() as driver:
        driver.topic("right").pipe(7, "a", time_ms=0)
        driver.to_batches(4, least_column_rows=1)
        driver.topic("left").pipe_all([Record("a", at, at) for at in (3, 1, 6, 8)])

        assert [each.time_ms for each in driver.topic("out").read_all()] == [1, 3]
        driver.topic("left").pipe_all([Record("b", at, at) for at in (9, 20, 21, 22)])
        driver.settle()
        assert [each.time_ms for each in driver.topic("out").read_all()] == [6, 8]
        assert driver.declined_columns == {}
