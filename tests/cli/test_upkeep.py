"""The commands snapshot and compact."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import statestores as ss
from statestores.arrow import list_snapshots, read_snapshot
from statestores.logged_store import open_logged_store

Run: TypeAlias = Callable[..., Any]


def test_a_snapshot_of_each_partition_is_written_once(kept: Path, succeed: Run) -> None:
    """The second time it is there already."""
    first = succeed("snapshot", kept, "--json").lines
    second = succeed("snapshot", kept, "--json").lines

    assert [row["partition"] for row in first] == [0, 1, 2]
    assert [row["written"] for row in first] == [True] * 3
    assert [row["written"] for row in second] == [False] * 3
    assert sum(row["rows"] for row in first) == 100
    for row in first:
        read_snapshot(row["path"]).verify()


def test_a_partition_that_nobody_opened_is_snapshot_without_an_engine(
    root: Path, succeed: Run
) -> None:
    """As those that Spark has written: no engine is left behind."""
    succeed("snapshot", root / "counts")

    assert list(list_snapshots(root / "counts" / "0" / "snapshots")) == [49]
    assert not (root / "counts" / "0" / "engine.json").exists()


def test_a_store_without_a_changelog_has_snapshots_too(bare: Path, succeed: Run) -> None:
    """At the offset that it has committed."""
    (row,) = succeed("snapshot", bare, "--json").lines

    assert (row["offset"], row["rows"]) == (7, 5)
    assert succeed("scan", row["path"], "--json").lines[0]["value"] == "value of a"


def test_a_native_snapshot_is_shown_and_verified(
    tmp_path: Path, run: Run, succeed: Run, subtests: pytest.Subtests
) -> None:
    """With what it takes; and refused by name where there can be none."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("counts"), partitions=2)
    place = state.path / "counts" / "0"
    with open_logged_store(state, "counts", 0) as counts:
        counts.store.put(b"a", b"1")
        counts.commit()
    with ss.open_store(tmp_path / "bare", ss.KeyValue("bare")) as bare:
        bare.put(b"a", b"1")
        bare.commit({ss.TopicPartition("log", 0): 3})
    shutil.copytree(state.path, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "counts" / "0" / "engine")
    (tmp_path / "copy" / "counts" / "0" / "engine.json").unlink()
    (row,) = succeed("snapshot", state.path, "--format", "native", "--json").lines
    with subtests.test("shown"):
        assert row["native_bytes"] > 0
        native = succeed("info", row["path"], "--json").document["native"]
        assert native["bytes"] == row["native_bytes"]
        assert native["driver"] in succeed("info", row["path"]).out
        assert native["driver"] in succeed("info", place).out
    with subtests.test("verified"):
        assert "native snapshot" in succeed("verify", row["path"]).out
    for path, value, code, reason in (
        (place, "canonical", 2, "'arrow' or 'native'"),
        (tmp_path / "bare", "native", 1, "no partition of a state root"),
        (tmp_path / "copy", "native", 1, "no engine yet"),
        ("memory://native", "native", 1, "object store"),
    ):
        with subtests.test(path=path, value=value):
            outcome = run("snapshot", path, "--format", value)
            assert (outcome.code, reason in outcome.err) == (code, True)


def test_an_empty_partition_has_no_snapshot(tmp_path: Path, succeed: Run) -> None:
    """And is not an error."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("counts"), partitions=1)
    outcome = succeed("snapshot", state.path)

    assert outcome.out == ""
    assert "nothing has been committed" in outcome.err


@pytest.mark.spec("LAY-35")
@pytest.mark.parametrize("command", ["snapshot", "compact"])
def test_a_partition_that_is_gone_is_not_passed_over(root: Path, run: Run, command: str) -> None:
    """As one that has committed nothing, which neither command has anything to do for."""
    shutil.rmtree(root / "counts" / "0")

    outcome = run(command, root / "counts")

    assert outcome.code == 1
    assert "counts/.begun/0' says that there was one; put the partition back" in outcome.err


def test_a_snapshot_of_a_store_that_is_open_is_refused(kept: Path, run: Run) -> None:
    """Its owner can write one; this program would need the lock."""
    with open_logged_store(kept, "planes", 1):
        outcome = run("snapshot", kept / "planes" / "1")

    assert outcome.code == 1
    assert "is open in process" in outcome.err


def test_compaction_keeps_the_content(tmp_path: Path, succeed: Run) -> None:
    """A hundred commits of ten keys become ten changes."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("counts", key=ss.int64), partitions=1)
    with open_logged_store(state, "counts", 0, backend="memory") as store:
        for number in range(100):
            store.store.put(number % 10, b"%d" % number)
            store.commit()
    before = succeed("scan", state.path, "--json").out
    (row,) = succeed("compact", state.path, "--json").lines

    assert (row["changes_before"], row["changes_after"], row["end_offset"]) == (100, 10, 100)
    assert row["bytes_after"] < row["bytes_before"]
    assert succeed("scan", state.path, "--json").out == before
    assert len(succeed("changelog", state.path, "--json").lines) == 10


def test_compaction_drops_what_a_snapshot_covers(root: Path, succeed: Run) -> None:
    """Only on request, and the content stays."""
    before = succeed("scan", root / "planes", "--limit", 0, "--json").out
    succeed("snapshot", root / "planes")
    rows = succeed("compact", root / "planes", "--drop-covered", "--json").lines

    assert [row["dropped_before"] for row in rows] == [row["end_offset"] for row in rows]
    assert succeed("changelog", root / "planes", "--json").out == ""
    assert succeed("scan", root / "planes", "--limit", 0, "--json").out == before
    assert succeed("verify", root / "planes").code == 0


def test_nothing_is_dropped_that_no_snapshot_covers(root: Path, succeed: Run) -> None:
    """Without a snapshot the changelog is all there is."""
    (row,) = succeed("compact", root / "planes" / "0", "--drop-covered", "--json").lines

    assert row["dropped_before"] is None
    assert row["changes_after"] > 0


def test_compaction_of_an_open_store_is_refused(kept: Path, run: Run) -> None:
    """Its owner appends to the changelog."""
    with open_logged_store(kept, "planes", 0):
        outcome = run("compact", kept / "planes" / "0")

    assert outcome.code == 1
    assert "is open in process" in outcome.err
