"""Executors that share an object store and nothing else: killed, and every row is there once.

Here and in no other test is there a cluster: driver, master, workers and executors are processes of
their own, and each executor has its own working and scratch directories.

Each run has a write and a read. Streams are for soaks: what Spark starts for a streaming source in
Python must be there within ten seconds, which no setting changes, and with other tests beside it on
two processors it was not; queries began again until a quarter of an hour was over.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import object_cluster
import pytest
import short_cluster
from object_cluster import COUNTED, ROWS_AT_ONCE, Life, environment, expected_copies
from s3 import SECRET, Bucket
from store_streams import needs_limits

import statestores as ss
from statestores.files.durable_json import ROOT_FILE
from statestores.reading.partition_places import place_of
from statestores.reading.partition_reader import PartitionReader

LIVES = 5
"""Of a soak run, all but the last of which end with a killed driver."""

TIMES = 5
"""How often executors are killed in each of them."""

AT_ONCE = 2
"""How many of the three are killed then: 54 kills in all."""


def run(
    program: ModuleType,
    bucket: Bucket,
    directory: Path,
    *more: str,
    environment: Mapping[str, str],
    seconds: int,
) -> tuple[int, str]:
    """Run *program* in *directory*; return how it ended, and what it has said in all its lives."""
    assert program.__file__ is not None
    directory.mkdir(exist_ok=True)
    log = directory / "log"
    reached = json.dumps(bucket.spark_options)
    with log.open("ab") as output:
        ended = subprocess.run(
            [sys.executable, program.__file__, bucket.root, str(directory), reached, *more],
            env=environment,
            cwd=directory,
            start_new_session=True,
            stdout=output,
            stderr=output,
            timeout=seconds,
            check=False,
        )
    said = log.read_text("utf-8", "replace")
    assert SECRET not in said
    return ended.returncode, said


def live(bucket: Bucket, directory: Path, life: Life) -> tuple[int, str]:
    """Run one life; return how it ended, and what all of them have said."""
    directory.mkdir(exist_ok=True)
    return run(
        object_cluster,
        bucket,
        directory,
        json.dumps(asdict(life)),
        environment=environment(directory),
        seconds=1_800,
    )


def changes_and_content(
    bucket: Bucket, store: str, ending: str = ""
) -> tuple[Counter[str], dict[str, int]]:
    """Return how often each key of *store* was written, and what it has."""
    root = ss.StateRoot.open(f"{bucket.root}{ending}", storage_options=bucket.options)
    entry = root.store(store)
    readers = [
        PartitionReader(place_of(root, store, number), entry.specification)
        for number in range(entry.partitions)
    ]
    changes = [row for each in readers for batch in each.changes() for row in batch.to_pylist()]
    content = [row for each in readers for batch in each.rows() for row in batch.to_pylist()]
    return Counter(row["key"] for row in changes), {row["key"]: row["value"] for row in content}


def check_copies(bucket: Bucket, rows: int) -> None:
    """Accept a copy that has each of *rows* once, in its changes and in its content."""
    expected = expected_copies(rows)
    written, content = changes_and_content(bucket, "copies")

    assert written == dict.fromkeys(expected, 1)
    assert content == expected


def states_on_disk(directory: Path) -> list[Path]:
    """Return the state roots below *directory*, where driver and executors have all their files.

    What none of them has there, no executor can have shared with another one.
    """
    return list(directory.rglob(ROOT_FILE))


def check_counts(bucket: Bucket, rows: int) -> None:
    """Accept what a function has counted of *rows*, each once."""
    counted = Counter(str(number % object_cluster.WORDS) for number in range(rows))

    assert changes_and_content(bucket, "counts", COUNTED)[1] == counted


@pytest.mark.long
@pytest.mark.spec("OBJ-26", "OBJ-27", "OBJ-28", "OBJ-50", "RSH-20")
@pytest.mark.timeout(1_300)
def test_a_write_and_a_reshard_whose_executors_die(bucket: Bucket, tmp_path: Path) -> None:
    """A task whose rows are put dies with its executor; they are there once, and are read.

    So are those of a reshard by tasks, one of which has put a snapshot when its executor dies.
    """
    variables = environment(tmp_path) | {"SPARK_HOME": os.environ["SPARK_HOME"]}
    ended, said = run(short_cluster, bucket, tmp_path, environment=variables, seconds=1_200)

    assert ended == 0, said
    staged = [each.name.split("/")[2] for each in bucket.storage().list("words/data/")]
    attempts = {identifier.rpartition("-")[0] for identifier in staged}
    assert len(attempts) == 3, "of two tasks, one of which came again"
    content = changes_and_content(bucket, "words")[1]
    assert content == {str(number): number for number in range(short_cluster.ROWS)}
    root = ss.StateRoot.open(bucket.root, storage_options=bucket.options)
    assert root.store("words").partitions == short_cluster.PARTITIONS
    assert [each for each in bucket.storage().list("words/") if "/scratch/" in each.name] == []


@needs_limits
@pytest.mark.soak
@pytest.mark.spec("OBJ-26", "OBJ-27", "OBJ-28", "OBJ-31", "OBJ-42", "OBJ-44")
@pytest.mark.timeout(1_900)
def test_a_killed_executor(bucket: Bucket, tmp_path: Path, subtests: pytest.Subtests) -> None:
    """A write, a read, joins, streams both ways and counts on three executors; one is killed."""
    life = Life(rows=3 * ROWS_AT_ONCE, executors_die_after=(1,), counts=True)
    ended, said = live(bucket, tmp_path / "life", life)

    assert ended == 0, said
    assert said.count("killed an executor") == 1
    with subtests.test("what was written in a batch"):
        written, content = changes_and_content(bucket, "words")
        assert written == dict.fromkeys(content, 1)
        assert content == {str(number): number for number in range(life.rows)}
    with subtests.test("what was copied by a stream"):
        check_copies(bucket, life.rows)
    with subtests.test("what a function has counted"):
        check_counts(bucket, life.rows)
    with subtests.test("what the stream has pinned"):
        pinned = [each.name for each in bucket.storage().list("@pins/")]
        assert sorted(name.rpartition("/")[2] for name in pinned) == ["rates-1", "rates-2"]


@needs_limits
@pytest.mark.soak
@pytest.mark.spec("OBJ-26", "OBJ-27", "OBJ-28", "OBJ-31", "OBJ-42", "OBJ-44")
@pytest.mark.timeout(14_400)
def test_killed_executors_and_killed_drivers(
    bucket: Bucket, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A joined copy, and counts by a function, go on each time from where they were killed."""
    batches, rows, said = tuple(range(1, TIMES + 1)), 0, ""
    for number in range(LIVES):
        is_last = number == LIVES - 1
        life = Life(
            first=rows,
            rows=rows + (TIMES + 2) * ROWS_AT_ONCE,
            executors_die_after=batches,
            dying_at_once=AT_ONCE,
            driver_dies_after=None if is_last else TIMES + 1,
            counts=True,
        )
        ended, said = live(bucket, tmp_path / "life", life)
        assert ended == (0 if is_last else -signal.SIGKILL), said
        rows = life.rows
        written, content = changes_and_content(bucket, "copies")
        assert set(written.values()) == {1}
        assert content.items() <= expected_copies(rows).items()

    assert said.count("killed an executor") == LIVES * TIMES * AT_ONCE
    with subtests.test("what was copied by a stream"):
        check_copies(bucket, rows)
    with subtests.test("what a function has counted"):
        check_counts(bucket, rows)
    with subtests.test("what executors could have shared"):
        assert states_on_disk(tmp_path) == []
    with subtests.test("what can never count is removed"):
        root = ss.StateRoot.open(bucket.root, storage_options=bucket.options)
        assert root.object_log("copies").vacuum() is not None
