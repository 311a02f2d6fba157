"""What a new store is, by the columns of the write that makes it."""

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

from statestores.errors import InvalidOptionError
from statestores.spark.options.read_and_write import SourceOptions
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
