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
from statestores.cli.locations import Partition, locate
from statestores.cli.verification.engine_rows import examine_rows
from statestores.logged_store import open_logged_store
from statestores.opening import backend_of
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.layout import DATA, HISTORY, OFFSETS, PROGRESS_ROW, TRUNCATING_ROW
from statestores.semantics.progress import Progress
from statestores.semantics.versioned_rows import history_key, history_row, latest_row
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


_K = b"\x00k"

_DAMAGED_ROWS: dict[str, tuple[dict[bytes, bytes | None], str]] = {
    "unknown metadata": ({b"\x00other": b""}, "metadata row"),
    "namespace": ({b"\x09x": b""}, "in no namespace"),
    "offset": ({OFFSETS + b"t\x00\x00\x00\x00\x01": b"1"}, "committed offsets"),
    "short latest": ({DATA + _K: b"\x00"}, "too few (LAY-9)"),
    "deletion with value": ({DATA + _K: latest_row(30, None) + b"x"}, "with a value (LAY-9)"),
    "no marker": ({DATA + _K: latest_row(30, None)}, "has no marker (LAY-15)"),
    "after stream time": ({DATA + _K: latest_row(31, b"v")}, "after the stream time 30 (LAY-8)"),
    "stray marker": ({history_key(_K, 25): history_row(25, None)}, "marker of a deletion"),
    "inverted": ({history_key(_K, 20): history_row(19, b"v")}, "not after it began"),
    "gap": ({history_key(_K, 20): history_row(25, b"v")}, "the next one starts at 30"),
    "overlap": ({history_key(_K, 10): history_row(29, b"v")}, "the next one starts at 20"),
    "orphan": ({DATA + _K: None}, "there is no next one (LAY-7)"),
    "unescaped": ({HISTORY + b"\x00k\x00\x00" + bytes(8): b"\x00" * 8}, "not escaped"),
    "no terminator": ({HISTORY + b"kkkkkkkkkkkk": b"\x00" * 8}, "no terminator"),
    "short history": ({history_key(_K, 20): b"\x00"}, "too few (LAY-14)"),
    "floor": (
        {PROGRESS_ROW: Progress(stream_time_ms=30, floor_ms=25).pack()},
        "before the floor 25",
    ),
    "progress": ({PROGRESS_ROW: b"x"}, "(LAY-8)"),
}


@pytest.mark.spec("LAY-7", "LAY-8", "LAY-9", "LAY-13", "LAY-14", "LAY-15")
@pytest.mark.parametrize("name", _DAMAGED_ROWS)
def test_each_rule_of_the_layout_is_checked(name: str) -> None:
    """A store of three versions of one key, damaged in one row."""
    rows, expected = _DAMAGED_ROWS[name]
    engine = load_backend("memory").open("unused")
    with engine, _versions_in(engine):
        before = examine_rows(engine)
        engine.apply(rows, Durability.PROCESS_CRASH)
        after = examine_rows(engine)

    assert before is not None
    assert before.problems == []
    assert after is not None
    assert any(expected in problem for problem in after.problems), after.problems


@contextmanager
def _versions_in(engine: Engine) -> Iterator[None]:
    with open_on_engine(engine, ss.Versioned("v", history_retention_ms=1_000)) as store:
        for time_ms in (10, 20, 30):
            store.put(_K, b"%d" % time_ms, timestamp_ms=time_ms)
        store.commit({})
        yield


def test_expired_history_may_be_missing() -> None:
    """LAY-16: a gap below the horizon is no damage."""
    engine = load_backend("memory").open("unused")
    with open_on_engine(engine, ss.Versioned("v", history_retention_ms=5)) as store:
        for time_ms in (10, 14, 18):
            store.put(_K, b"%d" % time_ms, timestamp_ms=time_ms)
            store.commit({})
        store.put(b"other", b"", timestamp_ms=100)
        store.commit({})
        engine.apply({history_key(_K, 14): None}, Durability.PROCESS_CRASH)
        examined = examine_rows(engine)

    assert examined is not None
    assert examined.problems == []


def test_locate_tells_partitions_of_a_root_from_others(root: Path, bare: Path) -> None:
    """What the state root says is known, and what the engine says is not asked."""
    inside, alone = locate(root / "planes" / "0"), locate(bare)

    assert isinstance(inside, Partition)
    assert isinstance(alone, Partition)
    assert (inside.number, alone.number) == (0, None)
    assert alone.specification is None
