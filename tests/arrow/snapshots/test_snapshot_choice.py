"""The newest snapshot that is whole: what is passed over, and what goes meanwhile."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statestores.arrow import read_snapshot, write_snapshot
from statestores.arrow.snapshots.choice import (
    ListedSnapshot,
    SnapshotChoice,
    newest_valid,
    newest_valid_snapshot,
)
from statestores.arrow.snapshots.reader import Snapshot
from statestores.errors import (
    OffsetOutOfRangeError,
    SnapshotCorruptedError,
    StorageError,
    StoreNotFoundError,
)
from statestores.spi import KeyValueStore

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.fixture
def older(counts: KeyValueStore[bytes, bytes], tmp_path: Path) -> ListedSnapshot:
    """Return a snapshot that is whole."""
    path = write_snapshot(counts, tmp_path / "snapshots").path
    return ListedSnapshot(41, path, lambda: read_snapshot(path))


def _failing(place: Path | str, error: Exception) -> ListedSnapshot:
    def read() -> Snapshot:
        raise error

    return ListedSnapshot(99, place, read)


def _breaking(place: Path | str, harm: Callable[[], None], error: Exception) -> ListedSnapshot:
    """Return a snapshot that is read, and whose files are gone, or harmed, before they are."""

    class Going:
        is_there = True

        def verify(self) -> None:
            harm()
            raise error

    snapshot: Any = Going()
    return ListedSnapshot(99, place, lambda: snapshot)


@pytest.mark.spec("SNP-7")
@pytest.mark.parametrize(
    "error", [StoreNotFoundError("gone"), SnapshotCorruptedError("gone"), StorageError("gone")]
)
def test_what_is_removed_meanwhile_is_passed_over(
    older: ListedSnapshot, tmp_path: Path, error: Exception
) -> None:
    """A clean-up goes on while somebody looks: that is neither damage nor a broken disk."""
    choice = newest_valid([_failing(tmp_path / "gone", error), older])

    assert choice.snapshot is not None
    assert (choice.snapshot.place, choice.refused) == (older.place, {})


@pytest.mark.spec("SNP-7")
def test_damage_is_told_of_and_a_disk_that_fails_is_no_reason_for_an_older_one(
    older: ListedSnapshot, tmp_path: Path
) -> None:
    """The place of the newer one is there still."""
    damage = SnapshotCorruptedError("damaged")
    choice = newest_valid([_failing(tmp_path, damage), older])

    assert choice.snapshot is not None
    assert choice.refused == {tmp_path: damage}
    with pytest.raises(StorageError, match="no luck"):
        newest_valid([_failing(tmp_path, StorageError("no luck")), older])
    assert newest_valid([_failing(tmp_path, damage)]) == SnapshotChoice(None, {tmp_path: damage})


@pytest.mark.spec("SNP-7")
@pytest.mark.parametrize("is_there", [False, True])
def test_an_object_that_goes_while_it_is_read_is_passed_over(
    older: ListedSnapshot, is_there: bool
) -> None:
    """Its manifest is looked for again; of one that was never read nothing is known."""
    url, damage = "s3://bucket/99", SnapshotCorruptedError("an object is missing")
    listed = _breaking(url, lambda: None, damage)
    type(listed.read()).is_there = is_there  # type: ignore[assignment]

    choice = newest_valid([listed, older])

    assert choice.snapshot is not None
    assert choice.refused == ({url: damage} if is_there else {})
    assert newest_valid([_failing(url, damage), older]).refused == {url: damage}


@pytest.mark.spec("SNP-7")
def test_a_directory_that_goes_while_it_is_read_is_passed_over(
    older: ListedSnapshot, tmp_path: Path
) -> None:
    """Of a directory its path is looked for."""
    going = tmp_path / "going"
    going.mkdir()
    damage = SnapshotCorruptedError("a file is missing")

    choice = newest_valid([_breaking(going, lambda: shutil.rmtree(going), damage), older])

    assert choice.snapshot is not None
    assert choice.refused == {}


@pytest.mark.spec("SNP-7")
def test_snapshots_above_an_offset_are_left_out(older: ListedSnapshot, tmp_path: Path) -> None:
    """That at the offset is the newest one."""
    for to_offset, found in ((None, True), (42, True), (41, True), (40, False)):
        choice = newest_valid_snapshot(tmp_path / "snapshots", to_offset=to_offset)

        assert (choice.snapshot is not None) == found
        assert choice.refused == {}


@pytest.mark.spec("SNP-7")
def test_what_is_missing_is_explained_by_what_was_passed_over(tmp_path: Path) -> None:
    """Where nothing was, the error stays as it is."""
    missing = OffsetOutOfRangeError("begins at 7")
    with pytest.raises(OffsetOutOfRangeError) as found, SnapshotChoice(None, {}).explaining():
        raise missing
    assert found.value is missing

    choice = SnapshotChoice(None, {tmp_path: SnapshotCorruptedError("cut off")})
    with (
        pytest.raises(SnapshotCorruptedError, match="begins at 7; passed over: cut off"),
        choice.explaining(),
    ):
        raise missing
