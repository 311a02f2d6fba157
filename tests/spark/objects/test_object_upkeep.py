"""Snapshots, compactions and vacuums of a state root in an object store, by Spark's tasks."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from s3 import Bucket

import statestores as ss
from statestores.errors import InvalidOptionError
from statestores.reading.partition_places import ObjectPartition
from statestores.reading.partition_places import snapshots_of as snapshots_of_partition
from statestores.spark import compact, vacuum, write_snapshots
from statestores.spark import reshard as reshard_by_tasks
from statestores.spark.given_root import GivenRoot
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spark.source.write_by_snapshot import write_due_snapshots
from statestores.spark.source.write_plan import plan_write

RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]


@pytest.mark.long
@pytest.mark.spec("OBJ-38", "OBJ-47", "RSH-18", "RSH-20", "SNP-25", "SNP-26")
@pytest.mark.timeout(600)
def test_upkeep_beside_an_owner(
    spark: SparkSession, bucket: Bucket, reached: dict[str, str], rows_of: RowsOf, tmp_path: Path
) -> None:
    """Reads begin with what the tasks have written, and as many snapshots stay as are asked for.

    Of a store that was resharded in place by tasks, too.
    """
    options = json.loads(reached["storageOptions"]) | json.loads(reached["storageSecrets"])
    rows = {f"k{number}": number for number in range(200)}
    frame = spark.createDataFrame(list(rows.items()), "key string, value long")
    written = frame.write.format("statestores").options(**reached, storeName="words")
    written.options(numPartitions=2).mode("append").save(bucket.root)

    def load(**more: Any) -> DataFrame:
        return spark.read.format("statestores").options(**reached, **more).load(bucket.root)

    with ss.open_logged_store(
        bucket.root,
        "words",
        0,
        directory=tmp_path / "owner",
        backend="memory",
        storage_options=bucket.options,
    ) as owner:
        for number in range(2):
            taken = write_snapshots(spark, bucket.root, storage_options=options)
            assert [each.partition.partition for each in taken] == [0, 1]
            assert [each.written for each in taken] == [True, number == 0]
            owner.store.put(f"new{2 * number}", number)
            owner.commit()
        found: dict[str, int] = dict(rows_of(load(splits=2)))
        reports = compact(spark, bucket.root, storage_options=options)
        removed = vacuum(spark, bucket.root, keep_snapshots=1, storage_options=options)

    assert found == rows | {"new0": 0, "new2": 1}
    assert dict(rows_of(load())) == found
    assert sum(each.changes_after for each in reports.values()) == len(found)
    assert [(each.store, each.partition, each.snapshots) for each in removed] == [
        ("words", 0, 1),
        ("words", 1, 0),
    ]
    copy = str(tmp_path / "copy")
    reshard_by_tasks(spark, bucket.root, "words", 5, to=copy, storage_options=options)
    copied = spark.read.format("statestores").load(copy)
    assert dict(rows_of(copied)) == found
    done = reshard_by_tasks(
        spark, bucket.root, "words", 3, memory_bytes=10_000, storage_options=options
    )
    root = ss.StateRoot.open(bucket.root, storage_options=options)
    assert (len(done.rows), sum(done.rows)) == (3, len(found))
    assert [each for each in bucket.storage().list("words/") if "/scratch/" in each.name] == []
    assert dict(rows_of(load())) == found
    more = spark.createDataFrame([("more", 1)], "key string, value long").write.options(**reached)
    more = more.format("statestores").mode("append").option("storeName", "words")
    with pytest.raises(Exception, match="numPartitions"):
        more.option("numPartitions", 2).save(bucket.root)
    more.option("numPartitions", 3).save(bucket.root)
    compact(spark, bucket.root, storage_options=options)
    vacuum(spark, bucket.root, keep_snapshots=1, storage_options=options)
    assert dict(rows_of(load(splits=2))) == found | {"more": 1}
    assert root.object_log("words").view(range(3)).checkpoint.former == ("",)
    with pytest.raises(InvalidOptionError, match="as text"):
        vacuum(spark, bucket.root, storage_options={"timeout": timedelta(1)})
    with pytest.raises(InvalidOptionError, match="is a directory; leave them out"):
        reshard_by_tasks(spark, copy, "words", 3, to=f"{copy}s", to_storage_options=options)
    back = f"{bucket.root}/back"
    reshard_by_tasks(spark, copy, "words", 4, to=back, to_storage_options=options)
    returned = spark.read.format("statestores").options(**reached).load(back)
    assert dict(rows_of(returned)) == found


@pytest.mark.spec("OBJ-40")
@pytest.mark.timeout(600)
def test_a_write_leaves_a_snapshot_beside_the_log(
    spark: SparkSession, bucket: Bucket, reached: dict[str, str], rows_of: RowsOf
) -> None:
    """Of a batch by its option, of a stream by its first task; the changes are there."""
    frame = spark.range(80).selectExpr("CAST(id AS string) AS key", "id AS value")
    named = {"storeName": "words", "numPartitions": "2", **reached}
    written = frame.write.format("statestores").options(**named, snapshot="auto")
    written.mode("append").save(bucket.root)
    root = ss.StateRoot.open(bucket.root, storage_options=bucket.options)

    def snapshots_of(store: str) -> list[int]:
        places = [ObjectPartition(root.object_log(store), number) for number in range(2)]
        return [len(snapshots_of_partition(place).listed()) for place in places]

    def load(**more: Any) -> DataFrame:
        return spark.read.format("statestores").options(**reached, **more).load(bucket.root)

    assert snapshots_of("words") == [1, 1]
    assert rows_of(load(storeName="words")) == rows_of(frame)
    feed = {"storeName": "words", "readChangeFeed": "true"}
    assert load(**feed).count() == 80
    storage = {name: reached[name] for name in ("storageOptions", "storageSecrets")}
    more = SourceOptions.for_writing({"path": bucket.root, "snapshotInterval": "1", **storage})
    plan = plan_write(GivenRoot.of(bucket.root, more.storage), more, frame.schema)
    for batch in range(1, 3):
        frame.selectExpr("key", f"{batch} AS value").write.format("statestores").options(
            **reached
        ).mode("append").save(bucket.root)
        write_due_snapshots(plan, batch)

    assert snapshots_of("words") == [2, 2]
    assert {row.value for row in load().collect()} == {2}
