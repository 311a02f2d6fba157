"""The store of the planes: written by Spark, asked directly, and read back by Spark.

What it must say is taken from the source data by DuckDB and Arrow.
"""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

import statestores as ss
from statestores.partitioning import partitioner_by_name
from stores import PLANE_PARTITIONS, PLANES, RETENTION_MS, Partitions, partition_of

_VALUE = (
    "carrier",
    "flight",
    "origin",
    "dest",
    "scheduled_ms",
    "dep_delay",
    "arr_delay",
    "distance",
)

_POSITIONS = """
SELECT tailnum AS key, max(departure_ms) AS valid_from, arg_max(dest, departure_ms) AS dest
FROM departures
WHERE departure_ms <= ?
GROUP BY tailnum
ORDER BY tailnum
"""


def departures(flights: pa.Table) -> pa.Table:
    """Return the *flights* that took place: cancelled ones are left out."""
    return flights.filter(pc.is_valid(flights["dep_delay"]))


def write_planes(spark: Any, root: Path, departed: pa.Table) -> None:
    """Write departures into the store of the planes, by Spark, in the order in which they come."""
    from pyspark.sql import functions as sql  # noqa: PLC0415  # after the session has its settings

    rows = spark.createDataFrame(departed.select(["tailnum", "departure_ms", *_VALUE]))
    versions = rows.select(
        sql.col("tailnum").alias("key"),
        sql.struct(*_VALUE).alias("value"),
        sql.timestamp_millis("departure_ms").alias("valid_from"),
    )
    (
        versions.write.format("statestore")
        .mode("append")
        .option("storeName", PLANES.name)
        .option("storeKind", PLANES.kind)
        .option("historyRetention", f"{RETENTION_MS}ms")
        .option("numPartitions", PLANE_PARTITIONS)
        .option("keySerde", "utf8")
        .option("valueSerde", "json")
        .save(str(root))
    )


def planes_known(spark: Any, root: Path, as_of_ms: int) -> pa.Table:
    """Return each plane with its last departure up to a time, as Spark reads the store."""
    rows = _source(spark).option("asOf", as_of_ms).load(str(root))
    return rows.selectExpr(
        "key",
        "unix_millis(valid_from) AS valid_from",
        "get_json_object(value, '$.dest') AS dest",
    ).toArrow()


def planes_in_source(departed: pa.Table, as_of_ms: int) -> pa.Table:
    """Return the same, found by DuckDB."""
    with duckdb.connect() as database:
        database.register("departures", departed)
        return database.sql(_POSITIONS, params=[as_of_ms]).to_arrow_table()


def count_changes(spark: Any, root: Path) -> dict[int, int]:
    """Return how many changes each partition has, as Spark reads the change feed."""
    rows = _source(spark).option("readChangeFeed", "true").load(str(root))
    return {int(row[0]): int(row[1]) for row in rows.groupBy("partition").count().collect()}


def count_written(departed: pa.Table) -> dict[int, int]:
    """Return how many of *departed* belong to each partition."""
    numbers = partition_of(PLANES, departed["tailnum"], PLANE_PARTITIONS)
    return {count["values"]: count["counts"] for count in numbers.value_counts().to_pylist()}


def last_departure(
    partitions: Partitions, plane: str, as_of_ms: int
) -> ss.VersionedRecord[Any] | None:
    """Return the last departure of *plane* up to a time; ``None`` when there was none."""
    partitioner = partitioner_by_name(PLANES.partitioner)
    number = partitioner.partition(ss.utf8.encode(plane), PLANE_PARTITIONS)
    return partitions[number].store.read_only().get(plane, as_of_ms)


def last_departure_in_source(
    departed: pa.Table, plane: str, as_of_ms: int
) -> tuple[int, str] | None:
    """Return instant and destination of the same departure, found by DuckDB."""
    of_plane = departed.filter(pc.equal(departed["tailnum"], plane))
    rows = planes_in_source(of_plane, as_of_ms).to_pylist()
    return (rows[0]["valid_from"], rows[0]["dest"]) if rows else None


def _source(spark: Any) -> Any:
    return spark.read.format("statestore").option("storeName", PLANES.name)
