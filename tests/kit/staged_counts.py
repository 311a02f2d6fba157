"""A store of counts in three partitions, staged writes to it, and what readers see of them."""

import pickle
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from forked_programs import run

import statestores as ss
from statestores.changelog import change_schema
from statestores.reading.partition_reader import PartitionReader
from statestores.staging.staged_write import (
    StagedRows,
    publish,
    stage,
)
from statestores.staging.write_intent import staging_directory

PARTITIONS = 3
SPECIFICATION = ss.KeyValue("counts")
OLD = {b"k%02d" % number: b"old" for number in range(40)}
NEW = {b"k%02d" % number: b"new" for number in range(20, 60)}
PROGRAM = Path(__file__).parents[1] / "reading" / "killed_publisher.py"
STEPS = (
    "before the intent",
    "after the intent",
    "before an append",
    "after an append",
    "before the end",
    "after the end",
    "after all",
)


def root_with_old(directory: Path) -> ss.StateRoot:
    """Create a state root with a key-value store that holds `OLD`."""
    created = ss.StateRoot.create(directory / "state")
    created.add_store(SPECIFICATION, partitions=PARTITIONS)
    publish(created, "counts", "old", [staged(created, "old", "t0", OLD.items())])
    return created


def staged(
    root: ss.StateRoot, write_id: str, attempt: str, rows: Iterable[tuple[bytes, bytes | None]]
) -> StagedRows:
    """Stage *rows* of the key-value store."""
    batch = pa.RecordBatch.from_pylist(
        [{"key": key, "value": value} for key, value in rows],
        schema=change_schema(SPECIFICATION.kind),
    )
    return stage(root.path, SPECIFICATION, PARTITIONS, write_id, attempt, [batch])


def readers(root: ss.StateRoot, store: str = "counts") -> list[PartitionReader]:
    entry = root.store(store)
    return [
        PartitionReader(root.partition(store, number), entry.specification)
        for number in range(entry.partitions)
    ]


def content(root: ss.StateRoot) -> dict[bytes, bytes]:
    """Return what the readers of all partitions show."""
    return {
        row["key"]: row["value"]
        for reader in readers(root)
        for batch in reader.rows()
        for row in batch.to_pylist()
    }


def leftovers(root: ss.StateRoot) -> set[str]:
    """Return the writes whose rows are still staged."""
    return {
        path.name for path in staging_directory(root.path / "counts").iterdir() if path.is_dir()
    }


def kill_after_intent(root: ss.StateRoot) -> None:
    """Leave a committed write that no changelog has yet."""
    rows = [staged(root, "w", "t0", NEW.items())]
    run(PROGRAM, root.path, "counts", "w", "append", STEPS[1], given=pickle.dumps(rows))


def batch_of(key: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"key": key, "value": b"1"}], schema=change_schema(SPECIFICATION.kind)
    )
