"""Writes that leave snapshots, and streams that write one now and then."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType
from store_streams import needs_limits

import statestores as ss
from statestores.arrow.snapshots.directory import list_snapshots
from statestores.errors import CommitConflictError, InvalidOptionError
from statestores.reading.partition_reader import PartitionReader
from statestores.root_document import TOPOLOGY_NOTE
from statestores.spark.columns import from_spark
from statestores.spark.given_root import GivenRoot
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spark.source.source import StateStoresDataSource
from statestores.spark.source.write_by_snapshot import (
    by_snapshot,
    replace_by_snapshots,
    write_due_snapshots,
)
from statestores.spark.source.write_plan import WritePlan, plan_write
from statestores.staging.staged_write import write_at_once
from statestores.verification import verify

RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]


def save(frame: DataFrame, root: str, mode: str = "append", **options: Any) -> None:
    """Write *frame* into the store "s"."""
    named = {"storeName": "s", "numPartitions": 2, **options}
    frame.write.format("statestores").options(**named).mode(mode).save(root)


def load(spark: SparkSession, root: str, **options: Any) -> DataFrame:
    return spark.read.format("statestores").options(**options).load(root)


@pytest.mark.spec("RSH-15")
def test_a_first_write_by_snapshot_and_what_follows(
    spark: SparkSession, root: str, rows_of: RowsOf
) -> None:
    """Rows of ranges of keys become the snapshots; a second write goes to the changelogs."""
    frame = spark.range(0, 500, 1, 3).selectExpr("CAST(id AS string) AS key", "id AS value")
    save(frame.repartitionByRange(3, "key"), root, snapshot="auto")

    assert rows_of(load(spark, root)) == rows_of(frame)
    assert load(spark, root, readChangeFeed="true").count() == 0
    assert ss.StateRoot.open(root).store("s").generation == 1
    more = spark.createDataFrame([("0", -1), ("1", None)], "key string, value long")
    save(more, root, snapshot="auto")

    assert load(spark, root, readChangeFeed="true").count() == 2
    assert load(spark, root).count() == 499
    save(more, root, "overwrite", snapshot="always")

    assert rows_of(load(spark, root)) == [("0", -1)]
    assert ss.StateRoot.open(root).store("s").generation == 2
    assert [each for each in verify(root) if each.is_failure] == []


SCHEMA = StructType([StructField("key", StringType()), StructField("value", LongType())])
SPECIFICATION = ss.KeyValue("s", key=ss.utf8, value=ss.int64)


def planned(root: str, **options: Any) -> tuple[WritePlan, SourceOptions]:
    named = {"path": root, "storeName": "s", "numPartitions": "2", **options}
    parsed = SourceOptions.for_writing(named)
    return plan_write(GivenRoot.of(root), parsed, SCHEMA), parsed


def changes(*keys: int) -> pa.RecordBatch:
    rows = [{"key": str(key), "value": key} for key in keys]
    return from_spark(pa.RecordBatch.from_pylist(rows), SPECIFICATION, raw=False)


def added(root: str, *keys: int) -> ss.StateRoot:
    """Write *keys* by the changelog."""
    state = ss.StateRoot.create(root)
    state.add_store(SPECIFICATION, partitions=2)
    write_at_once(state, "s", [changes(*keys)])
    return state


@pytest.mark.spec("RSH-15", "RSH-16")
def test_what_such_a_write_refuses(root: str, tmp_path: Path) -> None:
    """Rows that came in between, partitions that are somebody's, and options that do not fit."""
    plan, options = planned(root, snapshot="auto")
    assert by_snapshot(plan, options, overwrite=False)
    added(root, 1)
    with pytest.raises(CommitConflictError, match="which the snapshots of this write would repl"):
        replace_by_snapshots(plan, "w", [], overwrite=False, expected_ends={})
    assert not by_snapshot(*planned(root, snapshot="auto"), overwrite=True)
    assert by_snapshot(*planned(root, snapshot="always"), overwrite=True)
    with pytest.raises(InvalidOptionError, match=r"would add to.* with the mode overwrite"):
        by_snapshot(*planned(root, snapshot="always"), overwrite=False)

    tasks = str(tmp_path / "tasks")
    ss.StateRoot.create(tasks).add_store(SPECIFICATION, partitions=2, placement="task")
    assert not by_snapshot(*planned(tasks, snapshot="auto"), overwrite=False)
    with pytest.raises(InvalidOptionError, match="place its keys"):
        by_snapshot(*planned(tasks, snapshot="always"), overwrite=False)
    note = Path(tasks, TOPOLOGY_NOTE)
    note.parent.mkdir()
    note.touch()
    with pytest.raises(InvalidOptionError, match="is the state of a topology"):
        by_snapshot(*planned(tasks, storeName="t", snapshot="always"), overwrite=False)

    with pytest.raises(InvalidOptionError, match="auto, always or never, got 'yes'"):
        planned(root, snapshot="yes")
    given = {"path": root, "storeName": "s"}
    with pytest.raises(InvalidOptionError, match="for streams; give snapshot=auto or always"):
        StateStoresDataSource({**given, "snapshotInterval": "5"}).writer(SCHEMA, overwrite=False)
    with pytest.raises(InvalidOptionError, match="not for streams; give snapshotInterval"):
        StateStoresDataSource({**given, "snapshot": "auto"}).streamWriter(SCHEMA, overwrite=False)


@pytest.mark.spec("RSH-17")
def test_partitions_take_turns_in_the_micro_batches_of_a_stream(root: str) -> None:
    """The newest two snapshots of each stay, and its changelog whole."""
    state = added(root, *range(20))
    plan, _ = planned(root, snapshotInterval="3")
    places = [state.partition("s", number) for number in range(2)]
    counts = []
    for batch in range(13):
        write_due_snapshots(plan, batch)
        counts.append([len(list_snapshots(place.snapshots)) for place in places])
        write_at_once(state, "s", [changes(*range(batch, batch + 20))])

    assert counts[:7] == [[0, 0]] * 3 + [[1, 0], [1, 1], [1, 1], [2, 1]]
    assert counts[-1] == [2, 2]
    assert [each for each in verify(root) if each.is_failure] == []
    readers = [PartitionReader(place, SPECIFICATION) for place in places]
    assert [reader.beginning.offset for reader in readers] == [0, 0]


@needs_limits
@pytest.mark.spec("RSH-17")
def test_a_stream_has_its_first_task_write_them(
    spark: SparkSession, root: str, tmp_path: Path, rows_of: RowsOf
) -> None:
    """Every so many micro-batches, beside the rows."""
    source = str(tmp_path / "source")
    added(source, *range(16))
    query = (
        spark.readStream.format("statestores")
        .options(readChangeFeed="true", maxRecordsPerTrigger=8)
        .load(source)
        .select("key", "value")
        .writeStream.format("statestores")
        .options(storeName="s", numPartitions=1, snapshotInterval=1)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(root)
    )
    assert query.awaitTermination(500)
    assert query.exception() is None

    assert rows_of(load(spark, root)) == rows_of(load(spark, source))
    assert len(list_snapshots(ss.StateRoot.open(root).partition("s", 0).snapshots)) == 1
