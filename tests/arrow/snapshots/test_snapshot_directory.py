"""Names, leftovers, and who may remove them."""

import os
from pathlib import Path

import pytest
from forked_programs import Forked

from statestores.arrow import list_snapshots, remove_stale_temporaries, write_snapshot
from statestores.arrow.snapshots.directory import publish, temporary_directory
from statestores.spi import KeyValueStore, TopicPartition

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

_HOLD = """
import sys, time
from pathlib import Path
from statestores.arrow.snapshots.directory import temporary_directory
with temporary_directory(Path(sys.argv[1])) as path:
    (path / "data-0000.arrow").write_bytes(b"half")
    print(path, flush=True)
    time.sleep(60)
"""


def test_snapshots_are_listed_by_offset(tmp_path: Path) -> None:
    """As numbers, without temporary directories and strangers."""
    for name in (
        "00000000000000000100",
        "00000000000000000020",
        "18446744073709551615",
        ".tmp-1-ab",
        "notes.txt",
        "00000000000000000020.old",
        "7",
    ):
        (tmp_path / name).mkdir()

    assert [(offset, path.name) for offset, path in list_snapshots(tmp_path).items()] == [
        (20, "00000000000000000020"),
        (100, "00000000000000000100"),
        (2**64 - 1, "18446744073709551615"),
    ]


@pytest.mark.spec("SNP-15")
def test_the_leftovers_of_the_dead_are_removed(tmp_path: Path) -> None:
    """Whatever process id is in their name: that of the test runner is alive."""
    stale = tmp_path / f".tmp-{os.getpid()}-0123456789abcdef"
    stale.mkdir()
    (stale / "data-0000.arrow").write_bytes(b"half")
    (tmp_path / "00000000000000000001").mkdir()
    (tmp_path / ".tmp-file").write_bytes(b"not ours")

    assert remove_stale_temporaries(tmp_path) == [stale]
    assert {path.name for path in tmp_path.iterdir()} == {"00000000000000000001", ".tmp-file"}


@pytest.mark.spec("SNP-15")
def test_what_this_process_is_writing_is_left_alone(tmp_path: Path) -> None:
    """Two threads may write snapshots into one directory."""
    with temporary_directory(tmp_path) as path:
        assert remove_stale_temporaries(tmp_path) == []
        assert path.is_dir()

    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("SNP-15")
def test_what_another_process_is_writing_is_left_alone_until_it_dies(tmp_path: Path) -> None:
    """Its lock is the kernel's, so it is gone with the process, however that ends."""
    with Forked(_HOLD, tmp_path) as writer:
        path = Path(writer.stdout.readline().strip())
        while_alive = remove_stale_temporaries(tmp_path)
        assert writer.is_running()
        writer.kill()

    assert while_alive == []
    assert remove_stale_temporaries(tmp_path) == [path]


@pytest.mark.spec("SNP-15")
def test_the_next_writer_cleans_up(counts: KeyValueStore[bytes, bytes], tmp_path: Path) -> None:
    """Nobody has to know of leftovers for the disk not to fill up with them."""
    (tmp_path / ".tmp-4711-dead").mkdir()

    info = write_snapshot(counts, tmp_path)

    assert list_snapshots(tmp_path) == {41: info.path}
    assert not list(tmp_path.glob(".tmp-*"))


@pytest.mark.spec("SNP-2")
def test_a_snapshot_appears_with_all_of_its_files(tmp_path: Path) -> None:
    """The rename is the moment."""
    target = tmp_path / "00000000000000000009"
    with temporary_directory(tmp_path) as path:
        (path / "manifest.json").write_bytes(b"{}")
        before = list_snapshots(tmp_path)
        publish(path, target)

    assert before == {}
    assert list_snapshots(tmp_path) == {9: target}
    assert (target / "manifest.json").read_bytes() == b"{}"


@pytest.mark.spec("SNP-2", "SNP-3")
def test_a_snapshot_of_another_writer_is_not_overwritten(
    counts: KeyValueStore[bytes, bytes], counts_log: TopicPartition, tmp_path: Path
) -> None:
    """Two writers at the same offset: one places its snapshot, the other finds it there."""
    first = write_snapshot(counts, tmp_path, partition=counts_log)
    second = write_snapshot(counts, tmp_path, partition=counts_log, rows_per_file=1)

    assert (first.written, second.written) == (True, False)
    assert (second.rows, second.bytes) == (first.rows, first.bytes)
