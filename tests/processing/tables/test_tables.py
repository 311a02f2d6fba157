"""Tables: rows, versions, groups that follow them, and joins of all kinds."""

from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError, InvalidTopologyError
from statestores.processing import (
    GroupedTable,
    Topic,
    Topology,
    Windowed,
    closed,
    tumbling,
    windowed,
)
from statestores.processing.testing import TestDriver
from statestores_conformance.many_cases import for_each

OUT = Topic("out", key=ss.utf8, value=ss.json)


def rows(name: str) -> Topic[str, Any]:
    """Return a topic of JSON rows."""
    return Topic(name, key=ss.utf8, value=ss.json)


def store(name: str) -> ss.KeyValue[str, Any]:
    """Return a store of JSON rows."""
    return ss.KeyValue(name, key=ss.utf8, value=ss.json)


def values(driver: TestDriver) -> list[tuple[Any, Any]]:
    """Return keys and values of what came out."""
    return [(record.key, record.value) for record in driver.topic("out").read_all()]


@pytest.mark.spec("PRC-41", "PRC-40")
def test_a_table_has_the_last_value_that_arrived() -> None:
    """An older time does not matter; a deletion of nothing is forwarded."""
    topology = Topology("t")
    topology.table(rows("in"), store("table")).to(OUT)
    with topology.test() as driver:
        driver.topic("in").pipe(1, key="a", time_ms=9)
        driver.topic("in").pipe(2, key="a", time_ms=3)
        driver.topic("in").pipe(None, key="b", time_ms=4)

        assert values(driver) == [("a", 1), ("a", 2), ("b", None)]
        assert driver.store("table").get("a") == 2
        assert driver.store("table", stamped=True).get("a") == (2, 3)


@pytest.mark.spec("PRC-42", "PRC-35")
def test_a_versioned_table_is_joined_as_of_the_records_time() -> None:
    """A late version changes the past, and one from before the retention nothing."""
    topology = Topology("t")
    versions = ss.Versioned("rates", history_retention_ms=10, key=ss.utf8, value=ss.json)
    table = topology.table(rows("rates"), versions)
    topology.stream(rows("orders")).join(table, lambda one, rate: [one, rate], how="left").to(OUT)
    with topology.test() as driver:
        for value, time_ms in ((1, 10), (3, 20), (2, 15), (0, 9)):
            driver.topic("rates").pipe(value, key="a", time_ms=time_ms)
        for time_ms in (10, 14, 15, 25):
            driver.topic("orders").pipe(time_ms, key="a", time_ms=time_ms)
        driver.topic("orders").pipe(None, key="a", time_ms=30)

        assert [value for _, value in values(driver)] == [[10, 1], [14, 1], [15, 2], [25, 3]]
        assert driver.dropped_total == 2


@pytest.mark.spec("PRC-35", "PRC-36", "PRC-9")
@pytest.mark.parametrize("batch_size", [1, 300])
@pytest.mark.parametrize("wait_ms", [None, 5])
def test_what_is_made_of_versions_is_joined(wait_ms: int | None, batch_size: int) -> None:
    """A stream joined with a filter or with mapped values of versions found the versions.

    The join looked its rows up in the store of versions, where none of what is made of them is.
    """
    topology = Topology("derived")
    versions = ss.Versioned("v", history_retention_ms=ss.HOUR, key=ss.utf8, value=ss.int64)
    table = topology.table(Topic("table", key=ss.utf8, value=ss.int64), versions)
    made = table.filter(lambda row: row.value > 10).map_values(lambda value: -value)
    stream = topology.stream(Topic("in", key=ss.utf8, value=ss.int64))
    if wait_ms is None:
        joined = stream.join(made, lambda one, other: [one, other], how="left")
    else:
        joined = stream.join_as_of(
            made, lambda one, other: [one, other], how="left", wait_ms=wait_ms
        )
    joined.to(OUT)
    with topology.test() as driver:
        driver.to_batches(batch_size)
        for time_ms, value in ((0, 5), (10, 50), (20, 7), (30, 70)):
            driver.topic("table").pipe(value, key="k", time_ms=time_ms)
        for time_ms in range(300):
            driver.topic("in").pipe(time_ms, key="k", time_ms=time_ms)
        driver.topic("in").pipe(300, key="k", time_ms=400)
        found = values(driver)[:41]

    assert found == [
        ("k", [at, -50 if 10 <= at < 20 else -70 if at >= 30 else None]) for at in range(41)
    ]


