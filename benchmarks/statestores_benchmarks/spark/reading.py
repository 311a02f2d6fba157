"""``python -m statestores_benchmarks.spark.reading``: how fast Spark reads a store, and writes one.

* a store's snapshot against a Parquet file of the same rows, both into ``noop``;
* the same rows of state against Spark's own ``statestore`` reader, RocksDB provider;
* the lookup of one key against a read of everything;
* what ``load()`` and the plan cost once Spark is warm;
* the reader alone, in this process and without Spark;
* a batch write of a Parquet file's rows into a new store, against one into Parquet again.

The cases of a comparison take turns, ratios are computed within a round, and medians are given.
Before anything is measured, both sides must have the same rows. Data are built once and kept in
``--data``; a second run uses what is there.
"""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

import statestores as ss
from statestores.arrow.keys.key_selection import KeySelection
from statestores.reading.partition_reader import PartitionReader
from statestores_benchmarks.spark.bare_source import BareSource
from statestores_benchmarks.spark.comparison import (
    Comparison,
    measured,
    require_equal,
    run,
    session,
    table,
)
from statestores_benchmarks.spark.rows import PARTITIONS, STORE, keys_of, parquet_of, store_of

_COMPARISONS = ("parquet", "builtin", "lookup", "planning", "process", "write")

FLOOR = "Arrow from Python (the floor)"
"""The same number of rows from a source in Python that has them ready."""


