"""Stores as DataFrames: content, as of a time, at an offset, and the changes."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from many_stores import PARTITIONS, run_all
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import statestores as ss
from statestores.changelog import change_schema
from statestores.reading.partition_reader import PartitionReader
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spi import Durability
from statestores.staging.staged_write import publish, stage
from statestores_conformance.many_cases import for_each

RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]

WORDS = ss.KeyValue("words", key=ss.utf8, value=ss.int64)
RATES = ss.Versioned("rates", history_retention_ms=10 * ss.DAY, key=ss.utf8)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A state root with a key-value store in three partitions, and a versioned store in one."""
    root = ss.StateRoot.create(tmp_path_factory.mktemp("state"))
    root.add_store(WORDS, partitions=3)
    root.add_store(RATES, partitions=1)
    write(root, WORDS, "w1", [(f"w{number:03}", number) for number in range(200)])
    write(root, WORDS, "w2", [("w007", -7), ("w008", None)])
    write(root, RATES, "r1", [("EUR", b"1.05", 1_000), ("USD", b"1", 1_000)])
    write(root, RATES, "r2", [("EUR", b"1.09", 3_000), ("EUR", b"1.07", 2_000)])
    return str(root.path)


def write(root: ss.StateRoot, store: Any, write_id: str, rows: list[tuple[Any, ...]]) -> None:
    """Append *rows* of values to a store."""
    columns = [
        store.key.encode_array(pa.array([row[0] for row in rows])),
        serde_or_raw(store.value).encode_array(pa.array([row[1] for row in rows])),
        *([pa.array([row[2] for row in rows], pa.int64())] if len(rows[0]) > 2 else []),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=change_schema(store.kind))
    partitions = root.store(store.name).partitions
    staged = stage(root.path, store, partitions, write_id, "t0", [batch])
    publish(root, store.name, write_id, [staged])


@pytest.fixture
def load(spark: SparkSession, state: str) -> Callable[..., DataFrame]:
    """Load a store of the state root, with options."""

    def load_store(store: str, **options: Any) -> DataFrame:
        return spark.read.format("statestores").options(storeName=store, **options).load(state)

    return load_store


def test_content_has_the_types_of_the_serdes(
    load: Callable[..., DataFrame], rows_of: RowsOf
) -> None:
    """One row a key, deletions left out; nobody has called anything for this format."""
    words = load("words")

    assert words.dtypes == [("key", "string"), ("value", "bigint")]
    expected = [(f"w{number:03}", number) for number in range(200) if number != 8]
    expected[7] = ("w007", -7)
    assert rows_of(words) == expected


def test_each_partition_of_the_store_is_one_of_the_data_frame(
    load: Callable[..., DataFrame], state: str
) -> None:
    """And they can be chosen."""
    assert load("words").rdd.getNumPartitions() == 3
    root = ss.StateRoot.open(state)
    reader = PartitionReader(root.partition("words", 2), root.store("words").specification)
    expected = sorted(key for batch in reader.rows() for key in batch["key"].to_pylist())
    assert sorted(row.key for row in load("words", partitions="2").collect()) == expected


def test_options_select_what_a_filter_would(
    load: Callable[..., DataFrame], rows_of: RowsOf
) -> None:
    """Keys, a prefix, a range, and columns."""
    words = load("words").cache()

    assert rows_of(load("words", key="w007")) == rows_of(words.where("key = 'w007'"))
    assert rows_of(load("words", keyPrefix="w01")) == rows_of(words.where("key like 'w01%'"))
    selected = load("words", keyFrom="w100", keyTo="w102", columns="value")
    assert rows_of(selected) == rows_of(
        words.where("key between 'w100' and 'w102'").select("value")
    )
    words.unpersist()


def test_versions_are_read_as_of_a_time(load: Callable[..., DataFrame], rows_of: RowsOf) -> None:
    """Times are timestamps of Spark's, and the end of a version is that of the whole history."""
    rates = load("rates", asOf="1970-01-01T00:00:02.500Z")

    assert rates.dtypes == [
        ("key", "string"),
        ("value", "binary"),
        ("valid_from", "timestamp"),
        ("valid_to", "timestamp"),
    ]
    rates = rates.selectExpr(
        "key", "string(value)", "unix_millis(valid_from)", "unix_millis(valid_to)"
    )
    assert rows_of(rates) == [("EUR", "1.07", 2_000, 3_000), ("USD", "1", 1_000, None)]
    assert rows_of(load("rates", columns="key,valid_from")) == [
        ("EUR", datetime(1970, 1, 1, 0, 0, 3)),  # noqa: DTZ001  # Spark gives local times
        ("USD", datetime(1970, 1, 1, 0, 0, 1)),  # noqa: DTZ001  # the same
    ]


