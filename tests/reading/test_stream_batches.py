"""A batch of a stream is applied once, however often it is published."""

import pickle
import signal
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from forked_programs import run

import statestores as ss
from statestores.changelog import change_schema
from statestores.reading.partition_reader import PartitionReader, end_offsets
from statestores.staging.staged_write import Mode, StagedRows, publish, stage
from statestores.staging.unfinished_write import finish_staged_writes
from statestores.staging.write_intent import (
    StreamBatch,
    read_intent,
    staging_directory,
    store_intent,
    write_directory,
)

PARTITIONS = 2
SPECIFICATION = ss.KeyValue("counts")
PUBLISHER = """
import os, pickle, signal, sys
from statestores import failpoints
from statestores.staging.staged_write import publish
from statestores.state_root import StateRoot
from statestores.staging.write_intent import StreamBatch

root, failpoint = sys.argv[1:]
failpoints.arm(failpoint, lambda: os.kill(os.getpid(), signal.SIGKILL), at=1)
rows = pickle.load(sys.stdin.buffer)
publish(StateRoot.open(root), "counts", "q-0", [rows], batch=StreamBatch(stream="q", number=0))
"""

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """A state root with an empty store."""
    created = ss.StateRoot.create(tmp_path / "state")
    created.add_store(SPECIFICATION, partitions=PARTITIONS)
    return created


def staged(root: ss.StateRoot, batch: StreamBatch, attempt: str, rows: int = 10) -> StagedRows:
    """Stage rows of *batch* as one attempt of it does."""
    changes = pa.RecordBatch.from_pylist(
        [{"key": b"%d" % key, "value": b"of batch %d" % batch.number} for key in range(rows)],
        schema=change_schema(SPECIFICATION.kind),
    )
    write_id = f"{batch.stream}-{batch.number}"
    return stage(root.path, SPECIFICATION, PARTITIONS, write_id, attempt, [changes])


def apply(
    root: ss.StateRoot, stream: str, number: int, attempt: str = "a", mode: Mode = "append"
) -> int:
    """Stage and publish a batch; return how many rows that has added."""
    batch = StreamBatch(stream=stream, number=number)
    rows = staged(root, batch, attempt)
    return publish(root, "counts", rows.write_id, [rows], mode, batch=batch).rows


def changes(root: ss.StateRoot) -> int:
    """Return how many changes there are."""
    return sum(end_offsets(readers(root)))


def readers(root: ss.StateRoot) -> list[PartitionReader]:
    return [
        PartitionReader(root.partition("counts", number), SPECIFICATION)
        for number in range(PARTITIONS)
    ]


def test_a_batch_that_comes_again_adds_nothing(root: ss.StateRoot) -> None:
    """Also after others have written or replaced the content, and its rows are removed."""
    assert apply(root, "q", 0) == 10
    assert apply(root, "other", 5) == 10
    publish(root, "counts", "batch", [], "overwrite")
    assert apply(root, "q", 0, "b") == 0
    assert apply(root, "q", 1, mode="overwrite") == 10
    before = changes(root)

    assert [apply(root, "q", 1, "b"), apply(root, "q", 0, "c"), apply(root, "other", 5, "b")] == [
        0,
        0,
        0,
    ]
    assert changes(root) == before
    assert not write_directory(root.path / "counts", "q-1").exists()
    intent = read_intent(root.path / "counts")
    assert intent is not None
    assert dict(intent.batches) == {"q": 1, "other": 5}


def test_an_empty_batch_counts(root: ss.StateRoot) -> None:
    """It has happened, though it has changed nothing."""
    batch = StreamBatch(stream="q", number=3)
    rows = staged(root, batch, "a", rows=0)
    publish(root, "counts", "q-3", [rows], batch=batch)

    assert apply(root, "q", 3) == 0
    assert changes(root) == 0


@pytest.mark.parametrize("finished_by_another", [False, True])
@pytest.mark.parametrize(
    "failpoint", ["publish.checked", "publish.committed", "publish.appended", "publish.finished"]
)
def test_a_batch_whose_publisher_was_killed_is_applied_once(
    root: ss.StateRoot, failpoint: str, finished_by_another: bool
) -> None:
    """It comes again, staged by other attempts; a writer in between makes no difference."""
    rows = staged(root, StreamBatch(stream="q", number=0), "a")
    killed = run(PUBLISHER, root.path, failpoint, given=pickle.dumps(rows))
    assert killed.returncode == -signal.SIGKILL
    happened = failpoint != "publish.checked"
    assert changes(root) == (10 if happened else 0)
    if finished_by_another:
        assert finish_staged_writes(root, "counts") == (
            failpoint in {"publish.committed", "publish.appended"}
        )

    assert apply(root, "q", 0, "b") == (0 if happened else 10)
    assert changes(root) == 10
    assert apply(root, "q", 1) == 10
    assert not write_directory(root.path / "counts", "q-0").exists()


def test_a_release_that_would_forget_the_batches_refuses(root: ss.StateRoot) -> None:
    """The format of the file says that there are some; without any it is the older one."""
    apply(root, "q", 0)
    file = staging_directory(root.path / "counts") / "intent.json"

    assert '"format": 3' in file.read_text("utf-8")
    intent = read_intent(root.path / "counts")
    assert intent is not None
    store_intent(root.path / "counts", replace(intent, batches={}))
    assert '"format": 1' in file.read_text("utf-8")
