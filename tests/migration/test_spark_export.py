"""What an export for Spark writes, decoded without Spark; what it refuses; all or nothing."""

import json
import signal
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from forked_programs import run

import statestores as ss
from statestores.changelog import ChangelogOptions, FileChangelog
from statestores.errors import (
    InvalidArgumentError,
    StorageError,
    StoreNotFoundError,
)
from statestores.logged_store import open_logged_store
from statestores.migration.spark.export import export_spark_checkpoint
from statestores.opening import open_store
from statestores.spark_checkpoint import StateFileWriter, UnsafeRows, struct_json

BLOBS = ss.KeyValue("blobs")
Pairs = list[tuple[bytes, bytes | None]]


def _pairs(file: Path) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the `UnsafeRow` of each key and value in a file; ``None`` for a deletion."""
    with pa.OSFile(str(file)) as raw, pa.CompressedInputStream(raw, "zstd") as stream:
        data = stream.read()
    place = 0
    while True:
        parts: list[bytes | None] = []
        for _ in range(2):
            (length,) = struct.unpack_from(">i", data, place)
            place += 4
            if length < 0:
                parts.append(None)
                break
            parts.append(data[place : place + length])
            place += length
        if parts == [None]:
            assert place == len(data)
            return
        key, value = parts
        assert key is not None
        yield key, value


def _bytes_of(row: bytes) -> bytes:
    """Return the only column of an `UnsafeRow`, one of bytes that are not null."""
    nulls, slot = struct.unpack_from("<QQ", row)
    assert (nulls, len(row) % 8) == (0, 0)
    offset, length = slot >> 32, slot & 0xFFFFFFFF
    assert row[offset + length :] == bytes(-length % 8)
    return row[offset : offset + length]


def _content(checkpoint: Path, name: str) -> Pairs:
    return [
        (_bytes_of(key), None if value is None else _bytes_of(value))
        for key, value in _pairs(checkpoint / "state" / "0" / name)
    ]


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """A store with four commits in the first of its two partitions."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(BLOBS, partitions=2)
    with open_logged_store(root, "blobs", 0, backend="memory") as logged:
        for commit in range(4):
            logged.store.put(b"k%d" % commit, b"v" * commit)
            logged.store.delete(b"k0")
            logged.commit()
    return root


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where nothing is yet."""
    return tmp_path / "checkpoint"


def test_a_batch_is_a_delta_of_each_partition(root: ss.StateRoot, target: Path) -> None:
    """Changes in the order of the log; partitions without any have empty deltas."""
    done = export_spark_checkpoint(root, "blobs", target, every=2, snapshot_every=2)

    assert (done.batches, done.last_offsets) == (2, ({0: 2, 1: -1}, {0: 6, 1: -1}))
    assert _content(target, "0/1.delta") == [(b"k0", None), (b"k1", b"v"), (b"k0", None)]
    assert _content(target, "0/2.snapshot") == [(b"k1", b"v"), (b"k2", b"vv"), (b"k3", b"vvv")]
    assert _content(target, "1/1.delta") == _content(target, "1/2.delta") == []
    assert sorted(path.name for path in (target / "commits").iterdir()) == ["0", "1"]
    assert sorted(path.name for path in (target / "offsets").iterdir()) == ["0", "1"]


def test_batches_are_at_most_as_many_as_asked_for(root: ss.StateRoot, target: Path) -> None:
    """Commits are never cut in two."""
    done = export_spark_checkpoint(root, "blobs", target, batches=3)

    assert [each[0] for each in done.last_offsets] == [2, 6]


def test_a_writer_is_not_in_the_way(root: ss.StateRoot, target: Path) -> None:
    """No lock is taken, and what is committed is there."""
    with open_logged_store(root, "blobs", 0) as logged:
        logged.store.put(b"new", b"1")
        logged.commit()
        logged.store.put(b"pending", b"2")
        export_spark_checkpoint(root, "blobs", target, batches=1)

    assert _content(target, "0/1.delta")[-1] == (b"new", b"1")


def test_a_changelog_that_begins_later_begins_with_content(
    root: ss.StateRoot, target: Path
) -> None:
    """The changes that a snapshot has replaced can be deleted; then batch 0 is the snapshot."""
    with open_logged_store(
        root, "blobs", 0, changelog_options=ChangelogOptions(segment_bytes=1)
    ) as logged:
        logged.store.put(b"k4", b"4")
        logged.commit()
        logged.snapshot()
        logged.store.put(b"k5", b"5")
        logged.commit()
        assert isinstance(logged.changelog, FileChangelog)
        logged.changelog.delete_before(8)
    done = export_spark_checkpoint(root, "blobs", target, every=1)

    assert done.last_offsets[0] == {0: 7, 1: -1}
    assert [key for key, _ in _content(target, "0/1.delta")] == [b"k1", b"k2", b"k3", b"k4"]
    assert _content(target, "0/2.delta") == [(b"k5", b"5")]


def test_changes_from_beyond_the_end_are_none(root: ss.StateRoot, target: Path) -> None:
    """Then there is content only, in one batch."""
    done = export_spark_checkpoint(root, "blobs", target, from_offset=99, every=1)

    assert (done.batches, done.changes) == (1, 3)
    assert _content(target, "0/1.delta") == [(b"k1", b"v"), (b"k2", b"vv"), (b"k3", b"vvv")]


def test_an_export_is_all_or_nothing(
    root: ss.StateRoot, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full in the middle leaves nothing behind."""
    add = StateFileWriter.add

    def fail_later(self: StateFileWriter, *arguments: Any) -> None:
        if self.rows:
            raise OSError(28, "No space left on device")
        add(self, *arguments)

    monkeypatch.setattr(StateFileWriter, "add", fail_later)

    with pytest.raises(StorageError, match="No space left on device"):
        export_spark_checkpoint(root, "blobs", target, batches=1)
    assert [path.name for path in target.parent.iterdir()] == ["state"]


