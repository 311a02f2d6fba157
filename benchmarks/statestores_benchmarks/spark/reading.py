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

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

import statestores as ss
from statestores.arrow import bulk_load
from statestores.arrow.keys.key_selection import KeySelection
from statestores.reading.partition_reader import PartitionReader
from statestores.spark import ensure_java
from statestores_benchmarks.spark.bare_source import BareSource

_SEED = 20261122
_KEY_BYTES, _VALUE_BYTES = 16, 100
_CHUNK_ROWS = 1_000_000
_PARTITIONS = 2
_STORE = ss.KeyValue("state")

_COMPARISONS = ("parquet", "builtin", "lookup", "planning", "process", "write")

FLOOR = "Arrow from Python (the floor)"
"""The same number of rows from a source in Python that has them ready."""

Timed = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Cases that do the same; the first is ours."""

    title: str
    """What is compared."""

    rows: int
    """How many rows each case reads."""

    cases: Mapping[str, Timed]
    """What is timed, by name."""

    target: str
    """What the first case must reach, in words."""


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
                console.print(_table(comparison, _measured(comparison, rounds)))
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
    root, parquet = _store(directory, rows), _parquet(directory, rows)

    def ours() -> DataFrame:
        return spark.read.format("statestores").load(str(root))

    def theirs() -> DataFrame:
        return spark.read.parquet(str(parquet))

    _require_equal(ours(), theirs())
    return Comparison(
        title="snapshot of a store against Parquet, into noop",
        rows=rows,
        cases={
            "statestores": lambda: _run(ours()),
            "parquet": lambda: _run(theirs()),
            FLOOR: lambda: _run(_bare(spark, rows)),
        },
        target="at least 0.6 x the rows/s",
    )


def _against_builtin(spark: SparkSession, directory: Path, rows: int) -> Comparison:
    root, checkpoint = _store(directory, rows), _checkpoint(spark, directory, rows)

    def ours() -> DataFrame:
        return spark.read.format("statestores").load(str(root))

    def theirs() -> DataFrame:
        return spark.read.format("statestore").load(str(checkpoint))

    _require_equal(ours(), theirs().selectExpr("key.key AS key", "value.*").toDF("key", "value"))
    return Comparison(
        title="the same state, against Spark's own reader (RocksDB provider)",
        rows=rows,
        cases={
            "statestores": lambda: _run(ours()),
            "statestore": lambda: _run(theirs()),
            FLOOR: lambda: _run(_bare(spark, rows)),
        },
        target="at least 3 x the rows/s",
    )


def _lookup(spark: SparkSession, directory: Path, rows: int) -> Comparison:
    root = _store(directory, rows)
    key = _keys(rows // 3, rows // 3 + 1)[0].as_py().decode()

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
                key=key, partitions=str(rows // 3 % _PARTITIONS)
            ).collect(),
            "no rows (what a job costs)": lambda: spark.range(1).collect(),
            FLOOR: lambda: _bare(spark, 1).collect(),
            "everything": lambda: _run(load()),
        },
        target="less than 0.02 of the time of everything",
    )


def _planning(spark: SparkSession, directory: Path, rows: int) -> Comparison:
    root = _store(directory, rows)
    frame = spark.read.format("statestores").load(str(root))
    return Comparison(
        title="planning, once Spark is warm",
        rows=1,
        cases={
            "load()": lambda: spark.read.format("statestores").load(str(root)),
            "plan": lambda: _planned(frame.where("1 = 1")),
            "load() of parquet": lambda: spark.read.parquet(str(_parquet(directory, rows))),
        },
        target="tens of milliseconds",
    )


def _in_process(directory: Path, rows: int) -> Comparison:
    root = ss.StateRoot.open(_store(directory, rows))
    readers = [
        PartitionReader(root.partition(_STORE.name, number), _STORE)
        for number in range(_PARTITIONS)
    ]
    key = _keys(0, 1)[0].as_py()

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
    source = spark.read.parquet(str(_parquet(directory, rows)))
    root, parquet = directory / "written-store", directory / "written-parquet"

    def ours() -> None:
        shutil.rmtree(root, ignore_errors=True)
        options = {"storeName": "state", "numPartitions": str(_PARTITIONS)}
        source.write.format("statestores").options(**options).mode("append").save(str(root))

    def theirs() -> None:
        source.write.mode("overwrite").parquet(str(parquet))

    ours()
    _require_equal(spark.read.format("statestores").load(str(root)), source)
    return Comparison(
        title="a batch write into a new store, against Parquet",
        rows=rows,
        cases={"statestores": ours, "parquet": theirs},
        target="at least 0.5 x the rows/s",
    )


# The data.


def _keys(start: int, stop: int) -> pa.Array:
    """Return the keys with these numbers: sixteen digits, so that they sort like the numbers."""
    digits = np.char.zfill(np.arange(start, stop).astype(f"S{_KEY_BYTES}"), _KEY_BYTES)
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_KEY_BYTES), stop - start, [None, pa.py_buffer(digits.tobytes())]
    )
    return fixed.cast(pa.binary())


def _values(start: int, stop: int) -> pa.Array:
    """Return the values of these keys: one half random, the other always the same."""
    count = stop - start
    noise = np.random.default_rng(_SEED + start).integers(
        0, 256, (count, _VALUE_BYTES // 2), np.uint8
    )
    filled = np.full((count, _VALUE_BYTES - _VALUE_BYTES // 2), ord("a"), np.uint8)
    data = np.concatenate([noise, filled], axis=1).tobytes()
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_VALUE_BYTES), count, [None, pa.py_buffer(data)]
    )
    return fixed.cast(pa.binary())


def _chunks(rows: int) -> Iterator[pa.Table]:
    for start in range(0, rows, _CHUNK_ROWS):
        stop = min(start + _CHUNK_ROWS, rows)
        yield pa.table({"key": _keys(start, stop), "value": _values(start, stop)})


def _store(directory: Path, rows: int) -> Path:
    """Return a state root with *rows* rows under a snapshot for each partition."""
    path, unfinished = directory / f"store-{rows}", directory / f"store-{rows}.tmp"
    if path.exists():
        return path
    root = ss.StateRoot.create(unfinished)
    root.add_store(_STORE, partitions=_PARTITIONS)
    for number in range(_PARTITIONS):
        with ss.open_logged_store(root, _STORE.name, number, backend="rocksdb") as logged:
            for chunk in _chunks(rows):
                bulk_load(logged.store, chunk.take(np.arange(number, len(chunk), _PARTITIONS)))
            logged.snapshot()
    unfinished.rename(path)
    return path


def _parquet(directory: Path, rows: int) -> Path:
    """Return a directory with the same rows in two Parquet files, as Spark compresses them."""
    path, unfinished = directory / f"parquet-{rows}", directory / f"parquet-{rows}.tmp"
    if path.exists():
        return path
    unfinished.mkdir(parents=True)
    for number in range(_PARTITIONS):
        schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
        file = unfinished / f"part-{number}.parquet"
        with pq.ParquetWriter(file, schema, compression="snappy") as writer:
            for chunk in _chunks(rows):
                writer.write_table(chunk.take(np.arange(number, len(chunk), _PARTITIONS)))
    unfinished.rename(path)
    return path


def _checkpoint(spark: SparkSession, directory: Path, rows: int) -> Path:
    """Return the checkpoint of a streaming query whose state is the same rows, in RocksDB."""
    path, unfinished = directory / f"checkpoint-{rows}", directory / f"checkpoint-{rows}.tmp"
    if path.exists():
        return path
    query = (
        spark.readStream.schema("key binary, value binary")
        .parquet(str(_parquet(directory, rows)))
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


# Measuring.


def session(scratch: Path) -> SparkSession:
    """Return Spark with two threads, and state in RocksDB; *scratch* is for what it leaves."""
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    built = (
        SparkSession.builder.master(f"local[{_PARTITIONS}]")
        .appName("statestores reading")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", str(_PARTITIONS))
        .config("spark.sql.streaming.stateStore.providerClass", provider)
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    built.sparkContext.setLogLevel("ERROR")
    built.dataSource.register(BareSource)
    return built


def _run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _bare(spark: SparkSession, rows: int) -> DataFrame:
    options = {"rows": str(rows), "partitions": str(_PARTITIONS)}
    return spark.read.format(BareSource.name()).options(**options).load()


def _planned(frame: DataFrame) -> None:
    frame._jdf.queryExecution().executedPlan()  # noqa: SLF001  # no other way


def _require_equal(one: DataFrame, other: DataFrame) -> None:
    """Compare the number and content of rows by sums that do not depend on their order."""
    sums = ["count(*)", "sum(xxhash64(key, value) % 1000000007)", "sum(length(value))"]
    found = [frame.selectExpr(*sums).head() for frame in (one, other)]
    if found[0] != found[1]:
        raise SystemExit(f"the rows differ: {found[0]} and {found[1]}")


def _measured(comparison: Comparison, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each case in each round; the first round is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in comparison.cases}
    for number in range(rounds + 1):
        for name, timed in comparison.cases.items():
            began = time.perf_counter()
            timed()
            if number:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def _table(comparison: Comparison, seconds: dict[str, list[float]]) -> Table:
    table = Table(title=f"{comparison.title}; target: {comparison.target}")
    for heading in ("case", "seconds (least to most)", "M rows/s", "first case: speed, its time"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    base = next(iter(seconds.values()))
    for name, each in seconds.items():
        ratios = [other / own for own, other in zip(base, each, strict=True)]
        table.add_row(
            name,
            f"{median(each):.3f} ({min(each):.3f} to {max(each):.3f})",
            f"{comparison.rows / median(each) / 1e6:.2f}" if comparison.rows > 1 else "",
            f"{median(ratios):.2f} x, {1 / median(ratios):.4f}",
        )
    return table


if __name__ == "__main__":
    typer.run(main)
