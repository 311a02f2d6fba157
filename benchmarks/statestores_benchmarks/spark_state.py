"""``python -m statestores_benchmarks.spark_state``: a store as a Spark checkpoint, and back.

Rates are in rows a second: of elapsed time, and of this process's processor time where it does the
work itself. Spark's source reads in the JVM, with as many tasks at a time as there are partitions.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
import pyarrow as pa
import typer
from pyspark.sql import SparkSession

import statestores as ss
from statestores.changelog import change_schema
from statestores.migration import export_spark_checkpoint
from statestores.spark import ensure_java
from statestores.spark.state.importing import import_spark_state
from statestores.staging.staged_write import publish, stage
from statestores_benchmarks.data import SEED

PARTITIONS = 2
VALUE_BYTES = 100
_BATCH_ROWS = 100_000

T = TypeVar("T")


def main(
    *,
    rows: Annotated[int, typer.Option(min=1, help="Rows of the store.")] = 1_000_000,
    rounds: Annotated[int, typer.Option(min=1, help="Times; the best one counts.")] = 3,
) -> None:
    """Export a key-value store, read it with Spark's own source, and import it again."""
    specification = ss.KeyValue("rows", key=ss.utf8)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        root = ss.StateRoot.create(place / "state")
        root.add_store(specification, partitions=PARTITIONS)
        staged = stage(root.path, specification, PARTITIONS, "write", "task", _changes(rows))
        publish(root, "rows", "write", [staged])
        spark = _session()
        try:
            for number in range(rounds):
                checkpoint = place / f"checkpoint-{number}"
                _measured(
                    "export",
                    rows,
                    lambda to=checkpoint: export_spark_checkpoint(root, "rows", to),  # type: ignore[misc]
                )
                state = spark.read.format("statestore").load(str(checkpoint))
                _measured("Spark's read", rows, state.write.format("noop").mode("overwrite").save)
                _measured(
                    "import, compared",
                    rows,
                    lambda source=checkpoint, to=place / f"copy-{number}": (  # type: ignore[misc]
                        import_spark_state(spark, source, to)
                    ),
                )
        finally:
            spark.stop()


def _changes(rows: int) -> Iterator[pa.RecordBatch]:
    """Yield puts of keys of 16 bytes, with random values of letters."""
    randomness = np.random.default_rng(SEED)
    for start in range(0, rows, _BATCH_ROWS):
        count = min(_BATCH_ROWS, rows - start)
        keys = pa.array([f"key-{number:012d}" for number in range(start, start + count)])
        letters = randomness.integers(32, 96, count * VALUE_BYTES, dtype=np.uint8)
        ends = np.arange(count + 1, dtype=np.int32) * VALUE_BYTES
        values = pa.Array.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(letters)]
        )
        yield pa.RecordBatch.from_arrays(
            [keys.cast(pa.binary()), values], schema=change_schema("key-value")
        )


def _session() -> SparkSession:
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master(f"local[{PARTITIONS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("FATAL")
    return session


def _measured(what: str, rows: int, action: Callable[[], T]) -> T:
    """Return what *action* returns; print how fast it was."""
    began, worked = time.perf_counter(), time.process_time()
    result = action()
    elapsed, work = time.perf_counter() - began, time.process_time() - worked
    print(f"{what:<17} {rows / elapsed / 1e6:6.2f} M rows/s, {work * 1e6 / rows:6.2f} CPU s/M rows")
    return result


if __name__ == "__main__":
    typer.run(main)
