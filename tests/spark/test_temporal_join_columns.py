"""The columns of an as-of join: which are taken, of which types, and which are added."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from rated_orders import HISTORY, ORDERS, RowsOf, add_versions, expected, with_milliseconds

from statestores.errors import (
    InvalidArgumentError,
)
from statestores.spark import temporal_join


def test_a_name_that_differs_in_case_only_is_taken(orders: DataFrame, rates: Path) -> None:
    """Spark could not tell the new column from the one that was there: AMBIGUOUS_REFERENCE."""
    for names in ({"value_name": "KEY"}, {"value_name": "v", "valid_from_name": "V"}):
        with pytest.raises(InvalidArgumentError, match="is there already"):
            temporal_join(orders, rates, on="key", at="time_ms", **names)  # type: ignore[arg-type]


def test_columns_are_found_as_spark_finds_them(
    spark: SparkSession, orders: DataFrame, rates: Path, rows_of: RowsOf
) -> None:
    """A join ``on="KEY"`` of a frame with a column ``key`` had "0 columns 'KEY'".

    To Spark these are one column, unless its session minds case, or there is one of exactly that
    name.
    """
    join: dict[str, Any] = {"on": "KEY", "at": "TIME_MS"}
    joined = temporal_join(orders, rates, **join)

    assert joined.columns == ["key", "time_ms", "value", "valid_from"]
    assert rows_of(with_milliseconds(joined)) == expected(HISTORY)
    both = orders.selectExpr("'nobody' AS key", "key AS KEY", "time_ms")
    assert {row.value for row in temporal_join(both, rates, **join).collect()} > {1.0, 1.3}
    for name in ("keys", "Key"):
        with pytest.raises(InvalidArgumentError, match=f"has 0 columns '{name}', expected one"):
            temporal_join(both, rates, on=name, at="time_ms")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(InvalidArgumentError, match="has 0 columns 'KEY', expected one"):
            temporal_join(orders, rates, **join)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_times_may_be_timestamps_and_columns_are_named(
    spark: SparkSession, rates: Path, rows_of: RowsOf
) -> None:
    """Of any zone; the columns that were there stay as they were."""
    orders = spark.createDataFrame(ORDERS, "k string, ms long").selectExpr(
        "array(k) AS keys", "k", "timestamp_millis(ms) AS at", "timestamp_ntz'2024-01-01' AS ntz"
    )
    joined = temporal_join(
        orders, rates, "rates", on="k", at="at", value_name="rate", valid_from_name="since"
    )
    rows = joined.selectExpr("k", "unix_millis(at)", "rate", "unix_millis(since)")

    assert joined.columns == ["keys", "k", "at", "ntz", "rate", "since"]
    assert rows_of(rows) == expected(HISTORY)
    assert joined.where("keys[0] = k AND ntz = '2024-01-01'").count() == len(ORDERS) - 1


def test_times_without_a_zone_are_in_that_of_the_session(spark: SparkSession, rates: Path) -> None:
    """As wherever Spark compares them with instants; they were taken as UTC, hours off."""
    add_versions(rates, [("EUR", 9.0, 900_000)])
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Oslo")
    try:
        orders = spark.sql(
            "SELECT 'EUR' AS k, timestamp_ntz'1970-01-01 01:00:04' AS sold_at"
            " UNION ALL SELECT 'EUR', timestamp_ntz'1970-01-01 00:00:04'"
        )
        joined = temporal_join(orders, rates, on="k", at="sold_at")
        found = {(str(row["sold_at"]), row["value"]) for row in joined.collect()}
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))

    assert joined.columns == ["k", "sold_at", "value", "valid_from"]
    assert joined.schema["sold_at"] == orders.schema["sold_at"]
    assert found == {("1970-01-01 01:00:04", 1.3), ("1970-01-01 00:00:04", None)}


def test_a_column_may_have_a_dot_in_its_name(spark: SparkSession, rates: Path) -> None:
    """As columns of files with a header have; PySpark took it for a field of a struct.

    Most such DataFrames failed with an error of Spark's that the caller could not help, and so did
    those with a backtick, or a NUL. The struct here has a field that the dotted name finds.
    """
    orders = spark.sql(
        "SELECT named_struct('key', 'wrong') AS order, 'EUR' AS `order.key`, 'x' AS `a``b`, "
        "timestamp_ntz'1970-01-01 00:00:04' AS `sold.at`"
    )
    joined = temporal_join(orders, rates, on="order.key", at="sold.at", value_name="the.rate")

    assert joined.columns == [*orders.columns, "the.rate", "valid_from"]
    assert joined.drop("valid_from").collect() == [(*orders.collect()[0], 1.3)]
    ended = spark.createDataFrame([("EUR", 4_000)], "key string, time_ms long").toDF("k\0", "t")
    joined = temporal_join(ended, rates, on="k\0", at="t").drop("valid_from")
    assert joined.collect() == [("EUR", 4_000, 1.3)]


def test_columns_may_share_a_name(spark: SparkSession, rates: Path) -> None:
    """As those of a join do, and to Spark ``Key`` and ``key``; one may be called ``*``.

    Such DataFrames failed with an error of Spark's about a reference that is ambiguous, though the
    columns to join on were not.
    """
    orders = spark.sql("SELECT 'EUR', timestamp_ntz'1970-01-01 00:00:04', 'a', 'b', 'c', 'd', 'e'")
    orders = orders.toDF("k", "t", "id", "id", "Key", "key", "*")
    joined = temporal_join(orders, rates, on="k", at="t", value_name="rate")

    assert joined.columns == [*orders.columns, "rate", "valid_from"]
    assert [tuple(row)[:-1] for row in joined.collect()] == [(*orders.collect()[0], 1.3)]
    with pytest.raises(InvalidArgumentError, match="has 2 columns 'id', expected one"):
        temporal_join(orders, rates, on="id", at="t", value_name="rate")
