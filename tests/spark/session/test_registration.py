"""``format("statestore")`` reaches our stores and Spark's, by what lies at the path."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession

import statestores as ss
from statestores.arrow.encoded_changes import changes_from_encoded
from statestores.errors import InvalidTypeError, StoreNotFoundError
from statestores.spark import register, unregister
from statestores.spark.given_root import GivenRoot, store_at
from statestores.spark.session.name_routing import route_statement
from statestores.spark.state_path import local_path
from statestores.staging.staged_write import stage
from statestores_conformance.many_cases import for_each

RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def checkpoint(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The checkpoint of a real streaming aggregation with Spark's own state store."""
    source, path = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("checkpoint")
    spark.range(10).selectExpr("id % 3 AS key").write.mode("overwrite").parquet(str(source))
    query = (
        spark.readStream.schema("key long")
        .parquet(str(source))
        .groupBy("key")
        .count()
        .writeStream.outputMode("complete")
        .format("memory")
        .queryName("counts")
        .option("checkpointLocation", str(path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return str(path)


@pytest.fixture
def registered(spark: SparkSession) -> Iterator[SparkSession]:
    register(spark)
    yield spark
    unregister(spark)


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", 1), ("b", 2)], "key string, value long")


ROWS = [("a", 1), ("b", 2)]


def test_the_name_reads_and_writes_state_roots(
    registered: SparkSession, frame: DataFrame, root: str, rows_of: RowsOf
) -> None:
    """In every way in which name and path can be said."""
    frame.write.format("statestore").option("storeName", "s").mode("append").save(root)

    assert rows_of(registered.read.format("statestore").load(root)) == ROWS
    assert rows_of(registered.read.format("StateStore").option("PATH", root).load()) == ROWS
    uri = f"file://{root}"
    assert rows_of(registered.read.load(uri, "statestore", keyPrefix="a")) == ROWS[:1]
    options = {"path": root, "storeName": "s"}
    assert rows_of(registered.read.options(**options).load(format="statestore")) == ROWS


def test_a_checkpoint_of_sparks_still_reaches_sparks_reader(
    registered: SparkSession, checkpoint: str, frame: DataFrame, root: str, rows_of: RowsOf
) -> None:
    """Also with one reader that is used for both."""
    frame.write.format("statestore").option("storeName", "s").save(root)
    reader = registered.read.format("statestore")

    for _ in range(2):
        counts = reader.load(checkpoint).selectExpr("key.key", "value.count")
        assert rows_of(counts) == [(0, 4), (1, 3), (2, 3)]
        assert rows_of(reader.load(root)) == ROWS
    assert registered.read.format("state-metadata").load(checkpoint).count() >= 1


def test_the_modes_of_spark_all_work(
    registered: SparkSession, frame: DataFrame, root: str, rows_of: RowsOf
) -> None:
    """Python sources know append and overwrite only; Spark's default is neither."""
    writer = frame.limit(1).write.format("statestore").option("storeName", "s")
    writer.save(root)

    with pytest.raises(AnalysisException, match="the store 's' exists"):
        frame.write.format("statestores").option("storeName", "s").save(root)
    frame.write.format("statestore").option("storeName", "s").mode("ignore").save(root)
    assert rows_of(registered.read.format("statestore").load(root)) == ROWS[:1]
    frame.write.save(root, format="statestore", mode="append", storeName="s")
    assert rows_of(registered.read.format("statestore").load(root)) == ROWS
    writer.mode("overwrite").save(root)
    assert rows_of(registered.read.format("statestore").load(root)) == ROWS[:1]


def test_views_in_sql_are_routed(
    registered: SparkSession, frame: DataFrame, root: str, checkpoint: str, rows_of: RowsOf
) -> None:
    """By their path, too."""
    frame.write.format("statestore").option("storeName", "s").save(root)
    for name, path in (("ours", root), ("sparks", checkpoint)):
        registered.sql(
            f"CREATE OR REPLACE TEMP VIEW {name} USING statestore OPTIONS (path '{path}')"
        )

    assert rows_of(registered.table("ours")) == ROWS
    assert registered.table("sparks").columns == ["key", "value", "partition_id"]
    assert registered.sql("SELECT 'USING statestore' AS text").head() == ("USING statestore",)


def test_unregister_leaves_spark_as_it_was(
    spark: SparkSession, frame: DataFrame, root: str
) -> None:
    """Registering twice and unregistering twice are no errors."""
    methods = [DataFrameReader.load, DataFrameReader.format, DataFrameWriter.save, SparkSession.sql]
    register(spark)
    register(spark)
    frame.write.format("statestore").option("storeName", "s").save(root)
    unregister(spark)

    assert methods == [
        DataFrameReader.load,
        DataFrameReader.format,
        DataFrameWriter.save,
        SparkSession.sql,
    ]
    with pytest.raises(SparkRuntimeException, match="checkpoint"):
        spark.read.format("statestore").load(root)
    unregister(spark)
    assert spark.read.format("statestores").load(root).count() == 2


def test_sessions_are_registered_one_by_one(
    registered: SparkSession, frame: DataFrame, root: str
) -> None:
    """What one does, the others do not notice."""
    frame.write.format("statestore").option("storeName", "s").save(root)
    other = registered.newSession()

    with pytest.raises(SparkRuntimeException, match="checkpoint"):
        other.read.format("statestore").load(root)
    register(other)
    assert other.read.format("statestore").load(root).count() == 2
    unregister(other)
    assert registered.read.format("statestore").load(root).count() == 2


def test_only_a_session_can_be_registered() -> None:
    """The message says what to build."""
    with pytest.raises(InvalidTypeError, match=r"SparkSession\.builder"):
        register("spark")


@for_each(
    ("statement", "routed"),
    [
        ("CREATE TEMP VIEW v USING statestore OPTIONS (path '/ours')", True),
        ("create or replace temporary view v using `statestore` options(`path`='/ours')", True),
        ('-- USING statestore\nCREATE TEMP VIEW v USING StateStore OPTIONS ("path" "/ours")', True),
        ("/* a */ CREATE TABLE t USING statestore LOCATION '/ours'", True),
        ("CREATE TEMP VIEW v USING statestore OPTIONS (path '/sparks')", False),
        ("CREATE TEMP VIEW v USING statestores OPTIONS (path '/ours')", False),
        ("CREATE TEMP VIEW v USING statestore", False),
        ("CREATE VIEW v AS SELECT 'USING statestore OPTIONS (path /ours)'", False),
        ("SELECT * FROM t -- USING statestore OPTIONS (path '/ours')", False),
    ],
)
def test_only_a_statement_that_creates_is_rewritten(
    statement: str, routed: bool
) -> None:  # a parameter
    """Only its name, and only if the path is ours."""
    written = route_statement(statement, lambda path: path == "/ours")

    assert (written != statement) is routed
    if routed:
        assert written.lower().replace("statestores", "statestore").replace("`", "") == (
            statement.lower().replace("`", "")
        )


@for_each(
    ("path", "local"),
    [
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b%20c", "/a/b c"),
        ("FILE://localhost/a", "/a"),
        ("relative", str(Path.cwd() / "relative")),
        ("hdfs://host/a", None),
        ("file://host/a", None),
    ],
)
def test_a_path_is_one_of_this_machine_or_not_ours(path: str, local: str | None) -> None:
    """As Spark users write them."""
    assert local_path(path) == (None if local is None else Path(local))


def test_what_every_worker_imports_is_light() -> None:
    """Each kind of worker imports the package, and again after each partial read.

    Besides what PySpark itself brings: 4.0 brings numpy.
    """
    program = (
        "import sys, pyspark.sql.datasource; brought = {*sys.modules}; import pyspark_statestores;"
        "print({'pyarrow', 'pandas', 'numpy'} & {*sys.modules} - brought)"
    )
    seen = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert seen.stdout == "set()\n"


def test_a_query_of_a_registered_session_may_use_the_name(
    registered: SparkSession, frame: DataFrame, root: str, tmp_path: Path, rows_of: RowsOf
) -> None:
    """In ``foreachBatch`` the name was Spark's, although the session was registered.

    A user saw STDS_COMMITTED_BATCH_UNAVAILABLE, of a state root: Spark runs a query in a clone of
    its session, which has another identity. A session that only happens to be used within the
    query is not the query's.
    """
    frame.write.format("statestore").option("storeName", "s").save(root)
    stranger = registered.newSession()
    seen: list[Any] = []

    def use(batch: DataFrame, _: int) -> None:
        batch.selectExpr("word AS key", "2L AS value").write.format("statestore").save(
            root, mode="append"
        )
        seen.append(rows_of(batch.sparkSession.read.format("statestore").load(root)))
        with pytest.raises(SparkRuntimeException, match="STDS_COMMITTED_BATCH") as raised:
            stranger.read.format("statestore").load(root)
        seen.append(raised.value.__notes__)

    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "0.txt").write_text("b")
    query = (
        registered.readStream.schema("word string")
        .text(str(tmp_path / "words"))
        .writeStream.foreachBatch(use)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(300)

    assert query.exception() is None
    rows, (note,) = seen
    assert rows == [("a", 1), ("b", 2)]
    assert "this session, which is not registered: call statestores.spark.register()" in note


def test_a_thread_can_write(
    registered: SparkSession, frame: DataFrame, root: str, tmp_path: Path, rows_of: RowsOf
) -> None:
    """``save()`` and ``start()`` of a thread of the user's ended in DATA_SOURCE_NOT_FOUND.

    Spark looks for a Python source in the thread's active session, and there was none. The thread
    has none afterwards either.
    """
    jvm: Any = registered._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "0.txt").write_text("c")

    def write(name: str) -> Any:
        frame.write.format(name).option("storeName", name).save(root)
        words = registered.readStream.schema("key string").text(str(tmp_path / "words"))
        writer = words.selectExpr("key", "3L AS value").writeStream.format(name)
        query = (
            writer.option("storeName", name)
            .option("checkpointLocation", str(tmp_path / name))
            .trigger(availableNow=True)
            .start(root)
        )
        assert query.awaitTermination(300)
        return sessions.getActiveSession().isDefined()

    # Threads of their own, and none that has been told of a session.
    names = ["statestore", "statestores"]
    with ThreadPoolExecutor(1) as pool:
        active = list(pool.map(write, names))

    assert active == [False, False]
    for name in names:
        load = registered.read.format("statestores").option("storeName", name)
        assert rows_of(load.load(root)) == [*ROWS, ("c", 3)]


def test_a_load_of_what_is_being_made_says_so(registered: SparkSession, root: str) -> None:
    """A streaming load that began while the first write was staged: "no batch found", by Spark."""
    state = ss.StateRoot.create(Path(root).parent / "other")
    specification = ss.KeyValue("s", key=ss.utf8, value=ss.int64)
    stage(root, specification, 1, "w", "a", [_one_row(specification)])
    refusal = "a first write to 's' has begun there and is not committed"

    with pytest.raises(AnalysisException, match=refusal):
        registered.readStream.format("statestore").load(root)
    with pytest.raises(AnalysisException, match=refusal):
        registered.read.format("statestores").option("storeName", "s").load(root)
    with pytest.raises(StoreNotFoundError, match=r"no state root at [^;]*; check the path$"):
        store_at(GivenRoot(Path(root)), "another")
    stage(state.path, specification, 1, "w", "a", [_one_row(specification)])
    with pytest.raises(StoreNotFoundError, match="it has: none; a first write to 's' has begun"):
        store_at(GivenRoot(state.path), "s")


def _one_row(specification: Any) -> pa.RecordBatch:
    rows = {"key": [b"k"], "value": [bytes(8)]}
    return changes_from_encoded(pa.RecordBatch.from_pydict(rows), specification)
