"""The commands restore and orphans."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import statestores as ss
from statestores.errors import StoreMismatchError
from statestores.opening import backend_of

PARTITIONS = 3
COUNTS = ss.KeyValue("counts", key=ss.int64_sorted)

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


def _engines(place: Path) -> list[str | None]:
    return [backend_of(place / "planes" / str(number)) for number in range(PARTITIONS)]


def _lose(directory: Path) -> None:
    """Remove an engine, and what names it."""
    shutil.rmtree(directory / "engine")
    (directory / "engine.json").unlink()


@pytest.mark.spec("LGS-17")
def test_a_lost_engine_is_made_by_the_backend_that_its_store_has(
    kept: Path, persistent: str, succeed: Run
) -> None:
    """An engine was lost, and `restore` made it by the default backend.

    The application, which names its backend, then refused it: "written by the backend 'rocksdb',
    not 'sqlite'". Its neighbours say which backend it was.
    """
    _lose(kept / "planes" / "1")
    outcome = succeed("restore", kept)

    assert _engines(kept) == [persistent] * PARTITIONS
    assert "--backend" not in outcome.err
    with ss.open_logged_store(kept, "planes", 1, backend=persistent) as planes:
        assert planes.restored.changelog_rows == 0


@pytest.mark.spec("LGS-17")
def test_engines_on_another_disk_are_those_of_the_root(
    kept: Path, tmp_path: Path, persistent: str, succeed: Run
) -> None:
    """Where nothing is on that disk yet; and one that is given comes first."""
    local = tmp_path / "local"
    succeed("restore", kept, "--local", local)
    succeed("restore", kept, "--local", tmp_path / "given", "--backend", "leveldb")

    assert _engines(local) == [persistent] * PARTITIONS
    assert _engines(tmp_path / "given") == ["leveldb"] * PARTITIONS


@pytest.mark.spec("LGS-17")
@pytest.mark.parametrize("persistent", ["sqlite"], indirect=True)
def test_other_stores_and_native_snapshots_say_which_backend_it_was(
    kept: Path, persistent: str, succeed: Run
) -> None:
    """When no engine of the store is left; and if nothing says, it is told."""
    root = ss.StateRoot.open(kept)
    root.add_store(COUNTS, partitions=1)
    with ss.open_logged_store(root, "counts", 0, backend="leveldb") as counts:
        counts.store.put(1, b"1")
        counts.commit()
    with ss.open_logged_store(root, "planes", 0) as planes:
        planes.snapshot(snapshot_format="native")
    for number in range(PARTITIONS):
        _lose(kept / "planes" / str(number))
    succeed("restore", kept, "--store", "planes", "--partition", "0")
    native = _engines(kept)
    _lose(kept / "planes" / "0")
    shutil.rmtree(kept / "planes" / "0" / "snapshots")
    restored = succeed("restore", kept, "--store", "planes", "--partition", "1")
    near = _engines(kept)
    for directory in (kept / "planes" / "1", kept / "counts" / "0"):
        _lose(directory)
    unsaid = succeed("restore", kept)

    assert native == ["sqlite", None, None]
    assert near == [None, "leveldb", None]
    assert "--backend" not in restored.err
    assert _engines(kept) == ["rocksdb"] * PARTITIONS
    assert "nothing here says of which backend the engines of 'counts', 'planes' were" in (
        " ".join(unsaid.err.split())
    )


@pytest.mark.spec("LGS-17")
def test_what_the_refusal_of_another_backend_advises_helps(kept: Path, persistent: str) -> None:
    """It said to export and to import, which no logged store needs: it is made anew."""
    other = "sqlite" if persistent != "sqlite" else "leveldb"
    directory = kept / "planes" / "0"
    with pytest.raises(StoreMismatchError, match="makes the engine anew") as refused:
        ss.open_logged_store(kept, "planes", 0, backend=other)
    for name in ("engine.json", "engine"):
        assert repr(name) in str(refused.value)
        (directory / name).rename(directory / f"{name}.kept")
    with ss.open_logged_store(kept, "planes", 0, backend=other) as planes:
        found = planes.restored.changelog_rows

    assert backend_of(directory) == other
    assert found > 0
