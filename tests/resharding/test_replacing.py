"""A store whose content is replaced by snapshots of what tasks have staged."""

import pickle
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from forked_programs import run

import statestores as ss
from statestores.changelog import change_schema
from statestores.errors import (
    OffsetOutOfRangeError,
    StoreCorruptedError,
    StoreNotFoundError,
    StoreReshardedError,
)
from statestores.reading.partition_reader import PartitionReader
from statestores.resharding.replacing import Rows, remove_replaced, replace_content
from statestores.spi.specification import StoreSpecification
from statestores.staging.sorted_rows import SORTED_KINDS, SortedStager
from statestores.staging.staged_write import publish, publishing, stage
from statestores.staging.write_intent import StreamBatch
from statestores.verification import verify

Specification = StoreSpecification[Any, Any]

PARTITIONS = 2
TASKS = 3
ROWS_OF_A_TASK = 120
_KEYS = 40
_TIMES_MS = 500
_SPILL_BYTES = 1_000
"""So little that each task sorts several runs."""

SPECIFICATIONS: dict[str, Specification] = {
    "key-value": ss.KeyValue("s"),
    "timestamped": ss.TimestampedKeyValue("s"),
    "ttl": ss.TimestampedKeyValue("s", ttl_ms=200),
    "versioned": ss.Versioned("s", history_retention_ms=200),
    "window": ss.Window("s", window_size_ms=10, retention_ms=300),
    "duplicates": ss.Window("s", window_size_ms=10, retention_ms=300, retain_duplicates=True),
    "session": ss.Session("s", retention_ms=250),
}

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


