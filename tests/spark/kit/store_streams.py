"""Stores as streams, for the tests: what a query reads, and what it is given."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import statestores as ss
from statestores.changelog import change_schema
from statestores.reading.partition_reader import PartitionReader
from statestores.spark.session.older_pyspark import SOURCES_TAKE_LIMITS
from statestores.staging.staged_write import publish, stage

LIMIT_SECONDS = 300
"""No query of the tests takes nearly as long; one that hangs fails."""

needs_limits = pytest.mark.skipif(
    not SOURCES_TAKE_LIMITS, reason="PySpark before 4.2 does not ask a source for its limits"
)
"""For tests of `maxRecordsPerTrigger` and its sibling."""


def make_store(root: str, *, partitions: int = 2) -> ss.StateRoot:
    """Make a key-value store of text, named "s"."""
    state = ss.StateRoot.create(root)
    state.add_store(ss.KeyValue("s", key=ss.utf8, value=ss.utf8), partitions=partitions)
    return state


def add(state: ss.StateRoot, write_id: str, rows: Mapping[str, str | None]) -> None:
    """Publish *rows* as one staged write."""
    entry = state.store("s")
    batch = pa.RecordBatch.from_pylist(
        [
            {"key": key.encode(), "value": None if value is None else value.encode()}
            for key, value in rows.items()
        ],
        schema=change_schema(entry.specification.kind),
    )
    staged = stage(state.path, entry.specification, entry.partitions, write_id, "t", [batch])
    publish(state, "s", write_id, [staged])


def changes_of(root: str) -> list[tuple[int, int, str, str | None, str | None]]:
    """Return every change of the store: partition, offset, operation, key and value."""
    state = ss.StateRoot.open(root)
    entry = state.store("s")
    return [
        (row["partition"], row["offset"], row["operation"], row["key"], row["value"])
        for number in range(entry.partitions)
        for batch in PartitionReader(state.partition("s", number), entry.specification).changes()
        for row in batch.to_pylist()
    ]


def feed(spark: SparkSession, root: str, **options: Any) -> DataFrame:
    """Return the changes of the store as a stream."""
    reader = spark.readStream.format("statestores").option("readChangeFeed", "true")
    return reader.options(**options).load(root)


def run(query: StreamingQuery) -> list[int]:
    """Wait for *query* to end; return how many rows each of its micro-batches had."""
    try:
        assert query.awaitTermination(LIMIT_SECONDS)
        return [progress["numInputRows"] for progress in query.recentProgress]
    finally:
        query.stop()


def to_parquet(frame: DataFrame, output: Path) -> StreamingQuery:
    """Start to append *frame* to files, with a checkpoint beside them, up to what there is now."""
    return (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", f"{output}.checkpoint")
        .trigger(availableNow=True)
        .start(str(output))
    )
