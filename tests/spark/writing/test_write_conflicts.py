"""Two writers of one store: the later one learns of it, and nothing is merged silently."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from store_streams import add, make_store

import statestores as ss

RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]


def save(frame: DataFrame, root: str, mode: str = "append", **options: Any) -> None:
    """Write *frame* into the store "s"."""
    frame.write.format("statestores").options(**{"storeName": "s", **options}).mode(mode).save(root)


def load(spark: SparkSession, root: str, **options: Any) -> DataFrame:
    return spark.read.format("statestores").options(**options).load(root)


def overtaken(spark: SparkSession, root: str) -> DataFrame:
    """Return rows whose task, while it makes them, sees another program write to the store."""

    # Without hints: Spark would look into them for a type of pandas.
    def meanwhile(key):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        with ss.open_logged_store(root, "s", 0, backend="memory") as logged:
            logged.store.put("shared", "theirs")
            logged.store.put("other", "theirs")
            logged.commit()
        return key

    frame = spark.createDataFrame([("shared", "ours")], "key string, value string").coalesce(1)
    return frame.select(udf(meanwhile, "string")("key").alias("key"), "value")


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_write_that_was_overtaken_fails_and_leaves_nothing(
    spark: SparkSession, root: str, rows_of: RowsOf, mode: str
) -> None:
    """With what to do, and the rows of the other writer untouched."""
    make_store(root, partitions=1)
    with pytest.raises(AnalysisException, match="another program has written to it meanwhile"):
        save(overtaken(spark, root), root, mode)

    assert rows_of(load(spark, root)) == [("other", "theirs"), ("shared", "theirs")]
    assert [path.name for path in Path(root, "s", ".writes").iterdir() if path.is_dir()] == []


def test_conflicts_can_be_merged_on_request(
    spark: SparkSession, root: str, rows_of: RowsOf
) -> None:
    """The later writer of a key wins."""
    make_store(root, partitions=1)
    save(overtaken(spark, root), root, onConflict="merge")

    assert rows_of(load(spark, root)) == [("other", "theirs"), ("shared", "ours")]


def test_a_write_that_waited_in_vain_says_for_whom(
    spark: SparkSession, root: str, rows_of: RowsOf
) -> None:
    """With ``onConflict=merge`` the later writer wins, says the documentation; it failed at once.

    Two jobs that committed at one moment, or an owner that had the store open, were enough. A
    write waits now, for a minute unless told otherwise, and its error names process and option.
    """
    make_store(root, partitions=1)
    frame = spark.createDataFrame([("a", "1")], "key string, value string")
    with ss.open_logged_store(root, "s", 0, backend="memory"):
        refusal = rf"waited for 20 ms, as the option 'commitTimeout' .*in process {os.getpid()} on"
        with pytest.raises(AnalysisException, match=refusal):
            save(frame, root, onConflict="merge", commitTimeout="20ms")

    assert [path.name for path in Path(root, "s", ".writes").iterdir() if path.is_dir()] == []
    save(frame, root, onConflict="merge", commitTimeout="20ms")
    assert rows_of(load(spark, root)) == [("a", "1")]


def test_rows_made_from_a_state_are_written_to_that_state_only(
    spark: SparkSession, root: str, rows_of: RowsOf
) -> None:
    """Read, compute, write: what was read says its offsets, and the write expects them."""
    state = make_store(root, partitions=2)
    add(state, "w", {f"k{number}": "1" for number in range(20)})
    read = load(spark, root, offsetColumn="at", partitionColumn="part")
    offsets = json.dumps(dict(read.selectExpr("string(part)", "at").distinct().collect()))
    twice = read.selectExpr("key", "string(value * 2) AS value")
    save(twice, root, expectedOffset=offsets)
    assert {value for _, value in rows_of(load(spark, root))} == {"2"}

    with pytest.raises(AnalysisException, match=r"ends at the offset \d+, and this write expects"):
        save(twice, root, expectedOffset=offsets)
    assert {value for _, value in rows_of(load(spark, root))} == {"2"}
    save(spark.createDataFrame([("k1", "x")], "key string, value string"), root, "overwrite")
    assert rows_of(load(spark, root)) == [("k1", "x")]


def test_a_store_that_was_made_meanwhile_is_a_conflict(
    spark: SparkSession, root: str, rows_of: RowsOf
) -> None:
    """Of a store that is not there, nothing is expected to be there; -1 says so."""
    frame = spark.createDataFrame([("a", "1")], "key string, value string")
    save(frame, root, numPartitions=2, expectedOffset=-1)
    with pytest.raises(AnalysisException, match="this write expects -1"):
        save(frame, root, expectedOffset=-1)

    assert rows_of(load(spark, root)) == [("a", "1")]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"onConflict": "ignore"}, "'onConflict' must be fail or merge, got 'ignore'"),
        ({"commitTimeout": "-1"}, "'commitTimeout' must be milliseconds, or a number with ms, s, "),
        ({"expectedOffset": "-2"}, "'expectedOffset' must be an offset"),
        ({"expectedOffset": '{"7": 1}'}, "names the partition 7, and the store 's' has the part"),
        ({"expectedOffset": "1", "onConflict": "merge"}, "leave one out"),
    ],
)
def test_expectations_that_make_no_sense_are_refused(
    spark: SparkSession, root: str, options: dict[str, str], reason: str
) -> None:
    """Before a job runs."""
    make_store(root)
    with pytest.raises(AnalysisException, match=reason):
        save(spark.createDataFrame([("a", "1")], "key string, value string"), root, **options)
