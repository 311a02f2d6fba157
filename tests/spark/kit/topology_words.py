"""A topology of three parts whose results any test can judge, and its run on Spark.

Sent to Spark's workers by value, since they cannot import it.
"""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import statestores as ss
from statestores.processing import Topic, Topology
from statestores.spark import run


def counts_of_counts() -> Topology:
    """Words, their counts, and how many words there are of each count: each feeds the next."""
    text = Topology("text")
    words = text.stream(Topic("words", key=ss.utf8)).rekey(lambda record: record.key, key=ss.utf8)
    counts = words.group_by("key", key=ss.utf8).count(
        ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    )
    counts.to(Topic("word-counts", key=ss.utf8, value=ss.int64))
    counts.group_by("value", key_serde=ss.int64).count(
        ss.KeyValue("of-counts", key=ss.int64, value=ss.int64)
    )
    return text


def start(
    spark: SparkSession, words: DataFrame, place: Path, checkpoint: Path, sink: Any, **options: Any
) -> StreamingQuery:
    """Run the topology on a stream of words, as far as there are any; *options* replace `run`'s."""
    return run(
        counts_of_counts(),
        spark,
        sources={"words": words.selectExpr("word AS key", "CAST(word AS binary) AS value")},
        sinks={"word-counts": sink},
        checkpoint=checkpoint,
        partitions=2,
        trigger={"availableNow": True},
        **{"state": place, "local_directory": place.with_name("local"), **options},
    )


class LastCounts:
    """A sink: the last count of each word in a micro-batch, in a file that is replaced."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Replace what there is of the micro-batch."""
        counts: dict[str, int] = {}
        for row in frame.collect():
            counts[row.key] = max(row.value, counts.get(row.key, 0))
        temporary = self.directory / f"_{number}"
        temporary.write_text(json.dumps(counts), "utf-8")
        temporary.replace(self.directory / f"{number:04d}.json")

    def counts(self) -> list[dict[str, int]]:
        """Return what there is of each micro-batch."""
        return [json.loads(file.read_text("utf-8")) for file in sorted(self.directory.glob("0*"))]
