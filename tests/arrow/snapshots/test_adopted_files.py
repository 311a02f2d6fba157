"""Data files that somebody else has sorted become a snapshot by a rename of each."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from statestores.arrow import list_snapshots, read_snapshot, write_snapshot
from statestores.arrow.snapshots.adopted_files import adopt_files
from statestores.arrow.snapshots.manifest import FileEntry
from statestores.arrow.snapshots.snapshot import SnapshotContent
from statestores.errors import SnapshotCorruptedError, StorageError, StoreMismatchError
from statestores.spi import KeyValueStore

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

ROWS_PER_FILE = 400


@pytest.fixture
def sorted_files(
    counts: KeyValueStore[bytes, bytes], tmp_path: Path
) -> tuple[SnapshotContent, list[tuple[Path, FileEntry]]]:
    """Return content, and the files of its rows under names of their own."""
    info = write_snapshot(counts, tmp_path / "first", batch_rows=100, rows_per_file=ROWS_PER_FILE)
    manifest = read_snapshot(info.path).manifest
    files = []
    for entry in manifest.files:
        named = replace(entry, name=f"part-{entry.name}")
        files.append((info.path / named.name, named))
        (info.path / entry.name).rename(info.path / named.name)
    content = SnapshotContent(
        specification=counts.specification,
        partition=manifest.partition,
        offsets=manifest.offsets,
        position=manifest.position,
        stream_time_ms=manifest.stream_time_ms,
        parts=iter(()),
    )
    return content, files


@pytest.mark.spec("SNP-1")
def test_files_become_a_snapshot_in_their_order(
    counts: KeyValueStore[bytes, bytes], sorted_files: Any, tmp_path: Path
) -> None:
    """It is whole, has the rows, and says so; the files are no longer where they were."""
    content, files = sorted_files

    info = adopt_files(tmp_path / "second", content, files)

    snapshot = read_snapshot(info.path)
    snapshot.verify()
    assert list_snapshots(tmp_path / "second") == {41: info.path}
    assert (info.offset, info.rows, info.written) == (41, 1_001, True)
    assert (info.partition, info.bytes) == (content.partition, snapshot.manifest.bytes)
    rows = [row for batch in snapshot.batches() for row in batch.to_pylist()]
    assert {row["key"]: row["value"] for row in rows} == dict(counts.read_only().range())
    assert [row["key"] for row in rows] == sorted(row["key"] for row in rows)
    assert [path for path, _ in files if path.exists()] == []


@pytest.mark.spec("SNP-2", "SNP-5")
def test_a_file_of_another_size_is_found_before_it_counts(
    sorted_files: Any, tmp_path: Path
) -> None:
    """And one that is gone; nothing is left in the directory."""
    content, files = sorted_files
    path, entry = files[1]
    for found, told in (
        ((path, replace(entry, bytes=entry.bytes + 1)), "cut off"),
        ((path.with_name("gone"), replace(entry, name="gone")), "is missing"),
    ):
        with pytest.raises(SnapshotCorruptedError, match=told):
            adopt_files(tmp_path / "second", content, [found])

    assert list((tmp_path / "second").iterdir()) == []


@pytest.mark.spec("SNP-3")
def test_a_snapshot_that_is_there_stays(
    counts: KeyValueStore[bytes, bytes], sorted_files: Any, tmp_path: Path
) -> None:
    """Whatever it holds."""
    content, files = sorted_files
    there = write_snapshot(counts, tmp_path / "second").path

    with pytest.raises(StoreMismatchError, match="there is a snapshot at"):
        adopt_files(tmp_path / "second", content, files)

    read_snapshot(there).verify()


def test_a_directory_that_cannot_be_written_is_named(sorted_files: Any, tmp_path: Path) -> None:
    """With what was tried."""
    content, files = sorted_files
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(StorageError, match=r"cannot write a snapshot into '.*file'"):
        adopt_files(tmp_path / "file", content, files)
