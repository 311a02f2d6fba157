"""Cases in Spark that take turns: how they are run, compared and shown."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession
from rich.table import Table

from statestores.spark import ensure_java
from statestores_benchmarks.spark.bare_source import BareSource
from statestores_benchmarks.spark.rows import PARTITIONS
from statestores_benchmarks.turns import turns

Timed = Callable[[], object]
"""What is timed. Where it returns a ``float``, that is its time in seconds, and the rest was
preparation."""


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


def session(scratch: Path, more: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """Return Spark with two threads, and state in RocksDB; *scratch* is for what it leaves."""
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    built = (
        SparkSession.builder.master(f"local[{PARTITIONS}]")
        .appName("statestores reading")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", str(PARTITIONS))
        .config("spark.sql.streaming.stateStore.providerClass", provider)
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.ui.showConsoleProgress", "false")
        .config(map=dict(more))
        .getOrCreate()
    )
    built.sparkContext.setLogLevel("ERROR")
    built.dataSource.register(BareSource)
    return built


def run(frame: DataFrame) -> None:
    """Read all of *frame*."""
    frame.write.format("noop").mode("overwrite").save()


def require_equal(one: DataFrame, other: DataFrame) -> None:
    """Compare the number and content of rows by sums that do not depend on their order."""
    sums = ["count(*)", "sum(xxhash64(key, value) % 1000000007)", "sum(length(value))"]
    found = [frame.selectExpr(*sums).head() for frame in (one, other)]
    if found[0] != found[1]:
        raise SystemExit(f"the rows differ: {found[0]} and {found[1]}")


def measured(comparison: Comparison, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each case in each round; the first round is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in comparison.cases}
    for number in range(rounds + 1):
        for name, timed in turns(comparison.title, number - 1, list(comparison.cases.items())):
            began = time.perf_counter()
            own = timed()
            took = time.perf_counter() - began
            if number:
                seconds[name].append(own if isinstance(own, float) else took)
    return seconds


def table(comparison: Comparison, seconds: dict[str, list[float]]) -> Table:
    """Return what was measured, to be printed."""
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
