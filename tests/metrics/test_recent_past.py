"""Rates are true quotients, and means and maxima are of the same time."""

import pytest

from statestores.metering.operation_meter import OperationMeter
from statestores.metering.recent_past import SECOND_NS, WINDOW_NS, RecentPast
from statestores.spi.metrics.catalog import COMMIT_LATENCY


def test_a_rate_is_over_half_a_minute() -> None:
    """What was counted longer ago is no longer in it."""
    past = RecentPast((0,), 0)
    for second in range(1, 101):
        past.keep((second * 10,), second * SECOND_NS)
    change = past.change((1_000,), 100 * SECOND_NS)

    assert change == (70 * SECOND_NS, 30.0, (300,))


def test_a_rate_is_over_a_longer_time_when_nobody_looked() -> None:
    """A burst that nobody has seen end is spread over the time since the last reading."""
    past = RecentPast((0,), 0)
    past.keep((50,), 1 * SECOND_NS)
    change = past.change((100,), 61 * SECOND_NS)

    assert change == (1 * SECOND_NS, 60.0, (50,))


def test_a_rate_of_a_young_store_is_over_a_second() -> None:
    """The first record of a store is not a million records a second."""
    past = RecentPast((0,), 0)

    assert past.change((1,), 1_000) == (0, 1.0, (1,))


def test_few_readings_are_kept() -> None:
    """However often somebody looks: a reading a second, for half a minute."""
    past = RecentPast((0,), 0)
    for tenth in range(1_000):
        past.keep((tenth,), tenth * SECOND_NS // 10)

    assert len(past._readings) == WINDOW_NS // SECOND_NS + 1


@pytest.mark.spec("MET-4")
def test_no_operation_has_no_latency() -> None:
    """A mean of nothing is not 0."""
    assert OperationMeter().latencies(COMMIT_LATENCY, {}) == ()


def test_a_maximum_outlives_its_second_and_not_the_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A slow commit is seen by a collector that looks 20 seconds later, and not a minute later."""
    now_ns = 0
    monkeypatch.setattr("statestores.metering.operation_meter.perf_counter_ns", lambda: now_ns)
    meter = OperationMeter()
    highest: dict[int, float] = {}
    for second in range(1, 90):
        now_ns = second * SECOND_NS
        meter.record(900 if second == 10 else 100, now_ns)
        highest[second] = meter.latencies(COMMIT_LATENCY, {})[1].value

    assert (highest[9], highest[10], highest[30], highest[60]) == (100, 900, 900, 100)
