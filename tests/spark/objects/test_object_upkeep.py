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
from statestores.spark import compact, vacuum, write_snapshots

RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]


@pytest.mark.spec("OBJ-38", "SNP-25", "SNP-26")
@pytest.mark.timeout(600)
def test_upkeep_beside_an_owner(
    spark: SparkSession, bucket: Bucket, reached: dict[str, str], rows_of: RowsOf, tmp_path: Path
) -> None:
    """Reads begin with what the tasks have written, and as many snapshots stay as are asked for."""
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
            owner.store.put(f"new{number}", number)
            owner.commit()
        found: dict[str, int] = dict(rows_of(load(splits=2)))
        reports = compact(spark, bucket.root, storage_options=options)
        removed = vacuum(spark, bucket.root, keep_snapshots=1, storage_options=options)

    assert found == rows | {f"new{number}": number for number in range(2)}
    assert dict(rows_of(load())) == found
    assert sum(each.changes_after for each in reports.values()) == len(found)
    assert [(each.store, each.partition, each.snapshots) for each in removed] == [
        ("words", 0, 1),
        ("words", 1, 0),
    ]
    with pytest.raises(InvalidOptionError, match="as text"):
        vacuum(spark, bucket.root, storage_options={"timeout": timedelta(1)})
