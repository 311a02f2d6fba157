"""Reshards of state roots in an object store by Spark's tasks, in depth."""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import killed_reshard_driver
import pytest
from dictionary import SPECIFICATIONS, Written, by_repr
from pyspark.sql import SparkSession
from s3 import SECRET, Bucket

import statestores as ss
from statestores.partitioning import partitioner_by_name
from statestores.reading.partition_places import place_of
from statestores.reading.partition_reader import PartitionReader
from statestores.spark import reshard
from statestores.verification import verify

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
_STEPS = (
    ("objects.reshard.exchanged", "task", False),
    ("reshard.routed", "driver", False),
    ("objects.snapshot.put", "task", False),
    ("objects.snapshot.published", "task", False),
    ("reshard.built", "driver", False),
    ("objects.reshard.announced", "driver", False),
    ("objects.reshard.ended", "driver", True),
    ("reshard.noted", "driver", True),
)
"""Where the driver is killed, by whom, and whether the new partitions count then."""


def storage_options(bucket: Bucket) -> dict[str, Any]:
    """Return how Spark's tasks reach *bucket*."""
    shown = bucket.spark_options
    return {**json.loads(shown["storageOptions"]), **json.loads(shown["storageSecrets"])}


def passing(bucket: Bucket) -> list[str]:
    """Return the objects in which rows pass."""
    return [each.name for each in bucket.storage().list("counts/") if "/scratch/" in each.name]


@pytest.mark.soak
@pytest.mark.spec("RSH-1", "RSH-2", "RSH-3", "RSH-20")
@pytest.mark.timeout(3_600)
def test_the_content_is_that_of_a_dictionary(
    spark: SparkSession, bucket: Bucket, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """For every kind, in one, three and two partitions, in place and in a directory."""
    for kind, specification in SPECIFICATIONS.items():
        with subtests.test(kind):
            place, options = f"{bucket.root}/{kind}", storage_options(bucket)
            root = ss.StateRoot.create(place, storage_options=options)
            root.add_store(specification, partitions=2)
            written = Written(place, specification, "sqlite", tmp_path / kind, options)
            written.put(random.Random(17), 60)
            for partitions in (1, 3, 2):
                reshard(
                    spark, place, "kept", partitions, memory_bytes=20_000, storage_options=options
                )
                assert written.shown() == by_repr(written.model.shown())
                written.put(random.Random(partitions), 20)
            copy = tmp_path / f"copy-{kind}"
            reshard(spark, place, "kept", 3, to=copy, storage_options=options)
            copied = Written(copy, specification, "sqlite")
            assert copied.shown() == by_repr(written.model.shown())
            assert [each for each in verify(copy) if each.is_failure] == []


@pytest.mark.soak
@pytest.mark.spec("RSH-13", "RSH-18", "RSH-20", "OBJ-27", "OBJ-50")
@pytest.mark.timeout(3_600)
def test_drivers_that_are_killed(bucket: Bucket, tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The old partitions are there or the new ones, the job is called again, and nothing stays."""
    options = storage_options(bucket)
    root = ss.StateRoot.create(bucket.root, storage_options=options)
    root.add_store(COUNTS, partitions=2)

    def opened() -> ss.StateRoot:
        return ss.StateRoot.open(bucket.root, storage_options=options)

    def content() -> dict[str, int]:
        state = opened()
        return {
            row["key"]: row["value"]
            for number in range(state.store("counts").partitions)
            for batch in PartitionReader(place_of(state, "counts", number), COUNTS).rows()
            for row in batch.to_pylist()
        }

    def write(rows: dict[str, int]) -> None:
        state, place = opened(), partitioner_by_name("murmur2")
        partitions = state.store("counts").partitions
        for number in range(partitions):
            directory = tmp_path / str(number)
            with ss.open_logged_store(
                state, "counts", number, directory=directory, backend="sqlite"
            ) as counts:
                for key, value in rows.items():
                    if place.partition(key.encode(), partitions) == number:
                        counts.store.put(key, value)
                counts.commit()

    def run(partitions: int, *dying: str) -> int:
        program = str(killed_reshard_driver.__file__)
        log = tmp_path / "log"
        with log.open("ab") as output:
            arguments = [bucket.root, json.dumps(options), str(partitions), *dying]
            code = subprocess.run(
                [sys.executable, program, *arguments],
                stdout=output,
                stderr=output,
                start_new_session=True,
                timeout=1_200,
                check=False,
            ).returncode
        said = log.read_text("utf-8", "replace")
        assert SECRET not in said
        assert code in {0, -signal.SIGKILL}, said
        return code

    expected: dict[str, int] = {}
    for turn, (failpoint, place, counts) in enumerate(_STEPS):
        with subtests.test(f"{failpoint} by the {place}"):
            rows = {f"{turn}-{number}": number for number in range(300)}
            expected |= rows
            write(rows)
            before = opened().store("counts").partitions
            wanted = 5 - before
            assert run(wanted, failpoint, place) == -signal.SIGKILL
            assert opened().store("counts").partitions == (wanted if counts else before)
            assert content() == expected
            assert passing(bucket)
            assert run(wanted) == 0
            assert opened().store("counts").partitions == wanted
            assert content() == expected
    log = opened().object_log("counts")
    log.vacuum(abandoned_after_ms=-60_000)  # of tasks that have outlived their driver
    assert passing(bucket) == []
