"""A task of two stores in an object store, and what the tests of such tasks ask of it."""

from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores import failpoints
from statestores.storage import ObjectStorage
from statestores.tasks import Task, open_task

INPUT = ss.TopicPartition("words", 0)
NAMES = ("counts", "rates")


def two_stores(url: str) -> ss.StateRoot:
    """Make a state root with two stores that belong together."""
    state = ss.StateRoot.create(url)
    state.add_store(ss.KeyValue("counts", key=ss.utf8, value=ss.int64), partitions=2)
    state.add_store(
        ss.Versioned("rates", history_retention_ms=1_000, key=ss.utf8, value=ss.int64), partitions=2
    )
    return state


def opened(root: ss.StateRoot, directory: Path, **how: Any) -> Task:
    """Open the task with its engines in *directory*."""
    return open_task(root, "0_0", NAMES, local_directory=directory, backend="sqlite", **how)


def put(task: Task, number: int) -> None:
    """Put *number* into both stores, and commit it."""
    task.store("counts").put("number", number)
    task.store("rates").put("number", number, timestamp_ms=number)
    task.commit({INPUT: number})


def numbers(task: Task) -> tuple[Any, Any, Any]:
    """Return what the stores have, and the position."""
    record = task.store("rates").get("number")
    return task.store("counts").get("number"), record and record.value, task.position.get(INPUT)


def storage_of(root: ss.StateRoot) -> ObjectStorage:
    """Return where *root* is."""
    assert root.storage is not None
    return root.storage


def records(root: ss.StateRoot) -> list[str]:
    """Return the names of the records that are there."""
    return [each.name for each in storage_of(root).list("@tasks/0_0/records/")]


def two_alike(url: str) -> ss.StateRoot:
    """Make a state root with two stores of one kind that belong together."""
    state = ss.StateRoot.create(url)
    for name in NAMES:
        state.add_store(ss.KeyValue(name, key=ss.utf8, value=ss.int64), partitions=1)
    return state


def opened_alike(root: ss.StateRoot, directory: Path, **how: Any) -> Task:
    """Open the task of `two_alike` with its engines in memory."""
    return open_task(root, "0_0", NAMES, local_directory=directory, backend="memory", **how)


def put_alike(task: Task, number: int) -> None:
    """Put *number* into both stores, and commit it."""
    for name in NAMES:
        task.store(name).put("number", number)
    task.commit({INPUT: number})


def numbers_alike(task: Task) -> list[Any]:
    """Return what each store has."""
    return [task.store(name).get("number") for name in NAMES]


def half_a_commit(root: ss.StateRoot, directory: Path) -> str:
    """Leave a commit of which the first store of `two_alike` has its part; return its record."""

    def die() -> None:
        raise OSError(5, "Input/output error")

    with opened_alike(root, directory) as task:
        failpoints.arm("objects.append.before", die, at=2)
        with pytest.raises(OSError, match="Input/output"):
            put_alike(task, 1)
        failpoints.disarm()
    [name] = records(root)
    return name
