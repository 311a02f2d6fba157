"""DataFrames into stores: all of a job's rows, or none."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

import statestores as ss
from statestores.changelog import FileChangelog
from statestores.partitioning import partitioner_by_name
from statestores.reading.partition_reader import PartitionReader
from statestores_conformance.many_cases import for_each

RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]


def save(frame: DataFrame, root: str, mode: str = "append", **options: Any) -> None:
    """Write *frame* into the store "s"."""
    frame.write.format("statestores").options(**{"storeName": "s", **options}).mode(mode).save(root)


def load(spark: SparkSession, root: str, **options: Any) -> DataFrame:
    return spark.read.format("statestores").options(**options).load(root)


def test_a_store_is_made_by_its_first_write(
    spark: SparkSession, root: str, rows_of: RowsOf
) -> None:
    """Serdes follow from the columns; keys are where Kafka's partitioner puts them."""
    frame = spark.range(300).selectExpr("concat('k', id) AS key", "id * 0.5D AS value")
    save(frame, root, numPartitions=3)
    entry = ss.StateRoot.open(root).store("s")

    assert entry.specification == ss.KeyValue("s", key=ss.utf8, value=ss.float64)
    assert rows_of(load(spark, root)) == rows_of(frame)
    partitioner = partitioner_by_name("murmur2")
    for number in range(entry.partitions):
        directory = ss.StateRoot.open(root).partition("s", number)
        reader = PartitionReader(directory, entry.specification)
        keys = [key for batch in reader.rows(typed=False) for key in batch["key"].to_pylist()]

        assert keys
        assert {partitioner.partition(key, 3) for key in keys} == {number}


def test_append_merges_and_overwrite_replaces(
    spark: SparkSession, root: str, rows_of: RowsOf
) -> None:
    """A null value deletes; columns may come in any order."""
    save(spark.createDataFrame([("a", 1), ("b", 2), ("c", 3)], "key string, value long"), root)
    save(spark.createDataFrame([(20, "b"), (None, "c")], "value int, key string"), root)

    assert rows_of(load(spark, root)) == [("a", 1), ("b", 20)]
    save(spark.createDataFrame([("z", 26)], "key string, value long"), root, "overwrite")
    assert rows_of(load(spark, root)) == [("z", 26)]


def test_versions_are_written_with_their_times(
    spark: SparkSession, root: str, rows_of: RowsOf
) -> None:
    """Timestamps, or milliseconds; out of order, and shared among tasks."""
    frame = spark.range(0, 40, 1, 4).selectExpr(
        "'k' AS key",
        "struct(id % 7 AS n, map('a', id) AS m) AS value",
        "timestamp_millis((id * 13) % 40 * 1000) AS timestamp",
    )
    save(frame, root, historyRetention="20s", numPartitions=1)
    history = load(spark, root, history="true", raw="true")

    assert ss.StateRoot.open(root).store().specification == ss.Versioned(
        "s", history_retention_ms=20_000, key=ss.utf8, value=ss.json
    )
    times = [row.valid_from for row in history.orderBy("valid_from").collect()]
    assert times == [second * 1000 for second in range(19, 40)]
    at_zero = load(spark, root, asOf="39000", columns="value")
    (number,) = [number for number in range(40) if number * 13 % 40 == 39]
    assert rows_of(at_zero) == [(f'{{"m":{{"a":{number}}},"n":{number % 7}}}',)]
    deletion = [("k", None, 50_000)]
    save(spark.createDataFrame(deletion, "key string, value string, valid_from long"), root)
    assert load(spark, root).count() == 0
    assert load(spark, root, asOf="49999").count() == 1


