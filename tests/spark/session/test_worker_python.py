"""Spark's workers may run in another Python than the program; the first thing of ours says so."""

import shlex
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from statestores.errors import MissingDriverError
from statestores.spark import register, stateful, unregister
from statestores.spark.state.importing import import_spark_state


def python(directory: Path, *flags: str) -> str:
    """Make a ``python3`` in *directory*, which runs this one with *flags*."""
    program = directory / "python3"
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *flags])} "$@"\n')
    program.chmod(0o755)
    return str(program)


def test_a_python_without_what_is_needed_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without PYSPARK_PYTHON, a user met ``No module named 'numpy'`` in a worker's traceback.

    It was that of the first python3 on PATH, and nothing said so. The error has both of them now.
    """
    # No packages, as in a system's own.
    monkeypatch.setattr(spark.sparkContext, "pythonExec", python(tmp_path, "-I", "-S"))
    stream = spark.readStream.format("rate").load()
    refusal = rf"python3' here .* No module named .*; set .* PYSPARK_PYTHON to '{sys.executable}'"

    with pytest.raises(MissingDriverError, match=refusal):
        register(spark)
    with pytest.raises(MissingDriverError, match=refusal):
        import_spark_state(spark, tmp_path, tmp_path / "state")
    with pytest.raises(MissingDriverError, match=refusal):
        stateful(
            stream,
            key="value",
            stores=["s"],
            function=print,
            output_schema="value long",
            state=tmp_path,
        )


def test_another_python_that_has_what_is_needed_will_do(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a script that starts the interpreter; or one that only the executors have."""
    for command in (python(tmp_path), "./environment/bin/python"):
        monkeypatch.setattr(spark.sparkContext, "pythonExec", command)
        register(spark)
        unregister(spark)
