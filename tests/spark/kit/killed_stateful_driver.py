"""A driver that counts words with a stateful function, to be killed while it does.

Run as a program: WORDS STATE OUTPUT CHECKPOINT [FAILPOINT AT MARKER]. With a failpoint the driver
kills its Java and itself there, if there is no file MARKER yet; the failpoint `SINK` is where a
micro-batch is committed and its sink has not begun. STATE is a directory, or JSON: the arguments of
`stateful` that say where else state is, among them ``state``.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import stateful_words
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from store_streams import run

from statestores import failpoints
from statestores.spark import ensure_java

SINK = "sink"


def main(arguments: list[str]) -> None:
    """Count all words that there are, if nothing comes in between."""
    ensure_java()
    cloudpickle.register_pickle_by_value(stateful_words)  # type: ignore[no-untyped-call]  # Spark's
    spark = (
        # On a busy machine one task may be killed many times, which is no failure of ours.
        SparkSession.builder.master("local[2,40]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.codegen.wholeStage", "false")
        # Each life of the program would import what its workers need once for each of them.
        .config("spark.python.daemon.module", "statestores.spark.worker_daemon")
        # What each micro-batch was made of is judged by the checkpoint, which forgets all but 100.
        .config("spark.sql.streaming.minBatchesToRetain", "10000")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    words, output, checkpoint = map(Path, (arguments[0], *arguments[2:4]))
    in_objects = arguments[1].startswith("{")
    state = output.with_name("state") if in_objects else Path(arguments[1])
    options = json.loads(arguments[1]) if in_objects else {}
    files = stateful_words.Files(output)
    step, at, marker = arguments[4:] or ("", "1", "")

    def die() -> None:
        if not Path(marker).exists():
            Path(marker).touch()
            java: Any = spark.sparkContext._gateway  # no other way
            os.kill(java.proc.pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    def sink(frame: DataFrame, number: int) -> None:
        if step == SINK and number >= int(at):
            die()
        files(frame, number)

    if step not in {"", SINK}:
        failpoints.arm(step, die, at=int(at))
    stream = stateful_words.word_count(stateful_words.stream_of(spark, words), state, **options)
    run(stateful_words.start(stream, checkpoint, sink))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
