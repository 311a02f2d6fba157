"""The state of real streaming queries becomes stores, row by row; and what cannot become one."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's documentation has it

import statestores as ss
from statestores.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    SerializationError,
    StorageError,
    StoreNotFoundError,
)
from statestores.migration.spark.export import export_spark_checkpoint
from statestores.reading.partition_reader import PartitionReader
from statestores.spark.session.older_pyspark import SINKS_TAKE_BATCHES
from statestores.spark.state.catalog import (
    SparkStateStore,
    choose_state_store,
    list_state_stores,
)
from statestores.spark.state.columns import key_side, value_side
from statestores.spark.state.command import main as import_spark_command
from statestores.spark.state.importing import StateSelection, import_spark_state

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_FILES = 2
_SCHEMA = "word string, number long, time timestamp"


def _counts(frame: DataFrame) -> DataFrame:
    return frame.where("word is not null").groupBy("word").count()


def _sums(frame: DataFrame) -> DataFrame:
    return frame.groupBy("word", "number").agg(F.max("time"))


def _distinct(frame: DataFrame) -> DataFrame:
    return frame.select("number").dropDuplicates()


def _joined(frame: DataFrame) -> DataFrame:
    left, right = (frame.withWatermark("time", "1 day").alias(side) for side in ("l", "r"))
    return left.join(
        right,
        F.expr("l.number = r.number and l.time between r.time and r.time + interval 1 hour"),
    )


def _twice(frame: DataFrame) -> DataFrame:
    pair = F.struct(F.col("number").alias("n"), F.col("word").alias("n"))
    return frame.groupBy("word").agg(F.max("number"), F.avg("number"), F.count("*"), F.max(pair))


def _grouped(frame: DataFrame) -> DataFrame:
    def count(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        before = state.get[0] if state.exists else 0
        after = before + sum(len(each) for each in frames)
        state.update((after, f"{key[0]} ß"))
        yield pd.DataFrame({"seen": [after]})

    return frame.groupBy("word").applyInPandasWithState(
        count, "seen long", "seen long, label string", "update", "NoTimeout"
    )


_QUERIES: dict[str, tuple[Callable[[DataFrame], DataFrame], str, bool, int]] = {
    "counts": (_counts, "update", True, 1),
    "sums": (_sums, "update", False, _FILES),
    "distinct": (_distinct, "append", True, _FILES),
    "joined": (_joined, "append", False, 1),
    "twice": (_twice, "update", False, _FILES),
    "grouped": (_grouped, "update", False, _FILES),
}
"""What each query does, its output mode, whether RocksDB keeps its state, and of how many files a
batch is: two batches of each provider, where a test asks for the first one."""


@pytest.fixture(scope="module")
def checkpoints(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of `_QUERIES`, of which each has read all files."""
    if not SINKS_TAKE_BATCHES:
        pytest.skip("PySpark 4.0 slices a batch at a float, which the Arrow of today refuses")
    base = tmp_path_factory.mktemp("queries")
    source = base / "input"
    source.mkdir()
    for batch in range(_FILES):
        rows = [
            {
                "word": None if number % 5 == 4 else f"wörd {number % 3}",
                "number": number,
                "time": f"2024-01-01T00:00:00.{number:06}Z",
            }
            for number in range(batch, 12 + 3 * batch)
        ]
        (source / f"{batch}.json").write_text("\n".join(map(json.dumps, rows)))
    for name, (query, mode, in_rocksdb, files) in _QUERIES.items():
        if in_rocksdb:
            spark.conf.set(_PROVIDER, _ROCKSDB)
        try:
            stream = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", files)
            (
                query(stream.json(str(source)))
                .writeStream.format("noop")
                .outputMode(mode)
                .option("checkpointLocation", str(base / name))
                .trigger(availableNow=True)
                .start()
                .awaitTermination()
            )
        finally:
            spark.conf.unset(_PROVIDER)
    return base


