"""A batch as columns against the same records one by one: stores equal, outputs by the rule."""

from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import statestores as ss
from statestores.errors import InvalidTopologyError
from statestores.processing import Record, Stream, Topic, Topology, closed, tumbling

IN = Topic("in", key=ss.utf8, value=ss.int64)
RATES = Topic("rates", key=ss.utf8, value=ss.int64)
OUT = Topic("out", key=ss.utf8, value=ss.int64)
STORE = ss.KeyValue("store", key=ss.utf8, value=ss.int64)
WINDOWS = ss.Window("store", retention_ms=40, window_size_ms=10, key=ss.utf8, value=ss.int64)
FOLDS = ("count", "sum", "min", "max")

records = st.lists(
    st.builds(
        Record,
        st.sampled_from(["a", "b", "c", None]),
        st.one_of(st.none(), st.integers(-5, 5), st.just(1 << 62)),
        st.integers(0, 60),
    ),
    max_size=30,
)
steps = st.lists(st.sampled_from(["filter", "filter_not", "map", "rekey"]), max_size=3)


def _stream(topology: Topology, names: list[str]) -> Stream[Any, Any]:
    stream: Stream[Any, Any] = topology.stream(IN)
    for name in names:
        if name == "map":
            stream = stream.map_values(pc.add(pc.field("value"), 1), value=ss.int64)
        elif name == "rekey":
            stream = stream.rekey("key", key=ss.utf8)
        else:
            stream = getattr(stream, name)(pc.field("value") > 0)
    return stream


def _topology(names: list[str], end: str, fold: str) -> Topology:
    topology = Topology("batches")
    rates: Any = topology.table(
        RATES, ss.Versioned("rates", history_retention_ms=1_000, key=ss.utf8, value=ss.int64)
    )
    stream = _stream(topology, names)
    selected = () if fold == "count" else ("value",)
    if end == "join":
        joiner: Any = pc.add(pc.field("value"), pc.field("other"))
        stream.join_as_of(rates, joiner, value=ss.int64).to(OUT)
    elif end == "group":
        getattr(stream.group_by_key(key=ss.utf8), fold)(*selected, STORE).to(OUT)
    elif end == "window":
        grouped: Any = stream.group_by_key(key=ss.utf8).window(tumbling(10, grace_ms=5))
        getattr(grouped, fold)(*selected, WINDOWS, emit=closed()).to_stream().rekey(
            lambda record: record.key.key, key=ss.utf8
        ).to(OUT)
    else:
        stream.to(OUT)
    return topology


def _run(
    names: list[str], end: str, fold: str, size: int, inputs: list[Record[Any, Any]]
) -> tuple[list[Any], list[Any], int]:
    """Return what came out, what is in the store, and how many were dropped."""
    with _topology(names, end, fold).test() as driver:
        driver.topic("rates").pipe(7, "a", time_ms=0)
        driver.topic("rates").pipe(8, "a", time_ms=30)
        driver.to_batches(size, least_column_rows=1)
        driver.topic("in").pipe_all(inputs)
        rows: list[Any] = []
        if "store" in driver.graph.stores:
            store = driver.store("store", stamped=True)
            rows = list(store.fetch_all() if end == "window" else store.range())
        return driver.topic("out").read_all(), rows, driver.dropped_total


def _is_part(some: list[Any], every: list[Any]) -> bool:
    remaining = iter(every)
    return all(any(each == other for other in remaining) for each in some)


@pytest.mark.spec("PRC-9", "PRC-55", "PRC-56", "PRC-57")
@settings(max_examples=max(1, settings().max_examples // 4))
@given(
    inputs=records,
    names=steps,
    end=st.sampled_from(["sink", "group", "window", "join"]),
    fold=st.sampled_from(FOLDS),
    size=st.integers(2, 12),
)
def test_a_batch_is_a_record_run_with_a_cache(
    inputs: list[Record[Any, Any]], names: list[str], end: str, fold: str, size: int
) -> None:
    """Stores and drops are equal; the output is a part of the other, with the last of each key."""
    inputs = [each for each in inputs if fold != "sum" or each.value != 1 << 62]
    one_by_one = _run(names, end, fold, 1, inputs)
    in_batches = _run(names, end, fold, size, inputs)

    assert in_batches[1:] == one_by_one[1:]
    assert _is_part(in_batches[0], one_by_one[0])
    lasts = [{record.key: record for record in run[0]} for run in (in_batches, one_by_one)]
    assert lasts[0] == lasts[1]
    if end != "group":
        assert in_batches[0] == one_by_one[0]


@pytest.mark.spec("PRC-55")
def test_columns_are_used_where_they_can_be() -> None:
    """Each key comes out once of a batch, and no step has gone back to records."""
    topology = _topology(["filter", "map"], "group", "sum")
    inputs = [Record("ab"[number % 2], number, number) for number in range(1, 9)]
    with topology.test() as driver:
        driver.to_batches(8, least_column_rows=1)
        driver.topic("in").pipe_all(inputs)
        found = [(each.key, each.value, each.time_ms) for each in driver.topic("out").read_all()]

        assert found == [("b", 20, 7), ("a", 24, 8)]
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


@pytest.mark.spec("PRC-58")
def test_an_expression_is_checked_when_it_is_written() -> None:
    """A field that is not there, or has no Arrow type, is told before anything runs."""
    topology = Topology("checked")
    values = topology.stream(Topic("objects", key=ss.utf8, value=ss.json))

    with pytest.raises(InvalidTopologyError, match="what is known is 'key' of string"):
        values.filter(pc.field("value") > 3)
