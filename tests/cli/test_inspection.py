"""The commands backends, info and changelog."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import statestores as ss
from statestores.cli.commands import backends as backends_command
from statestores.errors import MissingDriverError
from statestores.logged_store import open_logged_store

Run: TypeAlias = Callable[..., Any]

T0 = 1_372_896_000_000


def test_backends_lists_what_is_registered(succeed: Run) -> None:
    """Each with its promises."""
    found = {each["name"]: each for each in succeed("backends", "--json").document}

    assert {"memory", "rocksdb", "leveldb", "sqlite"} <= found.keys()
    assert found["memory"] == {
        "name": "memory",
        "usable": True,
        "capabilities": [],
        "problem": None,
        "install": None,
    }


def test_backends_says_what_is_missing_and_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, succeed: Run
) -> None:
    """A driver that is not there is no failure."""
    error = MissingDriverError("the backend 'rocksdb' needs the package 'rocksdict'")
    monkeypatch.setattr(backends_command, "available_backends", lambda: {"rocksdb": error})
    (found,) = succeed("backends", "--json").document

    assert found["usable"] is False
    assert found["problem"] == str(error)
    assert found["install"] == "pip install 'statestores[rocksdb]'"
    assert "pip install 'statestores[rocksdb]'" in succeed("backends").out


def test_info_of_a_state_root_lists_stores_and_partitions(root: Path, succeed: Run) -> None:
    """Without opening an engine, since all partitions have changelogs."""
    document = succeed("info", root, "--json").document
    stores = {store["store"]["name"]: store["partitions"] for store in document["stores"]}

    assert document["what"] == "state root"
    assert stores.keys() == {"counts", "planes"}
    assert [partition["partition"] for partition in stores["planes"]] == [0, 1, 2]
    assert stores["counts"][0]["changelog"] == {
        "path": str(root / "counts" / "0" / "changelog"),
        "bytes": stores["counts"][0]["changelog"]["bytes"],
        "kind": "key-value",
        "first_offset": 0,
        "end_offset": 50,
        "position": [],
        "segments": 1,
        "compacted_before": None,
        "torn_tail_bytes": 0,
    }
    text = succeed("info", root).out
    assert "store planes" in text
    assert "30 days" in text


def test_info_of_a_partition_opens_its_engine_only_on_request(kept: Path, succeed: Run) -> None:
    """Then it says offsets, stream time and lag."""
    path = kept / "planes" / "1"
    quiet = succeed("info", path, "--json").document
    opened = succeed("info", path, "--engine", "--json").document
    end = quiet["changelog"]["end_offset"]

    assert quiet["engine"] is None
    assert opened["lag"] == 0
    assert opened["engine"] == {
        "committed_offsets": [{"topic": "planes-changelog", "partition": 1, "offset": end - 1}],
        "position": [{"topic": "flights", "partition": 1, "offset": 4}],
        "stream_time_ms": T0 + 4 * ss.DAY,
    }


def test_info_shows_the_lag_of_a_store_that_missed_a_write(
    kept: Path, tmp_path: Path, succeed: Run
) -> None:
    """An import appends to the changelogs only; the engine follows when it is opened."""
    file = tmp_path / "again.arrow"
    succeed("export", kept, file)
    succeed("import", file, kept)
    document = succeed("info", kept / "planes" / "0", "--engine", "--json").document

    assert document["lag"] == document["changelog"]["end_offset"] // 2
    assert "behind its changelog" in succeed("info", kept / "planes" / "0", "--engine").out


def test_info_of_a_store_that_is_open_elsewhere_says_by_whom(kept: Path, succeed: Run) -> None:
    """The rest is shown all the same."""
    with open_logged_store(kept, "planes", 0):
        document = succeed("info", kept / "planes" / "0", "--engine", "--json").document

    assert "is open in process" in document["engine"]["error"]
    assert document["changelog"]["end_offset"] > 0


def test_info_of_a_store_without_a_changelog_asks_its_engine(bare: Path, succeed: Run) -> None:
    """There is nobody else to ask."""
    document = succeed("info", bare, "--json").document

    assert document["store"]["name"] == "bare"
    assert document["engine"]["committed_offsets"] == [
        {"topic": "elsewhere", "partition": 0, "offset": 7}
    ]


def test_info_knows_changelogs_and_snapshots(root: Path, succeed: Run) -> None:
    """Each by its own path."""
    succeed("snapshot", root / "planes" / "0")
    (path,) = (root / "planes" / "0" / "snapshots").iterdir()
    snapshot = succeed("info", path, "--json").document
    log = succeed("info", root / "planes" / "0" / "changelog", "--json").document

    assert (snapshot["what"], log["what"]) == ("snapshot", "changelog")
    assert snapshot["offset"] == log["end_offset"] - 1
    assert snapshot["store"]["history_retention_ms"] == 30 * ss.DAY


def test_info_shows_what_it_can_of_something_damaged(root: Path, succeed: Run) -> None:
    """Damage is for verify to judge; info says that something cannot be read."""
    succeed("snapshot", root / "planes" / "0")
    (path,) = (root / "planes" / "0" / "snapshots").iterdir()
    (path / "manifest.json").write_text("{}")
    document = succeed("info", root / "planes" / "0", "--json").document

    assert "manifest.json" in document["snapshots"][0]["error"]
    assert document["changelog"]["first_offset"] == 0


def test_changelog_prints_changes_in_order(root: Path, succeed: Run) -> None:
    """With their offsets; a deletion has no value."""
    rows = succeed("changelog", root / "planes" / "0", "--limit", 0, "--json").lines

    assert [row["offset"] for row in rows] == list(range(len(rows)))
    assert {row["operation"] for row in rows} == {"put", "delete"}
    assert all((row["value"] is None) == (row["operation"] == "delete") for row in rows)


def test_changelog_takes_offsets_and_a_limit(root: Path, succeed: Run) -> None:
    """Half-open, as the library's own."""
    arguments = ("changelog", root, "--store", "counts", "--partition", 0, "--json")
    rows = succeed(*arguments, "--from-offset", 10, "--to-offset", 13).lines
    bounded = succeed(*arguments, "--from-offset", 10, "--limit", 2)

    assert [(row["offset"], row["key"]) for row in rows] == [(10, 5), (11, 6), (12, 7)]
    assert [row["offset"] for row in bounded.lines] == [10, 11]
    assert "there are more" in bounded.err


def test_a_changelog_by_itself_is_read_as_bytes(root: Path, tmp_path: Path, succeed: Run) -> None:
    """Away from its state root nobody says what its bytes mean."""
    moved = (root / "counts" / "0" / "changelog").rename(tmp_path / "moved")
    row = succeed("changelog", moved, "--limit", 1, "--json").lines[0]

    assert row["key"] == {"hex": ss.int64_sorted.encode(-5).hex()}
    assert row["partition"] is None


def test_offsets_of_several_partitions_are_refused(root: Path, run: Run) -> None:
    """An offset means something in one partition only."""
    outcome = run("changelog", root, "--store", "planes", "--from-offset", 3)

    assert outcome.code == 2
    assert "name it with --partition" in outcome.err