def _stored(root: Path | str, name: str) -> dict[Any, Any]:
    """Return the keys and values of a store, from its files."""
    state = ss.StateRoot.open(root)
    entry = state.store(name)
    found: dict[Any, Any] = {}
    for number in range(entry.partitions):
        for batch in PartitionReader(state.partition(name, number), entry.specification).rows():
            columns = batch.to_pydict()
            found.update(zip(columns["key"], columns["value"], strict=True))
    return found


def _own(spark: SparkSession, checkpoint: Path, **options: Any) -> list[Any]:
    """Return the rows of Spark's own source."""
    return spark.read.format("statestore").options(**options).load(str(checkpoint)).collect()


def test_single_columns_keep_their_types(spark: SparkSession, checkpoints: Path, root: str) -> None:
    """An aggregation in RocksDB, now and after its first batch."""
    now = import_spark_state(spark, checkpoints / "counts", root, store="now")
    selection = StateSelection(batch_id=0)
    then = import_spark_state(spark, checkpoints / "counts", root, selection, store="then")

    for done, batch in ((now, 1), (then, 0)):
        expected = {
            row.key.word: row.value["count"]
            for row in _own(spark, checkpoints / "counts", batchId=batch)
        }
        specification = done.specification
        assert (specification.key, specification.value) == (ss.utf8, ss.int64)
        assert (done.partitions, done.rows) == (2, len(expected))
        assert _stored(root, specification.name) == expected
    assert now.checksum != then.checksum


def test_several_columns_are_a_json_object(
    spark: SparkSession, checkpoints: Path, root: str
) -> None:
    """With nulls, and with every digit of its times."""
    import_spark_state(spark, checkpoints / "sums", root, store="sums", partitions=3)
    stored = {
        tuple(json.loads(key).values()): json.loads(value)
        for key, value in _stored(root, "sums").items()
    }

    assert stored == {
        (row.key.number, row.key.word): {"max": row.value.max.strftime("%FT%T.%fZ")}
        for row in _own(spark, checkpoints / "sums")
    }
    assert stored[4, None] == {"max": "2024-01-01T00:00:00.000004Z"}


def test_nested_state_and_state_without_values(
    spark: SparkSession, checkpoints: Path, root: str
) -> None:
    """Of a flatMapGroups, and of a dropDuplicates, whose values are nothing."""
    import_spark_state(
        spark, checkpoints / "grouped", root, StateSelection(key_serde="json"), store="grouped"
    )
    import_spark_state(spark, checkpoints / "distinct", root, store="distinct")
    grouped = [json.loads(value) for value in _stored(root, "grouped").values()]

    assert {each["groupState"]["label"] for each in grouped} == {
        *("None ß", "wörd 0 ß", "wörd 1 ß", "wörd 2 ß")
    }
    assert _stored(root, "distinct") == dict.fromkeys(range(15), '{"__dummy__":null}')


def test_of_several_state_stores_one_is_chosen(
    spark: SparkSession, checkpoints: Path, root: str
) -> None:
    """A join has four; the message names them by the options that choose one."""
    with pytest.raises(InvalidArgumentError, match="--spark-store left-keyToNumValues"):
        import_spark_state(spark, checkpoints / "joined", root)
    with pytest.raises(StoreNotFoundError, match="no such state store; it has: --operator 0"):
        import_spark_state(spark, checkpoints / "joined", root, StateSelection(operator_id=3))
    name = "left-keyWithIndexToValue"
    done = import_spark_state(spark, checkpoints / "joined", root, StateSelection(store_name=name))

    assert len(list_state_stores(spark, checkpoints / "joined")) == 4
    assert done.specification.name == f"symmetricHashJoin-{name}"
    rows = _own(spark, checkpoints / "joined", storeName=name)
    assert {tuple(json.loads(key).values()) for key in _stored(root, done.specification.name)} == {
        tuple(row.key) for row in rows
    }


