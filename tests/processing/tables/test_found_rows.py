"""What a join finds of a table is what the table has given on, whatever its store keeps."""

from typing import Any

import pytest

import statestores as ss
from statestores.processing import (
    Table,
    Topic,
    Topology,
    closed,
    session,
    sliding,
    tumbling,
    windowed,
)
from statestores.processing.testing import TestDriver
from statestores_conformance.many_cases import for_each

LEFT = Topic("left", key=ss.utf8, value=ss.int64)
RIGHT = Topic("right", key=ss.utf8, value=ss.int64)
OUT = Topic("out", key=ss.utf8, value=ss.json)
WINDOWS = Topic("windows", key=windowed(ss.utf8), value=ss.json)
SUMS = Topic("sums", key=ss.utf8, value=ss.int64)


def _store(name: str, value: Any = ss.int64) -> Any:
    return ss.KeyValue(name, key=ss.utf8, value=value)


def _pair(one: Any, other: Any) -> list[Any]:
    return [one, other]


def _mean(made: Topology) -> Table[str, float]:
    return made.stream(RIGHT).group_by_key().mean("value", _store("mean", ss.float64))


def _stream(made: Topology) -> None:
    made.stream(LEFT).join(_mean(made), _pair, value=ss.json).to(OUT)


def _table(made: Topology) -> None:
    made.table(LEFT, _store("rows")).join(_mean(made), _pair).to(OUT)


def _mapped(made: Topology) -> None:
    mean = _mean(made).map_values(lambda value: value + 0).filter(lambda row: row.value > 1)
    made.table(LEFT, _store("rows")).join(mean, _pair).to(OUT)


def _foreign_key(made: Topology) -> None:
    rows = made.table(LEFT, _store("rows"))
    rows.join(_mean(made), _pair, foreign_key=lambda _: "a").to(OUT)


def _of_a_table(made: Topology) -> None:
    rows = made.table(RIGHT, _store("others")).group_by(
        lambda row: row.key, key_serde=ss.utf8, value_serde=ss.int64
    )
    mean = rows.mean("value", _store("mean", ss.float64))
    made.stream(LEFT).join(mean, lambda one, other: [one, other / 2], value=ss.json).to(OUT)


@pytest.mark.spec("PRC-84")
@for_each("make", [_stream, _table, _mapped, _foreign_key, _of_a_table])
def test_a_join_finds_the_mean_and_not_what_it_is_made_of(make: Any) -> None:
    """A joiner was given the sum and the count, and once the mean had changed the mean."""
    made = Topology("t")
    make(made)
    with made.test() as driver:
        driver.topic("right").pipe(4, key="a", time_ms=1)
        driver.topic("right").pipe(5, key="a", time_ms=2)
        driver.topic("left").pipe(7, key="a", time_ms=3)

        assert driver.topic("out").read_all()[-1].value == [7, 2.5 if make is _of_a_table else 4.5]


def _windows(made: Topology, topic: Any, name: str, windows: Any, kind: str) -> Any:
    group = made.stream(topic).group_by_key().window(windows)
    store: Any = ss.Session(name, retention_ms=100, key=ss.utf8, value=ss.int64)
    if windows != session(5):
        store = ss.Window(
            name,
            retention_ms=100,
            window_size_ms=windows.store_size_ms,
            key=ss.utf8,
            value=ss.int64,
        )
    if kind == "mean":
        return group.mean("value", store, emit=closed())
    return group.count(store, emit=closed())


def _sum(driver: TestDriver) -> Any:
    return driver.topic("sums").read_all()[-1].value


@pytest.mark.spec("PRC-84", "PRC-22", "PRC-83")
@pytest.mark.parametrize(("kind", "wanted"), [("count", [2, 2]), ("mean", [4, 6])])
@pytest.mark.parametrize("windows", [tumbling(10), session(5), sliding(6)])
def test_a_join_finds_no_window_before_it_is_closed(
    windows: Any, kind: str, wanted: list[int]
) -> None:
    """A pair came out for a window that was open, and again when it was closed.

    The store has windows that have yet to come out, and the join found them. An aggregate of the
    join took nothing out for the second pair, since the window had not been given on before.
    """
    made = Topology("t")
    left, right = (_windows(made, topic, topic.name, windows, kind) for topic in (LEFT, RIGHT))
    both = left.join(right, _pair, name="both")
    both.to(WINDOWS)
    both.group_by(
        lambda _: "all", lambda row: int(sum(row.value)), key_serde=ss.utf8, value_serde=ss.int64
    ).aggregate(
        0, lambda total, value: total + value, lambda total, value: total - value, _store("sums")
    ).to(SUMS)
    with made.test() as driver:
        for topic, value, time_ms in (
            *(("left", 3, 2), ("left", 5, 3), ("right", 5, 2), ("left", 1, 50)),  # left is closed
            *(("right", 7, 3), ("right", 1, 60)),
        ):
            driver.topic(topic).pipe(value, key="a", time_ms=time_ms)
        found = [(row.key.start_ms, row.value) for row in driver.topic("windows").read_all()]
        total = _sum(driver)
    first = min(start for start, _ in found)

    assert [pair for start, pair in found if start == first] == [wanted]
    assert total == sum(sum(pair) for _, pair in found)
    assert len({start for start, _ in found}) == len(found)


@pytest.mark.spec("PRC-83", "TTL-1")
def test_a_row_that_has_expired_was_none() -> None:
    """Nothing is told of its end, so an aggregate keeps it: see the caveats."""
    made = Topology("t")
    store = ss.TimestampedKeyValue("kept", key=ss.utf8, value=ss.int64, ttl_ms=10)
    made.table(LEFT, store).group_by(lambda _: "all", key_serde=ss.utf8, value_serde=ss.int64).sum(
        "value", _store("sums")
    ).to(SUMS)
    with made.test() as driver:
        for key, value, time_ms in (("a", 5, 1), ("b", 1, 50), ("a", 7, 60), ("a", 9, 61)):
            driver.topic("left").pipe(value, key=key, time_ms=time_ms)

        assert [row.value for row in driver.topic("sums").read_all()] == [5, 6, 13, 15]
