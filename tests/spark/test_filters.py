"""Filters of a query are applied while reading, where that is exact, and never change its rows."""

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from math import isnan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

pytest.importorskip(
    "pyspark", minversion="4.1", reason="PySpark 4.0 tells a source of no filters: none to test"
)

# Behind the skip, since 4.0 has no filters.
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

import statestores as ss
from statestores.arrow.key_selection import KeySelection
from statestores.changelog import change_schema
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spark import register, unregister
from statestores.spark.name_routing import FILTER_PUSHDOWN
from statestores.spark.options import SourceOptions
from statestores.spark.pushed_filters import key_filter, time_filter
from statestores.spark.reader import FilteringStateStoreReader
from statestores.staged_write import publish, stage

RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]

TEXTS = ["", "a", "a\x00", "ab", "b", "é", "ключ", "🜁", "\uffff", "z" * 80]
STORES: dict[str, tuple[Any, list[Any]]] = {
    "texts": (ss.KeyValue("texts", key=ss.utf8, value=ss.utf8), TEXTS),
    "bytes": (
        ss.KeyValue("bytes", value=ss.int64),
        [b"", b"\x00", b"\x00\xff", b"a", b"a\x00", b"\xff", b"\xff\xff", b"\xff" * 70],
    ),
    "numbers": (
        ss.KeyValue("numbers", key=ss.int64, value=ss.utf8),
        [-(2**63), -1, 0, 1, 255, 256, 2**63 - 1],
    ),
    "sorted": (
        ss.KeyValue("sorted", key=ss.int64_sorted, value=ss.utf8),
        [-(2**63), -1, 0, 1, 255, 256, 2**63 - 1],
    ),
    "floats": (
        ss.KeyValue("floats", key=ss.float64, value=ss.utf8),
        [-1.5, -0.0, 0.0, 1.5, float("nan"), float("inf")],
    ),
    "rates": (ss.Versioned("rates", history_retention_ms=10**6, key=ss.utf8), TEXTS),
}
CONDITIONS = {
    "texts": [
        "key = 'ab' AND value LIKE '%1%'",
        "key IN ('a', '🜁', 'missing', null)",
        "key > 'a' AND key <= 'é' AND key <> 'b'",
        "startswith(key, 'a') AND upper(key) = 'A'",
    ],
    "bytes": ["key IN (X'61', X'FFFF') OR key = X''", "key > X'00' AND key <= X'FF'"],
    "rates": [
        "valid_from > timestamp_millis(1000) AND key LIKE 'a%'",
        "valid_to <= timestamp_micros(2000001) AND valid_to <=> timestamp_millis(2000)",
    ],
}
FILTERS = 80


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A state root with the stores, each in a partition with a snapshot and changes after it."""
    root = ss.StateRoot.create(tmp_path_factory.mktemp("state"))
    for name, (store, keys) in STORES.items():
        root.add_store(store, partitions=1)
        write(root, store, "w1", keys, 1_000)
        with ss.open_logged_store(root, name, backend="memory") as logged:
            logged.snapshot()
        write(root, store, "w2", keys[::2], 2_000)
    return str(root.path)


def write(root: ss.StateRoot, store: Any, write_id: str, keys: list[Any], now_ms: int) -> None:
    """Append a change of each of *keys*."""
    serde = serde_or_raw(store.key)
    value: Any = now_ms if store.value is ss.int64 else f"v{now_ms}"
    values = [value.encode() if store.value is None else value] * len(keys)
    columns = [
        serde.encode_array(pa.array(keys, serde.arrow_type())),
        serde_or_raw(store.value).encode_array(pa.array(values)),
    ]
    if isinstance(store, ss.Versioned):
        columns.append(pa.array([now_ms] * len(keys), pa.int64()))
    batch = pa.RecordBatch.from_arrays(columns, schema=change_schema(store.kind))
    publish(root, store.name, write_id, [stage(root.path, store, 1, write_id, "t0", [batch])])


@pytest.fixture
def offering(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that offers filters, which is a setting that is off at first."""
    spark.conf.set(FILTER_PUSHDOWN, "true")
    yield spark
    spark.conf.unset(FILTER_PUSHDOWN)


@pytest.mark.parametrize("name", CONDITIONS)
def test_rows_are_the_same_with_and_without(
    offering: SparkSession, state: str, rows_of: RowsOf, name: str
) -> None:
    """Whatever the query asks; what Spark need not apply again is gone from its plan."""
    options = {"storeName": name, **({"versions": "all"} if name == "rates" else {})}
    load = offering.read.format("statestores").options(**options)
    plain = load.load(state).cache()
    pushed = load.option("pushFilters", "true").load(state)
    for condition in CONDITIONS[name]:
        expected = rows_of(plain.where(condition))
        assert rows_of(pushed.where(condition)) == expected
        assert expected
    plain.unpersist()
    plan = plan_of(pushed.where(CONDITIONS[name][0]))
    applied = [line for line in plan.splitlines() if "Filter (" in line]
    assert ("(key#" in str(applied)) is (name == "bytes")


