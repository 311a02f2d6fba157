"""Streaming DataFrames into stores: every micro-batch once, whoever dies when."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dying_source
import pytest
from long_runs import IS_LONG
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from store_streams import changes_of, run

import statestores as ss
from statestores.files.durable_json import is_left_behind
from statestores.spark import register, unregister

RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]


def numbers(spark: SparkSession, directory: Path) -> DataFrame:
    """Return the files of *directory* as a stream, one file a micro-batch, as keys and values."""
    return (
        spark.readStream.schema("key string, value string")
        .option("maxFilesPerTrigger", 1)
        .json(str(directory))
    )


def give(directory: Path, number: int, rows: dict[str, str]) -> None:
    """Add a file of *rows* to the stream."""
    directory.mkdir(exist_ok=True)
    lines = "".join(f'{{"key": "{key}", "value": "{value}"}}\n' for key, value in rows.items())
    file = directory / f"{number:03d}.json"
    file.write_text(lines, "utf-8")
    os.utime(file, (1_000_000 + number, 1_000_000 + number))


def write(
    frame: DataFrame, root: str, *, name: str = "statestores", mode: str = "append", **options: Any
) -> list[int]:
    """Run a query that writes *frame*; its checkpoint is beside the state root."""
    query = (
        frame.writeStream.format(name)
        .options(**{"storeName": "s", "numPartitions": 2, **options})
        .option("checkpointLocation", f"{root}.checkpoint")
        .outputMode(mode)
        .trigger(availableNow=True)
        .start(root)
    )
    return run(query)


def test_each_micro_batch_is_one_write(
    spark: SparkSession, root: str, tmp_path: Path, rows_of: RowsOf
) -> None:
    """The first one makes the store; a later row of a key wins, and a restart goes on."""
    files = tmp_path / "files"
    give(files, 0, {f"k{each}": "0" for each in range(10)})
    give(files, 1, {f"k{each}": "1" for each in range(5, 15)})
    assert write(numbers(spark, files), root) == [10, 10]
    give(files, 2, {"k0": "2"})
    assert write(numbers(spark, files), root) == [1]

    loaded = spark.read.format("statestores").load(root)
    expected = [(f"k{each}", "1" if each >= 5 else "0") for each in range(1, 15)] + [("k0", "2")]
    assert rows_of(loaded) == sorted(expected, key=repr)
    assert len(changes_of(root)) == 21
    assert [path.name for path in Path(root, "s", ".writes").iterdir() if path.is_dir()] == []


def test_the_output_mode_complete_replaces_the_content(
    spark: SparkSession, root: str, tmp_path: Path, rows_of: RowsOf
) -> None:
    """Each micro-batch is all that there is then; update is none of Spark's Python sources."""
    files = tmp_path / "files"
    give(files, 0, {f"k{each}": "even" if each % 2 == 0 else "odd" for each in range(10)})
    give(files, 1, {"k10": "even"})
    counts = numbers(spark, files).groupBy("value").count()
    frame = counts.selectExpr("value AS key", "count AS value")
    write(frame, root, mode="complete")

    assert rows_of(spark.read.format("statestores").load(root)) == [("even", 6), ("odd", 5)]
    with pytest.raises(StreamingQueryException, match="does not support Update mode"):
        write(frame, f"{root}-other", mode="update")


STEPS = (
    # Of the state root's own file, of which a part is left behind.
    "json.written",
    "publish.committed",
    # Without Spark, tests/reading/test_stream_batches.py shows every step of a publication.
    *(("publish.checked", "publish.appended", "publish.finished") if IS_LONG else ()),
    dying_source.PUBLISHED,
)


def test_a_batch_whose_commit_was_killed_is_applied_once(
    spark: SparkSession, root: str, tmp_path: Path
) -> None:
    """At each step in turn, in a batch of its own; Spark asks to abort, and then comes again."""
    # The workers cannot import the module, so Spark sends the class as a whole.
    cloudpickle.register_pickle_by_value(dying_source)  # type: ignore[no-untyped-call]  # Spark's
    spark.dataSource.register(dying_source.DyingSource)
    files, rows = tmp_path / "files", 8
    for number, step in enumerate(STEPS):
        give(files, number, {f"k{number}-{each}": step for each in range(rows)})
        options = {"failpoint": step, "marker": str(tmp_path / step)}
        with pytest.raises(StreamingQueryException):
            write(numbers(spark, files), root, name="dying", **options)
        assert write(numbers(spark, files), root, name="dying", **options) == [rows]

        changes = changes_of(root)
        assert len(changes) == rows * (number + 1)
        assert len({key for _, _, _, key, _ in changes}) == rows * (number + 1)
    assert [path.name for path in Path(root, "s", ".writes").iterdir() if path.is_dir()] == []
    assert any(is_left_behind(path.name, "statestores.json") for path in Path(root).iterdir())


def test_a_store_that_is_being_written_fails_the_batch_and_not_the_stream(
    spark: SparkSession, root: str, tmp_path: Path
) -> None:
    """The query stops with who has the lock; started again, it goes on without a loss."""
    files = tmp_path / "files"
    give(files, 0, {"a": "1"})
    write(numbers(spark, files), root)
    give(files, 1, {"b": "2"})
    with ss.open_logged_store(root, "s", 0, backend="memory"):
        refusal = r"StoreLockedError: the write to 's' has waited for 0 ms.* is open in process"
        with pytest.raises(StreamingQueryException, match=refusal):
            write(numbers(spark, files), root, commitTimeout="0")

        assert len(changes_of(root)) == 1
    write(numbers(spark, files), root)
    assert sorted(key for _, _, _, key, _ in changes_of(root) if key) == ["a", "b"]


def test_what_a_stream_cannot_write_is_refused(
    spark: SparkSession, root: str, tmp_path: Path
) -> None:
    """Options of a read, a condition on the store, and columns that it does not have."""
    give(tmp_path / "files", 0, {"a": "1"})
    frame = numbers(spark, tmp_path / "files")

    for options, reason in (
        ({"maxRecordsPerTrigger": "5"}, "unknown option 'maxrecordspertrigger'"),
        ({"ifExists": "fail"}, "'ifExists' is not for streams"),
    ):
        with pytest.raises(StreamingQueryException, match=reason):
            write(frame, root, **options)
    with pytest.raises(StreamingQueryException, match="the column 'value' is missing"):
        write(frame.select("key"), root)
    assert not Path(root).exists()


def test_the_short_name_is_routed_for_streams(
    spark: SparkSession, root: str, tmp_path: Path, rows_of: RowsOf
) -> None:
    """Both ways, in a session that is registered; a stream is one of changes without saying so."""
    give(tmp_path / "files", 0, {"a": "1", "b": "2"})
    register(spark)
    try:
        write(numbers(spark, tmp_path / "files"), root, name="statestore")
        changes = spark.readStream.load(root, "statestore", startingOffset="earliest")
        assert spark.readStream.format("statestores").load(root).schema == changes.schema
        query = changes.writeStream.format("memory").queryName("routed")
        run(query.trigger(availableNow=True).start())
    finally:
        unregister(spark)

    assert rows_of(spark.table("routed").select("operation", "key")) == [("put", "a"), ("put", "b")]
    assert spark.readStream.format("statestores").load(root).columns == ["key", "value"]