def test_two_buffers_of_one_name_are_told_apart_by_their_places(
    spark: SparkSession, checkpoints: Path, root: str, tmp_path: Path
) -> None:
    """No aggregation with ``max(a), max(b)``, or ``avg`` with ``count``, could be imported.

    A user saw AMBIGUOUS_REFERENCE_TO_FIELDS: Spark names the buffers by their functions, and the
    import asked for each by its name. The second one is ``max_2`` now, in the state, in
    expressions, and when the store goes back to Spark.
    """
    by_json = StateSelection(key_serde="json")
    import_spark_state(spark, checkpoints / "twice", root, by_json, store="all")
    second = StateSelection(key_serde="json", value="value.count_2")
    import_spark_state(spark, checkpoints / "twice", root, second, store="second")
    export_spark_checkpoint(ss.StateRoot.open(root), "all", tmp_path / "back")

    names = ["max", "sum", "count", "count_2", "max_2"]
    expected = {}
    for row in _own(spark, checkpoints / "twice"):
        *numbers, (number, word) = row.value
        expected[row.key.word] = dict(
            zip(names, (*numbers, {"n": number, "n_2": word}), strict=True)
        )
    stored = _stored(root, "all")
    assert {json.loads(key)["word"]: json.loads(value) for key, value in stored.items()} == expected
    assert expected["wörd 0"]["max"] == 12
    assert {json.loads(key)["word"]: value for key, value in _stored(root, "second").items()} == {
        word: value["count_2"] for word, value in expected.items()
    }
    exported = {row.key.key: row.value.value for row in _own(spark, tmp_path / "back")}
    assert exported == stored


def test_the_rows_of_a_side_of_a_join_are_imported(
    spark: SparkSession, checkpoints: Path, root: str
) -> None:
    """``--join-side left`` alone was "several state stores, choose one", and with it no whole row.

    The documentation says that it is chosen instead of a store. And Spark's rows of a side have
    a place more than their type says, at which an expression over a whole row failed.
    """
    selection = StateSelection(
        join_side="left",
        key="to_json(struct(key, value))",
        batch_id=0,  # the second one has rows of the first again
    )
    done = import_spark_state(spark, checkpoints / "joined", root, selection)

    assert done.specification.name == "symmetricHashJoin-left"
    assert done.source.store_name == "left-keyWithIndexToValue"
    rows = _own(spark, checkpoints / "joined", joinSide="left", batchId=0)
    stored = _stored(root, done.specification.name)
    assert sorted(json.loads(value)["number"] for value in stored.values()) == sorted(
        row.value.number for row in rows
    )
    with pytest.raises(StoreNotFoundError, match="no store of a join's left side; it has: --oper"):
        import_spark_state(spark, checkpoints / "sums", root, selection)
    other = StateSelection(join_side="left", store_name="right-keyWithIndexToValue")
    with pytest.raises(StoreNotFoundError, match="no store of a join's left side"):
        import_spark_state(spark, checkpoints / "joined", root, other)


def test_two_parts_of_a_key_stay_apart(spark: SparkSession) -> None:
    """A map of a transformWithState: its own keys may have the names of the group's columns."""
    frame = spark.sql(
        "select named_struct('k', 1L) as key, named_struct('k', 2L) as user_map_key, "
        "named_struct('v', 'x') as user_map_value, 0 as partition_id"
    )
    key, value = key_side(frame, None, None), value_side(frame, None, None)
    (row,) = frame.select(key.column.alias("key"), value.column.alias("value")).collect()

    assert json.loads(row.key) == {"key": {"k": 1}, "user_map_key": {"k": 2}}
    assert (key.serde, value.serde, row.value) == ("json", "utf8", "x")
    with pytest.raises(InvalidArgumentError, match="none is its value; say what the value is"):
        value_side(frame.select("key"), None, None)


