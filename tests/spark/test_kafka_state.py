"""The state directory of a Kafka Streams application as DataFrames, without Java of Kafka's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from unpacking import unpack

from statestores.errors import MissingDriverError
from statestores.migration import ROW_SCHEMAS, KafkaKind, KafkaStateDirectory
from statestores.registry import load_backend
from statestores.spark import register, unregister
from statestores.spark.options.read_and_write import KAFKA_KINDS
from statestores_conformance.many_cases import for_each

RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]

FIXTURE = Path(__file__).parents[1] / "migration" / "fixtures" / "kafka-streams-4.3.1.tar.xz"


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the application's directory as Kafka Streams left it."""
    try:
        load_backend("rocksdb")
    except MissingDriverError as error:
        pytest.skip(str(error))
    directory = tmp_path_factory.mktemp("kafka")
    unpack(FIXTURE, directory)
    return directory / "fixture"


@pytest.fixture
def load(spark: SparkSession, application: Path) -> Callable[..., DataFrame]:
    """Load a store of the application, with options."""

    def load_store(store: str, **options: Any) -> DataFrame:
        source = spark.read.format("statestores").options(storeName=store, **options)
        return source.load(str(application))

    return load_store


def rows_on_disk(application: Path, store: str) -> list[tuple[Any, ...]]:
    """Return all rows of a store, of all of its partitions."""
    with KafkaStateDirectory(application) as state:
        return [
            tuple(row.values())
            for partition in state.store(store).partitions
            for batch in state.read(store, partition)
            for row in batch.to_pylist()
        ]


@pytest.mark.spec("MIG-11")
@pytest.mark.parametrize(
    "store", ["timestamped", "session", "win.dow", "window-timestamped", "emit-on-close"]
)
def test_each_kind_is_read(
    load: Callable[..., DataFrame], application: Path, rows_of: RowsOf, store: str
) -> None:
    """All rows of the files, a task for each partition that lies there."""
    frame = load(store, raw="true")
    with KafkaStateDirectory(application) as state:
        kind = state.kind_of(store)
        partitions = len(state.store(store).partitions)

    assert frame.columns == ROW_SCHEMAS[kind].names
    assert frame.rdd.getNumPartitions() == partitions
    assert rows_of(frame) == sorted(rows_on_disk(application, store), key=repr)


@pytest.mark.spec("MIG-11")
def test_versions_are_the_latest_or_all(
    load: Callable[..., DataFrame], application: Path, rows_of: RowsOf
) -> None:
    """As of our own versioned stores, deletions are left out."""
    everything = [row for row in rows_on_disk(application, "versioned") if row[1] is not None]
    latest = [row for row in everything if row[3] is None]

    assert rows_of(load("versioned", raw="true", history="true")) == sorted(everything, key=repr)
    assert rows_of(load("versioned", raw="true")) == sorted(latest, key=repr)
    assert 0 < len(latest) < len(everything)


def test_serdes_keys_and_columns_can_be_said(
    load: Callable[..., DataFrame], application: Path, rows_of: RowsOf
) -> None:
    """Kafka's files do not say what their bytes are; times are timestamps."""
    rows = rows_on_disk(application, "session")
    key = max(row[0] for row in rows if row[0].isascii())
    frame = load("session", keySerde="utf8", key=key.decode(), columns="key,session_end")

    assert frame.dtypes == [("key", "string"), ("session_end", "timestamp")]
    assert rows_of(frame.selectExpr("key", "unix_millis(session_end)")) == sorted(
        ((row[0].decode(), row[2]) for row in rows if row[0] == key), key=repr
    )


def test_nothing_is_changed(load: Callable[..., DataFrame], application: Path) -> None:
    """Not a file is written, and the application may start again."""
    before = {path: path.stat().st_mtime_ns for path in sorted(application.rglob("*"))}
    assert load("plain").count() > 0

    assert {path: path.stat().st_mtime_ns for path in sorted(application.rglob("*"))} == before


def test_the_name_statestore_reaches_it_once_registered(
    spark: SparkSession, application: Path
) -> None:
    """And what is no state of Kafka's stays with Spark's own source."""
    register(spark)
    try:
        source = spark.read.format("statestore").option("storeName", "plain")
        assert source.load(str(application)).columns == ["key", "value"]
        with pytest.raises(PySparkException, match="No committed batch found"):
            spark.read.format("statestore").load(str(application.parent.parent / "nothing"))
    finally:
        unregister(spark)


@for_each(
    ("options", "reason"),
    [
        ({}, "stores of Kafka Streams .*name one with the option 'storeName'"),
        ({"storeName": "nothing"}, "there is no store 'nothing'"),
        ({"storeName": "empty"}, "do not tell its kind.*key-value, versioned.*'kafkaKind'"),
        ({"storeName": "plain", "kafkaKind": "session"}, "cannot be of the kind 'session'"),
        ({"storeName": "plain", "history": "true"}, "'history' is for versioned stores"),
        ({"storeName": "versioned", "asOf": "1"}, "'asOf' is for state roots"),
        ({"storeName": "plain", "readChangeFeed": "true"}, "a topic of the broker"),
        ({"storeName": "plain", "partitions": "7"}, "has here the partitions 0"),
        ({"storeName": "plain", "columns": "keys"}, "the columns are: key, value"),
    ],
)
def test_what_the_files_cannot_answer_is_refused(
    spark: SparkSession, application: Path, options: dict[str, str], reason: str
) -> None:
    """With what to say instead."""
    with pytest.raises(AnalysisException, match=reason):
        spark.read.format("statestores").options(**options).load(str(application))


def test_options_of_kafka_are_not_for_state_roots(spark: SparkSession, root: str) -> None:
    """A store says its serdes itself."""
    frame = spark.createDataFrame([("a", 1)], "key string, value long")
    frame.write.format("statestores").option("storeName", "s").mode("append").save(root)

    with pytest.raises(AnalysisException, match="'keySerde' is for reading state directories of K"):
        spark.read.format("statestores").option("keySerde", "utf8").load(root)


def test_the_kinds_of_the_option_are_those_there_are() -> None:
    """They are spelled out, because the option is read where pyarrow is not imported."""
    assert set(KAFKA_KINDS) == {kind.value for kind in KafkaKind}
