"""One write and one read on a cluster of two executors, one of which dies while it writes.

Run as a program: ROOT DIRECTORY OPTIONS, these as JSON. It is short enough for every run, and waits
for nothing itself: the executor is killed by its own task, at a step of it, and there is no stream,
since the Python of a streaming source must start within ten seconds, which nobody can set.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import object_cluster
import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from statestores import failpoints
from statestores.spark.source.source import StateStoresDataSource
from statestores.spark.source.writer import StateStoreWriter

ROWS = 100
DYING = 1
"""The task whose first attempt kills its executor."""


class DyingWriter(StateStoreWriter):
    """A writer of which one task kills its executor when it has staged its rows."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows, and die before the driver hears of them, the first time."""
        context = TaskContext.get()
        if context is not None and context.partitionId() == DYING and not context.attemptNumber():
            failpoints.arm("objects.staged", kill_executor)
        return super().write(iterator)


class DyingSource(StateStoresDataSource):
    """The data source with that writer."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "dying"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer."""
        writer = super().writer(schema, overwrite)
        writer.__class__ = DyingWriter
        return writer


def kill_executor() -> None:
    """Kill the Java that has started the daemon that this worker was forked from."""
    listing = subprocess.run(
        ["ps", "-o", "ppid=", "-p", str(os.getppid())],  # noqa: S607  # of this machine
        capture_output=True,
        text=True,
        check=True,
    )
    os.kill(int(listing.stdout), signal.SIGKILL)


def main(root: str, directory: str, text: str) -> None:
    """Write and read."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # Spark's
    options: dict[str, str] = json.loads(text)
    spark = object_cluster.session(object_cluster.Life(rows=ROWS, executors=2), Path(directory))
    spark.dataSource.register(DyingSource)
    words = spark.range(0, ROWS, 1, 2).selectExpr("CAST(id AS string) AS key", "id AS value")
    writer = words.write.format("dying").mode("append").options(storeName="words", **options)
    writer.option("numPartitions", 2).save(root)
    reader = spark.read.format("statestores").options(storeName="words", **options)
    found = {row.key: row.value for row in reader.load(root).collect()}
    assert found == {str(number): number for number in range(ROWS)}
    application = spark.sparkContext.applicationId
    spark.stop()
    # The home is that of all tests, whose archive of classes fits no other.
    shutil.rmtree(Path(os.environ["SPARK_HOME"]) / "work" / application, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
