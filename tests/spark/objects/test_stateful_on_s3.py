"""Stateful functions and topologies of Spark whose state is in an object store."""

import json
import os
import random
from pathlib import Path
from typing import Any

import killed_stateful_driver
import pytest
import stateful_words
import topology_words
from killed_processes import end_a_program
from killed_stateful_driver import SINK
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from s3 import SECRET, Bucket
from stateful_words import (
    SEEN,
    STORE,
    Files,
    count_since,
    counted,
    give_words,
    last_files_of,
    stream_of,
    word_count,
)
from store_streams import run

import statestores as ss
from statestores import failpoints
from statestores.reading.partition_reader import PartitionReader
from statestores.resharding import reshard
from statestores.spark import reshard as reshard_by_spark
from statestores.spark.given_root import GivenRoot

STEPS = (
    "objects.staged",
    "operator.staged",
    "operator.claimed",
    "operator.committed",
    "operator.carried-out",
    SINK,
)

KILLS = int(os.environ.get("STATESTORES_SOAK_KILLS", "18"))


def storage_options(bucket: Bucket) -> dict[str, Any]:
    """Return how Spark's tasks reach *bucket*."""
    shown = bucket.spark_options
    return {**json.loads(shown["storageOptions"]), **json.loads(shown["storageSecrets"])}


def content_of(bucket: Bucket, store: str, place: str = "") -> dict[Any, Any]:
    """Return what is in *store*, whose root is at *place* below that of the bucket."""
    url = f"{bucket.root}/{place}".rstrip("/")
    root = GivenRoot.of(url, storage_options(bucket))
    entry = root.open().store(store)
    places = [
        root.partition(entry.specification, entry.partitions, number)
        for number in range(entry.partitions)
    ]
    return {
        row["key"]: row["value"]
        for place in places
        for batch in PartitionReader(place, entry.specification).rows()
        for row in batch.to_pylist()
    }


@pytest.mark.soak
@pytest.mark.spec("OBJ-43", "OBJ-44")
@pytest.mark.timeout(3 * 3600)
def test_drivers_that_are_killed_between_two_steps(bucket: Bucket, tmp_path: Path) -> None:
    """At each step of a commit, in turn, while words go on coming, and the log is tidied up."""
    rng, kills, files = random.Random(), 0, 0
    state = json.dumps({"state": bucket.root, "storage_options": storage_options(bucket)})
    places = [str(tmp_path / "words"), state, str(tmp_path / "out"), str(tmp_path / "checkpoint")]
    for life in range(KILLS):
        for _ in range(3):
            words = [f"w{rng.randrange(200)}" for _ in range(rng.randrange(300))]
            give_words(tmp_path / "words", files, words)
            files += 1
        dying = [STEPS[life % len(STEPS)], str(rng.randint(1, 3)), str(tmp_path / f"died-{life}")]
        kills += end_a_program(killed_stateful_driver, tmp_path / "log", *places, *dying)
        if life % 3 == 1:
            log = ss.StateRoot.open(bucket.root, storage_options=bucket.options)
            log.object_log("counts").compact()
            log.object_log("counts").vacuum(abandoned_after_ms=-60_000)
    assert not end_a_program(killed_stateful_driver, tmp_path / "log", *places)

    truth = counted(tmp_path / "words", last_files_of(tmp_path / "checkpoint"))
    assert kills >= KILLS // 2
    assert Files(tmp_path / "out").counts() == truth
    assert content_of(bucket, "counts") == {
        word: number for batch in truth for word, number in batch.items()
    }


