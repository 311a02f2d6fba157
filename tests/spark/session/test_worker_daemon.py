"""Workers that are forked with what they need: `statestores.spark.worker_daemon`."""

import os
from collections.abc import Iterable, Iterator

import psutil
from pyspark.sql import SparkSession


def look_around(_: Iterable[int]) -> Iterator[tuple[bool, list[str]]]:
    """Tell what a new worker has imported before it does anything, and who forked it."""
    import sys  # noqa: PLC0415  # in the worker

    daemon = psutil.Process(os.getppid()).cmdline()
    yield "statestores.reading.partition_reader" in sys.modules, daemon


def test_a_worker_begins_with_what_it_needs(spark: SparkSession) -> None:
    """Each `take` cost most of a second of imports, since Spark throws the worker away."""
    setting = spark.conf.get("spark.python.daemon.module")

    for imported, daemon in spark.sparkContext.range(2).mapPartitions(look_around).collect():
        assert imported
        assert setting in daemon
