"""Stateful functions over streams: the state is right, and each row is emitted as it was."""

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
import stateful_words
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from stateful_words import Files, count, counted, give_words, start, state_of, stream_of, word_count
from store_streams import run

import statestores as ss
from statestores import failpoints
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    StoreMismatchError,
    StoreNotFoundError,
)
from statestores.spark import OpenStores

WORDS = ["a", "b", "ä", "日本", "", "🦀", "a b", "a"]


@pytest.fixture(autouse=True)
def sent_by_value() -> None:
    """The workers cannot import the kit, so Spark sends its functions as a whole."""
    cloudpickle.register_pickle_by_value(stateful_words)  # type: ignore[no-untyped-call]  # Spark's


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A directory of files of words."""
    for number in range(2):
        give_words(tmp_path / "words", number, WORDS[: 4 + 4 * number])
    return tmp_path / "words"


def test_counts_are_right_across_restarts_and_lost_disks(
    spark: SparkSession, tmp_path: Path, words: Path
) -> None:
    """Every machine is a new one after a restart; a micro-batch may be empty, and keys Unicode."""
    state, files = tmp_path / "state", Files(tmp_path / "out")
    give_words(words, 2, [])
    run(start(word_count(stream_of(spark, words), state), tmp_path / "checkpoint", files))
    assert (tmp_path / "local").is_dir()
    shutil.rmtree(tmp_path / "local")
    give_words(words, 3, [*WORDS, *WORDS])
    run(start(word_count(stream_of(spark, words), state), tmp_path / "checkpoint", files))

    assert files.counts() == counted(words)
    assert state_of(state) == {**counted(words)[-1]}
    assert [path.name for path in (state / "@stateful" / "counts").iterdir() if path.is_dir()] == [
        path.name for path in (state / "@stateful" / "counts").glob("*-3")
    ]


def test_rows_are_dictionaries(spark: SparkSession, tmp_path: Path, words: Path) -> None:
    """On request a function takes and gives them, nulls included; a missing column is null."""

    def by_row(rows: Iterator[dict[str, Any]], stores: OpenStores) -> Iterator[dict[str, Any]]:
        for row in rows:
            assert row["note"] is None
            number = (stores["counts"].get(row["word"]) or 0) + 1
            stores["counts"].put(row["word"], number)
            yield {"word": row["word"], "count": number} if row["word"] else {"word": ""}

    files = Files(tmp_path / "out")
    stream = word_count(stream_of(spark, words), tmp_path / "state", function=by_row, by="rows")
    run(start(stream, tmp_path / "checkpoint", files))

    assert state_of(tmp_path / "state") == counted(words)[-1]
    assert len(files.rows()[1]) == 8
    assert {"word": "", "count": None} in files.rows()[1]


def test_a_key_column_may_have_a_dot_in_its_name(spark: SparkSession, tmp_path: Path) -> None:
    """Each micro-batch failed: PySpark took the name for a field of a column ``the``.

    And so it did if two other columns had one name, which to Spark was ambiguous.
    """

    def by_row(rows: Iterator[dict[str, Any]], stores: OpenStores) -> Iterator[dict[str, Any]]:
        for row in rows:
            stores["counts"].put(row["the.word"], 1)
            yield {"of.word": row["the.word"]}

    words = tmp_path / "words"
    give_words(words, 0, WORDS)
    stream = word_count(
        stream_of(spark, words).selectExpr("word AS `the.word`", "1 AS id", "2 AS id", "3 AS Id"),
        tmp_path / "state",
        key="the.word",
        output_schema="`of.word` string",
        function=by_row,
        by="rows",
    )
    files = Files(tmp_path / "out")
    run(start(stream, tmp_path / "checkpoint", files))

    assert state_of(tmp_path / "state") == dict.fromkeys(WORDS, 1)
    assert {row["of.word"] for row in files.rows()[0]} == set(WORDS)


def test_a_key_column_is_found_as_spark_finds_it(spark: SparkSession, tmp_path: Path) -> None:
    """A key ``Word`` of a stream with a column ``word`` was not there."""
    words = tmp_path / "words"
    give_words(words, 0, WORDS)
    stream = word_count(stream_of(spark, words), tmp_path / "state", key="Word")
    run(start(stream, tmp_path / "checkpoint", Files(tmp_path / "out")))

    assert state_of(tmp_path / "state") == counted(words)[-1]


def test_what_fails_once_counts_once(spark: SparkSession, tmp_path: Path, words: Path) -> None:
    """A task that raises, and a worker that is killed when it has computed: Spark tries again."""

    def frail(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> Iterator[pa.Table]:
        yield from count(batches, stores)
        for number, fail in enumerate(("raise", "kill")):
            marker = tmp_path / f"{fail}-{stores.partition}"
            if stores.batch == number and not marker.exists():
                marker.touch()
                if fail == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError("once")

    files = Files(tmp_path / "out")
    stream = word_count(stream_of(spark, words), tmp_path / "state", function=frail)
    run(start(stream, tmp_path / "checkpoint", files))

    assert {path.name for path in tmp_path.glob("*-[01]")} == {
        f"{fail}-{partition}" for fail in ("raise", "kill") for partition in (0, 1)
    }
    assert files.counts() == counted(words)
    assert state_of(tmp_path / "state") == counted(words)[-1]
    assert not list((tmp_path / "local").rglob("1/engine"))


def test_a_sink_that_fails_gets_the_same_rows_again(
    spark: SparkSession, tmp_path: Path, words: Path
) -> None:
    """Also of a function that gives others each time: it is not called again."""

    def tagged(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> Iterator[pa.Table]:
        for table in count(batches, stores):
            tags = pa.array([uuid4().hex for _ in range(table.num_rows)])
            yield table.append_column("tag", tags)

    seen: list[tuple[int, list[Any]]] = []

    def sink(frame: DataFrame, number: int) -> None:
        rows = sorted(map(tuple, frame.collect()))
        assert frame.count() == len(rows)
        seen.append((number, rows))
        if len(seen) == 2:
            raise OSError("the sink is full")

    options = {"function": tagged, "output_schema": "word string, count long, tag string"}
    for _ in range(2):
        stream = word_count(stream_of(spark, words), tmp_path / "state", **options)
        try:
            run(start(stream, tmp_path / "checkpoint", sink))
        except StreamingQueryException as error:
            assert "the sink is full" in str(error)  # noqa: PT017  # it is raised once only

    assert [number for number, _ in seen] == [0, 1, 1]
    assert seen[1] == seen[2]
    assert state_of(tmp_path / "state") == counted(words)[-1]


_REPEATED = pytest.mark.long
"""`test_stateful_steps.py` shows each step without Spark: here, one on each side of the commit."""

STEPS = (
    ("json.written", 1),  # the record of the micro-batch, before its commit
    pytest.param("json.renamed", 1, marks=_REPEATED),  # it is committed
    pytest.param("publish.committed", 1, marks=_REPEATED),
    pytest.param("publish.appended", 1, marks=_REPEATED),
    ("publish.finished", 1),  # of two stores one has it
    pytest.param("publish.checked", 2, marks=_REPEATED),
)


@pytest.mark.parametrize(("step", "at"), STEPS)
def test_two_stores_have_a_micro_batch_or_not(
    spark: SparkSession, tmp_path: Path, words: Path, step: str, at: int
) -> None:
    """Whatever a driver that fails has come to, the next one goes on from there."""

    def twice(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> Iterator[pa.Table]:
        for table in count(batches, stores):
            stores["lengths"].put_many(table["word"], table["count"])
            yield table

    def fail() -> None:
        failpoints.disarm()
        raise OSError("the driver fails")

    stores = [stateful_words.STORE, ss.KeyValue("lengths", key=ss.utf8, value=ss.int64)]
    files, state = Files(tmp_path / "out"), tmp_path / "state"
    stream = word_count(stream_of(spark, words), state, stores=stores, function=twice)
    failpoints.arm(step, fail, at=at)
    try:
        with pytest.raises(StreamingQueryException, match="the driver fails"):
            run(start(stream, tmp_path / "checkpoint", files))
    finally:
        failpoints.disarm()
    assert files.rows() == []
    run(start(stream, tmp_path / "checkpoint", files))

    assert files.counts() == counted(words)
    assert state_of(state) == state_of(state, "lengths") == counted(words)[-1]


def test_a_batch_may_be_computed_in_a_function_of_ones_own(
    spark: SparkSession, tmp_path: Path, words: Path
) -> None:
    """Which may leave batches out, such as empty ones."""
    give_words(words, 2, WORDS)
    stream = word_count(stream_of(spark, words), tmp_path / "state")
    counts: dict[int, int] = {}

    def own(frame: DataFrame, number: int) -> None:
        if number != 1:
            counts[number] = stream.process(frame, number).count()

    writer = stream_of(spark, words).writeStream.foreachBatch(own)
    checkpoint = str(tmp_path / "checkpoint")
    run(writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start())

    assert counts == {0: 4, 2: 7}
    assert state_of(tmp_path / "state")["a"] == 3


@pytest.mark.long
def test_state_that_is_not_the_checkpoints_is_refused(
    spark: SparkSession, tmp_path: Path, words: Path
) -> None:
    """Another state root in its place has not seen what the checkpoint says is done."""
    state = tmp_path / "state"
    run(start(word_count(stream_of(spark, words), state), tmp_path / "checkpoint"))
    shutil.rmtree(state)
    give_words(words, 3, WORDS)
    with pytest.raises(StreamingQueryException, match="begin with a new checkpoint"):
        run(start(word_count(stream_of(spark, words), state), tmp_path / "checkpoint"))

    run(start(word_count(stream_of(spark, words), state), tmp_path / "another"))
    assert state_of(state) == counted(words)[-1]


def test_another_writer_is_noticed(spark: SparkSession, tmp_path: Path, words: Path) -> None:
    """What it writes while a batch is computed is neither lost nor counted over."""
    state, marker = tmp_path / "state", tmp_path / "marker"

    def meddled(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> Iterator[pa.Table]:
        if not marker.exists():
            marker.touch()
            with ss.open_logged_store(state, "counts", 0, backend="memory") as store:
                store.store.put("by another", 1)
                store.commit()
        yield from count(batches, stores)

    stream = word_count(stream_of(spark, words), state, function=meddled)
    with pytest.raises(StreamingQueryException, match="another program has written to 'counts'"):
        run(start(stream, tmp_path / "checkpoint"))
    assert state_of(state) == {"by another": 1}
    run(start(stream, tmp_path / "checkpoint"))

    assert state_of(state) == {**counted(words)[-1], "by another": 1}


def _emit(table: pa.Table) -> Any:
    def function(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> Iterator[pa.Table]:
        list(batches)
        yield table

    return function


def _fail(words: str) -> Any:
    def function(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> Iterator[pa.Table]:
        raise ZeroDivisionError(words)

    return function


def test_what_a_function_does_wrong_reaches_its_user(
    spark: SparkSession, tmp_path: Path, words: Path, subtests: pytest.Subtests
) -> None:
    """With its own words, and nothing of the micro-batch is left.

    One task, since another one that Spark cancels may go on writing for a moment; what that leaves
    goes with the next micro-batch.
    """
    for name, function, reason in (
        (
            "a wrong column",
            _emit(pa.table({"word": ["a"], "count": ["1"]})),
            "column 'count' as string, and output_schema declares bigint, which is int64",
        ),
        ("an error", _fail("so said the user"), "ZeroDivisionError: so said the user"),
    ):
        state = tmp_path / name / "state"
        with subtests.test(name):
            stream = word_count(stream_of(spark, words), state, function=function, partitions=1)
            with pytest.raises(StreamingQueryException) as raised:
                run(start(stream, tmp_path / name / "checkpoint"))

            assert reason in str(raised.value)
            assert state_of(state) == {}
            assert list(state.rglob("*.arrow")) == []


def test_a_null_key_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """It belongs to no partition."""
    give_words(tmp_path / "words", 0, ["a", None])
    stream = word_count(stream_of(spark, tmp_path / "words"), tmp_path / "state")
    with pytest.raises(StreamingQueryException, match="key column 'word' has a null"):
        run(start(stream, tmp_path / "checkpoint"))


def test_bad_arguments_are_refused_before_anything_starts(
    spark: SparkSession, tmp_path: Path, words: Path
) -> None:
    """And nothing is made."""
    lock = threading.Lock()

    def holding(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> None:
        lock.acquire()

    frame, state = stream_of(spark, words), tmp_path / "state"
    numbers = ss.KeyValue("counts", key=ss.int64, value=ss.int64)
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"function": holding}, InvalidTypeError, "'holding' cannot be sent to Spark's workers"),
        ({"function": 1}, InvalidTypeError, "function must be callable"),
        ({"key": "wrod"}, InvalidArgumentError, "its columns are: word, note"),
        ({"stores": ["counts"]}, StoreNotFoundError, "no state root"),
        ({"stores": []}, InvalidArgumentError, "stores is empty"),
        ({"stores": "counts"}, InvalidTypeError, "must be a list"),
        ({"stores": [numbers]}, InvalidTypeError, "'word' is string, and the keys of .* are int64"),
        ({"stores": [stateful_words.STORE] * 2}, InvalidArgumentError, "names 'counts' twice"),
        ({"output_schema": "word strng"}, InvalidArgumentError, "no list of columns"),
        ({"output_schema": "a long, a long"}, InvalidArgumentError, "'a' twice"),
        ({"by": "row"}, InvalidArgumentError, "by is 'batches' or 'rows'"),
        ({"name": "a/b"}, InvalidArgumentError, "name of a stateful function"),
        ({"backend": "rocks"}, LookupError, "no backend is registered as 'rocks'"),
        ({"partitions": 0}, InvalidArgumentError, "partitions must be from 1"),
    ]
    for options, error, reason in wrong:
        with pytest.raises(error, match=reason):
            word_count(frame, state, **options)
    with pytest.raises(InvalidArgumentError, match="is no stream"):
        word_count(spark.createDataFrame([("a", "b")], "word string, note string"), state)
    assert not state.exists() or not ss.StateRoot.open(state).stores

    word_count(frame, state)
    with pytest.raises(StoreNotFoundError, match="no store 'others'; it has: counts"):
        word_count(frame, state, stores=["others"])
    with pytest.raises(StoreMismatchError, match=r"have .*2}, and partitions is 3"):
        word_count(frame, state, partitions=3)
