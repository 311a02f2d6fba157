"""What a store says about itself: metrics that never raise, repeat themselves or go back."""

import threading
from itertools import pairwise

import pytest

from statestores.spi.metrics.metric import MetricKind
from statestores_conformance.subjects.store_fixtures import StoreFixtures
from statestores_conformance.subjects.stores import KEYS, StoreUnderTest


def _values(opened: StoreUnderTest, kind: MetricKind | None = None) -> dict[str, int | float]:
    """Return the values of the metrics by name, of one *kind* or of all."""
    return {
        metric.name: metric.value
        for metric in opened.store.metrics()
        if kind is None or metric.kind is kind
    }


class MetricsTests(StoreFixtures):
    """What holds for the metrics of every store, whatever it measures."""

    @pytest.mark.spec("MET-5")
    def test_uncommitted_bytes_are_among_the_metrics(self, opened: StoreUnderTest) -> None:
        """It is the one metric that every store has, and equals what the store says elsewhere."""
        opened.fill()

        assert _values(opened)["uncommitted-bytes"] == opened.store.uncommitted_bytes > 0

    @pytest.mark.spec("MET-2")
    def test_a_metric_is_there_once(self, opened: StoreUnderTest) -> None:
        """Name and tags together identify a metric."""
        opened.fill()
        metrics = [(each.name, *sorted(each.tags.items())) for each in opened.store.metrics()]

        assert len(metrics) == len(set(metrics))

    @pytest.mark.spec("MET-3")
    def test_counters_never_go_back(self, opened: StoreUnderTest) -> None:
        """Not by a commit, nor by a rollback, nor when the store is emptied."""
        before: dict[str, int | float] = {}
        for step in (opened.fill, lambda: opened.store.commit({}), opened.fill):
            step()
            before = _values(opened, MetricKind.COUNTER)
        opened.store.rollback()
        rolled_back = _values(opened, MetricKind.COUNTER)
        opened.store.truncate()
        truncated = _values(opened, MetricKind.COUNTER)

        assert [name for name, value in before.items() if rolled_back[name] < value] == []
        assert [name for name, value in rolled_back.items() if truncated[name] < value] == []

    @pytest.mark.spec("MET-1")
    def test_a_closed_store_has_metrics_or_none(self, opened: StoreUnderTest) -> None:
        """A collector of metrics need not know what is open: no error, and nothing pending."""
        opened.fill()
        opened.store.close()

        assert _values(opened).get("uncommitted-bytes", 0) == 0

    @pytest.mark.spec("MET-1", "MET-3")
    def test_another_thread_may_ask_while_the_owner_writes(self, opened: StoreUnderTest) -> None:
        """It gets metrics each time, and the counters only grow."""
        stop = threading.Event()
        failures: list[BaseException] = []
        seen: list[dict[str, int | float]] = []

        def collect() -> None:
            try:
                while not stop.is_set():
                    seen.append(_values(opened, MetricKind.COUNTER))
            except BaseException as error:  # noqa: BLE001  # the test shows it
                failures.append(error)

        collector = threading.Thread(target=collect)
        collector.start()
        for number in range(1, 61):
            opened.write(KEYS[number % len(KEYS)], number)
            if number % 3 == 0:
                opened.store.commit({})
        stop.set()
        collector.join()

        assert failures == []
        for earlier, later in pairwise(seen):
            assert [name for name, value in earlier.items() if later[name] < value] == []