_KILLED = """
import os, signal, sys
from statestores import StateRoot, failpoints
from statestores.migration.spark.export import export_spark_checkpoint
failpoints.arm("snapshot.rename.before", lambda: os.kill(os.getpid(), signal.SIGKILL))
export_spark_checkpoint(StateRoot.open(sys.argv[1]), "blobs", sys.argv[2])
"""


def test_a_killed_export_leaves_no_checkpoint(root: ss.StateRoot, target: Path) -> None:
    """What it has written has a name that nobody reads, and goes with the next export."""
    killed = run(_KILLED, root.path, target)

    assert killed.returncode == -signal.SIGKILL
    assert not target.exists()
    assert len(list(target.parent.iterdir())) == 2
    export_spark_checkpoint(root, "blobs", target)
    assert sorted(path.name for path in target.parent.iterdir()) == ["checkpoint", "state"]


def test_what_is_there_is_left_alone(root: ss.StateRoot, target: Path) -> None:
    """Be it another export, a file, or an empty directory."""
    target.mkdir()

    with pytest.raises(InvalidArgumentError, match="exists, and an export makes a new directory"):
        export_spark_checkpoint(root, "blobs", target)
    assert list(target.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        {"batches": 0},
        {"every": 0},
        {"snapshot_every": 0},
        {"from_offset": -1},
        {"batches": 1, "every": 1},
    ],
)
def test_numbers_that_cannot_be_are_refused(
    root: ss.StateRoot, target: Path, options: dict[str, int]
) -> None:
    """Before anything is written."""
    with pytest.raises(InvalidArgumentError):
        export_spark_checkpoint(root, "blobs", target, **options)  # type: ignore[arg-type]
    assert not target.exists()


def test_an_engine_alone_is_refused(root: ss.StateRoot, target: Path) -> None:
    """It could be read with the lock of its writer only."""
    partition = root.partition("blobs", 1)
    with open_store(partition.path, BLOBS, backend="sqlite") as store:
        store.put(b"k", b"v")
        store.commit({})

    with pytest.raises(StoreNotFoundError, match="write a snapshot of the store"):
        export_spark_checkpoint(root, "blobs", target)


def test_rows_have_the_bytes_that_spark_has() -> None:
    """Nulls are bits, numbers little-endian, texts padded to eight bytes."""
    rows = UnsafeRows(
        pa.RecordBatch.from_pydict(
            {
                "text": pa.array(["ü", None]),
                "number": pa.array([-2, 7], pa.int32()),
                "flag": pa.array([True, None]),
            }
        )
    )
    encoded = [
        rows.fixed[place].tobytes() + b"".join(part[place].as_py() for part in rows.parts)
        for place in range(2)
    ]

    assert encoded[0].hex() == (
        "00000000000000000200000020000000feffffff000000000100000000000000c3bc000000000000"
    )
    assert encoded[1].hex() == ("0500000000000000000000000000000007000000000000000000000000000000")
    assert rows.sizes.tolist() == [40, 32]


def test_a_type_that_spark_state_does_not_have_is_refused() -> None:
    """It is named, with the column."""
    assert json.loads(struct_json(pa.schema([("a", pa.date32())])))["fields"][0]["type"] == "date"
    with pytest.raises(InvalidArgumentError, match="'b' has the type list<item: string>"):
        struct_json(pa.schema([("b", pa.list_(pa.string()))]))
