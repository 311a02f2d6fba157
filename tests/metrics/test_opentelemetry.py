"""Metrics as an application's OpenTelemetry SDK collects them."""

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Gauge, InMemoryMetricReader, NumberDataPoint, Sum

from statestores.errors import MissingDriverError
from statestores.metrics import Metrics, register_opentelemetry, set_recording_level
from statestores.semantics import open_on_engine
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.spi import KeyValue
from statestores_memory import MemoryEngine


class Collector:
    """An SDK with a reader in memory."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider(metric_readers=[self.reader])

    def collect(self) -> dict[str, list[tuple[dict[str, object], float]]]:
        """Return attributes and value of each data point, by the name of its instrument."""
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: [(dict(each.attributes or {}), each.value) for each in points(metric.data)]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if points(metric.data)
        }


def points(data: object) -> list[NumberDataPoint]:
    return list(data.data_points) if isinstance(data, Sum | Gauge) else []


@pytest.fixture
def collector() -> Iterator[Collector]:
    """An SDK that is shut down again."""
    opened = Collector()
    yield opened
    opened.provider.shutdown()


@pytest.mark.spec("MET-9")
def test_values_are_those_of_the_collection(
    store: EngineKeyValueStore, collector: Collector
) -> None:
    """Nothing is copied when the store is registered, and each collection reads again."""
    register_opentelemetry(store, meter_provider=collector.provider)
    store.put(b"a", b"1")
    first = collector.collect()
    store.put(b"b", b"22")
    store.commit({})
    second = collector.collect()

    assert [value for _, value in first["statestores.put_total"]] == [1]
    assert [value for _, value in second["statestores.put_total"]] == [2]
    assert [value for _, value in first["statestores.uncommitted_bytes"]] == [2]
    assert [value for _, value in second["statestores.uncommitted_bytes"]] == [0]
    assert "statestores.commit_latency_avg" not in first
    assert second["statestores.commit_latency_avg"][0][1] > 0
    assert second["statestores.put_total"][0][0] == {
        "state-id": "counts",
        "kind": "key-value",
        "backend": "memory",
    }


@pytest.mark.spec("MET-9")
def test_totals_are_counters_and_rates_are_left_to_the_collector(
    store: EngineKeyValueStore, collector: Collector
) -> None:
    """A counter is monotonic for the SDK; names and units are those of the catalogue."""
    register_opentelemetry(store, meter_provider=collector.provider)
    data = collector.reader.get_metrics_data()
    assert data is not None
    metrics = {
        metric.name: metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    total = metrics["statestores.put_total"]

    assert isinstance(total.data, Sum)
    assert total.data.is_monotonic
    assert total.unit == "{record}"
    assert isinstance(metrics["statestores.uncommitted_bytes"].data, Gauge)
    assert [name for name in metrics if name.endswith("_rate")] == []


@pytest.mark.spec("MET-9")
def test_all_of_one_collection_is_of_one_moment(
    store: EngineKeyValueStore, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is asked once, however many instruments there are."""
    register_opentelemetry(store, meter_provider=collector.provider)
    asked: list[Metrics] = []
    measured = store.metrics

    def ask() -> Metrics:
        asked.append(measured())
        return asked[-1]

    monkeypatch.setattr(store, "metrics", ask)
    collector.collect()
    collector.collect()

    assert len(asked) == 2


@pytest.mark.spec("MET-9")
def test_what_is_closed_or_gone_is_not_exported(collector: Collector) -> None:
    """No store is kept by its export, and a closed one has no last word."""
    closed = open_on_engine(MemoryEngine(), KeyValue("closed"))
    gone = open_on_engine(MemoryEngine(), KeyValue("gone"))
    with open_on_engine(MemoryEngine(), KeyValue("open")) as store:
        export = register_opentelemetry(closed, gone, store, meter_provider=collector.provider)
        before = {tags["state-id"] for tags, _ in collector.collect()["statestores.put_total"]}
        closed.close()
        gone.close()
        del gone
        gc.collect()
        after = {tags["state-id"] for tags, _ in collector.collect()["statestores.put_total"]}
        export.close()

        assert before == {"closed", "gone", "open"}
        assert after == {"open"}
        assert collector.collect() == {}


@pytest.mark.spec("MET-9")
def test_recorded_calls_are_exported(store: EngineKeyValueStore, collector: Collector) -> None:
    """What a source has when it is added is exported, in the catalogue or not."""
    set_recording_level(store, "DEBUG")
    register_opentelemetry(store, meter_provider=collector.provider)
    store.get(b"a")

    assert collector.collect()["statestores.get_total"][0][1] == 1


@pytest.mark.spec("MET-9", "MET-1")
def test_a_collection_runs_while_the_owner_writes(
    store: EngineKeyValueStore, collector: Collector
) -> None:
    """An exporter has a thread of its own."""
    register_opentelemetry(store, meter_provider=collector.provider)
    totals: list[float] = []
    stop = threading.Event()

    def collect() -> None:
        while not stop.is_set():
            totals.append(collector.collect()["statestores.put_total"][0][1])

    exporter = threading.Thread(target=collect)
    exporter.start()
    for number in range(2_000):
        store.put(b"%d" % number, b"v")
        if number % 10 == 0:
            store.commit({})
    stop.set()
    exporter.join()
    totals.append(collector.collect()["statestores.put_total"][0][1])

    assert totals == sorted(totals)
    assert totals[-1] == 2_000


_WITHOUT_IT = """
import sys
sys.modules["opentelemetry.metrics"] = None
sys.modules["opentelemetry"] = None
from statestores.metrics import register_opentelemetry
try:
    register_opentelemetry()
except ImportError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.spec("MET-9")
def test_without_the_api_the_error_says_what_to_install() -> None:
    """The metrics are there without OpenTelemetry; only exporting them needs it."""
    printed = subprocess.run(
        [sys.executable, "-c", _WITHOUT_IT], capture_output=True, text=True, check=True
    ).stdout

    assert printed.startswith(MissingDriverError.__name__)
    assert "statestores[opentelemetry]" in printed


@pytest.mark.spec("MET-9")
def test_nothing_imports_the_api_unasked() -> None:
    """Neither the package nor its metrics."""
    program = (
        "import statestores.metrics, statestores.logged_store, statestores.tasks, sys; "
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout

    assert printed.strip() == "[]"
