"""Joins with tables beside naive models: two dicts and a loop, in batches, with crashes."""

from itertools import product
from typing import Any

import pytest
from drawn_bytes import drawn_lists
from hypothesis import given
from model_lives import (
    COMMIT,
    CRASH,
    LEFT,
    MAX_TIME_MS,
    OUT,
    RIGHT,
    Lives,
    Result,
    both,
    check_output,
    lives,
    run_life,
)

import statestores as ss
from statestores.processing import Topic, Topology, within

_VALUES = (None, *range(4))
_rows = tuple(product("ab", _VALUES))
_rows_and_strays = tuple(product((None, "a", "b"), _VALUES))


@pytest.mark.spec("PRC-9", "PRC-12", "PRC-35", "PRC-38")
@pytest.mark.parametrize("how", ["inner", "left"])
@given(life=lives(_rows_and_strays, _rows))
def test_a_join_of_a_stream_and_a_table_is_as_the_model(how: Any, life: Any) -> None:
    """The row that is there when the record comes, whatever the times are."""
    steps, size = life
    made = Topology("model")
    table = made.table(RIGHT, ss.KeyValue("rows", key=ss.utf8, value=ss.json))
    made.stream(LEFT).join(table, both, how=how, value=ss.json).to(OUT)
    found, dropped = run_life(made, steps, size)

    rows: dict[Any, Any] = {}
    wanted: list[Result] = []
    lost = 0
    for step in steps:
        if step in (COMMIT, CRASH):
            continue
        topic, (key, value), time_ms = step
        if topic == "right":
            rows[key] = value
        elif value is None or (key is None and how == "inner"):
            lost += 1
        elif rows.get(key) is not None or how == "left":
            wanted.append((key, [value, rows.get(key)], time_ms))
    check_output(found, wanted, size)
    assert dropped == lost


@pytest.mark.spec("PRC-9", "PRC-12", "PRC-44")
@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@pytest.mark.parametrize("is_kept", [True, False])
@given(life=lives(_rows, _rows))
def test_a_join_of_tables_is_as_the_model(how: Any, is_kept: bool, life: Any) -> None:
    """Each change of either side, the deletion of what was, and nothing of what never was."""
    steps, size = life
    made = Topology("model")
    left = made.table(LEFT, ss.KeyValue("l", key=ss.utf8, value=ss.json))
    right = made.table(RIGHT, ss.KeyValue("r", key=ss.utf8, value=ss.json))
    store = ss.KeyValue("kept", key=ss.utf8, value=ss.json) if is_kept else None
    left.join(right, both, store, how=how).to_stream().to(OUT)
    found, _ = run_life(made, steps, size)

    sides: dict[str, dict[str, tuple[Any, int]]] = {"left": {}, "right": {}}

    def joined(one: Any, other: Any) -> Any:
        alone = one is not None and how != "inner" if other is None else how == "outer"
        is_there = (one is not None and other is not None) or alone
        return [one, other] if is_there else None

    wanted: list[Result] = []
    for step in steps:
        if step in (COMMIT, CRASH):
            continue
        topic, (key, value), time_ms = step
        other = sides["right" if topic == "left" else "left"].get(key)
        before = sides[topic].get(key, (None, 0))[0]
        there = None if other is None else other[0]
        results = [
            joined(each, there) if topic == "left" else joined(there, each)
            for each in (before, value)
        ]
        if results != [None, None]:
            wanted.append((key, results[1], time_ms if other is None else max(time_ms, other[1])))
        sides[topic].pop(key, None)
        if value is not None:
            sides[topic][key] = value, time_ms
    check_output(found, wanted, size)


# Few values, so that rows often move from a right row that is there to one that is not.
_orders = tuple(product("ab", (["x", 0], ["y", 0], ["x", 1], ["y", 1], [None, 0], None)))
_customers = tuple(product("xy", (1, 2, None)))


