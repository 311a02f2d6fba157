"""``python -m statestores_benchmarks.spark.stateful``: stateful processing, ours and Spark's.

The same word count by `statestores.spark.stateful`, by ``transformWithStateInPandas`` and by
Spark's own aggregation in Java; and the same as-of join by `statestores.spark.temporal_join` and by
``transformWithStateInPandas`` with the history in its state. One session, the same files, the same
sink, which keeps the rows; the results are compared and must be equal. The first micro-batches of
each query are left out: workers start in them, and in the join Spark takes in the history.

Spark's operator in Python needs the package protobuf, which nothing else here needs.
"""

import os
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import statestores as ss
from statestores.arrow import get_many, put_many
from statestores.partitioning import partitioner_by_name
from statestores.spark import OpenStores, ensure_java, stateful, temporal_join

_SEED = 20261122
_PARTITIONS = 2
_VERSIONS = 8
_PERIOD_MS = 1_000_000

Results = dict[tuple[Any, ...], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What is measured."""

    rows: int
    """Rows of a micro-batch."""

    keys: int
    """Different keys."""

    batches: int
    """Measured micro-batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One query."""

    name: str
    """What it is."""

    rows_per_s: float
    """Rows of the measured micro-batches, by their time."""

    latency_ms: float
    """The median time of a micro-batch, from its trigger to its end."""

    results: Results
    """What its sink kept."""


class Words(StatefulProcessor):
    """Spark's word count in Python."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(  # noqa: N802  # Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803  # the same
    ) -> Iterator[pd.DataFrame]:
        """Count the rows of one word."""
        before = self._count.get()
        after = (0 if before is None else before[0]) + sum(len(frame) for frame in rows)
        self._count.update((after,))
        yield pd.DataFrame({"word": [key[0]], "count": [after]})

    def close(self) -> None:
        """Nothing is open."""


