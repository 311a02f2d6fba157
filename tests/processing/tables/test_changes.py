"""Changes: what a table says a row was, and when, to whatever is made of the table.

Found by running random topologies beside Kafka Streams' own test driver.
"""

from typing import Any

import pytest

import statestores as ss
from statestores.processing import (
    GroupedTable,
    Record,
    Stream,
    Table,
    Topic,
    Topology,
    sliding,
    windowed,
)
from statestores.processing.testing import TestDriver
from statestores_conformance.many_cases import for_each

OUT = Topic("out", key=ss.utf8, value=ss.json)
ORDERS = Topic("orders", key=ss.utf8, value=ss.json)
CUSTOMERS = Topic("customers", key=ss.utf8, value=ss.json)
COUNT = ss.KeyValue("count", key=ss.utf8, value=ss.int64)

ONE_BY_ONE, ALL = 1, 100


def customer(order: list[Any]) -> Any:
    """Return which customer an order names, if it names one."""
    return order[0]


def priced(topology: Topology, store: ss.KeyValue[str, Any] | None = None) -> Table[str, Any]:
    """Return orders joined with the customers that they name."""
    orders, customers = topology.table(ORDERS), topology.table(CUSTOMERS)
    return orders.join(
        customers, lambda order, name: [order, name], store, foreign_key=customer, name="priced"
    )


def pipe(driver: TestDriver, *given: tuple[str, str, Any]) -> None:
    """Give records, one ms after another."""
    for time_ms, (topic, key, value) in enumerate(given):
        driver.topic(topic).pipe(value, key=key, time_ms=time_ms)
    driver.settle()


def last(driver: TestDriver) -> dict[str, Any]:
    """Return the last value of each key that came out."""
    return {record.key: record.value for record in driver.topic("out").read_all()}


def in_all(record: Record[str, Any]) -> str:
    """Return one group for everything."""
    return "all"


@pytest.mark.spec("PRC-83")
def test_a_count_of_joined_rows_counts_each_once() -> None:
    """A join by a foreign key keeps no rows, and said of every change that the row was new.

    A count of its rows grew with every update. The rows are kept where somebody asks what they
    were.
    """
    topology = Topology("t")
    grouped: GroupedTable[str, Any] = priced(topology).group_by(in_all, key_serde=ss.utf8)
    grouped.count(COUNT).to(Topic("out", key=ss.utf8, value=ss.int64))
    with topology.test() as driver:
        pipe(
            driver,
            ("customers", "c", "Ann"),
            ("orders", "1", ["c", 1]),
            ("orders", "1", ["c", 2]),
            ("customers", "c", "Anna"),
            ("orders", "2", ["c", 1]),
            ("orders", "1", None),
        )

        counts = [record.value for record in driver.topic("out").read_all()]

        assert counts == [1, 1, 1, 2, 1]


@pytest.mark.spec("PRC-83")
def test_joined_rows_that_are_filtered_out_are_deleted() -> None:
    """A filter said nothing of a row that it had kept and now did not: it seemed never there.

    What follows may be joined with too, which was refused for want of rows.
    """
    topology = Topology("t")
    rows = priced(topology).filter(lambda record: record.value[1] != "gone")
    tags: Stream[str, Any] = topology.stream(Topic("tags", key=ss.utf8, value=ss.json))
    rows.to(OUT)
    tags.join(rows, lambda tag, row: [tag, row], how="left").to(
        Topic("tagged", key=ss.utf8, value=ss.json)
    )
    with topology.test() as driver:
        pipe(
            driver,
            ("customers", "c", "Ann"),
            ("orders", "1", ["c", 1]),
            ("tags", "1", "new"),
            ("customers", "c", "gone"),
            ("tags", "1", "old"),
        )

        assert last(driver) == {"1": None}
        tagged = [record.value for record in driver.topic("tagged").read_all()]
        assert tagged == [["new", [["c", 1], "Ann"]], ["old", None]]


RACES = [
    (("orders", "1", [None, 1]), ("orders", "1", ["d", 1])),
    (("orders", "1", None), ("orders", "1", ["d", 1])),
    (("orders", "1", ["d", 1]), ("orders", "1", ["d", 2])),
    (("orders", "1", None), ("orders", "1", [None, 1])),
    (("orders", "1", [None, 1]), ("orders", "1", None)),
]


@pytest.mark.spec("PRC-85", "PRC-45")
@for_each("size", [ONE_BY_ONE, ALL])
@for_each("race", RACES)
def test_a_joined_row_goes_though_its_order_changes_again_meanwhile(
    race: tuple[tuple[str, str, Any], ...], size: int
) -> None:
    """An order left its customer, and changed again before the answer to that had come back.

    The answer was to a row that was gone, so it did not count; the new row named a customer who is
    not there, of which nothing was said. So the joined row stayed for good: in a batch, in a task
    of several partitions, and in Kafka Streams.
    """
    topology = Topology("t")
    priced(topology, ss.KeyValue("kept", key=ss.utf8, value=ss.json)).to(OUT)
    with topology.test() as driver:
        pipe(driver, ("customers", "c", "Ann"), ("orders", "1", ["c", 1]))
        driver.to_batches(size)
        pipe(driver, *race)

        assert last(driver) == {"1": None}
        assert list(driver.store("kept").range()) == []
        assert list(driver.store("priced-owed").range()) == []