@pytest.mark.spec("PRC-43")
def test_a_group_of_a_table_follows_its_rows() -> None:
    """A row that moves leaves the old group first; in one update where it stays."""
    topology = Topology("t")
    table = topology.table(rows("staff"), store("staff"))
    grouped: GroupedTable[str, int] = table.group_by("value.team", "value.pay", key_serde=ss.utf8)
    grouped.sum("value", store("cost")).to(OUT)
    with topology.test(partitions=2) as driver:
        pipe = driver.topic("staff").pipe
        pipe({"team": "a", "pay": 5}, key="ann", time_ms=1)
        pipe({"team": "a", "pay": 3}, key="bob", time_ms=1)
        pipe({"team": "a", "pay": 7}, key="ann", time_ms=1)
        pipe({"team": "b", "pay": 7}, key="ann", time_ms=1)
        pipe(None, key="bob", time_ms=1)

        assert values(driver) == [("a", 5), ("a", 8), ("a", 10), ("a", 3), ("b", 7), ("a", 0)]


@pytest.mark.spec("PRC-44")
@for_each(
    ("how", "wanted"),
    [
        ("inner", [["x", "y"], None]),
        ("left", [["x", None], ["x", "y"], ["x", None], None]),
        ("outer", [["x", None], ["x", "y"], ["x", None], None]),
    ],
)
def test_joins_of_tables_follow_both_sides(how: Any, wanted: list[Any]) -> None:
    """A result that vanishes is deleted; what never was is not."""
    topology = Topology("t")
    left, right = topology.table(rows("l")), topology.table(rows("r"))
    left.join(right, lambda one, other: [one, other], store("j"), how=how).to(OUT)
    with topology.test() as driver:
        driver.topic("l").pipe("x", key="a", time_ms=1)
        driver.topic("r").pipe("y", key="a", time_ms=2)
        driver.topic("r").pipe(None, key="a", time_ms=3)
        driver.topic("l").pipe(None, key="a", time_ms=4)
        driver.topic("l").pipe(None, key="b", time_ms=5)

        assert [value for _, value in values(driver)] == wanted
        assert driver.store("j").get("a") is None


@pytest.mark.spec("PRC-44")
def test_tables_without_stores_are_looked_up_through_their_parents() -> None:
    """A filter and a mapping keep nothing, and are joined all the same."""
    topology = Topology("t")
    left = topology.table(rows("l")).filter(lambda row: row.value > 1)
    right = topology.table(rows("r")).map_values(lambda value: value * 10)
    both = left.join(right, lambda one, other: one + other)
    both.join(topology.table(rows("s")), lambda one, other: one + other).to(OUT)
    with topology.test() as driver:
        driver.topic("l").pipe(2, key="a", time_ms=1)
        driver.topic("r").pipe(3, key="a", time_ms=2)
        driver.topic("s").pipe(500, key="a", time_ms=3)
        driver.topic("l").pipe(1, key="a", time_ms=4)

        assert values(driver) == [("a", 532), ("a", None)]


@pytest.mark.spec("PRC-45")
@for_each("partitions", [1, 3])
@for_each("how", ["inner", "left"])
def test_foreign_keys_follow_both_sides(how: Any, partitions: int) -> None:
    """Rows that change, move, and vanish, in any number of partitions: as one join of all rows."""
    topology = Topology("t")
    orders, customers = topology.table(rows("orders")), topology.table(rows("customers"))
    orders.join(
        customers,
        lambda order, name: [order["id"], name],
        store("joined"),
        foreign_key=lambda order: order["customer"],
        how=how,
    ).to(OUT)
    left: dict[str, Any] = {}
    right: dict[str, Any] = {}
    steps = [
        ("orders", "o1", {"id": 1, "customer": "c1"}),
        ("customers", "c1", "Ann"),
        ("orders", "o2", {"id": 2, "customer": "c1"}),
        ("orders", "o3", {"id": 3, "customer": None}),
        ("orders", "o1", {"id": 1, "customer": "c2"}),
        ("customers", "c2", "Bob"),
        ("customers", "c1", "Anna"),
        ("orders", "o3", {"id": 3, "customer": "c2"}),
        ("customers", "c2", None),
        ("orders", "o2", {"id": 2, "customer": None}),
        ("orders", "o1", None),
    ]
    with topology.test(partitions=partitions) as driver:
        for time_ms, (topic, key, value) in enumerate(steps):
            driver.topic(topic).pipe(value, key=key, time_ms=time_ms)
            side = left if topic == "orders" else right
            side.pop(key, None)
            if value is not None:
                side[key] = value
            wanted = {
                order: [row["id"], right.get(row["customer"])]
                for order, row in left.items()
                if how == "left" or row["customer"] in right
            }
            found: dict[str, Any] = {}
            for partition in range(partitions):
                found |= dict(driver.store("joined", partition).range())

            assert found == wanted, (topic, key, value)