class Rates(StatefulProcessor):
    """Spark's as-of join in Python: the versions of a key are its state."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._versions = handle.getValueState("versions", "starts array<long>, rates array<double>")

    def handleInputRows(  # noqa: N802  # Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803  # the same
    ) -> Iterator[pd.DataFrame]:
        """Keep versions, and look up the others."""
        frame = pd.concat(rows)
        versions = frame[frame["number"] < 0].sort_values("time_ms")
        if len(versions):
            self._versions.update((versions["time_ms"].tolist(), versions["rate"].tolist()))
        asked = frame[frame["number"] >= 0]
        if len(asked):
            starts, rates = self._versions.get() or ([], [])
            places = [bisect_right(starts, time) - 1 for time in asked["time_ms"]]
            yield pd.DataFrame(
                {
                    "number": asked["number"],
                    "value": [rates[place] if place >= 0 else None for place in places],
                }
            )

    def close(self) -> None:
        """Nothing is open."""


def count(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> Iterator[pa.Table]:
    """Count words, as columns."""
    table = pa.Table.from_batches(batches).group_by("word").aggregate([("word", "count")])
    words = table["word"].combine_chunks()
    before = pc.fill_null(get_many(stores["words"], words), 0)
    after = pc.add(before, table["word_count"].combine_chunks())
    put_many(stores["words"], pa.table({"key": words, "value": after}))
    yield pa.table({"word": words, "count": after})


class Bench:
    """One session, and the files that all queries read."""

    def __init__(self, spark: SparkSession, directory: Path, sizes: Sizes) -> None:
        self._spark = spark
        self._directory = directory
        self._sizes = sizes
        self._random = np.random.default_rng(_SEED)

    def words(self) -> list[Measured]:
        """Count words in three ways."""
        source = self._directory / "words"
        for number in range(self._sizes.batches + 1):
            chosen = self._random.integers(0, self._sizes.keys, self._sizes.rows)
            self._give(source, number, pa.table({"word": [f"word-{each}" for each in chosen]}))
        frame = self._stream(source, "word string")
        ours = stateful(
            frame,
            key="word",
            stores=[ss.KeyValue("words", key=ss.utf8, value=ss.int64)],
            function=count,
            output_schema="word string, count long",
            state=self._directory / "state",
            partitions=_PARTITIONS,
        )
        sparks = frame.groupBy("word").transformWithStateInPandas(
            statefulProcessor=Words(),
            outputStructType="word string, count long",
            outputMode="Update",
            timeMode="None",
        )
        java = frame.groupBy("word").count()
        return [
            self._run("stateful", ours.foreachBatch, skipped=1),
            self._run("transformWithStateInPandas", _updating(sparks), skipped=1),
            self._run("groupBy().count(), in Java", _updating(java), skipped=1),
        ]

    def join(self) -> list[Measured]:
        """Join in two ways."""
        sizes, keys = self._sizes, [f"key-{each}" for each in range(self._sizes.keys)]
        starts = np.sort(self._random.integers(0, _PERIOD_MS, (sizes.keys, _VERSIONS)))
        history = pa.table(
            {
                "key": np.repeat(keys, _VERSIONS),
                "time_ms": starts.ravel() // 2 * 2 + np.tile(np.arange(_VERSIONS), sizes.keys) * 2,
                "rate": self._random.random(sizes.keys * _VERSIONS),
                "number": np.full(sizes.keys * _VERSIONS, -1),
            }
        )
        both, asked = self._directory / "both", self._directory / "asked"
        self._give(both, 0, history)
        for number in range(sizes.batches + 1):
            table = pa.table(
                {
                    "key": [
                        keys[each] for each in self._random.integers(0, sizes.keys, sizes.rows)
                    ],
                    "time_ms": self._random.integers(0, _PERIOD_MS, sizes.rows),
                    "rate": pa.nulls(sizes.rows, pa.float64()),
                    "number": np.arange(sizes.rows) + number * sizes.rows,
                }
            )
            self._give(both, number + 1, table)
            self._give(asked, number, table)
        state = self._store(history)
        schema = "key string, time_ms long, rate double, number long"
        joined = temporal_join(self._stream(asked, schema), state, on="key", at="time_ms")
        sparks = (
            self._stream(both, schema)
            .groupBy("key")
            .transformWithStateInPandas(
                statefulProcessor=Rates(),
                outputStructType="number long, value double",
                outputMode="Update",
                timeMode="None",
            )
        )
        ours = joined.select("number", "value").writeStream.foreachBatch
        return [
            self._run("temporal_join", ours, skipped=1),
            self._run("transformWithStateInPandas", _updating(sparks), skipped=2),
        ]

    def _store(self, history: pa.Table) -> Path:
        """Return a state root with *history* in a versioned store."""
        state = ss.StateRoot.create(self._directory / "rates")
        rates = ss.Versioned(
            "rates", history_retention_ms=10 * _PERIOD_MS, key=ss.utf8, value=ss.float64
        )
        entry = state.add_store(rates, partitions=_PARTITIONS)
        rows = history.select(["key", "rate", "time_ms"]).rename_columns(
            ["key", "value", "valid_from"]
        )
        chosen = partitioner_by_name(entry.specification.partitioner).partition_array(
            rows["key"].combine_chunks().cast(pa.binary()), _PARTITIONS
        )
        for number in range(_PARTITIONS):
            with ss.open_logged_store(state, "rates", number, backend="memory") as store:
                own = rows.filter(pc.equal(chosen, number))
                store.store.put_many(own["key"], own["value"], own["valid_from"])
                store.commit()
        return state.path

    def _run(self, name: str, writer_to: Callable[[Any], Any], *, skipped: int) -> Measured:
        """Run a query for all files, keeping what it gives."""
        results: Results = {}

        def sink(frame: DataFrame, number: int) -> None:
            table = frame.toArrow()
            keys, values = (column.to_pylist() for column in table.columns)
            results.update(zip(keys, values, strict=True))

        checkpoint = Path(tempfile.mkdtemp(dir=self._directory))
        writer = writer_to(sink).option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        times = [
            each["durationMs"]["triggerExecution"]
            for each in query.recentProgress
            if each["numInputRows"]
        ][skipped:]
        return Measured(
            name=name,
            rows_per_s=len(times) * self._sizes.rows / sum(times) * 1_000,
            latency_ms=median(times),
            results=results,
        )

    def _give(self, directory: Path, number: int, table: pa.Table) -> None:
        """Write a file, which becomes a micro-batch."""
        directory.mkdir(exist_ok=True)
        file = directory / f"{number:04d}.parquet"
        pq.write_table(table, file)
        os.utime(file, (1_000_000 + number,) * 2)

    def _stream(self, directory: Path, schema: str) -> DataFrame:
        reader = self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(directory))


def _updating(frame: DataFrame) -> Callable[[Any], Any]:
    """Return what makes a writer of *frame* in Spark's output mode for state."""
    return lambda sink: frame.writeStream.outputMode("update").foreachBatch(sink)


def report(title: str, measured: list[Measured]) -> None:
    """Print a table, once all results are equal.

    Raises:
        SystemExit: The results differ.
    """
    first = measured[0]
    for each in measured[1:]:
        if each.results != first.results:
            raise SystemExit(f"{title}: {each.name} gives other results than {first.name}")
    print(f"\n{title}: {len(first.results):,} equal results\n")
    print("| | rows/s | of the first | median ms of a micro-batch |")
    print("|---|---|---|---|")
    for each in measured:
        ratio = each.rows_per_s / first.rows_per_s
        print(f"| {each.name} | {each.rows_per_s:,.0f} | {ratio:.4f} | {each.latency_ms:,.0f} |")


def main(
    *,
    rows: Annotated[int, typer.Option(help="Rows of a micro-batch.")] = 20_000,
    keys: Annotated[int, typer.Option(help="Different keys.")] = 5_000,
    batches: Annotated[int, typer.Option(help="Measured micro-batches.")] = 3,
) -> None:
    """Compare stateful processing with Spark's, in one run."""
    ensure_java()
    spark = (
        SparkSession.builder.master(f"local[{_PARTITIONS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(_PARTITIONS))
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    sizes = Sizes(rows=rows, keys=keys, batches=batches)
    with tempfile.TemporaryDirectory(prefix="statestores-bench-") as directory:
        bench = Bench(spark, Path(directory), sizes)
        print(f"{rows:,} rows a micro-batch, {keys:,} keys, {batches} measured micro-batches")
        report("Word count", bench.words())
        report(f"As-of join with {_VERSIONS} versions a key", bench.join())
        spark.stop()


if __name__ == "__main__":
    typer.run(main)
