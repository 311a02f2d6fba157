"""Which task is restored first: by the sizes of files, of which nothing is opened."""

from pathlib import Path

import pytest

from statestores.state_root import PartitionDirectory
from statestores.tasks.restore_order import bytes_to_restore


@pytest.mark.parametrize(
    ("next_offset", "expected"),
    [(None, 1_111), (0, 111), (9, 111), (10, 110), (19, 110), (20, 100), (99, 100)],
)
def test_what_is_read_is_what_may_hold_the_next_change(
    tmp_path: Path, next_offset: int | None, expected: int
) -> None:
    """Segments from that of the next offset on; all, and the snapshot, when nobody knows it."""
    partition = PartitionDirectory(tmp_path)
    partition.changelog.mkdir()
    for base, size in ((0, 1), (10, 10), (20, 100)):
        (partition.changelog / f"{base:020}.log").write_bytes(b"x" * size)
    for offset, size in ((7, 5_000), (12, 1_000)):  # the newest is loaded
        snapshot = partition.snapshots / f"{offset:020}"
        snapshot.mkdir(parents=True)
        (snapshot / "data").write_bytes(b"x" * size)

    assert bytes_to_restore(partition, next_offset) == expected


def test_a_file_that_is_replaced_meanwhile_has_no_size(tmp_path: Path) -> None:
    """A compaction may remove it between two looks; what is no segment is not counted."""
    partition = PartitionDirectory(tmp_path)
    partition.changelog.mkdir()
    (partition.changelog / f"{0:020}.log").write_bytes(b"x")
    (partition.changelog / "stray.log").write_bytes(b"stray")
    (partition.changelog / f"{7:020}.log").symlink_to(tmp_path / "gone")

    assert bytes_to_restore(partition, None) == 1