def test_a_variable_is_chosen_by_its_name() -> None:
    """Where an operator has some; the operators are named with what chooses them."""
    stores = [
        SparkStateStore(
            operator_id=number,
            operator_name="transformWithState",
            store_name="default",
            partitions=1,
            first_batch=0,
            last_batch=3,
            variables=("seen",),
        )
        for number in range(2)
    ]

    assert choose_state_store(stores, 1, None) is stores[1]
    with pytest.raises(InvalidArgumentError, match=r"--operator 1 --spark-store default \(trans"):
        choose_state_store(stores, None, "default")


def test_expressions_say_what_key_and_value_are(
    spark: SparkSession, checkpoints: Path, root: str
) -> None:
    """As long as the keys differ."""
    selection = StateSelection(key="key.number", value="coalesce(key.word, '')", value_serde="utf8")
    done = import_spark_state(spark, checkpoints / "sums", root, selection, store="words")

    assert (done.specification.key, done.specification.value) == (ss.int64, ss.utf8)
    assert _stored(root, "words")[4] == ""
    with pytest.raises(InvalidArgumentError, match="rows with the key of another one"):
        import_spark_state(
            spark,
            checkpoints / "sums",
            root,
            StateSelection(key="coalesce(key.word, '')"),
            store="fewer",
        )
    assert set(ss.StateRoot.open(root).stores) == {"words"}


def test_what_a_store_cannot_hold_is_refused(
    spark: SparkSession, checkpoints: Path, root: str, tmp_path: Path
) -> None:
    """By a sentence, before anything is written."""
    with pytest.raises(SerializationError, match=r"null key, in rows: 1; .* --key-serde json"):
        import_spark_state(spark, checkpoints / "grouped", root)
    with pytest.raises(InvalidArgumentError, match="the serde 'int64' takes one"):
        import_spark_state(spark, checkpoints / "sums", root, StateSelection(key_serde="int64"))
    with pytest.raises(StorageError, match="Spark cannot read the state"):
        import_spark_state(spark, checkpoints / "sums", root, StateSelection(batch_id=9))
    with pytest.raises(StorageError, match="nothing"):
        import_spark_state(spark, checkpoints / "sums", root, StateSelection(key="key.nothing"))
    with pytest.raises(StoreNotFoundError, match="no directory commits"):
        import_spark_state(spark, tmp_path, root)
    assert not Path(root).exists()
    import_spark_state(spark, checkpoints / "counts", root)
    with pytest.raises(InvalidOptionError, match="exists in"):
        import_spark_state(spark, checkpoints / "counts", root)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing argument 'CHECKPOINT'"),
        (["c", "--join-side", "middle"], "'middle' is not one of"),
        (["c", "--no-such"], "No such option"),
    ],
)
def test_a_call_that_cannot_be_one_starts_no_session(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """The exit code is 2, and one line says why and where to look."""
    code = import_spark_command(arguments)
    told = capsys.readouterr()

    assert (code, told.out, told.err.count("\n")) == (2, "", 1)
    assert words in told.err
    assert told.err.endswith("see: statestores import-spark --help\n")


def test_a_setting_that_cannot_be_one_is_refused() -> None:
    """Before a session is started, too."""
    for settings in (["--conf", "alone"], ["--conf", "a=1", "--conf", "a=2"]):
        with pytest.raises(InvalidOptionError, match="--conf"):
            import_spark_command(["c", "--list", *settings])


@pytest.mark.soak
def test_the_command_starts_a_session_of_its_own(checkpoints: Path, root: str) -> None:
    """And prints what was imported, and nothing else, on standard output."""
    finished = subprocess.run(
        [
            *(sys.executable, "-m", "statestores.cli", "import-spark"),
            *(checkpoints / "counts", "--to", root, "--store", "counts", "--master", "local[1]"),
            *("--conf", "spark.driver.host=127.0.0.1", "--json"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )

    assert finished.returncode == 0, finished.stderr
    document = json.loads(finished.stdout)
    assert (document["store"], document["rows"], document["partitions"]) == ("counts", 3, 2)
    assert document["source"]["operator_name"] == "stateStoreSave"
    assert len(_stored(root, "counts")) == 3
