"""A state root in an object store as DataFrames, and credentials that nobody sees."""

import contextlib
import io
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from s3 import SECRET, Bucket
from store_streams import run

import statestores as ss
from statestores.errors import InvalidOptionError
from statestores.spark import register, unregister
from statestores.spark.given_root import GivenRoot
from statestores.spark.options.read_and_write import SourceOptions
from statestores_conformance.many_cases import for_each

RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]
RATES = ss.Versioned("rates", history_retention_ms=ss.DAY, key=ss.utf8, value=ss.int64)
COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)


def put(bucket: Bucket, directory: Path, number: int, rows: dict[str, int]) -> None:
    """Commit *rows* of counts to one partition."""
    with ss.open_logged_store(
        bucket.root,
        "counts",
        number,
        directory=directory / str(number),
        backend="memory",
        storage_options=bucket.options,
    ) as counts:
        for key, value in rows.items():
            counts.store.put(key, value)
        counts.commit()


@pytest.mark.spec("OBJ-25", "OBJ-26", "OBJ-27")
@pytest.mark.timeout(600)
def test_content_changes_and_streams(
    spark: SparkSession,
    bucket: Bucket,
    reached: dict[str, str],
    rows_of: RowsOf,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What a directory gives: content, at an offset, of a partition, as of, the changes.

    A stream goes on while an owner commits and somebody folds. No plan and no log has the secret.
    """
    caplog.set_level(logging.INFO)
    root = ss.StateRoot.create(bucket.root, storage_options=bucket.options)
    root.add_store(COUNTS, partitions=2)
    root.add_store(RATES, partitions=1)
    put(bucket, tmp_path, 0, {"a": 1, "b": 2})
    put(bucket, tmp_path, 1, {"c": 3})
    with ss.open_logged_store(
        root, "rates", 0, directory=tmp_path / "rates", backend="memory"
    ) as rates:
        rates.store.put("EUR", 1, timestamp_ms=1_000)
        rates.store.put("EUR", 2, timestamp_ms=3_000)
        rates.commit()

    def load(store: str = "counts", **options: Any) -> DataFrame:
        source = spark.read.format("statestores").options(**reached, storeName=store, **options)
        return source.load(bucket.root)

    content = load()
    assert rows_of(content) == [("a", 1), ("b", 2), ("c", 3)]
    assert content.rdd.getNumPartitions() == 2
    chosen = load(partitions="0", offset='{"0": 0}').filter("value > 0")
    assert rows_of(chosen) == [("a", 1)]
    (rate,) = load("rates", asOf="2000").collect()
    assert rate["value"] == 1

    def copy() -> list[int]:
        query = (
            spark.readStream.format("statestores")
            .options(**reached, storeName="counts", readChangeFeed="true")
            .load(bucket.root)
            .select("operation", "key", "value")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "copied"))
        )
        return run(query)

    assert sum(copy()) == 3
    put(bucket, tmp_path, 0, {"a": 5})
    root.object_log("counts").fold()
    assert sum(copy()) == 1
    copied = spark.read.parquet(str(tmp_path / "copied"))
    assert rows_of(copied.select("key", "value")) == [("a", 1), ("a", 5), ("b", 2), ("c", 3)]
    feed = load(readChangeFeed="true")
    assert rows_of(feed.select("offset", "key")) == [(0, "a"), (0, "c"), (1, "b"), (2, "a")]

    register(spark)
    try:
        named = spark.read.format("statestore").options(**reached, storeName="counts")
        assert rows_of(named.load(bucket.root)) == [("a", 5), ("b", 2), ("c", 3)]
    finally:
        unregister(spark)

    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        content.explain(extended=True)
        feed.explain(mode="formatted")
        content.createOrReplaceTempView("counts")
        spark.sql("EXPLAIN EXTENDED SELECT * FROM counts").show(truncate=False)
    plan = content._jdf.queryExecution().toString()  # no other way
    for text in (shown.getvalue(), plan, repr(content), caplog.text):
        assert SECRET not in text
    with pytest.raises(PySparkException) as failure:
        load("nothing")
    assert "has no store 'nothing'" in str(failure.value)
    assert SECRET not in str(failure.value)


@pytest.mark.spec("OBJ-27")
@for_each(
    ("options", "message"),
    [
        ({"storageOptions": '{"secret_access_key": "hush"}'}, "give it in 'storageSecrets'"),
        (
            {"storageOptions": '{"client_options": {"default_headers": "hush"}}'},
            "give it in 'storageSecrets'",
        ),
        ({"storageSecrets": "hush"}, "must be a JSON object"),
        ({"storageSecrets": '["hush"]'}, "must be a JSON object"),
        ({"storageOptions": '{"a": 1}', "storageSecrets": '{"a": "hush"}'}, "both have 'a'"),
    ],
)
def test_a_credential_is_where_spark_does_not_show_it(
    options: dict[str, str], message: str
) -> None:
    """Spark prints the options of other names, and no message of ours quotes one."""
    with pytest.raises(InvalidOptionError, match=message) as failure:
        SourceOptions.for_reading({"path": "s3://b/r", **options})

    assert "hush" not in str(failure.value)
    assert failure.value.__cause__ is None


@pytest.mark.spec("OBJ-27")
def test_options_show_no_secret() -> None:
    """Neither the options nor the root that tasks get."""
    options = SourceOptions.for_reading(
        {
            "path": "s3://b/r",
            "storageOptions": '{"client_options": {"timeout": "1s"}}',
            "storageSecrets": '{"access_key_id": "hush", "client_options": {"proxy_url": "hush"}}',
        }
    )

    assert options.storage == {
        "access_key_id": "hush",
        "client_options": {"timeout": "1s", "proxy_url": "hush"},
    }
    assert "hush" not in repr(options)
    assert "hush" not in repr(GivenRoot("s3://b/r", '{"access_key_id": "hush"}'))


@pytest.mark.spec("OBJ-22")
@for_each(
    ("path", "options", "message"),
    [
        ("memory://a/b", {}, "in the memory of one process"),
        ("s3a://user:hush@bucket/root", {}, "say s3:// instead of s3a://"),
        ("/a/directory", {"storageOptions": "{}"}, "is a directory; leave them out"),
    ],
)
def test_other_places_are_refused(path: str, options: dict[str, str], message: str) -> None:
    """With what to do."""
    given = SourceOptions.for_reading({"path": path, **options})

    with pytest.raises(InvalidOptionError, match=message) as failure:
        GivenRoot.of(given.path, given.storage)

    assert "hush" not in str(failure.value)
