"""DataFrames and streams into a state root in an object store: all of a write or nothing, once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from s3 import SECRET, Bucket
from store_streams import run

import statestores as ss
from statestores.changelog import change_schema
from statestores.errors import StoreMismatchError
from statestores.reading.partition_places import place_of
from statestores.reading.partition_reader import PartitionReader
from statestores.spark.given_root import GivenRoot
from statestores.spark.source.publishing import publish_rows, stage_rows
from statestores.spark.source.write_plan import WritePlan
from statestores.staging.write_intent import StreamBatch

RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]


def words(spark: SparkSession, rows: dict[str, int]) -> DataFrame:
    """Return *rows* as a DataFrame of two partitions, as many as the session has cores."""
    return spark.createDataFrame(list(rows.items()), "key string, value long")


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
    write(stamped, store="rates", historyRetention="10s", numPartitions=1)
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


@pytest.mark.spec("SPK-10", "SPK-11")
def test_a_micro_batch_of_another_moment_is_refused(
    bucket: Bucket, reached: dict[str, str]
) -> None:
    """With an older checkpoint, new rows were dropped without a word, as if they were there.

    A state that is older than the checkpoint lacked rows from then on. The last one may come again,
    and a store that has none of the query begins with any.
    """
    specification = ss.KeyValue("words", key=ss.utf8, value=ss.int64)
    sendable = json.loads(reached["storageOptions"]) | json.loads(reached["storageSecrets"])
    plan = WritePlan(
        root=GivenRoot.of(bucket.root, sendable),
        specification=specification,
        partitions=2,
        raw=False,
        skipped=False,
        commit_timeout_ms=0,
    )

    def publish(number: int, key: str) -> None:
        row = {"key": key.encode(), "value": ss.int64.encode(number)}
        rows = pa.RecordBatch.from_pylist([row], schema=change_schema(specification.kind))
        staged = stage_rows(plan, f"q-{number}", f"a-{key}", [rows])
        batch = StreamBatch(stream="q", number=number)
        publish_rows(plan, f"q-{number}", [staged], overwrite=False, batch=batch)

    publish(3, "a")
    publish(4, "b")
    publish(4, "b")
    with pytest.raises(StoreMismatchError, match="with 3: the checkpoint is an older copy"):
        publish(3, "new")
    with pytest.raises(StoreMismatchError, match="with 6: the store is an older copy"):
        publish(6, "new")
    publish(5, "c")

    root = ss.StateRoot.open(bucket.root, storage_options=bucket.options)
    reader = PartitionReader(place_of(root, "words", 0), specification)
    other = PartitionReader(place_of(root, "words", 1), specification)
    found = [row["key"] for each in (reader, other) for b in each.rows() for row in b.to_pylist()]
    assert sorted(found) == ["a", "b", "c"]


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
