"""Executors that share an object store and nothing else: killed, and every row is there once."""

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import object_cluster
import pytest
from object_cluster import ROWS, copy, environment
from pyspark.sql import SparkSession
from s3 import SECRET, Bucket
from store_streams import needs_limits, run

import statestores as ss


@needs_limits
@pytest.mark.soak
@pytest.mark.spec("OBJ-26", "OBJ-27", "OBJ-28", "OBJ-31")
@pytest.mark.timeout(900)
def test_killed_executors_and_a_killed_driver(
    spark: SparkSession, bucket: Bucket, reached: dict[str, str], tmp_path: Path
) -> None:
    """A copy of a store, as a stream, goes on elsewhere from where its cluster was killed."""
    assert object_cluster.__file__ is not None
    checkpoint, log = str(tmp_path / "checkpoint"), tmp_path / "log"
    command = [sys.executable, object_cluster.__file__, bucket.root, checkpoint]
    with log.open("wb") as output:
        ended = subprocess.run(
            [*command, json.dumps(reached)],
            env=environment(tmp_path / "spark-home"),
            cwd=tmp_path,
            start_new_session=True,
            stdout=output,
            stderr=output,
            timeout=800,
            check=False,
        )
    said = log.read_text("utf-8", "replace")
    assert ended.returncode == -signal.SIGKILL, said
    assert SECRET not in said
    assert said.count("Lost executor") >= 2
    run(copy(spark, bucket.root, checkpoint, reached))

    root = ss.StateRoot.open(bucket.root, storage_options=bucket.options)
    for store in ("words", "copies"):
        changes = spark.read.format("statestores").options(
            storeName=store, readChangeFeed="true", **reached
        )
        counted = Counter(row.key for row in changes.load(bucket.root).collect())
        assert counted == Counter({str(number): 1 for number in range(ROWS)})
        assert root.object_log(store).vacuum() is not None