@pytest.mark.spec("PRC-12", "PRC-45", "PRC-85")
@pytest.mark.parametrize("how", ["inner", "left"])
@given(life=lives(_orders, _customers))
def test_a_join_by_a_foreign_key_is_as_the_model(how: Any, life: Any) -> None:
    """After each batch, the table of the results is the join of both tables as they are then."""
    steps, size = life
    made = Topology("model")
    left = made.table(LEFT, ss.KeyValue("l", key=ss.utf8, value=ss.json))
    right = made.table(RIGHT, ss.KeyValue("r", key=ss.utf8, value=ss.json))
    left.join(right, both, foreign_key=_customer_of, how=how).to_stream().to(OUT)
    run = Lives(made)
    for done in run.live(steps, size):
        orders: dict[str, Any] = {}
        customers: dict[str, Any] = {}
        for step in steps[:done]:
            if step not in (COMMIT, CRASH):
                topic, (key, value), _ = step
                (orders if topic == "left" else customers)[key] = value
        wanted = {
            key: [order, customers.get(order[0])]
            for key, order in orders.items()
            if order is not None and (how == "left" or customers.get(order[0]) is not None)
        }
        table = {key: value for key, value, _ in run.output}

        assert {key: value for key, value in table.items() if value is not None} == wanted
    run.close()


_given = drawn_lists(
    (
        [*product(["left"], _orders), *product(["right"], _customers * 2)],
        range(MAX_TIME_MS + 1),
    ),
    min_size=3,
    max_size=10,
)


@pytest.mark.spec("PRC-9", "PRC-45")
@pytest.mark.parametrize("how", ["inner", "left"])
@given(given=_given)
def test_a_join_by_a_foreign_key_in_batches_ends_as_without(how: Any, given: Any) -> None:
    """The same rows are there in the end, with their times; only a deletion's time may differ."""

    def ends(size: int) -> dict[str, tuple[Any, int]]:
        made = Topology("batches")
        left = made.table(LEFT, ss.TimestampedKeyValue("l", key=ss.utf8, value=ss.json))
        right = made.table(RIGHT, ss.TimestampedKeyValue("r", key=ss.utf8, value=ss.json))
        left.join(right, both, foreign_key=_customer_of, how=how).to(OUT)
        with made.test() as driver:
            if size > 1:
                driver.to_batches(size)
            for (topic, (key, value)), time_ms in given:
                driver.topic(topic).pipe(value, key=key, time_ms=time_ms)
            driver.settle()
            last = {row.key: row for row in driver.topic("out").read_all()}
            return {
                key: (row.value, row.time_ms) for key, row in last.items() if row.value is not None
            }

    wanted = ends(1)

    assert [ends(size) for size in (2, 3, len(given))] == [wanted] * 3


def _customer_of(order: list[Any]) -> Any:
    return order[0]


@pytest.mark.spec("PRC-31", "PRC-38")
@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_record_without_key_comes_out_alone_behind_a_repartition_too(
    how: Any, partitions: int
) -> None:
    """A left join lost the records without key of a stream whose keys had been changed.

    They went through the topic that repartitions for the join, which dropped them; without one they
    came out alone. Kafka Streams has them do so in both cases (KIP-962).
    """
    made = Topology("model")
    left, right = (
        made.stream(topic).map(lambda record: record, key=ss.utf8, value=ss.json)
        for topic in (LEFT, RIGHT)
    )
    rows = made.table(
        Topic("t", key=ss.utf8, value=ss.json), ss.KeyValue("t", key=ss.utf8, value=ss.json)
    )
    past = ss.Versioned("past", history_retention_ms=10, key=ss.utf8, value=ss.json)
    versions = made.table(Topic("v", key=ss.utf8, value=ss.json), past)
    streams = left.join(right, both, within=within(5), how=how, value=ss.json)
    of_tables: Any = "inner" if how == "inner" else "left"
    streams.merge(
        left.join(rows, both, how=of_tables, value=ss.json),
        left.join_as_of(versions, both, how=of_tables, value=ss.json),
        left.join_as_of(versions, both, how=of_tables, wait_ms=5, value=ss.json, name="waits"),
    ).to(OUT)
    with made.test(partitions=partitions) as driver:
        driver.topic("left").pipe(1, time_ms=1)
        driver.topic("right").pipe(2, time_ms=2)
        found = [(each.key, each.value, each.time_ms) for each in driver.topic("out").read_all()]
        dropped = driver.dropped_total

    alone = {"inner": [], "left": [[1, None]] * 4, "outer": [[1, None]] * 4 + [[None, 2]]}[how]
    assert found == [(None, value, 2 if value == [None, 2] else 1) for value in alone]
    assert dropped == {"inner": 5, "left": 1, "outer": 0}[how]
