"""The commands restore and orphans."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import statestores as ss

Run: TypeAlias = Callable[..., Any]


def test_engines_are_made_on_another_disk(kept: Path, tmp_path: Path, succeed: Run) -> None:
    """Every partition of every store, and the second time there is nothing to do."""
    local = tmp_path / "local"
    first = succeed("restore", kept, "--local", local, "--backend", "sqlite", "--json").lines
    second = succeed("restore", kept, "--local", local, "--json").lines

    assert {row["store"] for row in first} == set(ss.StateRoot.open(kept).stores)
    assert sum(row["snapshot_rows"] + row["changelog_rows"] for row in first) > 0
    assert sum(row["snapshot_rows"] + row["changelog_rows"] for row in second) == 0
    with ss.open_logged_store(kept, "planes", 1, directory=local / "planes" / "1") as planes:
        assert planes.restored.changelog_rows == 0
        assert planes.committed_offset == planes.changelog.end_offset - 1


def test_a_damaged_engine_is_rebuilt_on_request_only(
    kept: Path, tmp_path: Path, succeed: Run, run: Run
) -> None:
    """Without the option the others are restored, and the exit code says that one was not."""
    local = tmp_path / "local"
    succeed("restore", kept, "--store", "planes", "--local", local, "--backend", "rocksdb")
    (local / "planes" / "0" / "engine" / "CURRENT").write_bytes(b"nonsense")

    refused = run("restore", kept, "--store", "planes", "--local", local, "--json")
    assert refused.code == 1
    assert [row["partition"] for row in refused.lines] == [1, 2]
    assert "CURRENT" in refused.err

    rows = succeed("restore", kept, "--store", "planes", "--local", local, "--rebuild", "--json")
    assert [bool(row["rebuilt"]) for row in rows.lines] == [True, False, False]
    (orphan,) = succeed("orphans", kept, "--local", local, "--json").lines
    assert orphan["reason"] == "damaged engine"


def test_an_unknown_partition_is_a_usage_error(kept: Path, run: Run) -> None:
    """And the message names it."""
    outcome = run("restore", kept, "--partition", "77")

    assert outcome.code == 2
    assert "77" in outcome.err
