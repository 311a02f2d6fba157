"""The change feed of a store as a stream: every change once, whatever happens to the query."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from store_streams import add, changes_of, feed, make_store, needs_limits, run, to_parquet

import statestores as ss
from statestores.changelog import FileChangelog, compact

RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]

COLUMNS = ("partition", "offset", "operation", "key", "value")


def read(spark: SparkSession, output: Path) -> DataFrame:
    """Return what a query has written."""
    return spark.read.parquet(str(output)).select(*COLUMNS)


def changes(root: str) -> list[tuple[Any, ...]]:
    """Return every change, as the fixture `rows_of` orders rows."""
    return sorted(changes_of(root), key=repr)


def test_a_query_reads_every_change_once_over_restarts(
    spark: SparkSession, root: str, tmp_path: Path, rows_of: RowsOf
) -> None:
    """With puts, deletes and clears; what comes meanwhile is for the next run."""
    state, output = make_store(root), tmp_path / "out"
    add(state, "first", {f"k{number}": f"v{number}" for number in range(50)})
    assert run(to_parquet(feed(spark, root), output)) == [50]
    add(state, "second", {"k1": None, "k2": "again", "new": "значение"})
    with FileChangelog.open(state.partition("s", 0).changelog, "key-value") as log:
        log.append_clear()
    run(to_parquet(feed(spark, root), output))
    assert sum(run(to_parquet(feed(spark, root), output))) == 0

    assert rows_of(read(spark, output)) == changes(root)
    assert {row[2] for row in changes(root)} == {"put", "delete", "clear"}


@needs_limits
def test_limits_cut_a_write_and_lose_nothing(
    spark: SparkSession, root: str, rows_of: RowsOf
) -> None:
    """One frame of each partition is read in several micro-batches, none larger than it may be."""
    state = make_store(root, partitions=3)
    add(state, "first", {f"k{number}": f"v{number}" for number in range(40)})

    def sizes_of(name: str, **limit: int) -> list[int]:
        writer = feed(spark, root, **limit).writeStream.format("memory").queryName(name)
        return run(writer.trigger(availableNow=True).start())

    sizes = sizes_of("by_records", maxRecordsPerTrigger=15)

    assert sum(sizes) == 40
    assert max(sizes) <= 15
    assert rows_of(spark.table("by_records").select(*COLUMNS)) == changes(root)
    sizes = sizes_of("by_bytes", maxBytesPerTrigger=1_500)
    assert sum(sizes) == 40
    assert 1 < len(sizes) < 40
    assert rows_of(spark.table("by_bytes").select(*COLUMNS)) == changes(root)


@pytest.mark.long
def test_a_query_follows_a_store_that_grows(
    spark: SparkSession, root: str, rows_of: RowsOf
) -> None:
    """Each staged write arrives as a whole, in one micro-batch; filters and columns apply."""
    state = make_store(root)
    add(state, "before", {"k": "old"})
    query = (
        feed(spark, root, startingOffset="latest", columns="value,key", keyPrefix="k")
        .writeStream.format("memory")
        .queryName("followed")
        .start()
    )
    try:
        query.processAllAvailable()
        for number in range(2):
            add(state, f"w{number}", {f"{letter}{number}": "new" for letter in "kkabkc"})
            add(state, f"x{number}", {f"k-{number}-{each}": "new" for each in range(20)})
            query.processAllAvailable()
    finally:
        query.stop()
    assert query.exception() is None
    expected = [("new", f"k-{number}-{each}") for number in range(2) for each in range(20)]
    expected += [("new", f"k{number}") for number in range(2)]
    assert rows_of(spark.table("followed")) == sorted(expected, key=repr)


def delete_and_compact(state: ss.StateRoot) -> None:
    """Have partition 0 begin later, and partition 1 compacted."""
    for number in range(2):
        with FileChangelog.open(state.partition("s", number).changelog, "key-value") as log:
            end = log.end_offset
            log.seal()
            if number:
                compact(log)
            else:
                log.delete_before(end)


def test_changes_that_are_gone_fail_the_query_or_are_left_out(
    spark: SparkSession, root: str, tmp_path: Path, rows_of: RowsOf
) -> None:
    """Deleted, or dropped by a compaction; a query that begins afterwards takes what is left."""
    state, output = make_store(root), tmp_path / "out"
    add(state, "read", {f"k{number}": "1" for number in range(20)})
    run(to_parquet(feed(spark, root), output))
    for version in ("2", "3"):
        add(state, version, {f"k{number}": version for number in range(20)})
    delete_and_compact(state)
    add(state, "4", {f"k{number}": "4" for number in range(20)})

    with pytest.raises(StreamingQueryException, match="have been deleted or compacted before the"):
        run(to_parquet(feed(spark, root), output))
    run(to_parquet(feed(spark, root, failOnDataLoss="false"), output))
    later = [row for row in changes(root) if row[4] != "1"]
    assert rows_of(read(spark, output).where("value <> '1'")) == later
    assert {row[4] for row in later if row[0] == 0} == {"4"}
    assert {row[4] for row in later if row[0] == 1} == {"3", "4"}
    run(to_parquet(feed(spark, root), tmp_path / "anew"))
    assert rows_of(read(spark, tmp_path / "anew")) == changes(root)


def test_a_checkpoint_of_another_store_is_refused(
    spark: SparkSession, root: str, tmp_path: Path
) -> None:
    """One with other partitions, and one whose changelog has been replaced."""
    output = tmp_path / "out"
    add(make_store(root), "w", {f"k{number}": "v" for number in range(30)})
    run(to_parquet(feed(spark, root), output))

    with pytest.raises(StreamingQueryException, match="leave the option 'partitions' as it was"):
        run(to_parquet(feed(spark, root, partitions="1"), output))
    Path(root).rename(tmp_path / "old")
    make_store(root)
    with pytest.raises(StreamingQueryException, match="its changelog has been replaced"):
        run(to_parquet(feed(spark, root), output))
