"""Workers that are forked with what they need: `statestores.spark.worker_daemon`."""

from collections.abc import Iterable, Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource


def look_around(_: Iterable[int]) -> Iterator[tuple[bool, str]]:
    """Tell what a new worker has imported before it does anything, and which program forked it."""
    import sys  # noqa: PLC0415  # in the worker

    daemon = sys.modules["__main__"].__spec__
    assert daemon is not None
    yield "statestores.reading.partition_reader" in sys.modules, daemon.name


class Planned(DataSource):
    """A source that tells, by its columns, whether its planner has imported what ours needs."""

    @classmethod
    def name(cls) -> str:
        """Return its name for Spark."""
        return "planned"

    def schema(self) -> str:
        """Return a column that is named for what there is."""
        import sys  # noqa: PLC0415  # in the planner

        return f"{'statestores.reading.partition_reader' in sys.modules} int"


def test_who_is_forked_begins_with_what_it_needs(
    spark: SparkSession, subtests: pytest.Subtests
) -> None:
    """Each `take` cost most of a second of imports, since Spark throws the worker away.

    Planners of Spark's own still do; those of the tests are forked by `kit/forked_pythons.py`, as
    are our daemons, whose own imports `test_forked_workers.py` shows.
    """
    setting = spark.conf.get("spark.python.daemon.module")
    with subtests.test("a worker"):
        for imported, daemon in spark.sparkContext.range(2).mapPartitions(look_around).collect():
            assert imported
            assert daemon == setting
    spark.dataSource.register(Planned)
    with subtests.test("a planner of the tests"):
        assert spark.read.format("planned").load().columns == ["True"]
