"""Which moment of a store a DataFrame, a view or a table shows: what docs/spark.md says.

What a user saw: a DataFrame counted 3 rows, the store was written to, and it counted 3 for ever; so
did a view, `REFRESH TABLE` notwithstanding, and a row that was inserted into the view itself was
not in it. Why: since 4.1 PySpark plans a Python source once for each load, and keeps its tasks,
which name the offsets that they read up to. What holds: the page says which things stay at their
moment, and what shows the latest, and these tests are its sentences.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from store_streams import LIMIT_SECONDS, add, feed, make_store
from two_queries import SETTING

Write = Callable[[str], None]

pytestmark = pytest.mark.skipif(
    pyspark.__version__.startswith("4.0."), reason="PySpark 4.0 plans a source for each query"
)


@pytest.fixture
def write(root: str) -> Write:
    """Return what adds one key to a store as one commit."""
    state = make_store(root, partitions=1)

    def commit(key: str) -> None:
        add(state, key, {key: f"value of {key}"})

    return commit


def load(spark: SparkSession, root: str) -> DataFrame:
    return spark.read.format("statestores").load(root)


def keys(frame: DataFrame) -> str:
    return "".join(sorted(row.key for row in frame.select("key").collect()))


def test_a_frame_shows_the_moment_of_its_first_query(
    spark: SparkSession, root: str, write: Write
) -> None:
    """Not of its load; also what is made from it later. A new load shows what is there."""
    write("a")
    frame = load(spark, root)
    write("b")
    assert keys(frame) == "ab"
    write("c")

    assert keys(frame) == "ab"
    assert keys(frame.alias("again").where("key <> 'a'")) == "b"
    assert keys(load(spark, root)) == "abc"


def test_the_setting_for_filters_moves_the_moment(
    spark: SparkSession, root: str, write: Write
) -> None:
    """Where a user has it on, a query with a filter looks anew, and the DataFrame with it."""
    write("a")
    frame = load(spark, root)
    assert keys(frame) == "a"
    write("b")
    spark.conf.set(SETTING, "true")
    try:
        assert keys(frame) == "a"
        assert keys(frame.where("key = 'b'").union(frame)) == "abb"
    finally:
        spark.conf.unset(SETTING)
    assert keys(frame) == "ab"


def test_a_view_of_a_store_shows_the_moment_of_its_first_query(
    spark: SparkSession, root: str, write: Write
) -> None:
    """Whatever is refreshed, inserted or said; to be shown the latest, create it again."""
    create = f"CREATE OR REPLACE TEMP VIEW held USING statestores OPTIONS (path '{root}')"
    write("a")
    spark.sql(create)
    assert keys(spark.table("held")) == "a"
    write("b")
    spark.sql("REFRESH TABLE held")
    spark.catalog.refreshByPath(root)
    spark.sql("INSERT INTO held VALUES ('c', 'inserted')")

    assert keys(spark.table("held")) == "a"
    given = f"SELECT * FROM held WITH (path = '{root}')"  # noqa: S608  # the test's own
    assert keys(spark.sql(given)) == "a"
    assert keys(load(spark, root)) == "abc"
    spark.sql(create)
    assert keys(spark.table("held")) == "abc"


def test_a_table_that_is_given_its_path_shows_the_latest(
    spark: SparkSession, root: str, write: Write
) -> None:
    """At each use, and so does a view that names it with its path, temporary or not."""
    write("a")
    spark.sql(f"CREATE TABLE held_table USING statestores OPTIONS (path '{root}')")
    latest = f"SELECT * FROM held_table WITH (path = '{root}')"  # noqa: S608  # the test's own
    try:
        spark.sql(f"CREATE OR REPLACE TEMP VIEW latest AS {latest}")
        spark.sql(f"CREATE OR REPLACE VIEW latest_for_all AS {latest}")
        asked = (latest, "SELECT * FROM latest", "SELECT * FROM latest_for_all")
        assert [keys(spark.sql(query)) for query in asked] == ["a"] * 3
        write("b")
        inserted = "VALUES ('c', 'inserted')"
        spark.sql(f"INSERT INTO held_table WITH (path = '{root}') {inserted}")

        assert [keys(spark.sql(query)) for query in asked] == ["abc"] * 3
    finally:
        spark.sql("DROP VIEW IF EXISTS latest_for_all")
        spark.sql("DROP TABLE held_table")


def test_a_frame_that_a_stream_holds_stays_at_its_moment(
    spark: SparkSession, root: str, tmp_path: Path, write: Write
) -> None:
    """Over all micro-batches; a load in `foreachBatch` shows what each of them finds."""
    write("a")
    held, seen = load(spark, root), []
    assert keys(held) == "a"

    def look(_: Any, number: int) -> None:
        write(f"{number}")
        seen.append((keys(held), keys(load(spark, root))))

    for _ in range(2):
        query = (
            feed(spark, root)
            .writeStream.foreachBatch(look)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(LIMIT_SECONDS)

    assert seen == [("a", "0a"), ("a", "01a")]
