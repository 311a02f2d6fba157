"""The session of a driver that is to be killed, and how it kills itself with its Java."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from statestores.spark import ensure_java


def started(master: str = "local[2,40]", **settings: str) -> SparkSession:
    """Return a session; on a busy machine one task may be killed many times, which is no failure.

    Names of *settings* have ``__`` for each dot.
    """
    ensure_java()
    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.codegen.wholeStage", "false")
        # Each life of the program would import what its workers need once for each of them.
        .config("spark.python.daemon.module", "statestores.spark.worker_daemon")
    )
    for name, value in settings.items():
        builder = builder.config(name.replace("__", "."), value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def processes_of(spark: SparkSession) -> tuple[int, int]:
    """Return the processes that a driver is made of: its Java, and this one."""
    java: Any = spark.sparkContext._gateway  # no other way
    return java.proc.pid, os.getpid()


def dying_once(spark: SparkSession, marker: str) -> Callable[[], None]:
    """Return what kills the driver, if there is no file *marker* yet."""

    def die() -> None:
        if not Path(marker).exists():
            Path(marker).touch()
            for process in processes_of(spark):
                os.kill(process, signal.SIGKILL)

    return die