def test_a_task_that_is_repeated_leaves_its_rows_once(
    spark: SparkSession, root: str, tmp_path: Path, rows_of: RowsOf
) -> None:
    """The first attempt dies after it has staged rows; the second one counts."""
    marker = str(tmp_path / "failed once")

    # Without hints: Spark would look into them for a type of pandas.
    def fail_once(number):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        if number == 90 and not os.path.exists(marker):  # noqa: PTH110  # runs in a worker
            open(marker, "w").close()  # noqa: PTH123  # the same
            raise ValueError("the first attempt dies here")
        return f"k{number}"

    failing_once = udf(fail_once, "string")
    frame = spark.range(0, 100, 1, 2).select(failing_once("id").alias("key"), "id")
    save(frame.withColumnRenamed("id", "value"), root, numPartitions=2)

    assert Path(marker).exists()
    changes = load(spark, root, readChangeFeed="true")
    assert rows_of(changes.select("key", "value")) == sorted(
        (f"k{number}", number) for number in range(100)
    )
    assert staged_directories(root) == []


def staged_directories(root: str) -> list[str]:
    """Return the writes of which rows are still staged."""
    return [path.name for path in Path(root, "s", ".writes").iterdir() if path.is_dir()]


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, root: str) -> None:
    """No rows, no store, no directory."""
    frame = spark.range(0, 100, 1, 2).selectExpr(
        "string(id) AS key", "if(id = 99, raise_error('no'), 'x') AS value"
    )
    with pytest.raises(Exception, match="no"):
        save(frame, root)

    assert not Path(root).exists()


def test_a_store_in_other_hands_is_not_changed(
    spark: SparkSession, root: str, rows_of: RowsOf
) -> None:
    """The job fails, says who holds it, and cleans up."""
    save(spark.createDataFrame([("a", 1)], "key string, value long"), root, numPartitions=2)
    changelog = ss.StateRoot.open(root).partition("s", 1).changelog
    with (
        FileChangelog.open(changelog, "key-value"),
        pytest.raises(AnalysisException, match=f"in process {os.getpid()}"),
    ):
        save(spark.createDataFrame([("b", 2)], "key string, value long"), root, commitTimeout="0")

    assert rows_of(load(spark, root)) == [("a", 1)]
    assert staged_directories(root) == []


@for_each(
    ("columns", "options", "reason"),
    [
        ("'a' AS key", {}, "the column 'value' is missing"),
        ("'a' AS key, 1 AS value, 2 AS extra", {}, "the column 'extra' is unknown"),
        ("'a' AS key, 1 AS value", {"storeKind": "versioned"}, "needs the option 'historyRet"),
        ("'a' AS key, 1 AS value", {"historyRetention": "1d"}, "'valid_from' is missing"),
        ("'a' AS key, current_date() AS value", {}, "no serde is known for the column 'value'"),
        ("'a' AS key, 1 AS value", {"keySerde": "avro"}, "no serde is registered as 'avro'"),
        ("'a' AS key, 1 AS value", {"asOf": "1"}, "'asOf' is not for writing"),
    ],
)
def test_a_wrong_write_is_refused_before_a_job_runs(
    spark: SparkSession, root: str, columns: str, options: dict[str, str], reason: str
) -> None:
    """With what was expected."""
    with pytest.raises(AnalysisException, match=reason):
        save(spark.range(1).selectExpr(*columns.split(", ")), root, **options)

    assert not Path(root).exists()


def test_a_null_key_fails_the_job(spark: SparkSession, root: str) -> None:
    """A row without a key belongs nowhere."""
    frame = spark.createDataFrame([("a", 1), (None, 2)], "key string, value long")

    with pytest.raises((PythonException, AnalysisException), match="null"):
        save(frame, root)
    assert not Path(root).exists()


def test_options_that_contradict_the_store_are_refused(spark: SparkSession, root: str) -> None:
    """A write does not change what a store is; what is said of it may be left out."""
    frame = spark.createDataFrame([("a", 1)], "key string, value long")
    save(frame, root, numPartitions=2, valueSerde="int64_sorted")
    save(frame, root, numPartitions=2, storeKind="key-value")

    with pytest.raises(AnalysisException, match="has 2, which no write changes"):
        save(frame, root, numPartitions=3)


def test_a_directory_of_something_else_is_not_made_a_state_root(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A checkpoint of Spark's, for example."""
    (tmp_path / "commits").mkdir()

    with pytest.raises(AnalysisException, match="not empty and no state root: it has 'commits'"):
        save(spark.createDataFrame([("a", 1)], "key string, value long"), str(tmp_path))
