"""Snapshots that are removed while they are read, as a vacuum or an upkeep beside a query does.

What a user saw: a query, or a snapshot that was being made from files, ended now and then with
"cannot read ... data-0000.arrow: No such file or directory; check the path, the rights and the
space on the disk", or with "the manifest names it; use another snapshot". What holds: what is there
by then gives the same rows, and the read goes on with it; if nothing is, `OffsetOutOfRangeError`
says what can be read.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.arrow import write_snapshot
from statestores.arrow.snapshots.directory import list_snapshots, retire
from statestores.arrow.snapshots.reader import Snapshot, read_snapshot
from statestores.changelog import FileChangelog, changelog_partition
from statestores.errors import OffsetOutOfRangeError, StorageError, StoreReshardedError
from statestores.failpoints import arm, disarm
from statestores.reading.partition_reader import PartitionReader
from statestores.resharding import reshard
from statestores.state_root import PartitionDirectory
from statestores.upkeep import FileSnapshot
from statestores.upkeep.vacuum import remove_old_snapshots

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

COMMITS = 6
KEYS = 5
KINDS: dict[str, Any] = {
    "key-value": ss.KeyValue("s"),
    "versioned": ss.Versioned("s", history_retention_ms=50),
    "window": ss.Window("s", retention_ms=50, window_size_ms=10, retain_duplicates=True),
}


def put(store: Any, kind: str, commit: int) -> None:
    """Put what the *commit* has, several rows of each key where there can be some."""
    for key in range(KEYS):
        value = b"%d of %d" % (commit, key)
        for moment in range(3):
            if kind == "key-value":
                store.put(b"%d-%d" % (key, moment), value)
            elif kind == "versioned":
                store.put(b"%d" % key, value, timestamp_ms=commit * 10 + moment)
            else:
                store.put(b"%d" % key, value, window_start_ms=commit * 10 + moment)


class Partition:
    """A partition with two snapshots of few rows a file, and changes after both."""

    def __init__(self, directory: Path, kind: str) -> None:
        self.specification = KINDS[kind]
        self.root = ss.StateRoot.create(directory)
        self.root.add_store(self.specification, partitions=1)
        with ss.open_logged_store(self.root, self.specification, backend="memory") as logged:
            for commit in range(COMMITS):
                put(logged.store, kind, commit)
                logged.commit()
                if commit in {2, 4}:
                    write_snapshot(
                        logged.store,
                        self.directory.snapshots,
                        partition=changelog_partition("s", 0),
                        batch_rows=2,
                        rows_per_file=2,
                    )

    @property
    def directory(self) -> PartitionDirectory:
        """Where it is now."""
        return self.root.partition("s", 0)

    @property
    def reader(self) -> PartitionReader:
        """A new reader of it."""
        return PartitionReader(self.directory, self.specification)

    @property
    def snapshots(self) -> list[Path]:
        """Those that are there, the oldest first."""
        return list(list_snapshots(self.directory.snapshots).values())

    def rows(self) -> Iterator[Any]:
        """Read the content, with all versions where there are some."""
        return self.reader.rows(history=self.specification.kind == "versioned")


@pytest.fixture(params=KINDS)
def partition(request: pytest.FixtureRequest, tmp_path: Path) -> Partition:
    return Partition(tmp_path / "state", request.param)


def as_rows(batches: Iterator[Any]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def content_of(store: Any, directory: Path) -> list[dict[str, Any]]:
    """Return all that *store* has, by way of a snapshot."""
    info = write_snapshot(store, directory, partition=changelog_partition("s", 0))
    return as_rows(read_snapshot(info.path).batches())


@pytest.mark.spec("LGS-18")
def test_rows_go_on_when_their_snapshot_is_removed(partition: Partition) -> None:
    """After each batch, in turn: none is missing, and none comes twice."""
    expected = as_rows(partition.rows())
    steps = len(list(partition.rows()))
    newest = partition.snapshots[-1]
    kept = newest.parent.parent / "kept"
    shutil.copytree(newest, kept)

    assert steps > 3
    for step in range(steps):
        batches = partition.rows()
        rows = as_rows(next(batches) for _ in range(step))
        retire(newest)
        assert rows + as_rows(batches) == expected, step
        shutil.copytree(kept, newest)


@pytest.mark.spec("LGS-18")
def test_a_content_that_is_gone_says_what_can_be_read(partition: Partition) -> None:
    """Where neither a snapshot nor the changelog has it any more."""
    end = partition.reader.end_offset
    batches = partition.rows()
    next(batches)
    with FileChangelog.open(partition.directory.changelog, partition.specification.kind) as log:
        log.seal()
        log.delete_before(end)
    for path in partition.snapshots:
        retire(path)

    with pytest.raises(
        OffsetOutOfRangeError,
        match=rf"content of partition 0 of 's' at offset {end - 1} is gone: its changelog begins "
        rf"at offset {end}, and no snapshot has what was before; read it at a later offset",
    ):
        as_rows(batches)


def test_a_snapshot_that_is_damaged_is_not_taken_for_one_that_is_removed(
    tmp_path: Path,
) -> None:
    """Rows that were given may have been wrong, so nothing goes on behind them."""
    partition = Partition(tmp_path / "state", "key-value")
    batches = partition.rows()
    next(batches)
    max(partition.snapshots[-1].glob("data*")).unlink()

    with pytest.raises(StorageError, match="cannot read"):
        as_rows(batches)


Method = Callable[..., Any]


@pytest.mark.parametrize("method", ["verify_checksums", "batches"])
def test_a_snapshot_of_files_is_written_although_its_basis_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """It is removed when its manifest has been read: before its files are checked, or read."""
    partition = Partition(tmp_path / "state", "key-value")
    expected = as_rows(partition.rows())
    newest = partition.snapshots[-1]
    original: Method = getattr(Snapshot, method)

    def removing(snapshot: Snapshot, *arguments: Any, **named: Any) -> Any:
        if snapshot.path == newest and newest.exists():
            retire(newest)
        return original(snapshot, *arguments, **named)

    monkeypatch.setattr(Snapshot, method, removing)
    task = FileSnapshot(
        directory=partition.directory, number=0, specification=partition.specification
    )
    info = task()

    assert info is not None
    assert not newest.exists()
    assert partition.snapshots[-1] == info.place
    assert as_rows(partition.rows()) == expected


def test_two_that_remove_snapshots_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one was faster, when this one has listed them."""
    partition = Partition(tmp_path / "state", "key-value")
    oldest, newest = partition.snapshots
    original = Snapshot.verify_checksums

    def removing(snapshot: Snapshot, *arguments: Any) -> None:
        original(snapshot, *arguments)
        if oldest.exists():
            retire(oldest)

    monkeypatch.setattr(Snapshot, "verify_checksums", removing)

    assert [each.path for each in remove_old_snapshots(partition.directory, 2)[0]] == [newest]