@pytest.mark.spec("PRC-38", "PRC-35")
def test_left_joins_keep_records_without_key() -> None:
    """An inner join drops them."""
    topology = Topology("t")
    table, stream = topology.table(rows("rows")), topology.stream(rows("in"))
    stream.join(table, lambda one, row: [one, row], how="left", name="left").to(OUT)
    stream.join(table, lambda one, row: [one, row], name="inner").to(OUT)
    with topology.test() as driver:
        driver.topic("in").pipe(1, time_ms=1)

        assert values(driver) == [(None, [1, None])]
        assert driver.dropped_total == 1


@pytest.mark.spec("PRC-26", "PRC-21")
def test_suppression_until_windows_close_gives_final_results() -> None:
    """The same rows as `closed()`."""
    topology = Topology("t")
    windows = ss.Window("w", retention_ms=20, window_size_ms=10, key=ss.utf8, value=ss.int64)
    counts = topology.stream(rows("in")).group_by_key().window(tumbling(10, grace_ms=5))
    counts.count(windows).suppress(until_closed=True).to(
        Topic("out", key=windowed(ss.utf8), value=ss.json)
    )
    with topology.test() as driver:
        for time_ms in (1, 5, 12, 3, 14, 15, 40):
            driver.topic("in").pipe("x", key="a", time_ms=time_ms)

        assert values(driver) == [(Windowed("a", 0, 10), 3), (Windowed("a", 10, 20), 3)]


@pytest.mark.spec("PRC-26")
def test_suppression_by_time_and_by_number() -> None:
    """The wait counts from the first update; a full buffer gives out the oldest."""
    topology = Topology("t")
    table = topology.table(rows("in"))
    table.suppress(wait_ms=10, max_rows=2, name="held").to(OUT)
    with topology.test() as driver:
        pipe = driver.topic("in").pipe
        pipe(1, key="a", time_ms=0)
        pipe(2, key="a", time_ms=9)
        pipe(1, key="b", time_ms=9)
        assert values(driver) == []
        pipe(1, key="c", time_ms=9)
        assert values(driver) == [("a", 2)]
        pipe(3, key="b", time_ms=19)
        assert values(driver) == [("b", 3), ("c", 1)]


def test_suppression_says_what_it_needs() -> None:
    """An end to the wait; and windows, where they should close."""
    table = Topology("t").table(rows("in"))

    with pytest.raises(InvalidArgumentError, match="wait_ms"):
        table.suppress()
    with pytest.raises(InvalidTopologyError, match="no windows"):
        table.suppress(until_closed=True)


@pytest.mark.spec("PRC-9")
def test_batches_leave_the_same_stores() -> None:
    """Whatever their size."""

    def run(size: int) -> tuple[Any, Any]:
        topology = Topology("t")
        windows = ss.Window("w", retention_ms=20, window_size_ms=10, key=ss.utf8, value=ss.int64)
        group = topology.stream(rows("in")).group_by_key()
        group.window(tumbling(10)).count(windows, emit=closed()).to(
            Topic("out", key=windowed(ss.utf8), value=ss.json)
        )
        with topology.test() as driver:
            driver.to_batches(size)
            for number in range(50):
                driver.topic("in").pipe(1, key=f"k{number % 3}", time_ms=number * 7 % 60)
            return list(driver.store("w").fetch_all()), values(driver)

    assert run(1) == run(4) == run(100)