def changes_of(specification: Specification, seed: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task, several of a key, in no order; some delete."""
    source, schema = random.Random(seed), change_schema(specification.kind)
    duplicates = getattr(specification, "retain_duplicates", False)
    for _ in range(4):
        rows = []
        for _ in range(ROWS_OF_A_TASK // 4):
            time_ms = source.randrange(_TIMES_MS)
            value = None if not duplicates and source.random() < 0.2 else source.randbytes(6)
            row: dict[str, Any] = {"key": b"k%d" % source.randrange(_KEYS), "value": value}
            for number in specification.kind.numbers:
                has_time = number.is_time and (number.required or value is not None)
                row[number.name] = time_ms if has_time else None
            rows.append(row)
        yield pa.RecordBatch.from_pylist(rows, schema)


def staged(root: ss.StateRoot, specification: Specification, write_id: str) -> list[Rows]:
    """Stage the rows of some tasks, sorted where the kind allows it."""
    found: list[Rows] = []
    for task in range(TASKS):
        changes = changes_of(specification, task)
        if specification.kind not in SORTED_KINDS:
            attempt = f"t{task}"
            found.append(stage(root.path, specification, PARTITIONS, write_id, attempt, changes))
            continue
        with SortedStager(
            root.path, specification, PARTITIONS, write_id, f"t{task}", spill_bytes=_SPILL_BYTES
        ) as stager:
            for batch in changes:
                stager.add(batch)
            found.append(stager.finish())
    return found


def replaced(root: ss.StateRoot, rows: list[Rows], write_id: str) -> None:
    with publishing(root, "s") as publisher:
        replace_content(root, "s", write_id, rows, publisher, memory_bytes=1)
    remove_replaced(root, "s")


def content(root: ss.StateRoot) -> list[list[dict[str, Any]]]:
    """Return what a reader without a lock sees of each partition."""
    specification = root.store("s").specification
    readers = [
        PartitionReader(root.partition("s", number), specification) for number in range(PARTITIONS)
    ]
    return [[row for batch in reader.rows() for row in batch.to_pylist()] for reader in readers]


def of_an_engine(root: ss.StateRoot) -> list[tuple[bytes, bytes | None]]:
    """Return keys and values of the first partition, of versions all, from an engine made of it."""
    with ss.open_logged_store(root, "s", 0, backend="sqlite") as opened:
        chunks = opened.store.committed_content().changes
        return [pair for each in chunks for pair in zip(each.keys, each.values, strict=True)]


@pytest.mark.spec("RSH-15")
@pytest.mark.parametrize("kind", SPECIFICATIONS)
def test_the_content_is_that_of_the_same_write_by_the_changelog(tmp_path: Path, kind: str) -> None:
    """Whichever task has which rows, however many runs it sorts; and engines are made of it."""
    specification = SPECIFICATIONS[kind]
    by_log = ss.StateRoot.create(tmp_path / "by-log")
    by_log.add_store(specification, partitions=PARTITIONS)
    in_order = [
        stage(
            by_log.path, specification, PARTITIONS, "w", f"t{task}", changes_of(specification, task)
        )
        for task in range(TASKS)
    ]
    publish(by_log, "s", "w", in_order)
    root = ss.StateRoot.create(tmp_path / "by-snapshot")
    root.add_store(specification, partitions=PARTITIONS)
    replaced(root, staged(root, specification, "w"), "w")

    expected = content(by_log)
    assert all(expected)
    assert content(root) == expected
    assert [each for each in verify(root.path) if each.is_failure] == []
    assert sorted(path.name for path in (root.path / "s").iterdir()) == ["generation-1"]
    assert of_an_engine(root) == of_an_engine(by_log)


def test_files_of_tasks_with_keys_of_their_own_become_the_snapshot(tmp_path: Path) -> None:
    """Nobody reads them: they are the same files, and the manifest says what is in them."""
    specification, root = SPECIFICATIONS["key-value"], ss.StateRoot.create(tmp_path / "root")
    root.add_store(specification, partitions=PARTITIONS)
    rows: list[Rows] = []
    schema = change_schema(specification.kind)
    for task in (1, 0):
        with SortedStager(root.path, specification, PARTITIONS, "w", f"t{task}") as stager:
            keys = [{"key": b"%d-%02d" % (task, n), "value": b"v"} for n in range(50)]
            stager.add(pa.RecordBatch.from_pylist(keys, schema))
            rows.append(stager.finish())
    files = {path.stat().st_ino for path in (root.home("s") / ".writes" / "w").glob("*/*")}
    replaced(root, rows, "w")

    adopted = {path.stat().st_ino for path in root.home("s").glob("*/snapshots/*/data-*")}
    assert len(files) == 2 * PARTITIONS
    assert adopted == files
    assert [each for each in verify(root.path) if each.is_failure] == []
    keys_found = [row["key"] for rows_of in content(root) for row in rows_of]
    assert sorted(keys_found) == [b"%d-%02d" % (task, n) for task in (0, 1) for n in range(50)]


def test_staged_files_that_are_not_there_or_cut_off(tmp_path: Path) -> None:
    """Of executors that see another directory, or a disk that lies; the store is as it was."""
    specification, root = SPECIFICATIONS["key-value"], ss.StateRoot.create(tmp_path / "root")
    root.add_store(specification, partitions=PARTITIONS)
    rows = staged(root, specification, "w")
    file = next((root.home("s") / ".writes" / "w").glob("*/data-*"))
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(StoreCorruptedError, match="write it again"):
        replaced(root, rows, "w")
    file.unlink()
    with pytest.raises(StoreNotFoundError, match="that all tasks and the driver share"):
        replaced(root, rows, "w")
    assert ss.StateRoot.open(root.path).store("s").generation == 0
    assert content(root) == [[], []]


def test_who_knew_the_store_before_is_told(tmp_path: Path) -> None:
    """Its offsets are behind the new changelogs, and batches of streams are known as before."""
    specification, batch = SPECIFICATIONS["key-value"], StreamBatch(stream="q", number=7)
    root = ss.StateRoot.create(tmp_path / "root")
    root.add_store(specification, partitions=PARTITIONS)
    first = stage(root.path, specification, PARTITIONS, "a", "t", changes_of(specification, 9))
    ends = publish(root, "s", "a", [first], batch=batch).end_offsets
    before = ss.StateRoot.open(root.path)
    replaced(root, staged(root, specification, "w"), "w")

    with pytest.raises(StoreReshardedError):
        ss.open_logged_store(before, "s", 0, backend="sqlite")
    reader = PartitionReader(root.partition("s", 0), specification)
    with pytest.raises(OffsetOutOfRangeError):
        list(reader.rows(offset=0))
    assert reader.end_offset == max(ends.values()) + 1
    with publishing(root, "s") as publisher:
        assert publisher.has(batch)


_PROGRAM = """
import os, pickle, signal, sys
from functools import partial
from statestores.failpoints import arm
from statestores.resharding.replacing import remove_replaced, replace_content
from statestores.staging.staged_write import publishing
from statestores.state_root import StateRoot

path, failpoint, at, rows = sys.argv[1:]
root = StateRoot.open(path)
arm(failpoint, partial(os.kill, os.getpid(), signal.SIGKILL), at=int(at))
with open(rows, "rb") as file, publishing(root, "s") as publisher:
    replace_content(root, "s", "w", pickle.load(file), publisher)
remove_replaced(root, "s")
"""


@pytest.mark.spec("RSH-16")
@pytest.mark.parametrize(
    ("failpoint", "at"),
    [
        ("snapshot.rename.after", 2),
        ("reshard.built", 1),
        ("json.renamed", 1),
        ("reshard.noted", 1),
        ("reshard.retired", 1),
    ],
)
def test_a_killed_driver_leaves_what_was_there_or_all_of_it(
    tmp_path: Path, failpoint: str, at: int
) -> None:
    """The next write ends it or begins anew, and leaves nothing else on the disk."""
    specification, root = SPECIFICATIONS["key-value"], ss.StateRoot.create(tmp_path / "root")
    root.add_store(specification, partitions=PARTITIONS)
    rows = staged(root, specification, "w")
    (tmp_path / "rows").write_bytes(pickle.dumps(rows))
    ended = run(_PROGRAM, root.path, failpoint, at, tmp_path / "rows")
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    found = ss.StateRoot.open(root.path)
    counts = failpoint in {"json.renamed", "reshard.noted", "reshard.retired"}
    assert bool(found.store("s").generation) == counts
    assert [bool(rows) for rows in content(found)] == [counts] * PARTITIONS
    assert [each for each in verify(root.path) if each.is_failure] == []
    once = content(found)
    replaced(found, staged(found, specification, "again"), "again")

    assert not counts or content(found) == once
    assert all(content(found))
    left = sorted(path.name for path in (root.path / "s").iterdir())
    assert left == [f"generation-{found.store('s').generation}"]