@pytest.mark.spec("PRC-45")
@for_each("size", [ONE_BY_ONE, ALL])
@for_each("row", [None, ["d", 1]])
def test_a_joined_row_goes_once_though_its_order_is_given_again(row: Any, size: int) -> None:
    """The same order, or deletion, came again before the first was answered: two deletions came.

    The second had another time, so that the last one of a batch was not that of single records.
    """
    topology = Topology("t")
    priced(topology).to(OUT)
    with topology.test() as driver:
        pipe(driver, ("customers", "c", "Ann"), ("orders", "1", ["c", 1]))
        driver.to_batches(size)
        for time_ms in (8, 5):
            driver.topic("orders").pipe(row, key="1", time_ms=time_ms)

        out = [(record.value, record.time_ms) for record in driver.topic("out").read_all()]

        assert out == [([["c", 1], "Ann"], 1), (None, 8)]


@pytest.mark.spec("PRC-45")
def test_an_order_that_names_nobody_gives_nothing() -> None:
    """What is owed is the deletion of a row that came out: a new order owes nothing."""
    topology = Topology("t")
    priced(topology).to(OUT)
    with topology.test() as driver:
        pipe(driver, ("orders", "1", ["d", 1]), ("orders", "1", ["d", 2]), ("orders", "2", [None]))

        assert driver.topic("out").read_all() == []


@pytest.mark.spec("PRC-84")
def test_a_suppressed_row_is_found_as_it_has_come_out() -> None:
    """A join with a suppressed table found rows that had not come out of it yet."""
    topology = Topology("t")
    rates = topology.table(Topic("rates", key=ss.utf8, value=ss.json))
    orders: Stream[str, Any] = topology.stream(ORDERS)
    orders.join(rates.suppress(wait_ms=2), lambda order, rate: [order, rate], how="left").to(OUT)
    with topology.test() as driver:
        rate = driver.topic("rates").pipe
        found = []
        for time_ms, value in enumerate((1, 2, 3, 4)):
            rate(value, key="a", time_ms=time_ms)
            driver.topic("orders").pipe("order", key="a", time_ms=time_ms)
            found += [record.value[1] for record in driver.topic("out").read_all()]

        # The first update waits until 2 and goes out as 3; the one after waits in turn.
        assert found == [None, None, 3, 3]


@pytest.mark.spec("PRC-83")
def test_a_sliding_window_that_begins_to_exist_was_not_there() -> None:
    """A window that took over what was in reach before it said that it had been so already.

    A sum of windows took that out, though nobody had put it in.
    """
    topology = Topology("t")
    kept = ss.Window("kept", retention_ms=100, window_size_ms=5, key=ss.utf8, value=ss.int64)
    windows = topology.stream(ORDERS).group_by_key().window(sliding(5)).count(kept)
    total = windows.group_by(in_all, key_serde=ss.utf8, value_serde=ss.int64)
    total.sum("value", COUNT).to(Topic("out", key=ss.utf8, value=ss.int64))
    with topology.test() as driver:
        for time_ms in (10, 12, 16):
            driver.topic("orders").pipe(0, key="a", time_ms=time_ms)
        driver.settle()
        in_store = sum(window.value for window in driver.store("kept").fetch_all())

        assert [record.value for record in driver.topic("out").read_all()][-1] == in_store


@pytest.mark.spec("PRC-24", "PRC-83")
@for_each("steps", [(4, 10), (4, 26, 10), (4, 5, 11)])
def test_a_sliding_window_that_is_made_twice_was_there(steps: tuple[int, ...]) -> None:
    """A group of windows counted a record twice that came one millisecond out of reach.

    The window that begins just after the record before is the one that ends with the new record. It
    comes out as both, as in Kafka Streams; either time it was said that there had been none.
    """
    topology = Topology("t")
    kept = ss.Window("w", retention_ms=100, window_size_ms=5, key=ss.utf8, value=ss.int64)
    orders = topology.stream(ORDERS).group_by_key()
    windows = orders.window(sliding(5, grace_ms=50)).count(kept)
    windows.to(Topic("windows", key=windowed(ss.utf8), value=ss.int64))
    total = windows.group_by(lambda row: row.key.key, key_serde=ss.utf8, value_serde=ss.int64)
    total.sum("value", COUNT).to(Topic("out", key=ss.utf8, value=ss.int64))
    with topology.test() as driver:
        for time_ms in steps:
            driver.topic("orders").pipe(1, key="a", time_ms=time_ms)
        found = driver.topic("windows").read_all()
        counted = driver.topic("out").read_all()[-1].value

    assert counted == sum({row.key: row.value for row in found}.values())