def plan_of(frame: DataFrame) -> str:
    """Return the physical plan, without the checks for null that Spark adds."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return str(plan).replace("isnotnull(key#", "")


class Passing:
    """What SQL says of a filter and a value, in the words of Python."""

    def __init__(self, pushed: Filter) -> None:
        self._pushed: Any = pushed

    def __call__(self, row: dict[str, Any]) -> bool:
        """Return whether the filter lets *row* pass."""
        value, pushed = row[self._pushed.attribute[0]], self._pushed
        if isinstance(pushed, EqualNullSafe):
            return _same(value, pushed.value)
        if value is None or pushed.value is None:
            return False
        if isinstance(pushed, In):
            return any(_same(value, each) for each in pushed.value if each is not None)
        if isinstance(pushed, StringStartsWith):
            return bool(_bytes(value).startswith(_bytes(pushed.value)))
        one, other = _comparable(value), _comparable(pushed.value)
        return bool(
            {
                EqualTo: _same(value, pushed.value),
                GreaterThan: one > other,
                GreaterThanOrEqual: one >= other,
                LessThan: one < other,
                LessThanOrEqual: one <= other,
            }[type(pushed)]
        )


def _same(one: Any, other: Any) -> bool:
    nan = isinstance(one, float) and isinstance(other, float) and isnan(one) and isnan(other)
    return nan or bool(one == other)  # one NaN is another, in SQL


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _comparable(value: Any) -> Any:
    """Return what compares as Spark compares: text by its bytes, NaN above everything."""
    if isinstance(value, float):
        return (True, 0.0) if isnan(value) else (False, value)
    return _bytes(value) if isinstance(value, str) else value


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("feed", [False, True], ids=["content", "changes"])
def test_many_filters_leave_the_rows_that_they_say(state: str, name: str, feed: bool) -> None:
    """Those that are taken while reading, the others as Spark applies them afterwards."""
    rng = random.Random(f"{name} {feed}")
    store, keys = STORES[name]
    given = {"path": state, "storeName": name}
    if feed:
        given["readChangeFeed"] = "true"
    elif name == "rates":
        given["history"] = "true"
    options = SourceOptions.for_reading(given)
    everything = read(FilteringStateStoreReader(Path(state), store, 1, options))
    assert len(everything) >= len(keys)
    times = [each for each in everything[0] if each in {"valid_from", "valid_to", "timestamp"}]
    for _ in range(FILTERS):
        filters = [
            random_filter(rng, "key", keys)
            if not times or rng.random() < 0.6
            else random_filter(rng, rng.choice(times), TIMES)
            for _ in range(rng.randrange(1, 4))
        ]
        source = FilteringStateStoreReader(Path(state), store, 1, options)
        left = [Passing(each) for each in source.pushFilters(filters)]
        passing = [row for row in read(source) if all(each(row) for each in left)]

        expected = [row for row in everything if all(Passing(each)(row) for each in filters)]
        assert repr(passing) == repr(expected), filters


TIMES = [datetime.fromtimestamp(seconds, UTC) for seconds in (0, 0.999999, 1, 1.000001, 2, 3)]


def random_filter(rng: random.Random, column: str, values: list[Any]) -> Filter:
    """Return a filter of any kind over *column*; its literal may be null, or there, or not."""
    kinds: list[Any] = [
        EqualTo,
        EqualNullSafe,
        GreaterThan,
        GreaterThanOrEqual,
        LessThan,
        LessThanOrEqual,
        In,
    ]
    if isinstance(values[0], str | bytes):
        kinds.append(StringStartsWith)
    kind = rng.choice(kinds)
    if kind is In:
        return In((column,), tuple(rng.choices([*values, None], k=rng.randrange(4))))
    value = rng.choice(values)
    if isinstance(value, str | bytes) and rng.random() < 0.3:
        value = value[: len(value) // 2]
    filter_: Filter = kind((column,), None if rng.random() < 0.05 else value)
    return filter_


def read(source: FilteringStateStoreReader) -> list[dict[str, Any]]:
    """Return the rows of all tasks."""
    return [
        row
        for task in source.partitions()
        for batch in source.read(task)
        for row in batch.to_pylist()
    ]


KEY = ("key",)
MOMENT = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pushed", "serde", "expected"),
    [
        (EqualTo(KEY, "é"), ss.utf8, KeySelection(first="é".encode(), last="é".encode())),
        (EqualNullSafe(KEY, b"\x00"), None, KeySelection(first=b"\x00", last=b"\x00")),
        (EqualNullSafe(KEY, None), ss.utf8, None),
        (EqualTo(KEY, bool(1)), ss.int64, None),
        (EqualTo(KEY, 2**63), ss.int64, None),
        (EqualTo(KEY, "a"), ss.int64, None),
        (EqualTo(KEY, "\ud800"), ss.utf8, None),
        (EqualTo(KEY, "1"), ss.json, None),
        (EqualTo(KEY, 0.0), ss.float64, None),
        (EqualTo(("value",), "a"), ss.utf8, None),
        (EqualTo(("key", "part"), "a"), ss.utf8, None),
        (GreaterThan(KEY, "a"), ss.utf8, KeySelection(first=b"a\x00")),
        (GreaterThan(KEY, 1), ss.int64, None),
        (LessThanOrEqual(KEY, b"a"), None, KeySelection(last=b"a")),
        (In(KEY, ("b", None, "a")), ss.utf8, KeySelection(points=(b"a", b"b"))),
        (In(KEY, ("b", 1)), ss.utf8, None),
        (In(KEY, ()), ss.utf8, KeySelection(points=())),
        (StringStartsWith(KEY, "a"), ss.utf8, KeySelection(first=b"a", stop=b"b")),
        (StringStartsWith(KEY, "1"), ss.int64, None),
        (StringContains(KEY, "a"), ss.utf8, None),
        (IsNotNull(KEY), ss.utf8, None),
        (Not(EqualTo(KEY, "a")), ss.utf8, None),
    ],
    ids=str,
)
def test_a_filter_is_taken_where_bytes_say_the_same(
    pushed: Filter, serde: Any, expected: KeySelection | None
) -> None:
    """Spark trusts what is taken, so everything else is left to it."""
    assert key_filter(pushed, serde) == expected


@pytest.mark.parametrize(
    ("pushed", "is_taken"),
    [
        (EqualTo(("valid_from",), MOMENT), True),
        (GreaterThan(("valid_from",), MOMENT.replace(tzinfo=None)), False),
        (EqualTo(("valid_from",), 1), False),
        (EqualTo(("value",), MOMENT), False),
        (In(("valid_from",), (MOMENT,)), False),
        (EqualNullSafe(("valid_from",), None), False),
    ],
    ids=str,
)
def test_a_filter_over_times_is_taken_for_moments(pushed: Filter, is_taken: bool) -> None:
    """A timestamp without a zone is of another type of Spark's."""
    assert (time_filter(pushed, ["valid_from"]) is not None) is is_taken


