"""A reshard by Spark's tasks, and what queries that knew the old partitions are told."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import statestores as ss
import statestores.spark
from statestores.errors import InvalidOptionError, InvalidTypeError, OffsetOutOfRangeError
from statestores.resharding import reshard
from statestores.spark.session.older_pyspark import ReadAllAvailable
from statestores.spark.source.source import StateStoresDataSource
from statestores.state_root import StateRoot
from statestores.verification import verify


def _stream(options: dict[str, str]) -> Any:
    """Return what a query of the changes asks for its offsets, as the driver has it."""
    source = StateStoresDataSource({**options, "readChangeFeed": "true"})
    return source.streamReader(source.schema())


@pytest.mark.spec("RSH-1", "RSH-6")
def test_spark_reads_afterwards_what_it_read_before(spark: SparkSession, tmp_path: Path) -> None:
    """Written, resharded and read by Spark; a checkpoint of before is refused by name."""
    root = str(tmp_path / "root")
    options = {"path": root, "storeName": "counts"}
    rows = spark.range(2_000).selectExpr("cast(id as string) as key", "id as value")
    rows.write.format("statestores").options(**options, numPartitions=2).mode("append").save()
    checkpoint = _stream(options).reportLatestOffset()
    done = statestores.spark.reshard(spark, root, "counts", 5)

    assert (sum(done.rows), len(done.rows)) == (2_000, 5)
    read = spark.read.format("statestores").options(**options).load()
    assert sorted(map(tuple, read.collect())) == sorted(map(tuple, rows.collect()))
    with pytest.raises(InvalidOptionError, match="has been resharded: start anew"):
        _stream(options).latestOffset(checkpoint, ReadAllAvailable())
    reshard(root, "counts", 2)
    with pytest.raises(OffsetOutOfRangeError, match="which ended the changelogs that it had"):
        _stream(options).latestOffset(checkpoint, ReadAllAvailable())
    assert StateRoot.open(root).store("counts").generation == 2
    assert [each for each in verify(root) if each.is_failure] == []


@pytest.mark.spec("SNP-25", "SNP-26")
def test_tasks_write_snapshots_compact_and_vacuum(spark: SparkSession, tmp_path: Path) -> None:
    """One task for each partition, whose results come back in order; the content stays."""
    root, specification = tmp_path / "root", ss.KeyValue("counts")
    state = StateRoot.create(root)
    state.add_store(specification, partitions=2, placement="task")
    for number in range(2):
        with ss.open_logged_store(root, "counts", number, backend="memory") as opened:
            for _ in range(3):
                opened.store.put(b"k%d" % number, b"v")
                opened.commit()
    written = statestores.spark.write_snapshots(spark, root, "counts")
    compacted = statestores.spark.compact(spark, root)
    vacuumed = statestores.spark.vacuum(spark, root, keep_snapshots=1)

    assert [(each.partition.partition, each.rows) for each in written] == [(0, 1), (1, 1)]
    assert {key: each.changes_after for key, each in compacted.items()} == {
        ("counts", 0): 1,
        ("counts", 1): 1,
    }
    assert [each.dropped_before for each in vacuumed] == [3, 3]
    assert [each for each in verify(root) if each.is_failure] == []


def test_only_a_session_can_reshard(tmp_path: Path) -> None:
    """What is given instead is named."""
    with pytest.raises(InvalidTypeError, match="spark must be a SparkSession"):
        statestores.spark.reshard("local", tmp_path, "counts", 2)  # type: ignore[arg-type]  # what is refused
