"""DataFrames and streams into a state root in an object store: all of a write or nothing, once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from s3 import SECRET, Bucket
from store_streams import run

import statestores as ss

RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]


def words(spark: SparkSession, rows: dict[str, int]) -> DataFrame:
    """Return *rows* as a DataFrame of two partitions."""
    return spark.createDataFrame(list(rows.items()), "key string, value long").repartition(2)


@pytest.mark.spec("OBJ-28", "OBJ-29", "OBJ-30", "OBJ-27")
@pytest.mark.timeout(600)
def test_batches_are_written_as_to_a_directory(
    spark: SparkSession, bucket: Bucket, reached: dict[str, str], rows_of: RowsOf, tmp_path: Path
) -> None:
    """The first makes the store; append merges, overwrite replaces, conflicts and owners refuse."""

    def write(frame: DataFrame, mode: str = "append", store: str = "words", **options: Any) -> None:
        options = {"storeName": store, "numPartitions": 2, **reached, **options}
        frame.write.format("statestores").options(**options).mode(mode).save(bucket.root)

    def load(store: str = "words") -> DataFrame:
        source = spark.read.format("statestores").options(**reached, storeName=store)
        return source.load(bucket.root)

    write(words(spark, {f"k{number}": number for number in range(20)}))
    write(words(spark, {"k3": -3}))
    assert dict(rows_of(load())) == {f"k{number}": number for number in range(20)} | {"k3": -3}
    write(words(spark, {"a": 1}), mode="overwrite")
    assert rows_of(load()) == [("a", 1)]

    rates = spark.createDataFrame(
        [(f"c{number % 3}", float(number), number * 1_000) for number in range(30)],
        "key string, value double, valid_from long",
    )
    stamped = rates.selectExpr("key", "value", "timestamp_millis(valid_from) AS valid_from")
    write(stamped.repartition(2), store="rates", historyRetention="10s", numPartitions=1)
    assert rows_of(load("rates").select("key", "value")) == [
        ("c0", 27.0),
        ("c1", 28.0),
        ("c2", 29.0),
    ]

    with pytest.raises(PySparkException, match="and this write expects") as failure:
        write(words(spark, {"b": 2}), expectedOffset="0")
    assert SECRET not in str(failure.value)
    owner = ss.open_logged_store(
        bucket.root,
        "words",
        0,
        directory=tmp_path / "owner",
        backend="memory",
        storage_options=bucket.options,
    )
    with pytest.raises(PySparkException, match="close its store"):
        write(words(spark, {"b": 2}), commitTimeout="0")
    owner.close()
    write(words(spark, {"b": 2}), commitTimeout="0")
    assert rows_of(load()) == [("a", 1), ("b", 2)]
    root = ss.StateRoot.open(bucket.root, storage_options=bucket.options)
    root.object_log("words").compact()
    assert rows_of(load()) == [("a", 1), ("b", 2)]


@pytest.mark.spec("OBJ-31", "OBJ-33")
@pytest.mark.timeout(600)
def test_each_micro_batch_counts_once(
    spark: SparkSession, bucket: Bucket, reached: dict[str, str], tmp_path: Path
) -> None:
    """Also where Spark has forgotten that it ended, and comes with it again."""
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    for number in range(2):
        rows = words(spark, {f"k{number}{each}": each for each in range(5)})
        rows.coalesce(1).write.mode("append").json(str(source))

    def copy() -> list[int]:
        query = (
            spark.readStream.schema("key string, value long")
            .option("maxFilesPerTrigger", 1)
            .json(str(source))
            .writeStream.format("statestores")
            .options(storeName="words", numPartitions=2, **reached)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(bucket.root)
        )
        return run(query)

    assert copy() == [5, 5]
    root = ss.StateRoot.open(bucket.root, storage_options=bucket.options)
    log = root.object_log("words")
    ends = {number: part.end for number, part in log.view(range(2)).parts.items()}
    for last in (checkpoint / "commits").glob("*1"):
        last.unlink()
    for sums in (checkpoint / "commits").glob(".1.crc"):
        sums.unlink()
    assert copy() == [5]

    assert {number: part.end for number, part in log.view(range(2)).parts.items()} == ends
    assert sum(ends.values()) == 10