@pytest.mark.long
@pytest.mark.spec("OBJ-43", "OBJ-44", "OBJ-27", "SPK-2")
@pytest.mark.timeout(600)
def test_words_are_counted_once(
    spark: SparkSession, bucket: Bucket, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A function, whose driver fails when it has committed and before its sink; and a topology."""
    for module in (stateful_words, topology_words):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # Spark's
    for number in range(2):
        give_words(tmp_path / "words", number, ["a", "b", "ä"])
    options = storage_options(bucket)
    with subtests.test("stateful"):
        stream = word_count(
            stream_of(spark, tmp_path / "words"),
            tmp_path,
            state=bucket.root,
            storage_options=options,
        )
        files = Files(tmp_path / "out")

        def fail() -> None:
            raise OSError(SINK)

        failpoints.arm("operator.committed", fail, at=1)
        try:
            with pytest.raises(StreamingQueryException) as failure:
                run(stateful_words.start(stream, tmp_path / "checkpoint", files))
        finally:
            failpoints.disarm()
        assert SECRET not in str(failure.value)
        assert files.counts() == []
        assert content_of(bucket, "counts") == {"a": 1, "b": 1, "ä": 1}
        run(stateful_words.start(stream, tmp_path / "checkpoint", files))
        assert files.counts() == counted(tmp_path / "words")
        assert content_of(bucket, "counts") == {"a": 2, "b": 2, "ä": 2}
    with subtests.test("a topology"):
        counts = topology_words.LastCounts(tmp_path / "counts")
        query = topology_words.start(
            spark,
            stream_of(spark, tmp_path / "words"),
            tmp_path / "topology",
            tmp_path / "checkpoint-2",
            counts,
            state=f"{bucket.root}/topology",
            storage_options=options,
        )
        run(query)
        assert counts.counts() == [{"a": 1, "b": 1, "ä": 1}, {"a": 2, "b": 2, "ä": 2}]


@pytest.mark.long
@pytest.mark.spec("RSH-1", "RSH-19", "RSH-20", "RSH-21", "OBJ-51")
@pytest.mark.timeout(600)
def test_its_stores_are_resharded_while_it_is_stopped(
    spark: SparkSession, bucket: Bucket, tmp_path: Path
) -> None:
    """By this process and by Spark's tasks: it emits and keeps what one does that never was.

    The last time its driver had died when both stores had their micro-batch, and its sink had not.
    """
    cloudpickle.register_pickle_by_value(stateful_words)  # type: ignore[no-untyped-call]  # Spark's
    options, words = storage_options(bucket), tmp_path / "words"

    def go_on(name: str, partitions: int | None = None) -> Files:
        """Run the query *name* until it has counted all words; return what it has emitted."""
        stream = word_count(
            stream_of(spark, words),
            tmp_path / name / "state",
            stores=[STORE, SEEN],
            function=count_since,
            state=f"{bucket.root}/{name}",
            storage_options=options,
            partitions=partitions,
        )
        (tmp_path / name).mkdir(exist_ok=True)
        files = Files(tmp_path / name / "out")
        run(stateful_words.start(stream, tmp_path / name / "checkpoint", files))
        return files

    def move(how: Any, partitions: int) -> None:
        root = GivenRoot.of(f"{bucket.root}/moved", options).open()
        for store in (STORE.name, SEEN.name):
            if how is reshard:
                reshard(root, store, partitions)
            else:
                how(spark, f"{bucket.root}/moved", store, partitions, storage_options=options)

    def die() -> None:
        raise OSError(SINK)

    give_words(words, 0, ["a", "b", "ä", "日本", "a"])
    go_on("moved", 2)
    move(reshard, 3)
    give_words(words, 1, ["a", "c", "", "ä"])
    go_on("moved")
    move(reshard_by_spark, 1)
    for number in (2, 3):
        give_words(words, number, ["a", "日本", "d"])
        if number == 2:
            go_on("moved")
    failpoints.arm("operator.carried-out", die, at=1)
    try:
        with pytest.raises(StreamingQueryException):
            go_on("moved")
    finally:
        failpoints.disarm()
    move(reshard_by_spark, 4)
    moved = go_on("moved")
    kept = go_on("kept", 2)

    truth = counted(words)
    assert moved.counts() == kept.counts()
    assert [{word: n % 1_000 for word, n in each.items()} for each in moved.counts()] == truth
    for store in (STORE.name, SEEN.name):
        found = content_of(bucket, store, "moved")
        assert found == content_of(bucket, store, "kept")
        assert found == {word: number for batch in truth for word, number in batch.items()}
