"""A driver that runs a topology of three parts, to be killed between two of them.

Run as a program: WORDS STATE OUTPUT CHECKPOINT [FAILPOINT AT MARKER]. With a failpoint the driver
kills its Java and itself there, if there is no file MARKER yet.
"""

import sys
from pathlib import Path

import stateful_words
import topology_words
from driver_session import dying_once, started
from pyspark import cloudpickle

from statestores import failpoints


def main(arguments: list[str]) -> None:
    """Count all words that there are, if nothing comes in between."""
    cloudpickle.register_pickle_by_value(topology_words)  # type: ignore[no-untyped-call]  # Spark's
    spark = started(
        spark__sql__shuffle__partitions="2", spark__sql__streaming__minBatchesToRetain="10000"
    )
    words, state, output, checkpoint = map(Path, arguments[:4])
    step, at, marker = arguments[4:] or ("", "1", "")

    die = dying_once(spark, marker)
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
