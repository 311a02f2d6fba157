"""Writes at the edges of size: huge values, many partitions, most of them empty."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import statestores as ss

RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]

MIB = 1 << 20
SOAK = pytest.mark.soak

TIMES = {
    "key-value": {},
    "timestamped-key-value": {"timestamp": 0},
    "versioned": {"valid_from": 0},
    "window": {"window_start": 0},
    "session": {"session_start": 0, "session_end": 500},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "key-value": {},
    "timestamped-key-value": {},
    "versioned": {"historyRetention": "3650d"},
    "window": {"windowSize": "1s", "retention": "3650d"},
    "session": {"retention": "3650d"},
}
KINDS = ["key-value", *(pytest.param(kind, marks=SOAK) for kind in TIMES if kind != "key-value")]


def save(frame: DataFrame, root: str, kind: str, **options: Any) -> None:
    """Write *frame* into the store "s" of this kind."""
    chosen = {"storeName": "s", "storeKind": kind, **OPTIONS[kind], **options}
    frame.write.format("statestores").options(**chosen).mode("append").save(root)


def frame_of(spark: SparkSession, kind: str, rows: list[tuple[str, str]]) -> DataFrame:
    """Return *rows* with the times of the kind, each row a second later."""
    times = [
        f"timestamp_millis({1000 * 1000} + 1000 * place + {after}) AS {name}"
        for name, after in TIMES[kind].items()
    ]
    numbered = [(key, value, place) for place, (key, value) in enumerate(rows)]
    frame = spark.createDataFrame(numbered, "key string, value string, place long")
    return frame.selectExpr("key", "value", *times)


def load(spark: SparkSession, root: str) -> DataFrame:
    return spark.read.format("statestores").load(root).select("key", "value")


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_ten_megabytes(
    spark: SparkSession, root: str, rows_of: RowsOf, kind: str
) -> None:
    """Text of several bytes a character, and beside it an empty one."""
    rows = [("large", "ж" * (5 * MIB)), ("larger", "x" * (10 * MIB)), ("пусто", "")]
    save(frame_of(spark, kind, rows), root, kind, numPartitions=1)
    found: dict[str, str] = dict(rows_of(load(spark, root)))

    assert {key: len(value) for key, value in found.items()} == {
        "large": 5 * MIB,
        "larger": 10 * MIB,
        "пусто": 0,
    }
    assert found == dict(rows)


@pytest.mark.parametrize("partitions", [30, pytest.param(200, marks=SOAK)])
@pytest.mark.parametrize("kind", KINDS)
def test_many_partitions_of_which_most_are_empty(
    spark: SparkSession, root: str, rows_of: RowsOf, kind: str, partitions: int
) -> None:
    """The first write has no rows at all."""
    save(frame_of(spark, kind, []), root, kind, numPartitions=partitions)
    assert ss.StateRoot.open(root).store("s").partitions == partitions
    assert load(spark, root).count() == 0
    rows = [(f"ключ {number}", f"v{number}") for number in range(12)]
    save(frame_of(spark, kind, rows), root, kind)

    assert rows_of(load(spark, root)) == sorted(rows, key=repr)
