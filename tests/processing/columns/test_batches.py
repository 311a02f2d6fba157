"""A batch as columns against the same records one by one: stores equal, outputs by the rule."""

import itertools
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_steps import (
    ENDS,
    FOLDS,
    IN,
    OUT,
    RECORDS,
    STEP_NAMES,
    STORE,
    SUMS,
    WINDOWS,
    outcome,
    topology_of,
)

import statestores as ss
from statestores.errors import InvalidTopologyError
from statestores.processing import (
    Record,
    Topic,
    Topology,
    tumbling,
    windowed,
)


def _is_part(some: list[Any], every: list[Any]) -> bool:
    remaining = iter(every)
    return all(any(each == other for other in remaining) for each in some)


@pytest.mark.spec("PRC-9", "PRC-55", "PRC-56", "PRC-57")
@settings(max_examples=max(1, settings().max_examples // 4))
@given(
    inputs=RECORDS,
    names=STEP_NAMES,
    end=st.sampled_from(ENDS),
    fold=st.sampled_from(FOLDS),
    size=st.integers(2, 12),
)
def test_a_batch_is_a_record_run_with_a_cache(
    inputs: list[Record[Any, Any]], names: list[str], end: str, fold: str, size: int
) -> None:
    """Stores and drops are equal; the output is a part of the other, with the last of each key."""
    inputs = [each for each in inputs if fold not in SUMS or each.value != 1 << 62]
    one_by_one = outcome(names, end, fold, 1, inputs)
    in_batches = outcome(names, end, fold, size, inputs)

    assert in_batches[1:] == one_by_one[1:]
    assert _is_part(in_batches[0], one_by_one[0])
    lasts = [{record.key: record for record in run[0]} for run in (in_batches, one_by_one)]
    assert lasts[0] == lasts[1]
    if end not in ("group", "table", "updates", "sessions"):
        assert in_batches[0] == one_by_one[0]


@pytest.mark.spec("PRC-95")
@settings(max_examples=max(1, settings().max_examples // 4))
@given(
    inputs=RECORDS,
    names=STEP_NAMES,
    end=st.sampled_from(ENDS),
    fold=st.sampled_from(FOLDS),
    size=st.integers(2, 12),
)
def test_a_run_is_the_records_one_by_one(
    inputs: list[Record[Any, Any]], names: list[str], end: str, fold: str, size: int
) -> None:
    """Stores, drops, and every update in its order."""
    inputs = [each for each in inputs if fold not in SUMS or each.value != 1 << 62]

    assert outcome(names, end, fold, size, inputs, is_run=True) == outcome(
        names, end, fold, 1, inputs
    )


@pytest.mark.spec("PRC-95")
def test_a_run_gives_each_update_of_an_aggregate_that_changes_in_place() -> None:
    """A list that grows is what it was at each record; one that is deleted begins anew."""

    def gathered(seen: list[int], value: int) -> list[int] | None:
        seen.append(value)
        return seen if value else None

    topology = Topology("gathered")
    lists: Any = topology.stream(IN).group_by_key()
    store = ss.KeyValue("store", key=ss.utf8, value=ss.json)
    lists.aggregate(list, gathered, store).to(Topic("out", key=ss.utf8, value=ss.json))
    with topology.test() as driver:
        driver.to_batches(3, least_run_rows=1)
        driver.topic("in").pipe_all([Record("a", value, value) for value in (1, 2, 3, 4, 0, 5)])
        found = [each.value for each in driver.topic("out").read_all()]

        assert found == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4], None, [5]]
        assert driver.declined_columns == {
            "store": {"NotOnColumnsError: an aggregate is deleted": 1}
        }


@pytest.mark.spec("PRC-95")
def test_a_run_stays_on_columns_where_updates_are_counted() -> None:
    """What is behind an aggregate need not be indifferent to all updates but the last."""
    topology = Topology("counted")
    first = topology.stream(IN).group_by_key().count(STORE).to_stream()
    first.filter(lambda record: record.value % 2 == 0).to(OUT)
    with topology.test() as driver:
        driver.to_batches(6, least_run_rows=1)
        driver.topic("in").pipe_all(
            [Record("ab"[at // 4], 1, time_ms) for at, time_ms in enumerate((5, 9, 3, 4, 8, 6))]
        )
        found = [(each.key, each.value, each.time_ms) for each in driver.topic("out").read_all()]

        assert found == [("a", 2, 9), ("a", 4, 9), ("b", 2, 8)]
        assert driver.declined_columns == {}


@pytest.mark.spec("PRC-82")
@settings(max_examples=max(1, settings().max_examples // 4))
@given(
    inputs=RECORDS,
    names=STEP_NAMES,
    end=st.sampled_from(ENDS),
    size=st.integers(2, 12),
    max_bytes=st.sampled_from([1, 700, 1_400, 1 << 20]),
)
def test_a_cache_of_updates_gives_a_part_of_them(
    inputs: list[Record[Any, Any]], names: list[str], end: str, size: int, max_bytes: int
) -> None:
    """With a commit after each batch: stores and drops equal, and the last of each key."""
    one_by_one = outcome(names, end, "count", 1, inputs)
    with topology_of(names, end, "count").test(cache_max_bytes=max_bytes) as driver:
        driver.topic("rates").pipe(7, "a", time_ms=0)
        driver.topic("rates").pipe(8, "a", time_ms=30)
        driver.to_batches(size)
        driver.topic("in").pipe_all(inputs)
        driver.settle()
        cached = driver.topic("out").read_all()

    assert outcome(names, end, "count", size, inputs, max_bytes)[1:] == one_by_one[1:]
    assert _is_part(cached, one_by_one[0])
    lasts = [{record.key: record for record in run} for run in (cached, one_by_one[0])]
    assert lasts[0] == lasts[1]


@pytest.mark.spec("PRC-82")
def test_of_each_key_one_update_comes_out_of_a_cache(subtests: pytest.Subtests) -> None:
    """At each commit, or whenever the limit is passed."""
    topology = Topology("cached")
    topology.stream(IN).group_by_key().count(STORE).to(OUT)
    for max_bytes, found in ((1 << 20, [4, 8]), (1, [1, 2, 3, 4, 5, 6, 7, 8])):
        with (
            subtests.test(max_bytes=max_bytes),
            topology.test(cache_max_bytes=max_bytes, commit_each=False) as driver,
        ):
            for _ in range(2):
                driver.topic("in").pipe_all([Record("a", number, number) for number in range(4)])
                driver.commit()

            assert [each.value for each in driver.topic("out").read_all()] == found


@pytest.mark.spec("PRC-9", "PRC-57")
def test_an_extreme_that_has_no_place_in_the_order_stays(subtests: pytest.Subtests) -> None:
    """The greatest of a stored -0.0 and 0.0 was 0.0 in batches, and -0.0 record by record.

    Only what came was looked at for negative zeros, and for NaN, of which numpy warned; not what
    the store had.
    """
    floats = Topic("floats", key=ss.utf8, value=ss.float64)
    for fold, values in itertools.product(
        ("max", "min"), itertools.permutations([-0.0, 0.0, float("nan"), 1.0], 2)
    ):
        found = []
        for least in (1, 1 << 60):
            topology = Topology("extremes")
            store = ss.KeyValue("store", key=ss.utf8, value=ss.float64)
            getattr(topology.stream(floats).group_by_key(), fold)("value", store)
            with topology.test() as driver:
                for value in values:
                    driver.to_batches(2, least_column_rows=least)
                    driver.topic("floats").pipe_all([Record("a", value, 1)] * 2)
                found.append(repr(driver.store("store").get("a")))
        with subtests.test(fold, values=values):
            assert found[0] == found[1]


@pytest.mark.spec("PRC-55")
def test_columns_are_used_where_they_can_be() -> None:
    """Each key comes out once of a batch, and no step has gone back to records."""
    topology = topology_of(["filter", "map"], "group", "sum")
    inputs = [Record("ab"[number % 2], number, number) for number in range(1, 9)]
    with topology.test() as driver:
        driver.to_batches(8, least_column_rows=1)
        driver.topic("in").pipe_all(inputs)
        found = [(each.key, each.value, each.time_ms) for each in driver.topic("out").read_all()]

        assert found == [("b", 20, 7), ("a", 24, 8)]
        assert driver.declined_columns == {}


@pytest.mark.spec("PRC-55")
def test_a_join_as_of_stays_on_columns() -> None:
    """What it looks up has the table's type already: taken for bytes, each batch was a loop."""
    with topology_of(["values by function"], "join", "count").test() as driver:
        driver.topic("rates").pipe(7, "a", time_ms=0)
        driver.to_batches(8, least_column_rows=1)
        driver.topic("in").pipe_all([Record("a", number, number) for number in range(8)])

        assert [each.value for each in driver.topic("out").read_all()] == [7 - n for n in range(8)]
        assert driver.declined_columns == {}


@pytest.mark.spec("PRC-56")
def test_updates_that_another_step_counts_all_come_out() -> None:
    """Two counts behind each other: the second one counts updates, in batches too."""
    topology = Topology("twice")
    first = topology.stream(IN).group_by_key().count(STORE).to_stream()
    updates = ss.KeyValue("updates", key=ss.utf8, value=ss.int64)
    first.group_by_key().count(updates)
    with topology.test() as driver:
        driver.to_batches(5, least_column_rows=1)
        driver.topic("in").pipe_all([Record("a", number, number) for number in range(5)])

        assert driver.store("updates").get("a") == 5


@pytest.mark.spec("PRC-57")
def test_what_fails_on_columns_is_said_of_its_record() -> None:
    """A sum beyond 64 bits fails at the record that makes it so, and others stay."""
    topology = Topology("large", errors="skip")
    topology.stream(IN).group_by_key().sum("value", STORE).to(OUT)
    large = (1 << 63) - 1
    with topology.test() as driver:
        driver.to_batches(3, least_column_rows=1)
        driver.topic("in").pipe_all([Record("a", value, 1) for value in (large, 1, -1)])

        assert driver.store("store").get("a") == large - 1
        assert driver.dropped_total == 1
        assert "64 bits" in str(driver.declined_columns)


@pytest.mark.spec("PRC-9", "PRC-57")
def test_an_aggregate_that_the_store_refuses_on_the_way_fails(subtests: pytest.Subtests) -> None:
    """The least of infinity and 1 was 1 in a batch, as if JSON took infinity: nothing was said."""
    floats = Topic("floats", key=ss.utf8, value=ss.float64)
    store = ss.KeyValue("store", key=ss.utf8, value=ss.json)
    frames = ss.Window("store", retention_ms=50, window_size_ms=10, key=ss.utf8, value=ss.json)
    for is_windowed, size in itertools.product((False, True), (1, 3)):
        topology = Topology("lowest", errors="skip")
        group: Any = topology.stream(floats).group_by_key()
        (group.window(tumbling(10)) if is_windowed else group).min(
            "value", frames if is_windowed else store
        )
        with subtests.test(is_windowed=is_windowed, size=size), topology.test() as driver:
            driver.to_batches(size, least_column_rows=1)
            driver.topic("floats").pipe_all(
                [Record("a", value, 1) for value in (float("inf"), 2.0, 1.0)]
            )
            found = driver.store("store")

            assert (found.fetch("a", 0) if is_windowed else found.get("a")) == 1.0
            assert driver.dropped_total == 1


@pytest.mark.spec("PRC-9", "PRC-57")
def test_the_last_times_that_there_are_go_record_by_record(subtests: pytest.Subtests) -> None:
    """The window of the last one ended at -2**63 in a batch; record by record it has no bytes."""
    last_ms = (1 << 63) - 1
    for at in (lambda record: record, lambda record: record.with_time(last_ms)):
        topology = Topology("last", errors="skip")
        stream: Any = topology.stream(IN).map(at, key=ss.utf8, value=ss.int64)
        table = stream.group_by_key().window(tumbling(10)).count(WINDOWS)
        table.to(Topic("out", key=windowed(ss.utf8), value=ss.int64))
        found = []
        for size in (1, 3):
            with topology.test() as driver:
                driver.to_batches(size, least_column_rows=1)
                driver.topic("in").pipe_all([Record("a", 1, last_ms - n) for n in (9, 1, 0)])
                found.append((driver.topic("out").read_all(), driver.dropped_total))
        with subtests.test():
            assert found[0] == found[1]
            assert found[0][1] >= 2


@pytest.mark.spec("PRC-58")
def test_an_expression_is_checked_when_it_is_written() -> None:
    """A field that is not there, or has no Arrow type, is told before anything runs."""
    topology = Topology("checked")
    values = topology.stream(Topic("objects", key=ss.utf8, value=ss.json))

    with pytest.raises(InvalidTopologyError, match="what is known is 'key' of string"):
        values.filter(pc.field("value") > 3)
