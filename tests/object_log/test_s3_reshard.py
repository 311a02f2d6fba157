"""A reshard in place on a real S3 server, killed at each step."""

import json
import signal
from pathlib import Path

import forked_programs
import pytest
from s3 import Bucket

import statestores as ss
from statestores.errors import StoreNotFoundError
from statestores.partitioning import partitioner_by_name
from statestores.reading.partition_places import place_of
from statestores.reading.partition_reader import PartitionReader
from statestores.resharding import reshard
from statestores.upkeep import ObjectVacuum

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
_PROGRAM = Path(__file__).parent / "kit" / "reshard_writer.py"
_STEPS = {
    "objects.reshard.exchanged": False,
    "reshard.routed": False,
    "objects.snapshot.put": False,
    "objects.snapshot.published": False,
    "reshard.built": False,
    "objects.reshard.announced": False,
    "objects.reshard.ended": True,
    "reshard.noted": True,
}
"""Where it is killed, and whether the new partitions count then."""

_BY_TASKS = {"objects.reshard.exchanged", "reshard.built", "objects.reshard.ended"}
"""Where it is that its rows have passed as objects."""


def opened(bucket: Bucket) -> ss.StateRoot:
    """Open the root."""
    return ss.StateRoot.open(bucket.root, storage_options=bucket.options)


def write(root: ss.StateRoot, directory: Path, rows: dict[str, int]) -> None:
    """Put *rows* where they belong; the engines in *directory* are those of before."""
    partitions, place = root.store("counts").partitions, partitioner_by_name("murmur2")
    for number in range(partitions):
        with ss.open_logged_store(
            root, "counts", number, directory=directory / str(number), backend="sqlite"
        ) as counts:
            for key, value in rows.items():
                if place.partition(key.encode(), partitions) == number:
                    counts.store.put(key, value)
            counts.commit()


def content(root: ss.StateRoot) -> dict[str, int]:
    """Return the rows as readers see them."""
    return {
        row["key"]: row["value"]
        for number in range(root.store("counts").partitions)
        for batch in PartitionReader(place_of(root, "counts", number), COUNTS).rows()
        for row in batch.to_pylist()
    }


def passing(bucket: Bucket) -> list[str]:
    """Return the objects in which rows have passed."""
    return [each.name for each in bucket.storage().list("counts/") if "/scratch/" in each.name]


@pytest.mark.long
@pytest.mark.spec("RSH-13", "RSH-18", "RSH-20", "OBJ-46", "OBJ-47", "OBJ-48", "OBJ-50")
def test_kills(bucket: Bucket, tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The old partitions are there or the new ones, whole, and writers go on.

    What is left goes: with the next reshard what a log held that has ended, with vacuums the rest.
    """
    root = ss.StateRoot.create(bucket.root, storage_options=bucket.options)
    root.add_store(COUNTS, partitions=2)
    options = {name: text for name, text in bucket.options.items() if isinstance(text, str)}
    options["client_options"] = bucket.options["client_options"]
    expected: dict[str, int] = {}
    for turn, (failpoint, counts) in enumerate(_STEPS.items()):
        with subtests.test(failpoint):
            rows = {f"{turn}-{number}": number for number in range(5)}
            expected |= rows
            write(opened(bucket), tmp_path, rows)
            before = opened(bucket).store("counts").partitions
            case = {"url": bucket.root, "options": options, "failpoint": failpoint}
            wanted, tasks = 5 - before, failpoint in _BY_TASKS
            more = {"partitions": wanted, "tasks": tasks}
            killed = forked_programs.run(_PROGRAM, json.dumps({**case, **more}))

            assert killed.returncode == -signal.SIGKILL, killed.stderr
            assert opened(bucket).store("counts").partitions == (wanted if counts else before)
            assert content(opened(bucket)) == expected
            assert passing(bucket) or not tasks
    write(opened(bucket), tmp_path, {"last": 1})
    state = opened(bucket)
    reshard(state, "counts", state.store("counts").partitions)
    assert passing(bucket) == []
    vacuum = ObjectVacuum(log=state.object_log("counts"), abandoned_after_ms=-60_000)
    removed = [vacuum().objects for _ in range(3)]
    assert removed[-1] == 0
    assert content(opened(bucket)) == {**expected, "last": 1}
    log = opened(bucket).object_log("counts")
    alive = [each.name for each in log.storage.list(log.names.generations)]
    others = [name for name in alive if log.generation not in name]
    # Of the logs that have ended there is what keeps out whoever is late.
    kinds = {name.removeprefix(log.names.generations).split("/")[1] for name in others}
    assert kinds <= {"checkpoint", "root", "own"}


@pytest.mark.long
@pytest.mark.spec("RSH-11", "RSH-22")
def test_kills_on_the_way_to_another_root(bucket: Bucket, tmp_path: Path) -> None:
    """There is no state root before the store counts, and then it is whole; this one stays."""
    root = ss.StateRoot.create(bucket.root, storage_options=bucket.options)
    root.add_store(COUNTS, partitions=2)
    rows, to = {str(number): number for number in range(20)}, f"{bucket.root}-copy"
    write(root, tmp_path, rows)
    options = {name: text for name, text in bucket.options.items() if isinstance(text, str)}
    options["client_options"] = bucket.options["client_options"]
    for failpoint, tasks in (
        ("objects.reshard.exchanged", True),
        ("objects.snapshot.published", False),
        ("reshard.built", True),
        ("reshard.noted", True),
    ):
        case = {"url": bucket.root, "options": options, "failpoint": failpoint}
        killed = forked_programs.run(
            _PROGRAM, json.dumps({**case, "partitions": 3, "tasks": tasks, "to": to})
        )

        assert killed.returncode == -signal.SIGKILL, killed.stderr
        if failpoint != "reshard.noted":
            with pytest.raises(StoreNotFoundError):
                ss.StateRoot.open(to, storage_options=bucket.options)
    copy = ss.StateRoot.open(to, storage_options=bucket.options)
    assert content(copy) == content(root) == rows
    # What the others have put goes, and the rows that the last one has moved.
    assert copy.object_log("counts").vacuum()
    left = [each.name for each in copy.object_log("counts").storage.list("counts/")]
    assert {name.split("/")[2] for name in left} == {copy.object_log("counts").generation}
    assert [name for name in left if "/scratch/" in name] == []
