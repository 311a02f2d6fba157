"""A driver that counts words with a stateful function, to be killed while it does.

Run as a program: WORDS STATE OUTPUT CHECKPOINT [FAILPOINT AT MARKER]. With a failpoint the driver
kills its Java and itself there, if there is no file MARKER yet; the failpoint `SINK` is where a
micro-batch is committed and its sink has not begun. STATE is a directory, or JSON: the arguments of
`stateful` that say where else state is, among them ``state``.
"""

import json
import sys
from pathlib import Path

import stateful_words
from driver_session import dying_once, started
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from store_streams import run

from statestores import failpoints

SINK = "sink"


def main(arguments: list[str]) -> None:
    """Count all words that there are, if nothing comes in between."""
    cloudpickle.register_pickle_by_value(stateful_words)  # type: ignore[no-untyped-call]  # Spark's
    # What each micro-batch was made of is judged by the checkpoint, which forgets all but 100.
    spark = started(spark__sql__streaming__minBatchesToRetain="10000")
    words, output, checkpoint = map(Path, (arguments[0], *arguments[2:4]))
    in_objects = arguments[1].startswith("{")
    state = output.with_name("state") if in_objects else Path(arguments[1])
    options = json.loads(arguments[1]) if in_objects else {}
    files = stateful_words.Files(output)
    step, at, marker = arguments[4:] or ("", "1", "")

    die = dying_once(spark, marker)

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
