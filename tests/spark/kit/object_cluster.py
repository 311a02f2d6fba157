"""A small cluster whose executors share an object store and nothing else, to be killed.

Run as a program: ROOT CHECKPOINT OPTIONS, these as JSON. It writes a store, reads it, and begins to
copy its changes into another one, so many rows a micro-batch. Then it kills an executor, another
one, and in the end itself and its Java.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from statestores.spark import ensure_java

ROWS = 240
ROWS_AT_ONCE = 20
EXECUTORS_DIE_AFTER = (2, 4)
"""Micro-batches after which an executor is killed."""

DRIVER_DIES_AFTER = 6
_PAUSE_SECONDS = 0.02
_LONGEST_SECONDS = 240


def environment(home: Path) -> dict[str, str]:
    """Return the environment of the program, whose working directories are below *home*."""
    home.mkdir()
    for name in ("bin", "jars", "python"):
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    return os.environ | {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def copy(
    spark: SparkSession, root: str, checkpoint: str, options: dict[str, str]
) -> StreamingQuery:
    """Start to copy the changes of ``words`` into ``copies``."""
    return (
        spark.readStream.format("statestores")
        .options(storeName="words", readChangeFeed="true", maxRecordsPerTrigger=ROWS_AT_ONCE)
        .options(**options)
        .load(root)
        .select("key", "value")
        .writeStream.format("statestores")
        .options(storeName="copies", numPartitions=2, **options)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(root)
    )


def executors() -> list[int]:
    """Return the processes of the executors of this program."""
    listing = subprocess.run(
        ["ps", "-eo", "pid,ppid,args"],  # noqa: S607  # of this machine
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split(None, 2) for line in listing.stdout.splitlines()[1:]]
    family, before = {os.getpid()}, 0
    while len(family) > before:
        before = len(family)
        family |= {int(pid) for pid, parent, _ in rows if int(parent) in family}
    return [int(pid) for pid, _, args in rows if int(pid) in family and _BACKEND in args]


def _executor() -> int:
    """Return one of them; the cluster may just be starting it."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not (found := executors()):
        assert time.monotonic() < deadline
        time.sleep(_PAUSE_SECONDS)
    return found[0]


_BACKEND = "CoarseGrainedExecutorBackend"


def _wait_for(query: StreamingQuery, batches: int) -> None:
    deadline = time.monotonic() + _LONGEST_SECONDS
    while (query.lastProgress or {"batchId": -1})["batchId"] < batches:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline
        time.sleep(_PAUSE_SECONDS)


def main(root: str, checkpoint: str, text: str) -> None:
    """Write, read, copy, and die."""
    options: dict[str, Any] = json.loads(text)
    ensure_java()
    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.executor.memory", "1024m")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.task.maxFailures", "8")
        .config("spark.deploy.maxExecutorRetries", "-1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    rows = spark.range(ROWS).selectExpr("CAST(id AS string) AS key", "id AS value")
    writer = rows.repartition(2).write.format("statestores").mode("append")
    writer.options(storeName="words", numPartitions=2, **options).save(root)
    words = spark.read.format("statestores").options(storeName="words", **options).load(root)
    assert sorted(row.value for row in words.collect()) == list(range(ROWS))
    print("written and read", flush=True)  # noqa: T201  # the test shows it when this fails
    query = copy(spark, root, checkpoint, options)
    for batches in EXECUTORS_DIE_AFTER:
        _wait_for(query, batches)
        os.kill(_executor(), signal.SIGKILL)
    _wait_for(query, DRIVER_DIES_AFTER)
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
