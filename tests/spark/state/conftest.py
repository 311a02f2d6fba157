"""What Spark's own reader of state needs before it reads."""

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def coordinator(spark: SparkSession) -> None:
    """Have the session's coordinator of state, which Spark 4.1 makes when streams are asked for.

    Its reader of state fails without one (SPARK-58973).
    """
    assert spark.streams is not None
