"""Joins of streams as columns against records one by one: everything is equal (PRC-102)."""

from typing import Any

import pytest
from drawn_bytes import drawn_lists
from hypothesis import example, given, settings
from hypothesis import strategies as st

import statestores as ss
from statestores.processing import Record, Topic, Topology, within

KEYS: dict[str, Any] = {"utf8": ss.utf8, "json": ss.json}
VALUES: dict[str, Any] = {"int64": ss.int64, "json": ss.json}

records = drawn_lists(
    (
        ("left", "right"),
        ("a", "b", "a", None),
        (1, 2, 3, None),
        range(25),
        ((), (("h", b"1"),)),
    ),
    min_size=0,
    max_size=30,
).map(lambda rows: [(row[0], Record(*row[1:])) for row in rows])
shapes = st.fixed_dictionaries(
    {
        "how": st.sampled_from(["inner", "left", "outer"]),
        "before_ms": st.integers(-3, 8),
        "after_ms": st.integers(3, 8),
        "grace_ms": st.sampled_from([0, 3, 20]),
        "keys": st.sampled_from(sorted(KEYS)),
        "values": st.sampled_from(sorted(VALUES)),
        "is_mapped": st.booleans(),
        "is_counted": st.booleans(),
        "is_changed": st.sampled_from([False, False, True]),
    }
)


def _topology(shape: dict[str, Any]) -> Topology:
    key, value = KEYS[shape["keys"]], VALUES[shape["values"]]
    topology = Topology("joins")
    left: Any = topology.stream(Topic("left", key=key, value=value))
    right: Any = topology.stream(Topic("right", key=key, value=value))
    if shape["is_mapped"]:
        right = right.filter(lambda record: record.value != 3).flat_map_values(
            lambda each: [each] * (each or 1), value=value
        )
    if shape["values"] == "json":
        left, right = (each.map_values(lambda value: value and [value]) for each in (left, right))

    def both(one: Any, other: Any) -> list[Any]:
        if shape["is_changed"] and isinstance(one, list):
            one.append(0)  # what comes out next, and what is stored, has that
        return [one, other]

    window = within(
        0,
        before_ms=shape["before_ms"],
        after_ms=shape["after_ms"],
        grace_ms=shape["grace_ms"],
    )
    joined = left.join(right, both, within=window, how=shape["how"], value=ss.json, name="join")
    joined.to(Topic("out", key=key, value=ss.json))
    if shape["is_counted"]:
        joined.filter(lambda record: record.key).group_by_key().count(
            ss.KeyValue("counts", key=key, value=ss.int64)
        )
    return topology


def _run(
    shape: dict[str, Any], inputs: list[Any], size: int, **more: Any
) -> tuple[dict[str, Any], Any]:
    """Return what came out, what is in the stores, what was dropped; and what was declined."""
    with _topology(shape).test() as driver:
        if size > 1:
            driver.to_batches(size, **more)
        for topic, record in inputs:
            driver.topic(topic).pipe_all([record])
        driver.settle()
        found: dict[str, Any] = {"out": driver.topic("out").read_all()}
        found["dropped"] = [dict(each.dropped) for each in driver.counts]
        for name in ("join-left", "join-right", "join-waiting", "counts"):
            if name in driver.graph.stores:
                store = driver.store(name, stamped=True)
                rows = "fetch_all" if name in ("join-left", "join-right") else "range"
                found[name] = list(getattr(store, rows)())
        return found, driver.declined_columns


@pytest.mark.spec("PRC-9", "PRC-102")
@settings(max_examples=settings().max_examples * 2)
@given(inputs=records, shape=shapes, size=st.integers(2, 20), is_run=st.booleans())
@example(  # a row without value moves time past one that waits, which came out with a later one
    inputs=[("left", Record("a", 1, 1)), ("left", Record("a", None, 5))],
    shape={
        "how": "outer",
        "before_ms": 3,
        "after_ms": 3,
        "grace_ms": 0,
        "keys": "utf8",
        "values": "int64",
        "is_mapped": False,
        "is_counted": False,
        "is_changed": False,
    },
    size=2,
    is_run=True,
)
def test_a_join_on_columns_is_that_of_records(
    inputs: list[Any], shape: dict[str, Any], size: int, is_run: bool
) -> None:
    """Outputs in their order with times and headers, both stores, what waits, and drops."""
    least = {"least_run_rows": 1} if is_run else {"least_column_rows": 1}
    one_by_one, _ = _run(shape, inputs, 1)
    on_columns, declined = _run(shape, inputs, size, **least)

    assert on_columns == one_by_one
    assert shape["is_changed"] or declined == {}


@pytest.mark.spec("PRC-32")
def test_a_reach_that_ends_before_the_epoch_ends_at_it() -> None:
    """As in Kafka Streams, whose answer to such a case is among those of `test_kafka_answers`."""
    topology = Topology("early")
    topic = Topic("left", key=ss.utf8, value=ss.int64)
    other = topology.stream(Topic("right", key=ss.utf8, value=ss.int64))
    window = within(0, before_ms=10, after_ms=-5, grace_ms=10)
    joined = topology.stream(topic).join(other, max, within=window, value=ss.int64)
    joined.to(Topic("out", key=ss.utf8, value=ss.int64))
    with topology.test() as driver:
        driver.topic("right").pipe(1, key="a", time_ms=0)
        driver.topic("left").pipe(2, key="a", time_ms=3)
        driver.topic("left").pipe(3, key="a", time_ms=5)

        assert [each.value for each in driver.topic("out").read_all()] == [2, 3]


@pytest.mark.spec("PRC-18", "PRC-57", "PRC-102")
def test_a_pair_that_fails_is_said_of_its_record() -> None:
    """The rows of both topics go one by one then; behind the join, others stay on columns."""
    topology = Topology("failing", errors="skip")
    left, right = (
        topology.stream(Topic(name, key=ss.utf8, value=ss.int64)) for name in ("left", "right")
    )
    joined = left.join(
        right, lambda one, other: 12 // (one - other), within=within(5), value=ss.int64, name="join"
    )
    joined.map_values(lambda value: 12 // (value - 3), name="later").to(
        Topic("out", key=ss.utf8, value=ss.int64)
    )
    for fails, dropped in ((1, "join.right"), (-3, "later")):
        with topology.test() as driver:
            driver.to_batches(4, least_run_rows=1)
            driver.topic("left").pipe(1, key="a", time_ms=1)
            driver.topic("right").pipe(fails, key="a", time_ms=1)
            driver.topic("left").pipe(3, key="b", time_ms=2)
            driver.topic("right").pipe(1, key="b", time_ms=2)
            declined = {step: list(why) for step, why in driver.declined_columns.items()}
            reasons = [each for counts in driver.counts for each in counts.dropped]

            assert [each.value for each in driver.topic("out").read_all()] == [4]
            assert reasons == [(dropped, "failed-ZeroDivisionError")]
            assert list(declined) == ["join" if dropped != "later" else "later"]
