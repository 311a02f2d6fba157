"""What cannot be read is refused in words that say what to do, before a job runs where possible."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import statestores as ss
from statestores.arrow import read_snapshot
from statestores.errors import (
    InvalidOptionError,
    StateStoreError,
    StorageError,
    StoreCorruptedError,
    UnsupportedFormatError,
)
from statestores.spark.source.source import StateStoresDataSource

WORDS = ss.KeyValue("words", key=ss.utf8, value=ss.int64)
NOBODY = 65_534


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """One partition with a snapshot, and a change after it."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(WORDS, partitions=1)
    with ss.open_logged_store(root, "words", 0, backend="memory") as logged:
        logged.store.put("a", 1)
        logged.commit()
        logged.snapshot()
        logged.store.put("b", 2)
        logged.commit()
    return root.path


def read(path: Path, schema: StructType | None = None, **options: str) -> list[dict[str, Any]]:
    """Do what Spark does, in this process."""
    source = StateStoresDataSource({"path": str(path), **options})
    reader: Any = source.reader(schema or source.schema())
    return [
        row
        for task in reader.partitions()
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be somebody whom the system refuses things, which it does not refuse root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (
            StructType().add("key", "string").add("value", "string"),
            r"the column 'value' of schema\(\) is string, .* 'value' of the type bigint; leave",
        ),
        (
            StructType().add("k", "string").add("value", "long"),
            r"the column 'k' of schema\(\) is string, where .* 'key'",
        ),
        (
            StructType().add("key", "string"),
            "there are 1 columns, and the store has 2; leave schema",
        ),
    ],
)
def test_another_schema_names_the_column_and_both_types(
    state: Path, schema: StructType, reason: str
) -> None:
    """Of the first column that differs."""
    with pytest.raises(InvalidOptionError, match=reason):
        read(state, schema)


@pytest.mark.parametrize("place", ["", "words", "words/0", "words/0/changelog"])
def test_a_directory_that_may_not_be_read_is_no_empty_store(state: Path, place: str) -> None:
    """The user saw no rows and no error where a partition belonged to another account."""
    expected = [{"key": "a", "value": 1}, {"key": "b", "value": 2}]
    assert read(state) == expected
    for parent in (state, *state.parents):
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    (state / place).chmod(0o000)
    try:
        with unprivileged(), pytest.raises((StateStoreError, PermissionError)) as caught:
            read(state)
    finally:
        (state / place).chmod(0o755)

    assert isinstance(caught.value, StorageError)
    assert "ermission denied" in str(caught.value)
    assert read(state) == expected


@pytest.mark.parametrize("place", ["words/0", "words/0/changelog", "words/0/snapshots"])
def test_a_file_in_the_place_of_a_directory_is_no_empty_store(state: Path, place: str) -> None:
    """It is an error that names the path."""
    directory = state / place
    directory.rename(state.parent / "moved")
    directory.write_bytes(b"not a directory")

    with pytest.raises(StateStoreError, match="words/0"):
        read(state)


def of_newer_version(path: Path, field: str) -> None:
    """Let the file say that a newer release wrote it."""
    content = json.loads(path.read_text())
    content[field] += 10
    path.write_text(json.dumps(content))


def test_a_store_of_a_newer_release_says_so(state: Path) -> None:
    """The first line says what to do."""
    file = state / "statestores.json"
    of_newer_version(file, "format")

    with pytest.raises(UnsupportedFormatError, match="upgrade statestores"):
        read(state)


def test_a_damaged_description_is_an_error_that_names_it(state: Path) -> None:
    """And not a path at which there is nothing."""
    (state / "statestores.json").write_bytes(b"{")

    with pytest.raises(StoreCorruptedError, match=r"statestores\.json"):
        read(state)


def test_a_damaged_snapshot_is_passed_over_or_an_error(state: Path) -> None:
    """As the changelog reaches back, nothing is lost."""
    (path,) = (state / "words" / "0" / "snapshots").iterdir()
    data = path / read_snapshot(path).manifest.files[0].name
    data.write_bytes(data.read_bytes()[:-1] + b"\x00")

    assert len(read(state)) == 2


def test_a_path_that_is_neither_is_an_error_that_says_what_was_sought(
    spark: SparkSession, tmp_path: Path
) -> None:
    """No state root, and no state of Kafka Streams."""
    with pytest.raises(AnalysisException, match="there is no state root at"):
        spark.read.format("statestores").load(str(tmp_path))


def test_a_wrong_mode_is_an_error_that_lists_the_right_ones(
    spark: SparkSession, state: Path
) -> None:
    """Spark's own words, where nothing was registered."""
    writer = spark.range(1).selectExpr("string(id) AS key", "id AS value").write
    with pytest.raises(AnalysisException, match=r"(?i)mode"):
        writer.format("statestores").mode("errorifexists").save(str(state))
    assert len(read(state)) == 2


@pytest.fixture
def table(spark: SparkSession, state: Path) -> Iterator[str]:
    """A table over the state root."""
    spark.sql(f"CREATE TABLE refused USING statestores OPTIONS (path '{state}')")
    yield "refused"
    spark.sql("DROP TABLE IF EXISTS refused")


def test_a_table_needs_the_path_at_each_use(
    spark: SparkSession, state: Path, table: str, rows_of: Callable[..., Any]
) -> None:
    """Spark loses the options of a table; the error says how to repeat them."""
    expected = [("a", 1), ("b", 2)]
    query = f"SELECT * FROM {table}"  # noqa: S608  # the test's own
    assert rows_of(spark.sql(f"{query} WITH (path = '{state}')")) == expected
    assert rows_of(spark.read.option("path", str(state)).table(table)) == expected
    with pytest.raises(AnalysisException, match=r"'path' is missing.*WITH \(path"):
        spark.sql(query).collect()


def test_a_table_of_a_wrong_option_is_not_made(spark: SparkSession, state: Path) -> None:
    """The columns are asked for when it is made."""
    with pytest.raises(AnalysisException, match="unknown option 'asof_'"):
        spark.sql(f"CREATE TABLE wrong USING statestores OPTIONS (path '{state}', asof_ '1')")
    assert not spark.catalog.tableExists("wrong")
