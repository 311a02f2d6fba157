"""Words to count, as a stream of files, and a count of them that any test can judge.

Sent to Spark's workers by value, since they cannot import it.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import statestores as ss
from statestores.arrow import get_many, put_many
from statestores.spark import OpenStores, StatefulStream, stateful

COLUMNS = "word string, note string"
EMITTED = "word string, count long"

STORE = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)

SEEN = ss.TimestampedKeyValue("seen", key=ss.utf8, value=ss.int64)
"""The count of a word, and the number of the micro-batch that it is from."""


def give_words(directory: Path, number: int, words: Sequence[str | None]) -> None:
    """Add a file to the stream, which becomes its micro-batch *number*."""
    directory.mkdir(exist_ok=True)
    file = directory / f"{number:04d}.json"
    part = file.with_name(f"_{number}")
    part.write_text(
        "".join(json.dumps({"word": word, "note": None}) + "\n" for word in words), "utf-8"
    )
    os.utime(part, (1_000_000 + number,) * 2)
    part.rename(file)


def stream_of(spark: SparkSession, directory: Path) -> DataFrame:
    """Return the files as a stream, one of them a micro-batch."""
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(str(directory))


def counted(directory: Path, last_files: Sequence[int] | None = None) -> list[dict[str, int]]:
    """Return what `count` emits in each micro-batch: the words of its files, and their counts.

    A micro-batch is a file, or goes to the one in *last_files*.
    """
    totals: Counter[str] = Counter()
    emitted, words = [], list[str]()
    for number, file in enumerate(sorted(directory.glob("*.json"))):
        words += [json.loads(line)["word"] for line in file.read_text("utf-8").splitlines()]
        if last_files is None or number in last_files:
            totals.update(words)
            emitted.append({word: totals[word] for word in words})
            words = []
    assert words == [], "the last files are in no micro-batch"
    return emitted


def last_files_of(checkpoint: Path) -> list[int]:
    """Return the number of the last file in each micro-batch, as Spark has planned them.

    One file each, but for a driver that dies when Spark has noted a file and not its micro-batch
    yet: the next driver notes one more and takes both.
    """
    plans = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [json.loads(plan.read_text("utf-8").splitlines()[-1])["logOffset"] for plan in plans]


def count(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> Iterator[pa.Table]:
    """Count words; emit those of the micro-batch with their counts so far."""
    table = pa.Table.from_batches(batches).group_by("word").aggregate([("word", "count")])
    words = table["word"].combine_chunks()
    before = pc.fill_null(get_many(stores["counts"], words), 0)
    after = pc.add(before, table["word_count"].combine_chunks())
    put_many(stores["counts"], pa.table({"key": words, "value": after}))
    yield pa.table({"count": after, "word": words})


def count_since(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> Iterator[pa.Table]:
    """Do as `count`, and add 1,000 times the number of the micro-batch that had the word last."""
    for table in count(batches, stores):
        emitted = []
        for row in table.to_pylist():
            seen = stores["seen"].get(row["word"])
            emitted.append(row["count"] + (0 if seen is None else 1_000 * seen.timestamp_ms))
            stores["seen"].put(row["word"], row["count"], stores.batch)
        yield pa.table({"count": pa.array(emitted, pa.int64()), "word": table["word"]})


def word_count(frame: DataFrame, place: Path, **options: Any) -> StatefulStream:
    """Return the stream of counts; *options* replace arguments of `stateful`."""
    return stateful(
        frame,
        **{
            "key": "word",
            "stores": [STORE],
            "function": count,
            "output_schema": EMITTED,
            "state": place,
            "partitions": 2,
            "local_directory": place.with_name("local"),
            **options,
        },
    )


class Files:
    """A sink: what each micro-batch has emitted, in a file that is replaced when it comes again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Replace what there is of the micro-batch."""
        rows = [row.asDict() for row in frame.collect()]
        temporary = self.directory / f"_{number}"
        temporary.write_text(json.dumps(rows), "utf-8")
        temporary.replace(self.directory / f"{number:04d}.json")

    def rows(self) -> list[list[dict[str, Any]]]:
        """Return the rows of each micro-batch."""
        return [json.loads(file.read_text("utf-8")) for file in sorted(self.directory.glob("0*"))]

    def counts(self) -> list[dict[str, int]]:
        """Return what was counted in each micro-batch; no word may be there twice."""
        batches = [[(row["word"], row["count"]) for row in rows] for rows in self.rows()]
        assert [len(dict(batch)) for batch in batches] == [len(batch) for batch in batches]
        return [dict(batch) for batch in batches]


def start(stream: StatefulStream, checkpoint: Path, sink: Any = None) -> StreamingQuery:
    """Start the query for all that there is now."""
    writer = stream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()


def state_of(root: Path, store: str = "counts") -> dict[Any, Any]:
    """Return the content of a store, read from its files."""
    from statestores.reading.partition_reader import PartitionReader  # noqa: PLC0415  # not for workers

    state = ss.StateRoot.open(root)
    entry = state.store(store)
    return {
        row["key"]: row["value"]
        for number in range(entry.partitions)
        for batch in PartitionReader(state.partition(store, number), entry.specification).rows()
        for row in batch.to_pylist()
    }
