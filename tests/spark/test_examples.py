"""The examples that need a session run, and show what they say."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(example: str, spark: SparkSession, directory: Path) -> None:
    """Run the main function of *example*."""
    runpy.run_path(str(EXAMPLES / example))["main"](spark, directory)


def test_a_store_is_bootstrapped_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a file, all at once; an application then opens it without Spark."""
    run("bootstrap_store/bootstrap_rates.py", spark, tmp_path)
    printed = capsys.readouterr().out

    rates = {"CHF": 1.146, "EUR": 1.096, "GBP": 1.276, "JPY": 0.022}
    assert f"rates at noon of 16 February: {rates}" in printed
    assert "the store 'rates' exists in" in printed


def test_an_archive_of_changes_leads_to_the_content(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each change once, in two runs, with the writer at work."""
    run("feed_to_parquet/archive_changes.py", spark, tmp_path)
    printed = capsys.readouterr().out

    assert "changes archived: 3" in printed
    assert "changes archived: 5" in printed
    assert "the archive leads to {'apples': 9, 'plums': 7}" in printed
    assert "the store has        {'apples': 9, 'plums': 7}" in printed


def test_an_archive_of_a_store_that_was_replaced_leads_to_what_is_left(
    spark: SparkSession,
) -> None:
    """Keys from before an overwrite were in what the archive led to, though the store had none.

    The fold took the last change of each key, and a clear has no key. It is one of each partition.
    """
    archived = spark.createDataFrame(
        [
            (0, 0, "put", "gone", 1),
            (0, 1, "clear", None, None),
            (0, 2, "put", "new", 2),
            (1, 5, "put", "kept", 3),
            (1, 6, "put", "deleted", 4),
            (1, 7, "delete", "deleted", None),
        ],
        "partition int, offset long, operation string, key string, value long",
    )
    folded = runpy.run_path(str(EXAMPLES / "feed_to_parquet/archive_changes.py"))["folded"]

    assert sorted(map(tuple, folded(archived).collect())) == [("kept", 3), ("new", 2)]


def test_the_notebook_runs(spark: SparkSession, tmp_path: Path) -> None:
    """All cells in their order."""
    given: dict[str, Any] = {"spark": spark, "directory": tmp_path}
    left = runpy.run_path(str(EXAMPLES / "spark_notebook/sessions_of_visitors.py"), given)

    assert [tuple(row) for row in left["pages"].collect()] == [("ann", 7), ("bob", 9)]
    assert left["longest"].count() == 3
    operations = sorted(row.operation for row in left["changes"].collect())
    assert operations == ["delete", "put", "put", "put", "put"]
