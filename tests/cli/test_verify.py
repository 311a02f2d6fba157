"""The command verify: it finds what is wrong, says it in words, and changes nothing."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import statestores as ss
from statestores.arrow import list_snapshots
from statestores.changelog import FileChangelog
from statestores.logged_store import open_logged_store
from statestores.opening import backend_of
from statestores.partitioning import murmur2_partitioner
from statestores.registry import load_backend
from statestores.semantics.rows.layout import DATA, HISTORY, OFFSETS, TRUNCATING_ROW
from statestores.spi import Durability, Engine

Run: TypeAlias = Callable[..., Any]


def _statuses(document: Any) -> set[tuple[str, str]]:
    return {(check["check"], check["status"]) for check in document["checks"]}


def _details(document: Any) -> str:
    return " ".join(check["detail"] for check in document["checks"] if check["status"] != "ok")


@contextmanager
def _engine_of(partition: Path) -> Iterator[Engine]:
    """Open the engine of *partition* below its store, to damage what is in it."""
    backend = backend_of(partition)
    assert backend is not None
    with load_backend(backend).open(partition / "engine") as engine:
        yield engine


def test_a_healthy_store_passes(kept: Path, succeed: Run) -> None:
    """Files, rows and content, on every persistent backend, after restarts and snapshots."""
    succeed("snapshot", kept)
    document = succeed("verify", kept, "--json").document

    assert document["ok"] is True
    assert _statuses(document) == {
        ("store", "ok"),
        ("changelog", "ok"),
        ("snapshot", "ok"),
        ("rows", "ok"),
        ("content", "ok"),
        ("partition", "ok"),
    }


def test_verify_changes_nothing(kept: Path, succeed: Run) -> None:
    """The changelogs and snapshots have the same bytes afterwards."""
    succeed("snapshot", kept)
    before = _files(kept)
    succeed("verify", kept)

    assert _files(kept) == before


def _files(root: Path) -> dict[Path, bytes]:
    """Return the files that are ours; an engine may tidy up its own."""
    return {
        path: path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and "engine" not in path.parts
    }


def test_a_store_stays_right_while_it_expires(
    tmp_path: Path, persistent: str, succeed: Run
) -> None:
    """History that is half vacuumed, markers and late versions are all well-formed."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.Versioned("v", history_retention_ms=40), partitions=1)
    with open_logged_store(state, "v", 0, backend=persistent) as store:
        for step in range(600):
            key = b"k%d" % (step * 7 % 23)
            value = None if step % 5 == 0 else b"%d" % step
            store.store.put(key, value, timestamp_ms=max(0, step - step * 13 % 37))
            if step % 11 == 0:
                store.commit()
        store.commit()

    assert succeed("verify", state.path, "--json").document["ok"] is True


@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_a_damaged_changelog_is_found(root: Path, run: Run, damage: str) -> None:
    """A bit that flipped between two frames, or a segment that lost its head."""
    (segment,) = (root / "planes" / "1" / "changelog").glob("*.log")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 4
    segment.write_bytes(data if damage == "flip" else data[:100])
    outcome = run("verify", root, "--store", "planes", "--json")

    assert outcome.code == 1
    assert ("changelog", "damaged") in _statuses(outcome.document)
    assert segment.name in _details(outcome.document)
    assert run("verify", segment.parent).code == 1


def test_a_torn_tail_is_no_damage(root: Path, succeed: Run) -> None:
    """It is what a crash leaves of an append that never returned."""
    (segment,) = (root / "counts" / "0" / "changelog").glob("*.log")
    segment.write_bytes(segment.read_bytes() + b"SSCF and half a frame...")
    document = succeed("verify", root, "--store", "counts", "--json").document

    assert document["ok"] is True
    assert "a torn tail of 24 bytes" in document["checks"][1]["detail"]


def test_a_missing_segment_is_found(kept: Path, run: Run) -> None:
    """Segments name the one before them."""
    number = 0
    with open_logged_store(kept, "planes", number) as store:
        for round_number in range(3):
            assert isinstance(store.changelog, FileChangelog)
            store.changelog.seal()
            store.store.put("x", round_number, timestamp_ms=10**13 + round_number)
            store.commit()
    segments = sorted((kept / "planes" / "0" / "changelog").glob("*.log"))
    segments[1].unlink()
    outcome = run("verify", kept / "planes" / "0", "--json")

    assert outcome.code == 1
    assert "missing" in _details(outcome.document)


def test_a_changelog_that_lost_its_end_is_found(kept: Path, run: Run) -> None:
    """The store has committed what the changelog does not have."""
    (segment,) = (kept / "planes" / "0" / "changelog").glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-100])
    outcome = run("verify", kept / "planes" / "0", "--json")

    assert outcome.code == 1
    assert "the changelog has lost its end" in _details(outcome.document)


