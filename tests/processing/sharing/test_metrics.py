"""What the tasks and steps of a topology measure, at both levels."""

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from shared_lives import append_orders, topology

import statestores as ss
from statestores.metering.value_meter import Summary, ValueMeter
from statestores.metrics import Metric
from statestores.processing import LocalRunner, LocalTopics, Record, Topic, Topology
from statestores.processing.local import AtLeastOnce, Items

_PATIENCE_SECONDS = 120.0
_SECOND_NS = 1_000_000_000
_KAFKAS_TASK = {
    "process-total",
    "process-rate",
    "process-latency-avg",
    "process-latency-max",
    "commit-total",
    "commit-rate",
    "commit-latency-avg",
    "commit-latency-max",
    "punctuate-total",
    "punctuate-rate",
    "punctuate-latency-avg",
    "punctuate-latency-max",
}
_KAFKAS_NODE = {"record-e2e-latency-avg", "record-e2e-latency-min", "record-e2e-latency-max"}
_KAFKAS_DETAILED_NODE = {name for name in _KAFKAS_TASK if name.startswith("process-")}

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


def _measured(directory: Path, made: Topology, records: int, **more: Any) -> list[Metric]:
    """Run *made* until it has processed so many records and committed; return what it measured."""
    runner = LocalRunner(
        made,
        directory / "state",
        directory / "topics",
        backend="memory",
        commit_interval_ms=1,
        **more,
    )
    thread = threading.Thread(target=runner.run)
    assert runner.metrics() == ()
    thread.start()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while runner.report().processed < records or runner.report().commits < 1:
        assert thread.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    found = list(runner.metrics())
    runner.stop()
    thread.join()
    return found


def _of(metrics: Iterable[Metric], group: str, **tags: str) -> dict[str, float]:
    wanted = {name.replace("_", "-"): value for name, value in tags.items()}
    return {
        each.name: each.value
        for each in metrics
        if each.group == group and wanted.items() <= each.tags.items()
    }


@pytest.mark.spec("PRC-75", "MET-2", "MET-4")
def test_a_task_measures_what_kafkas_does(tmp_path: Path) -> None:
    """Under its names, with the task as tag; no two have the same name and tags."""
    append_orders(tmp_path, 0, 300)
    metrics = _measured(tmp_path, topology(), 600)
    first = _of(metrics, "stream-task-metrics", task_id="0_0")
    source = _of(
        metrics, "stream-processor-node-metrics", task_id="0_0", processor_node_id="source-orders"
    )

    assert first.keys() >= _KAFKAS_TASK
    assert first["punctuate-total"] > 1
    assert first["process-latency-max"] >= first["process-latency-avg"] > 0
    assert source.keys() == _KAFKAS_NODE
    assert source["record-e2e-latency-min"] <= source["record-e2e-latency-max"]
    totals = [
        each.value
        for each in metrics
        if each.name == "process-total" and each.group == "stream-task-metrics"
    ]
    assert (len(totals), sum(totals)) == (5, 600)
    assert len({(each.name, *sorted(each.tags.items())) for each in metrics}) == len(metrics)


@pytest.mark.spec("PRC-75")
def test_records_that_are_dropped_are_measured_with_the_reason(tmp_path: Path) -> None:
    """Each with the step at which it went no further."""
    made = Topology("dropping", errors="skip")
    lines = made.stream(Topic("lines", key=ss.utf8, value=ss.utf8))
    lines.map_values(
        lambda value: 1 // int(value), value=ss.int64, name="divide"
    ).group_by_key().count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))
    with LocalTopics(tmp_path / "topics") as topics:
        values = ("1", "0", "0", "x")
        topics.topic(Topic("lines", key=ss.utf8, value=ss.utf8)).append(
            [*(Record("a", value, 1) for value in values), Record(None, "1", 1)]
        )
    metrics = _measured(tmp_path, made, 5)

    assert {
        (each.tags["processor-node-id"], each.tags["reason"]): each.value
        for each in metrics
        if each.name == "dropped-records-total" and "reason" in each.tags
    } == {
        ("divide", "failed-ZeroDivisionError"): 2,
        ("divide", "failed-ValueError"): 1,
        ("counts", "null-key"): 1,
    }


@pytest.mark.spec("PRC-76")
@pytest.mark.parametrize("threads", [1, 2])
def test_at_the_level_debug_every_step_is_measured(tmp_path: Path, threads: int) -> None:
    """With each of its records, and each call of its stores; a task of columns has records then."""
    made = Topology("detailed")
    lines = made.stream(Topic("lines", key=ss.utf8, value=ss.utf8, partitions=1))
    lines.filter(lambda record: record.value != "b", name="some").group_by_key().count(
        ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    ).to(Topic("out", key=ss.utf8, value=ss.int64))
    with LocalTopics(tmp_path / "topics") as topics:
        topics.topic(Topic("lines", key=ss.utf8, value=ss.utf8, partitions=1)).append(
            Record("a", "ab"[number % 2], 1) for number in range(3_000)
        )
    metrics = _measured(tmp_path, made, 3_000, recording_level="DEBUG", threads=threads)
    steps = {
        each.tags["processor-node-id"]: each.value
        for each in metrics
        if each.name == "process-total" and each.group == "stream-processor-node-metrics"
    }
    (name,) = (step for step in steps if step.endswith("to-out"))
    sink = _of(metrics, "stream-processor-node-metrics", processor_node_id=name)

    assert (steps["source-lines"], steps["some"], steps["counts"]) == (3_000, 3_000, 1_500)
    assert sink.keys() == _KAFKAS_NODE | _KAFKAS_DETAILED_NODE
    assert sink["process-total"] == 1_500
    puts = _of(metrics, "stream-state-metrics", state_id="counts")
    assert puts["put-latency-avg"] > 0


@pytest.mark.spec("PRC-75")
def test_sources_and_sinks_are_measured_as_tasks(tmp_path: Path) -> None:
    """Their commits, and what they dropped."""
    made = Topology("edges", errors="skip")
    words = Topic("words", key=ss.utf8, value=ss.utf8)
    made.stream(words).to(Topic("out", key=ss.utf8, value=ss.utf8))
    seen: list[Any] = []
    metrics = _measured(
        tmp_path,
        made,
        2,
        sources={"words": Items(["a", 1, "b"])},
        sinks={"out": AtLeastOnce(seen.append)},
    )
    commits = {
        each.tags["task-id"]: each.value
        for each in metrics
        if each.name == "commit-total" and each.group == "stream-task-metrics"
    }
    dropped = _of(metrics, "stream-task-metrics", processor_node_id="words-source")

    assert commits.keys() == {"0_0", "1_0", "2_0"}
    assert commits["1_0"] >= 1
    assert dropped["dropped-records-total"] == 1


def test_values_of_the_recent_past_are_summed_up() -> None:
    """Those of half a minute, each by its weight; nothing before the first, or long after."""
    meter = ValueMeter()
    assert meter.summary(0) is None
    meter.record(5.0, 0)
    meter.record(1.0, 1, 3)
    meter.record(9.0, 20 * _SECOND_NS)

    assert meter.summary(20 * _SECOND_NS) == Summary((5 + 3 + 9) / 5, 1, 9)
    assert meter.summary(40 * _SECOND_NS) == Summary(9, 9, 9)
    assert meter.summary(60 * _SECOND_NS) is None
