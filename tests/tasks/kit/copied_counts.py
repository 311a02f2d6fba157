"""What a writer does to the counts that a standby copies, and what the copy has of them."""

from typing import Any

import pyarrow as pa
import pytest

import statestores as ss
from statestores import failpoints
from statestores.changelog import FileChangelog, change_schema, compact
from statestores.staging.staged_write import publish, stage
from statestores.tasks import Standby

INPUT = ss.TopicPartition("numbers", 0)


def put(counts: ss.LoggedStore[Any], number: int) -> None:
    """Commit *number* as the number, and under a key of its own."""
    counts.store.put("number", number)
    counts.store.put(f"{number}", number)
    counts.commit({INPUT: number})


def trim(counts: ss.LoggedStore[Any], *, snapshot: bool = True) -> None:
    """Delete the changelog's beginning, all of it, which a snapshot covers."""
    if snapshot:
        counts.snapshot()
    assert isinstance(counts.changelog, FileChangelog)
    counts.changelog.seal()
    counts.changelog.delete_before(counts.changelog.end_offset)


def seal_and_compact(counts: ss.LoggedStore[Any]) -> None:
    """Compact the changelog, all of it."""
    assert isinstance(counts.changelog, FileChangelog)
    counts.changelog.seal()
    compact(counts.changelog)


def number_in(copy: Standby) -> int | None:
    """Return the number that *copy* has."""
    facade: Any = copy.read_only(include_stale=True)
    found: int | None = facade.get("number")
    return found


class _Died(BaseException):
    """The process ends here, as far as anybody can tell."""


def _die() -> None:
    raise _Died


def commit_of_a_dead_job(root: ss.StateRoot, number: int) -> None:
    """Commit *number* as a job that dies before the changelog gets it."""
    specification = root.store("counts").specification
    row = {"key": b"number", "value": ss.int64.encode(number)}
    change = pa.RecordBatch.from_pylist([row], change_schema(specification.kind))
    staged = stage(root.path, specification, 3, "w", "t", [change], partition=0)
    failpoints.arm("publish.committed", _die)
    with pytest.raises(_Died):
        publish(root, "counts", "w", [staged])
    failpoints.disarm()
