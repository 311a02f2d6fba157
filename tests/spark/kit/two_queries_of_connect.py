"""A program: the queries of `two_queries` in a client of Spark Connect.

Prints what else works there, and what is refused; and then the wrong answers while nobody offers
filters, those while a user does, and the setting that the server had after `register`.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from two_queries import ROWS, SETTING, wrong_queries

import statestores as ss
from statestores.errors import StateStoreError
from statestores.processing import Topic, Topology
from statestores.spark import ensure_java, register, run, stateful, temporal_join


def words_of(call: Callable[[], object]) -> str:
    """Return what *call* says when it refuses."""
    try:
        call()
    except StateStoreError as error:
        return str(error)
    return "it was accepted"


def refused(spark: Any, path: str) -> list[str]:
    """Return what is said of that which cannot work with Spark Connect."""
    rate = spark.readStream.format("rate").load().selectExpr("'a' AS key", "value")
    topology = Topology("t")
    topology.stream(Topic("in", key=ss.utf8, value=ss.int64))
    state = {"state": f"{path}-of-functions"}
    function: Any = {"key": "key", "function": print, "output_schema": "key string", **state}
    sources: Any = {"sources": {"in": rate}, "checkpoint": f"{path}-checkpoint", **state}
    return [
        words_of(lambda: stateful(rate, stores=["s"], **function)),
        words_of(lambda: run(topology, spark, **sources)),
    ]


def read(spark: Any, path: str) -> list[Any]:
    """Return what is read in the other ways that there are."""
    feed = {"readChangeFeed": "true", "commitColumns": "true"}
    commits = spark.read.format("statestores").option("metadata", "commits").load(path).count()
    changes = spark.read.format("statestores").options(**feed).load(path)
    rates = spark.createDataFrame(
        [("EUR", 1.5, 1_000)], "key string, value double, valid_from long"
    )
    options = {"storeName": "rates", "historyRetention": "3650d", "numPartitions": 1}
    rates.write.format("statestores").options(**options).mode("append").save(f"{path}-rates")
    orders = spark.createDataFrame([("EUR", 2_000)], "currency string, time_ms long")
    joined = temporal_join(orders, f"{path}-rates", on="currency", at="time_ms")
    types = sorted({row["_change_type"] for row in changes.collect()})
    return [commits, types, [row["value"] for row in joined.collect()]]


def main(path: str) -> None:
    """Start a server, and ask it."""
    ensure_java()
    # Pyspark's stubs have the builder of the classic session only.
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    register(spark)
    setting = spark.conf.get(SETTING)
    rows = spark.createDataFrame(ROWS, "key string, value long").coalesce(1)
    to = rows.write.format("statestore").option("storeName", "s").option("numPartitions", 1)
    to.save(path)
    wrong = wrong_queries(spark.read.format("statestore").load(path))
    spark.conf.set(SETTING, "true")
    wrong_when_offered = wrong_queries(spark.read.format("statestores").load(path))
    said = [*read(spark, path), *refused(spark, path)]
    print(json.dumps(said))  # noqa: T201  # what the test reads
    print(wrong, wrong_when_offered, setting)  # noqa: T201  # what the test reads
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