def test_a_snapshot_is_not_written_beside_partitions_that_were_replaced(tmp_path: Path) -> None:
    """The task has them from before a reshard: it failed for want of a directory, or made it."""
    partition = Partition(tmp_path / "state", "key-value")
    task = FileSnapshot(
        directory=partition.directory, number=0, specification=partition.specification
    )
    before = partition.directory.path
    reshard(partition.root.path, "s", 2)

    with pytest.raises(StoreReshardedError, match="open the state root again"):
        task()
    assert not before.exists()


def test_a_reader_that_plans_beside_a_reshard_says_so(tmp_path: Path) -> None:
    """It was told that an offset "has been deleted", where it looked for a place to cut."""
    partition = Partition(tmp_path / "state", "key-value")
    reader = partition.reader
    end = reader.end_offset
    reshard(partition.root.path, "s", 2)

    for asked in (
        lambda: reader.shares(end - 1, count=3),
        lambda: list(reader.commits()),
        lambda: list(reader.changes()),
        lambda: reader.offset_at(1),
    ):
        with pytest.raises(StoreReshardedError, match="open the state root again"):
            asked()


@pytest.mark.spec("LGS-18")
def test_an_opening_restores_from_what_is_there(
    partition: Partition, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As that of a store in an object store did already; its snapshot goes while it is loaded."""
    newest = partition.snapshots[-1]
    original = Snapshot.batches

    def removing(snapshot: Snapshot, *arguments: Any, **named: Any) -> Any:
        if snapshot.path == newest and newest.exists():
            retire(newest)
        return original(snapshot, *arguments, **named)

    def restored() -> list[dict[str, Any]]:
        with ss.open_logged_store(
            partition.root, partition.specification, backend="memory"
        ) as logged:
            return content_of(logged.store, tmp_path / str(newest.exists()))

    expected = restored()
    monkeypatch.setattr(Snapshot, "batches", removing)

    assert restored() == expected
    assert not newest.exists()


def test_a_snapshot_whose_partitions_are_replaced_while_it_is_written_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files went with the partitions: it was told that one of them "is missing"."""
    partition = Partition(tmp_path / "state", "key-value")
    task = FileSnapshot(
        directory=partition.directory, number=0, specification=partition.specification
    )

    def replace_them() -> None:
        disarm()
        reshard(partition.root.path, "s", 2)

    arm("snapshot.data-written", replace_them)

    with pytest.raises(StoreReshardedError, match="open the state root again"):
        task()
