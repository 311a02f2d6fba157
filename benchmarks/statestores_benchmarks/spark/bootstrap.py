"""``python -m statestores_benchmarks.spark.bootstrap``: a store's first rows, as snapshots.

The same rows, by ranges of keys, are written into a new store with ``snapshot=auto`` and as
Parquet, in turns, and what the largest of Spark's Python processes had at its peak is printed:
tasks sort what they write, within a bound. Rows come from a Parquet file that is written first, so
both sides read the same.
"""

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import psutil
import typer
from rich.console import Console

from statestores_benchmarks.memory_probe import memory_of
from statestores_benchmarks.spark.comparison import (
    Comparison,
    measured,
    require_equal,
    session,
    table,
)
from statestores_benchmarks.spark.rows import parquet_of

_RANGES = 4
_PAUSE_S = 0.25


def main(
    *,
    rows: Annotated[int, typer.Option(help="Rows that are written.")] = 20_000_000,
    rounds: Annotated[int, typer.Option(help="Measured rounds; one more warms up.")] = 2,
    heap: Annotated[str, typer.Option(help="Spark's heap.")] = "512m",
    data: Annotated[Path | None, typer.Option(help="Where the Parquet file is kept.")] = None,
) -> None:
    """Measure how long a store takes to be filled by snapshots, in ratios within one run."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="statestores-bootstrap-") as temporary:
        scratch = Path(temporary)
        spark = session(scratch, {"spark.driver.memory": heap})
        source = spark.read.parquet(str(parquet_of(data or scratch, rows)))
        ranges = source.repartitionByRange(_RANGES, "key")
        root, parquet = scratch / "store", scratch / "parquet"

        def ours() -> None:
            shutil.rmtree(root, ignore_errors=True)
            options = {"storeName": "s", "numPartitions": str(_RANGES), "snapshot": "auto"}
            ranges.write.format("statestores").options(**options).mode("append").save(str(root))

        def theirs() -> None:
            ranges.write.mode("overwrite").parquet(str(parquet))

        comparison = Comparison(
            title="the first rows of a store as snapshots, against Parquet, ranges of keys",
            rows=rows,
            cases={"statestores": ours, "parquet": theirs},
            target="at least 0.5 x the rows/s",
        )
        with _peaks() as peaks:
            console.print(table(comparison, measured(comparison, rounds)))
        most = sorted(peaks.values(), reverse=True)[:_RANGES]
        console.print(f"peaks of Python processes, MiB: {', '.join(map(str, most))}")
        require_equal(spark.read.format("statestores").load(str(root)), source)
        spark.stop()


@contextmanager
def _peaks() -> Iterator[dict[int, int]]:
    """Note the most memory that each Python process below this one has had, in MiB, by number."""
    peaks: dict[int, int] = {}
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_PAUSE_S):
            for each in psutil.Process().children(recursive=True):
                # It may end between the questions.
                with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                    if "python" in each.name():
                        peaks[each.pid] = memory_of(each.pid, "VmHWM") >> 20

    watching = threading.Thread(target=watch, name="peaks")
    watching.start()
    try:
        yield peaks
    finally:
        ended.set()
        watching.join()


if __name__ == "__main__":
    typer.run(main)
