"""A driver that runs a topology of three parts, to be killed between two of them.

Run as a program: WORDS STATE OUTPUT CHECKPOINT [FAILPOINT AT MARKER]. With a failpoint the driver
kills its Java and itself there, if there is no file MARKER yet.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import stateful_words
import topology_words
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from statestores import failpoints
from statestores.spark import ensure_java


def main(arguments: list[str]) -> None:
    """Count all words that there are, if nothing comes in between."""
    ensure_java()
    cloudpickle.register_pickle_by_value(topology_words)  # type: ignore[no-untyped-call]  # Spark's
    spark = (
        # On a busy machine one task may be killed many times, which is no failure of ours.
        SparkSession.builder.master("local[2,40]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.codegen.wholeStage", "false")
        # Each life of the program would import what its workers need once for each of them.
        .config("spark.python.daemon.module", "statestores.spark.worker_daemon")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.minBatchesToRetain", "10000")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    words, state, output, checkpoint = map(Path, arguments[:4])
    step, at, marker = arguments[4:] or ("", "1", "")

    def die() -> None:
        if not Path(marker).exists():
            Path(marker).touch()
            java: Any = spark.sparkContext._gateway  # no other way
            os.kill(java.proc.pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    stream = stateful_words.stream_of(spark, words)
    if step:
        failpoints.arm(step, die, at=int(at))
    query = topology_words.start(
        spark, stream, state, checkpoint, topology_words.LastCounts(output)
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
