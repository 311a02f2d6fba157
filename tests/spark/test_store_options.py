"""What a new store is, by the columns of the write that makes it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from statestores.errors import InvalidArgumentError, InvalidOptionError
from statestores.spark.given_root import GivenRoot
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spark.source.write_plan import plan_write
from statestores.spark.store_options import new_specification

_WITHOUT_SERDE: tuple[DataType, ...] = (
    BooleanType(),
    DateType(),
    TimestampType(),
    TimestampNTZType(),
    DecimalType(38, 18),
    NullType(),
)
"""Types that a user has and no serde is for."""


@pytest.mark.parametrize("side", ["key", "value"])
def test_a_type_without_a_serde_is_refused_with_what_to_write(
    spark: SparkSession, side: str
) -> None:
    """The advice was to cast it or to give a serde, and no serde takes dates or decimals.

    What the message says instead is taken by Spark, and makes a store.
    """
    for kind in _WITHOUT_SERDE:
        columns: dict[str, DataType] = {"key": StringType(), "value": LongType(), side: kind}
        schema = StructType([StructField(name, each) for name, each in columns.items()])
        options = SourceOptions.for_writing({"path": "/x"})
        with pytest.raises(InvalidOptionError, match="no serde is known for the column") as raised:
            new_specification("s", options, schema)
        advice = str(raised.value).partition("; write ")[2]
        cast, _, as_json = advice.partition(", or ")
        other = "value" if side == "key" else "key"
        frame = spark.createDataFrame([], schema)

        text = new_specification("s", options, frame.selectExpr(cast, other).schema)
        with_json = SourceOptions.for_writing({"path": "/x", f"{side}Serde": "json"})
        expression = as_json.partition(" with the option")[0]
        objects = new_specification("s", with_json, frame.selectExpr(expression, other).schema)
        assert text.describe()[side] == "utf8"
        assert objects.describe()[side] == "json"


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (("timestamp",), {"storeKind": "timestamped-key-value"}),
        (("valid_from",), {"historyRetention": "30d"}),
        (("timestamp",), {"historyRetention": "30d"}),
        (("window_start",), {"windowSize": "1h", "retention": "1d"}),
        (("session_start", "session_end"), {"retention": "1d"}),
    ],
)
def test_times_without_a_zone_are_refused_before_a_task_runs(
    tmp_path: Path, columns: tuple[str, ...], options: dict[str, str]
) -> None:
    """They were taken as UTC: in a session of Oslo, noon became two in the afternoon.

    Spark itself takes them in the zone of the session, which a Python source is not told.
    """
    given = SourceOptions.for_writing({"path": str(tmp_path), "storeName": "s", **options})
    root = GivenRoot.of(given.path)
    named = {name: StructField(name, TimestampType()) for name in columns}
    plain = [StructField("key", StringType()), StructField("value", LongType())]

    assert plan_write(root, given, StructType([*plain, *named.values()])).partitions
    for wrong in columns:
        fields = {**named, wrong: StructField(wrong, TimestampNTZType())}
        with pytest.raises(InvalidArgumentError, match=rf"CAST\({wrong} AS timestamp\) AS {wrong}"):
            plan_write(root, given, StructType([*plain, *fields.values()]))