@pytest.mark.parametrize("file", ["manifest.json", "data-0000.arrow"])
def test_a_damaged_snapshot_is_found(root: Path, run: Run, succeed: Run, file: str) -> None:
    """In the manifest or in the data, and by the snapshot's own path as well."""
    succeed("snapshot", root, "--store", "planes")
    (path,) = list_snapshots(root / "planes" / "2" / "snapshots").values()
    data = bytearray((path / file).read_bytes())
    data[len(data) // 2] ^= 1
    (path / file).write_bytes(data)
    outcome = run("verify", root, "--json")

    assert outcome.code == 1
    assert ("snapshot", "damaged") in _statuses(outcome.document)
    assert file in _details(outcome.document)
    assert run("verify", path).code == 1


def test_a_snapshot_of_another_store_is_found(root: Path, run: Run, succeed: Run) -> None:
    """It is whole, and does not belong there."""
    succeed("snapshot", root, "--store", "planes")
    succeed("snapshot", root, "--store", "counts")
    (path,) = list_snapshots(root / "counts" / "0" / "snapshots").values()
    shutil.copytree(path, root / "planes" / "0" / "snapshots" / path.name)
    outcome = run("verify", root, "--json")

    assert outcome.code == 1
    assert "it is a snapshot of another store" in _details(outcome.document)


def test_a_store_that_differs_from_its_changelog_is_found(kept: Path, run: Run) -> None:
    """Its rows are well-formed, and one of them is wrong: the words say which."""
    partition = kept / "planes" / "0"
    with _engine_of(partition) as engine:
        found = engine.first(DATA, HISTORY)
        assert found is not None
        row_key, row = found
        engine.apply({row_key: row[:8] + b'"forged"'}, Durability.PROCESS_CRASH)
    outcome = run("verify", partition, "--json")

    assert outcome.code == 1
    assert ("rows", "ok") in _statuses(outcome.document)
    assert f"key '{row_key[1:].decode()}' with value '\"forged\"'" in _details(outcome.document)


def test_a_store_that_lost_a_key_is_found(kept: Path, run: Run) -> None:
    """A latest version that is gone leaves its history without an end."""
    partition = kept / "planes" / "0"
    with _engine_of(partition) as engine:
        found = engine.last(DATA, HISTORY)
        assert found is not None
        engine.apply({found[0]: None}, Durability.PROCESS_CRASH)
    outcome = run("verify", partition)

    assert outcome.code == 1
    assert "there is no next one (LAY-7)" in outcome.out


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({TRUNCATING_ROW: b""}, "a truncation was interrupted"),
        ({OFFSETS + b"planes#restoring\0" + bytes(4): bytes(8)}, "a restore was interrupted"),
    ],
)
def test_what_a_crash_may_leave_is_no_damage(
    kept: Path, succeed: Run, row: dict[bytes, bytes], words: str
) -> None:
    """The next opening goes on with it, and there is nothing to compare until then."""
    partition = kept / "planes" / "0"
    with _engine_of(partition) as engine:
        engine.apply(row, Durability.PROCESS_CRASH)
    document = succeed("verify", partition, "--json").document

    assert words in _details(document)


def test_a_damaged_engine_is_found(kept: Path, run: Run) -> None:
    """Its files are gone, and a new engine is not made in their place."""
    partition = kept / "planes" / "0"
    shutil.rmtree(partition / "engine")
    outcome = run("verify", partition, "--json")

    assert outcome.code == 1
    assert ("engine", "damaged") in _statuses(outcome.document)
    assert not (partition / "engine").exists()


def test_a_locked_engine_is_not_said_to_be_right(kept: Path, run: Run) -> None:
    """Nobody knows; without the engine the files can be checked alone."""
    with open_logged_store(kept, "planes", 0):
        outcome = run("verify", kept / "planes" / "0", "--json")
        files_only = run("verify", kept / "planes" / "0", "--no-engine", "--json")

    assert outcome.code == 1
    assert ("engine", "not checked") in _statuses(outcome.document)
    assert "is open in process" in _details(outcome.document)
    assert files_only.code == 0


def test_a_damaged_state_root_is_a_sentence(root: Path, run: Run) -> None:
    """It is the first thing that anyone reads."""
    (root / "statestores.json").write_text("{}")
    outcome = run("verify", root)

    assert outcome.code == 1
    assert outcome.err.startswith(f"statestores: '{root / 'statestores.json'}' is malformed")


def test_a_store_without_a_changelog_is_checked(bare: Path, succeed: Run) -> None:
    """Its rows are, at least."""
    document = succeed("verify", bare, "--json").document

    assert _statuses(document) == {("rows", "ok")}


def test_rows_beyond_a_compaction_are_compared(kept: Path, succeed: Run) -> None:
    """What remains of the changelog still gives the store."""
    succeed("compact", kept)
    document = succeed("verify", kept, "--json").document

    assert ("content", "ok") in _statuses(document)


@pytest.mark.spec("PAR-10")
def test_keys_in_a_wrong_partition_are_a_finding(tmp_path: Path, run: Run) -> None:
    """They were a warning, and the last line said "nothing is wrong" and the exit code 0.

    Who looked why a query had missed a key was told that all was well. Now it is a failure that
    says how many keys, names one, by whose rule they are where they are, and what to do.
    """
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(ss.Versioned("counts", history_retention_ms=1_000), partitions=3)
    keys = [b"k%d" % number for number in range(300)]
    with open_logged_store(root, "counts", 1, backend="sqlite") as logged:
        for time_ms in (1, 2):
            for key in keys:
                logged.store.put(key, key, timestamp_ms=time_ms)
        logged.commit()
    outcome = run("verify", tmp_path / "state", "--json")

    strangers = sorted(key for key in keys if murmur2_partitioner.partition(key, 3) != 1)
    home = murmur2_partitioner.partition(strangers[0], 3)
    (found,) = [check for check in outcome.document["checks"] if check["check"] == "partition"]
    assert (outcome.code, outcome.document["ok"], found["status"]) == (1, False, "misplaced")
    assert f"{len(strangers)} keys are here, and 'murmur2'" in found["detail"]
    assert f"for {strangers[0].decode()!r} in {home}" in found["detail"]
    assert "import it into one whose specification names the partitioner" in found["detail"]
    outcome = run("verify", tmp_path / "state")
    assert (outcome.code, "nothing is wrong" in outcome.err) == (1, False)
    assert "failed checks: 1" in outcome.err