def main(  # options of a command
    *,
    rows: Annotated[int, typer.Option(help="Rows compared with Parquet.")] = 5_000_000,
    state_rows: Annotated[int, typer.Option(help="Rows compared with Spark's reader.")] = 1_000_000,
    lookup_rows: Annotated[int, typer.Option(help="Rows in which one is sought.")] = 10_000_000,
    rounds: Annotated[int, typer.Option(help="Measured rounds; one more warms up.")] = 5,
    data: Annotated[Path | None, typer.Option(help="Where data are built once, and kept.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="parquet, builtin, lookup, planning, process or write.")
    ] = None,
) -> None:
    """Measure reads of stores in Spark, in ratios within one run."""
    chosen = set(only or _COMPARISONS)
    if unknown := chosen - set(_COMPARISONS):
        raise typer.BadParameter(f"{unknown.pop()!r} is none of: {', '.join(_COMPARISONS)}")
    console = Console()
    with tempfile.TemporaryDirectory(prefix="statestores-reading-") as temporary:
        spark = session(Path(temporary))
        makers = comparisons(
            spark,
            data or Path(temporary),
            rows=rows,
            state_rows=state_rows,
            lookup_rows=lookup_rows,
        )
        for name, make in makers.items():
            if name in chosen:
                comparison = make()
                console.print(table(comparison, measured(comparison, rounds)))
        spark.stop()


# What is compared.


def comparisons(
    spark: SparkSession, directory: Path, *, rows: int, state_rows: int, lookup_rows: int
) -> dict[str, Callable[[], Comparison]]:
    """Return what makes each comparison and its data in *directory*, by name."""
    return {
        "parquet": lambda: _against_parquet(spark, directory, rows),
        "builtin": lambda: _against_builtin(spark, directory, state_rows),
        "lookup": lambda: _lookup(spark, directory, lookup_rows),
        "planning": lambda: _planning(spark, directory, rows),
        "process": lambda: _in_process(directory, rows),
        "write": lambda: _write(spark, directory, rows),
    }


def _against_parquet(spark: SparkSession, directory: Path, rows: int) -> Comparison:
    root, parquet = store_of(directory, rows), parquet_of(directory, rows)

    def ours() -> DataFrame:
        return spark.read.format("statestores").load(str(root))

    def theirs() -> DataFrame:
        return spark.read.parquet(str(parquet))

    require_equal(ours(), theirs())
    return Comparison(
        title="snapshot of a store against Parquet, into noop",
        rows=rows,
        cases={
            "statestores": lambda: run(ours()),
            "parquet": lambda: run(theirs()),
            FLOOR: lambda: run(_bare(spark, rows)),
        },
        target="at least 0.6 x the rows/s",
    )


def _against_builtin(spark: SparkSession, directory: Path, rows: int) -> Comparison:
    root, checkpoint = store_of(directory, rows), _checkpoint(spark, directory, rows)

    def ours() -> DataFrame:
        return spark.read.format("statestores").load(str(root))

    def theirs() -> DataFrame:
        return spark.read.format("statestore").load(str(checkpoint))

    require_equal(ours(), theirs().selectExpr("key.key AS key", "value.*").toDF("key", "value"))
    return Comparison(
        title="the same state, against Spark's own reader (RocksDB provider)",
        rows=rows,
        cases={
            "statestores": lambda: run(ours()),
            "statestore": lambda: run(theirs()),
            FLOOR: lambda: run(_bare(spark, rows)),
        },
        target="at least 3 x the rows/s",
    )


def _lookup(spark: SparkSession, directory: Path, rows: int) -> Comparison:
    root = store_of(directory, rows)
    key = keys_of(rows // 3, rows // 3 + 1)[0].as_py().decode()

    def load(**options: str) -> DataFrame:
        return spark.read.format("statestores").options(**options).load(str(root))

    found = load(key=key).collect()
    if len(found) != 1:
        raise SystemExit(f"the key {key!r} is there {len(found)} times, expected once")
    return Comparison(
        title=f"one key of {rows:,}, against a read of all",
        rows=rows,
        cases={
            "key=": lambda: load(key=key).collect(),
            "key= in its partition": lambda: load(
                key=key, partitions=str(rows // 3 % PARTITIONS)
            ).collect(),
            "no rows (what a job costs)": lambda: spark.range(1).collect(),
            FLOOR: lambda: _bare(spark, 1).collect(),
            "everything": lambda: run(load()),
        },
        target="less than 0.02 of the time of everything",
    )


def _planning(spark: SparkSession, directory: Path, rows: int) -> Comparison:
    root = store_of(directory, rows)
    frame = spark.read.format("statestores").load(str(root))
    return Comparison(
        title="planning, once Spark is warm",
        rows=1,
        cases={
            "load()": lambda: spark.read.format("statestores").load(str(root)),
            "plan": lambda: _planned(frame.where("1 = 1")),
            "load() of parquet": lambda: spark.read.parquet(str(parquet_of(directory, rows))),
        },
        target="tens of milliseconds",
    )


def _in_process(directory: Path, rows: int) -> Comparison:
    root = ss.StateRoot.open(store_of(directory, rows))
    readers = [
        PartitionReader(root.partition(STORE.name, number), STORE) for number in range(PARTITIONS)
    ]
    key = keys_of(0, 1)[0].as_py()

    def everything() -> None:
        read = sum(batch.num_rows for reader in readers for batch in reader.rows())
        if read != rows:
            raise SystemExit(f"read {read} rows, expected {rows}")

    def one() -> None:
        found = list(readers[0].rows(keys=KeySelection(first=key, last=key)))
        if sum(batch.num_rows for batch in found) != 1:
            raise SystemExit(f"{key!r} is not there once")

    return Comparison(
        title="the reader alone, in this process",
        rows=rows,
        cases={"PartitionReader.rows": everything, "PartitionReader.rows of one key": one},
        target="more than 5 M rows/s",
    )


def _write(spark: SparkSession, directory: Path, rows: int) -> Comparison:
    source = spark.read.parquet(str(parquet_of(directory, rows)))
    root, parquet = directory / "written-store", directory / "written-parquet"

    def ours() -> None:
        shutil.rmtree(root, ignore_errors=True)
        options = {"storeName": "state", "numPartitions": str(PARTITIONS)}
        source.write.format("statestores").options(**options).mode("append").save(str(root))

    def theirs() -> None:
        source.write.mode("overwrite").parquet(str(parquet))

    ours()
    require_equal(spark.read.format("statestores").load(str(root)), source)
    return Comparison(
        title="a batch write into a new store, against Parquet",
        rows=rows,
        cases={"statestores": ours, "parquet": theirs},
        target="at least 0.5 x the rows/s",
    )


def _checkpoint(spark: SparkSession, directory: Path, rows: int) -> Path:
    """Return the checkpoint of a streaming query whose state is the same rows, in RocksDB."""
    path, unfinished = directory / f"checkpoint-{rows}", directory / f"checkpoint-{rows}.tmp"
    if path.exists():
        return path
    query = (
        spark.readStream.schema("key binary, value binary")
        .parquet(str(parquet_of(directory, rows)))
        .groupBy("key")
        .agg({"value": "max"})
        .writeStream.outputMode("update")
        .format("noop")
        .option("checkpointLocation", str(unfinished))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    unfinished.rename(path)
    return path


def _bare(spark: SparkSession, rows: int) -> DataFrame:
    options = {"rows": str(rows), "partitions": str(PARTITIONS)}
    return spark.read.format(BareSource.name()).options(**options).load()


def _planned(frame: DataFrame) -> None:
    frame._jdf.queryExecution().executedPlan()  # noqa: SLF001  # no other way


if __name__ == "__main__":
    typer.run(main)