def test_filters_and_options_select_together(state: str) -> None:
    """What is read is what both let pass; filters that are not taken are given back."""
    store = STORES["texts"][0]
    options = SourceOptions.for_reading({"path": state, "keyPrefix": "a", "pushFilters": "true"})
    reader = FilteringStateStoreReader(Path(state), store, 1, options)
    other = Not(EqualTo(KEY, "ab"))

    assert list(reader.pushFilters([GreaterThan(KEY, "a"), other])) == [other]
    assert [row["key"] for row in read(reader)] == ["a\x00", "ab"]


def test_register_offers_filters_and_unregister_takes_that_back(
    spark: SparkSession, state: str
) -> None:
    """What a user says counts more, be it the setting or the option."""
    before = spark.conf.get(FILTER_PUSHDOWN)
    register(spark)
    try:
        assert spark.conf.get(FILTER_PUSHDOWN) == "true"
        register(spark)
        for name in ("statestore", "statestores"):
            frame = spark.read.format(name).option("storeName", "texts").load(state)
            assert "(key#" not in plan_of(frame.where("key = 'ab'"))
        plain = spark.read.format("statestore").options(storeName="texts", pushFilters="false")
        assert "(key#" in plan_of(plain.load(state).where("key = 'ab'"))
        spark.conf.set(FILTER_PUSHDOWN, "false")
        frame = spark.read.format("statestore").option("storeName", "texts").load(state)
        assert frame.where("key = 'ab'").count() == 1
    finally:
        unregister(spark)
    assert spark.conf.get(FILTER_PUSHDOWN) == before


def test_without_the_setting_the_option_is_an_error_that_names_it(
    spark: SparkSession, state: str
) -> None:
    """Spark refuses it; filters that nobody offers cannot be taken."""
    load = spark.read.format("statestores").options(storeName="texts", pushFilters="true")

    with pytest.raises(AnalysisException, match="filterPushdown"):
        load.load(state).collect()
