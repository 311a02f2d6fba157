"""What is said when the newest snapshot is damaged, and nothing else has what was in it.

A user was told that "offset 550 has been deleted", or to "restore from a snapshot at offset 19",
which was there: that it had been passed over, and why, nobody said. And a partition with snapshots
and no changelog was read as empty, or as an older snapshot had it.
"""

import shutil
from pathlib import Path

import pytest

import statestores as ss
from statestores.changelog import FileChangelog
from statestores.errors import SnapshotCorruptedError, StoreMismatchError
from statestores.reading.partition_reader import PartitionReader
from statestores.state_root import PartitionDirectory


def _written(place: Path, *, commits: int = 20, trim: bool = True) -> PartitionDirectory:
    """Return a partition with two snapshots, and a changelog that begins after the last one."""
    root = ss.StateRoot.create(place)
    root.add_store(ss.KeyValue("s"), partitions=1)
    with ss.open_logged_store(root, "s", 0, backend="sqlite") as logged:
        for number in range(commits):
            logged.store.put(b"k%d" % number, b"v")
            logged.commit()
            if number in (commits // 2, commits - 1):
                info = logged.snapshot()
        assert info is not None
        if trim:
            assert isinstance(logged.changelog, FileChangelog)
            logged.changelog.seal()
            logged.changelog.delete_before(info.offset + 1)
        logged.store.put(b"x", b"y")
        logged.commit()
    return root.partition("s", 0)


def _flip(snapshot: Path) -> Path:
    """Damage the data of *snapshot*, and return the file."""
    (file,) = snapshot.glob("data*")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    return file


@pytest.mark.spec("SNP-24")
@pytest.mark.parametrize("older", [True, False], ids=["older snapshot", "none"])
def test_an_error_names_the_snapshot_that_was_passed_over(tmp_path: Path, older: bool) -> None:
    """Readers of files, and an opening without an engine."""
    partition = _written(tmp_path)
    old, new = sorted(partition.snapshots.iterdir())
    if not older:
        for path in old.iterdir():
            path.unlink()
        old.rmdir()
    file = _flip(new)
    reader = PartitionReader(partition, ss.KeyValue("s"))
    with pytest.raises(SnapshotCorruptedError, match=f"passed over: '{file}'"):
        list(reader.rows())
    for path in (partition.path / "engine").iterdir():
        path.unlink()
    (partition.path / "engine.json").unlink()

    with pytest.raises(SnapshotCorruptedError, match=f"passed over: '{file}'"):
        ss.open_logged_store(tmp_path, "s", 0, backend="sqlite")


@pytest.mark.spec("SNP-24")
@pytest.mark.parametrize("older", [True, False], ids=["older snapshot", "none"])
def test_a_damaged_snapshot_without_a_changelog_is_no_empty_store(
    tmp_path: Path,
    older: bool,
) -> None:
    """It was read as empty, or as it had been at the older one."""
    partition = _written(tmp_path)
    old, new = sorted(partition.snapshots.iterdir())
    shutil.rmtree(partition.path.parent / ".begun")  # of an earlier release (LAY-35)
    for path in partition.changelog.iterdir():
        path.unlink()
    if not older:
        for path in old.iterdir():
            path.unlink()
        old.rmdir()
    file = _flip(new)

    with pytest.raises(SnapshotCorruptedError, match=f"passed over: '{file}'"):
        list(PartitionReader(partition, ss.KeyValue("s")).rows())


@pytest.mark.spec("SNP-7")
def test_a_damaged_snapshot_is_passed_over_where_the_changelog_has_the_rest(tmp_path: Path) -> None:
    """Then nothing is missing, and nothing is said."""
    partition = _written(tmp_path, trim=False)
    _flip(max(partition.snapshots.iterdir()))

    rows = PartitionReader(partition, ss.KeyValue("s")).rows()
    assert sum(batch.num_rows for batch in rows) == 21


@pytest.mark.spec("LGS-8")
def test_a_snapshot_is_not_read_as_now_without_its_changelog(tmp_path: Path) -> None:
    """What came after it is not known. Readers gave the snapshot's rows as those of the store.

    Opening the store had refused that already.
    """
    partition = _written(tmp_path)
    shutil.rmtree(partition.path.parent / ".begun", ignore_errors=True)  # of an earlier release
    shutil.rmtree(partition.changelog)

    with pytest.raises(StoreMismatchError, match="the snapshot at 19 has come from it"):
        list(PartitionReader(partition, ss.KeyValue("s")).rows())
