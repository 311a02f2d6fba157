"""A Spark session on this machine that is quiet and leaves nothing outside of one directory."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from statestores.spark import ensure_java, register

_LOG = "spark.log"
_STANDARD_ERROR = 2


@contextmanager
def spark_session(directory: Path) -> Iterator[Any]:
    """Start Spark, with ``format("statestore")`` for state roots, and stop it at the end.

    Its log is ``spark.log`` in *directory*; so are its temporary files.

    Raises:
        MissingDriverError: There is no Java runtime that Spark runs on.
    """
    ensure_java()
    # Spark's workers must be of this environment, and it listens on this machine only.
    os.environ.update(
        PYSPARK_PYTHON=sys.executable,
        PYSPARK_DRIVER_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
    )
    from pyspark.sql import SparkSession  # noqa: PLC0415  # it reads the environment

    builder = SparkSession.builder.appName("nycflights").master("local[*]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(directory / "spark"),
        "spark.sql.warehouse.dir": str(directory / "spark" / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
    }.items():
        builder = builder.config(name, value)
    with _standard_error_into(directory / _LOG):
        spark = builder.getOrCreate()
    try:
        register(spark)
        yield spark
    finally:
        spark.stop()


@contextmanager
def _standard_error_into(path: Path) -> Iterator[None]:
    """Give the processes that are started inside, Java above all, *path* as standard error."""
    kept = os.dup(_STANDARD_ERROR)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), _STANDARD_ERROR)
            try:
                yield
            finally:
                os.dup2(kept, _STANDARD_ERROR)
    finally:
        os.close(kept)
