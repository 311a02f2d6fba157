"""A write, a read and a reshard on a cluster of two executors, of which some die meanwhile.

Run as a program: ROOT DIRECTORY OPTIONS, these as JSON. It is short enough for every run, and waits
for nothing itself: the executor is killed by its own task, at a step of it, and there is no stream,
since the Python of a streaming source must start within ten seconds, which nobody can set. The
reshard loses an executor when a task has put a snapshot that counts, which nobody knows yet; in a
soak another one before, when a task has put some of its rows.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import object_cluster
import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from statestores import failpoints
from statestores.reading.partition_reader import PartitionReader
from statestores.resharding import reshard
from statestores.spark.given_root import GivenRoot
from statestores.spark.in_tasks import in_tasks
from statestores.spark.source.source import StateStoresDataSource
from statestores.spark.source.writer import StateStoreWriter

ROWS = 100
DYING = 1
"""The task whose first attempt kills its executor."""

PARTITIONS = 3
"""How many the words have after the reshard."""

T = TypeVar("T")


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


@dataclass(frozen=True)
class Attempted(Generic[T]):
    """Work of a reshard that says which attempt has done it."""

    work: Callable[[], T]

    failpoint: str | None
    """Where the first attempt kills its executor, if it does."""

    def __call__(self) -> tuple[int, T]:
        """Do it, if nothing comes in between."""
        context = TaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        if self.failpoint is not None and not attempt:
            failpoints.arm(self.failpoint, kill_executor)
        return attempt, self.work()


def reshard_words(spark: SparkSession, root: GivenRoot) -> None:
    """Reshard the words by tasks, of which some die."""
    is_soak = os.environ.get("STATESTORES_SOAK") == "1"
    first = "objects.reshard.exchanged" if is_soak else None
    steps = iter((first, "objects.snapshot.published"))

    def each(work: Sequence[Callable[[], T]]) -> list[T]:
        step = next(steps)
        tasks = [
            Attempted(one, step if number == DYING else None) for number, one in enumerate(work)
        ]
        done = in_tasks(spark, tasks)
        assert step is None or done[DYING][0] > 0, f"nothing has died at {step}"
        return [result for _, result in done]

    state = root.open_to_send()
    done = reshard(state, "words", PARTITIONS, keep_old=True, memory_bytes=8_000, each=each)
    assert sum(done.rows) == ROWS


def check_changes(root: GivenRoot) -> None:
    """Accept words of which each was written once."""
    entry = root.open().store("words")
    places = [root.partition(entry.specification, entry.partitions, each) for each in range(2)]
    readers = [PartitionReader(place, entry.specification) for place in places]
    keys = [key for each in readers for batch in each.changes() for key in batch["key"].to_pylist()]
    assert sorted(keys) == sorted(str(number) for number in range(ROWS))


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
    storage = {**json.loads(options["storageOptions"]), **json.loads(options["storageSecrets"])}
    given = GivenRoot.of(root, storage)
    check_changes(given)
    reshard_words(spark, given)
    found = {row.key: row.value for row in reader.load(root).collect()}
    assert found == {str(number): number for number in range(ROWS)}
    application = spark.sparkContext.applicationId
    spark.stop()
    # The home is that of all tests, whose archive of classes fits no other.
    shutil.rmtree(Path(os.environ["SPARK_HOME"]) / "work" / application, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