def test_history_and_raw_show_everything_as_it_is_stored(
    load: Callable[..., DataFrame], rows_of: RowsOf
) -> None:
    """All versions, keys and values as bytes, times in milliseconds."""
    assert rows_of(load("rates", history="true", raw="true")) == [
        (b"EUR", b"1.05", 1_000, 2_000),
        (b"EUR", b"1.07", 2_000, 3_000),
        (b"EUR", b"1.09", 3_000, None),
        (b"USD", b"1", 1_000, None),
    ]


def test_content_at_an_offset(load: Callable[..., DataFrame], rows_of: RowsOf) -> None:
    """After that change, before the next one."""
    assert rows_of(load("rates", offset="1", columns="key,value")) == [
        ("EUR", b"1.05"),
        ("USD", b"1"),
    ]
    assert load("rates", offset='{"0": 0}').count() == 1


def test_the_change_feed_has_every_change(load: Callable[..., DataFrame], rows_of: RowsOf) -> None:
    """With its offset, its partition, and what it was."""
    changes = load("rates", readChangeFeed="true", startingOffset="1", endingOffset="2")

    assert changes.columns == ["offset", "partition", "operation", "key", "value", "timestamp"]
    assert rows_of(changes.drop("timestamp")) == [
        (1, 0, "put", "USD", b"1"),
        (2, 0, "put", "EUR", b"1.07"),
    ]
    feed = load("words", readChangeFeed="true", columns="operation,key")
    assert rows_of(feed.where("operation = 'delete'")) == [("delete", "w008")]
    assert feed.count() == 202


def test_a_view_in_sql_keeps_its_options(spark: SparkSession, state: str) -> None:
    """A table would lose them, which is Spark's."""
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW words USING statestores "
        f"OPTIONS (path '{state}', storeName 'words', keyPrefix 'w00')"
    )

    assert [row.total for row in spark.sql("SELECT sum(value) AS total FROM words").collect()] == [
        sum(range(10)) - 7 - 7 - 8
    ]


@for_each(
    ("options", "reason"),
    [
        ({"storeName": "words", "asof_": "1"}, "unknown option 'asof_'; known for reading"),
        ({"storeName": "word"}, "has no store 'word'; it has: rates, words"),
        ({}, "2 stores \\(rates, words\\); name one"),
        ({"storeName": "words", "asOf": "1"}, "are for versioned stores"),
        ({"storeName": "words", "columns": "keys"}, "names 'keys'; the columns are: key, value"),
        ({"storeName": "words", "partitions": "3"}, "has the partitions 0 to 2"),
        ({"storeName": "words", "keyFrom": "a", "key": "b"}, "exclude each other"),
    ],
)
def test_a_wrong_option_is_an_error_at_the_load(
    spark: SparkSession, state: str, options: dict[str, str], reason: str
) -> None:
    """Before any job runs."""
    with pytest.raises(AnalysisException, match=reason):
        spark.read.format("statestores").options(**options).load(state)


@pytest.mark.parametrize("path", ["/nonexistent/state", "s3a://bucket/state"])
def test_a_path_without_a_state_root_is_an_error(spark: SparkSession, path: str) -> None:
    """The message says what was looked for."""
    with pytest.raises(AnalysisException, match="state root"):
        spark.read.format("statestores").load(path)


def test_other_columns_than_the_stores_are_refused(spark: SparkSession, state: str) -> None:
    """A schema of the user's would be filled with columns of other names."""
    reader = (
        spark.read.format("statestores").schema("a string, b long").option("storeName", "words")
    )

    with pytest.raises(AnalysisException, match="leave schema"):
        reader.load(state).collect()


def test_an_offset_that_is_not_there_fails_the_read(load: Callable[..., DataFrame]) -> None:
    """It does not give the content of another one."""
    with pytest.raises(Exception, match="has no offset 99 yet"):
        load("rates", offset="99").collect()


@pytest.mark.spec("PRC-90")
def test_stores_of_a_topology_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """What nobody partitions is there from every task, and may have a key more than once."""
    run_all(tmp_path, durability=Durability.PROCESS_CRASH)

    def load(store: str) -> DataFrame:
        source = spark.read.format("statestores").options(storeName=store)
        return source.load(str(tmp_path / "state"))

    by_hour = [(row["key"], row["value"]) for row in load("by-hour").collect()]
    minutes = load("minutes").collect()

    assert sum(value for _, value in by_hour) == 100
    assert len(by_hour) == PARTITIONS * len({key for key, _ in by_hour})
    assert sum(row["value"]["value"] for row in minutes) > 0