@pytest.mark.spec("PRC-86", "PRC-42")
def test_a_version_that_is_filtered_out_ends_the_one_before() -> None:
    """A late version that is kept was given on, and the later one that ends it was not.

    Who kept the changes had a row for good that the table does not have.
    """
    topology = Topology("t")
    versions = ss.Versioned("rates", history_retention_ms=100, key=ss.utf8, value=ss.json)
    copied = ss.Versioned("copied", history_retention_ms=100, key=ss.utf8, value=ss.json)
    rates = topology.table(Topic("rates", key=ss.utf8, value=ss.json), versions)
    rates.filter(lambda record: record.value > 1).to_stream().to_table(copied)
    with topology.test() as driver:
        for value, time_ms in ((1, 28), (4, 23), (None, 33)):
            driver.topic("rates").pipe(value, key="a", time_ms=time_ms)
        store = driver.store("copied")

        assert store.get("a") is None
        assert [store.get("a", at)[0] for at in (23, 27)] == [4, 4]
        assert [store.get("a", at) for at in (28, 33)] == [None, None]


@pytest.mark.spec("PRC-86", "PRC-41")
@for_each("step", ["filter", "map_values"])
def test_rows_made_of_versions_are_deleted_with_them(step: str) -> None:
    """A late version came into the store last, and a deletion of the row did not take it out."""
    topology = Topology("t")
    versions = ss.Versioned("rates", history_retention_ms=100, key=ss.utf8, value=ss.json)
    rates = topology.table(Topic("rates", key=ss.utf8, value=ss.json), versions)
    derived = ss.KeyValue("derived", key=ss.utf8, value=ss.json)
    if step == "filter":
        rates.filter(lambda record: record.value > 1, derived).to(OUT)
    else:
        rates.map_values(lambda value: value, derived, value=ss.json).to(OUT)
    with topology.test() as driver:
        for value, time_ms in ((None, 20), (2, 10), (None, 30)):
            driver.topic("rates").pipe(value, key="a", time_ms=time_ms)

        assert list(driver.store("derived").range()) == []
        assert last(driver) == {"a": None}


@pytest.mark.spec("PRC-36")
def test_a_record_without_value_moves_no_time_of_an_as_of_join() -> None:
    """It moved the time on and let nobody go, so a late record came out before those that waited.

    Kafka Streams was said to do so, and does not.
    """
    topology = Topology("t")
    versions = ss.Versioned("rates", history_retention_ms=100, key=ss.utf8, value=ss.json)
    rates = topology.table(Topic("rates", key=ss.utf8, value=ss.json), versions)
    orders: Stream[str, Any] = topology.stream(ORDERS)
    orders.join_as_of(rates, lambda order, rate: order, how="left", wait_ms=10).to(OUT)
    with topology.test() as driver:
        for value, time_ms in (("first", 0), (None, 16), ("late", 5), ("last", 16)):
            driver.topic("orders").pipe(value, key="a", time_ms=time_ms)

        assert [record.value for record in driver.topic("out").read_all()] == ["first", "late"]


@pytest.mark.spec("PRC-14", "PRC-43")
def test_a_row_without_what_is_added_up_adds_nothing() -> None:
    """A sum of rows failed at the first one without a value, where one of records drops it."""
    topology = Topology("t")
    grouped: GroupedTable[str, Any] = topology.table(ORDERS).group_by(in_all, key_serde=ss.utf8)
    grouped.sum("value.eur", COUNT).to(Topic("out", key=ss.utf8, value=ss.int64))
    with topology.test() as driver:
        for key, value in (("1", 3), ("2", None), ("2", 4), ("2", None)):
            driver.topic("orders").pipe({"eur": value}, key=key, time_ms=0)

        assert [record.value for record in driver.topic("out").read_all()] == [3, 7, 3]
        assert driver.dropped_total == 1


@pytest.mark.spec("PRC-15")
def test_a_mean_of_nothing_is_none() -> None:
    """When the last row had left its group, the mean of the group was 0."""
    topology = Topology("t")
    grouped: GroupedTable[str, Any] = topology.table(ORDERS).group_by(in_all, key_serde=ss.utf8)
    means = ss.KeyValue("means", key=ss.utf8, value=ss.float64)
    grouped.mean("value", means).to(Topic("out", key=ss.utf8, value=ss.float64))
    with topology.test() as driver:
        for value in (3, None, 5):
            driver.topic("orders").pipe(value, key="1", time_ms=0)

        assert [record.value for record in driver.topic("out").read_all()] == [3.0, None, 5.0]
        assert driver.store("means").get("all") == 5.0
