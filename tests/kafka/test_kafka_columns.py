"""Tasks of Kafka on columns: what is at hand is processed at once, with the same result."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka_cluster import TestCluster

import statestores as ss
from statestores.errors import InvalidTimeError
from statestores.kafka import run
from statestores.kafka.changelog_rows import RowFormat
from statestores.kafka.tasks.task_writer import TaskWriter
from statestores.kafka.tasks.topic_limits import TopicLimits
from statestores.kafka.tasks.waiting_records import waiting_records
from statestores.partitioning import partitioner_by_name
from statestores.processing import Record, Topic, Topology
from statestores.processing.columns.column import NotOnColumnsError
from statestores.processing.record_rows import record_batch
from statestores.processing.runtime import TaskRuntime
from statestores.semantics.expiry.wall_clock import wall_clock_ms
from statestores.serdes.typed_stores.processor_store import for_processors
from statestores.spi import TopicPartition

if TYPE_CHECKING:
    from statestores.processing.record import RawRecord

_ALWAYS, _NEVER = 2, 1 << 60
_KEYS = [b"a", b"b", b"c"]


def _number(name: str, partitions: int = 1) -> Topic[str, int]:
    return Topic(name, key=ss.utf8, value=ss.int64, partitions=partitions)


def _priced() -> Topology:
    """Describe counts, by a task of one topic, and prices, by one of two."""
    topology = Topology("shop")
    orders = topology.stream(_number("orders"))
    counts = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    orders.group_by_key().count(counts).to(_number("counted", 3))
    rates = topology.table(
        _number("rates"),
        ss.Versioned("rates", history_retention_ms=1_000, key=ss.utf8, value=ss.int64),
    )
    topology.stream(_number("asked")).join_as_of(
        rates, lambda asked, rate: asked * rate, value=ss.int64
    ).to(_number("priced", 3))
    return topology


class _Written:
    """A writer that keeps what it is given."""

    largest_bytes = 100
    markers = 0
    is_atomic = False

    def __init__(self) -> None:
        self.records: list[tuple[TopicPartition, Any, Any]] = []

    def write(
        self, place: TopicPartition, key: Any, value: Any, time_ms: int, headers: Any = ()
    ) -> None:
        self.records.append((place, key, (value, time_ms, headers)))

    def latest(self) -> dict[tuple[TopicPartition, Any], Any]:
        return {(place, key): last for place, key, last in self.records}


def _task_writer(part: Any, written: _Written) -> TaskWriter:
    outputs = {
        topic.name: (
            partitioner_by_name(topic.partitioner),
            [TopicPartition(topic.name, each) for each in range(3)],
            TopicLimits(after_ms=ss.HOUR),
        )
        for topic in part.sink_topics
    }
    return TaskWriter(written, outputs, 0)  # type: ignore[arg-type]  # as much as a task uses


def _processed(part: Any, directory: Path, least_rows: int) -> tuple[Any, _Written, Any]:
    """Process the same records in two lots, with gaps in the offsets; return what is found."""
    written = _Written()
    with ExitStack() as stack:
        stores = {
            each.name: stack.enter_context(
                ss.open_store(directory / each.name, each, backend="memory")
            )
            for each in part.stores
        }
        runtime = TaskRuntime(
            part,
            0,
            {name: for_processors(store, "nobody") for name, store in stores.items()},
            _task_writer(part, written),
            wall_ms=0,
            least_column_rows=least_rows,
        )
        places = [TopicPartition(topic.name, 0) for topic in part.source_topics]
        waiting = waiting_records(runtime, places, 0)
        processed = dict.fromkeys(places, 0)
        for lot in range(2):
            for number, place in enumerate(places):
                offsets = [100 * lot + 3 * each for each in range(20)]
                records: list[RawRecord] = [
                    Record(_KEYS[each % 3], (each + 1).to_bytes(8, "big"), 7 * each + number, ())
                    for each in offsets
                ]
                waiting.set_lag(place, 20 - 20 * lot)
                waiting.accept(place, offsets, records)
            while waiting.advance(0, 7, processed):
                pass
        left = sum(map(waiting.count, places))
        runtime.prepare_commit()
        content = {
            name: sorted(RowFormat(store.specification).rows(store.pending_changes(), 0))
            for name, store in stores.items()
        }
        declined = runtime.declined_columns
        runtime.close()
    return (content, processed, left), written, declined


@pytest.mark.spec("PRC-9", "PRC-55", "PRC-87", "KFK-26")
@pytest.mark.parametrize("topic", ["orders", "asked"])
def test_what_waits_is_processed_as_columns(tmp_path: Path, topic: str) -> None:
    """Stores and places are those of records one by one; so is the last output of each key."""
    part = next(
        part
        for part in _priced().build().sub_topologies
        if topic in {each.name for each in part.source_topics}
    )
    found, columns, declined = _processed(part, tmp_path / "columns", _ALWAYS)
    wanted, records, _ = _processed(part, tmp_path / "records", _NEVER)

    assert found == wanted
    assert declined == {}
    assert columns.latest() == records.latest()
    assert set(columns.records) <= set(records.records)


@pytest.mark.spec("PRC-57", "KFK-26", "KFK-35")
def test_rows_that_a_topic_may_refuse_are_left_to_their_records() -> None:
    """Too large, or too far from now: as its policy says, and none of them goes out twice."""
    [part, *_] = _priced().build().sub_topologies
    written = _Written()
    writer = _task_writer(part, written)
    [topic] = part.sink_topics
    fits: list[Record[Any, Any]] = [Record(b"a", bytes(60), 5), Record(None, None, 0)]
    batch = record_batch(fits)
    writer.emit_rows(topic.name, batch)

    now_ms = wall_clock_ms()
    wrong: list[Record[Any, Any]] = [
        Record(b"a", bytes(100), 5),
        Record(b"a", b"", now_ms + 2 * ss.HOUR),
    ]
    for record in wrong:
        with pytest.raises(NotOnColumnsError):
            writer.emit_rows(topic.name, record_batch([record, *fits]))
    with pytest.raises(InvalidTimeError, match=r"message\.timestamp\.after\.max\.ms"):
        writer.emit(topic.name, wrong[-1], None)
    settings = {"message.timestamp.before.max.ms": "1000"}
    with pytest.raises(InvalidTimeError, match=r"message\.timestamp\.before\.max\.ms"):
        TopicLimits.of(settings, is_compressed=False).check_time("out", now_ms - ss.HOUR)
    settings["message.timestamp.type"] = "LogAppendTime"
    TopicLimits.of(settings, is_compressed=False).check_time("out", now_ms - ss.HOUR)

    key_place = partitioner_by_name(topic.partitioner).partition(b"a", 3)
    assert written.records == [
        (TopicPartition(topic.name, key_place), b"a", (bytes(60), 5, ())),
        (TopicPartition(topic.name, 0), None, (None, 0, ())),
    ]


@pytest.mark.spec("KFK-26", "KFK-10", "PRC-82")
def test_a_run_takes_what_is_there_as_columns(cluster: TestCluster, tmp_path: Path) -> None:
    """Transactions leave gaps in the input; what was taken back in it is counted by nobody."""
    name = cluster.name("columns")
    lines, counted = _number(f"{name}-lines"), _number(f"{name}-counted")
    cluster.create(lines, counted)
    topology = Topology(name)
    counts = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    topology.stream(lines).group_by_key().count(counts).to(counted)
    producer = cluster.producer(**{"transactional.id": name})
    producer.init_transactions()
    for number in range(8):
        producer.begin_transaction()
        for each in range(300):
            producer.produce(lines.name, bytes(8), b"key-%d" % (each % 10), timestamp=1 + each)
        producer.flush()
        producer.abort_transaction() if number % 2 else producer.commit_transaction()
    arguments: dict[str, Any] = {
        "bootstrap_servers": cluster.address,
        "backend": "sqlite",
        "settings": {"consumer.fetch.wait.max.ms": 100},
        "until": "idle",
    }
    progress = run(topology, state=tmp_path / "a", least_column_rows=2, **arguments)
    cluster.append(lines, [Record("key-1", 0, 1_000)] * 3)
    again = run(topology, state=tmp_path / "b", cache_max_bytes=1 << 20, **arguments)
    last = {record.key: record.value for record in cluster.read(counted)}

    assert (progress.processed, again.processed, again.emitted) == (1_200, 3, 1)
    assert progress.emitted < 200
    assert last == {f"key-{each}": 120 + 3 * (each == 1) for each in range(10)}
