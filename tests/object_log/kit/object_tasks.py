"""A task of two stores in an object store, and what the tests of such tasks ask of it."""

from pathlib import Path
from typing import Any

import statestores as ss
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
