"""Counting words of a stream with a store that outlives query, machine and local disk.

    python examples/stateful_word_count/word_count.py

Lines arrive as files. The counts are in a state root, where anybody can read them, and what each
micro-batch has emitted is in Parquet files, each row once, whatever fails and is repeated.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import explode, split

import statestores as ss
from statestores.arrow import get_many, put_many
from statestores.spark import OpenStores, ensure_java, stateful

LINES = ("to be or not to be", "that is the question", "to sleep to dream")


def count(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> Iterator[pa.Table]:
    """Add the words of a micro-batch to the counts, and emit those that have changed."""
    table = pa.Table.from_batches(batches).group_by("word").aggregate([("word", "count")])
    words = table["word"].combine_chunks()
    before = pc.fill_null(get_many(stores["counts"], words), 0)
    after = pc.add(before, table["word_count"].combine_chunks())
    put_many(stores["counts"], pa.table({"key": words, "value": after}))
    yield pa.table({"word": words, "count": after})


def run(spark: SparkSession, directory: Path) -> dict[str, int]:
    """Count the words of all lines that there are now; return all counts."""
    lines = spark.readStream.text(str(directory / "lines"))
    counts = stateful(
        lines.select(explode(split("value", " ")).alias("word")),
        key="word",
        stores=[ss.KeyValue("counts", key=ss.utf8, value=ss.int64)],
        function=count,
        output_schema="word string, count long",
        state=directory / "state",
        local_directory=directory / "local",
    )

    def to_parquet(emitted: DataFrame, number: int) -> None:
        # Replaced when the micro-batch comes again, with the same rows.
        path = directory / "changes" / f"batch={number}"
        emitted.write.mode("overwrite").parquet(str(path))

    query = (
        counts.foreachBatch(to_parquet)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    state = spark.read.format("statestores").load(str(directory / "state"))
    return {row.key: row.value for row in state.collect()}


def main(spark: SparkSession, directory: Path) -> None:
    """Count, lose the local disk, and count on."""
    lines = directory / "lines"
    lines.mkdir(parents=True)
    (lines / "0.txt").write_text(LINES[0] + "\n")
    print(f"after the first line: {run(spark, directory)}")
    shutil.rmtree(directory / "local")  # copies only
    for number, line in enumerate(LINES[1:], start=1):
        (lines / f"{number}.txt").write_text(line + "\n")
    print(f"after all lines: {run(spark, directory)}")
    changes = spark.read.parquet(str(directory / "changes"))
    print(f"counts of 'to', as they were emitted: {_counts_of(changes, 'to')}")


def _counts_of(changes: DataFrame, word: str) -> list[int]:
    rows = changes.where(changes.word == word).orderBy("batch").collect()
    return [row["count"] for row in rows]


if __name__ == "__main__":
    ensure_java()
    session = SparkSession.builder.master("local[2]").getOrCreate()
    with tempfile.TemporaryDirectory() as temporary:
        main(session, Path(temporary))
    session.stop()
