"""Stores with timestamps, windows and sessions on the command line, as versions and plain ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import statestores as ss
from statestores.logged_store import open_logged_store
from statestores.partitioning import murmur2_partitioner
from statestores.semantics.expiry.wall_clock import wall_clock_ms

T0 = 1_372_896_000_000
"""4 July 2013, midnight in UTC."""

PARTITIONS = 2
KEYS = ["a", "ключ", "a\x00b", "é"]
Row = dict[str, Any]
Run: TypeAlias = Callable[..., Any]


def _stamped(store: Any, key: str, number: int) -> Row:
    store.put(key, f"v{number}", T0 + number)
    return {"timestamp_ms": T0 + number}


def _window(store: Any, key: str, number: int) -> Row:
    start = T0 + number * ss.MINUTE
    assert store.put(key, f"v{number}", start)
    return {"window_start_ms": start, "window_end_ms": start + ss.MINUTE}


def _duplicate(store: Any, key: str, number: int) -> Row:
    start = T0 + number // len(KEYS) // 2 * ss.MINUTE
    assert store.put(key, f"v{number}", start)
    return {"window_start_ms": start, "window_end_ms": start + ss.MINUTE}


def _session(store: Any, key: str, number: int) -> Row:
    start, end = T0 + number * ss.MINUTE, T0 + number * ss.MINUTE + 2_500
    assert store.put(key, start, end, f"v{number}")
    return {"session_start_ms": start, "session_end_ms": end}


CASES: dict[str, tuple[Any, Callable[[Any, str, int], Row]]] = {
    "timestamped": (
        ss.TimestampedKeyValue("s", key=ss.utf8, value=ss.utf8),
        _stamped,
    ),
    "ttl": (
        ss.TimestampedKeyValue("s", key=ss.utf8, value=ss.utf8, ttl_ms=ss.DAY),
        _stamped,
    ),
    "window": (
        ss.Window("s", key=ss.utf8, value=ss.utf8, retention_ms=ss.DAY, window_size_ms=ss.MINUTE),
        _window,
    ),
    "duplicates": (
        ss.Window(
            "s",
            key=ss.utf8,
            value=ss.utf8,
            retention_ms=ss.DAY,
            window_size_ms=ss.MINUTE,
            retain_duplicates=True,
        ),
        _duplicate,
    ),
    "session": (ss.Session("s", key=ss.utf8, value=ss.utf8, retention_ms=ss.DAY), _session),
}
KEEPS_THE_LAST = {"timestamped", "ttl"}


@pytest.fixture(params=CASES)
def kind(request: pytest.FixtureRequest) -> str:
    """Name one of the kinds."""
    return str(request.param)


def _partition_of(key: str) -> int:
    return murmur2_partitioner.partition(key.encode(), PARTITIONS)


def fill(path: Path, kind: str) -> list[Row]:
    """Write three rows a key, with a snapshot after two; return what a scan shows, as JSON."""
    specification, write = CASES[kind]
    root = ss.StateRoot.create(path)
    root.add_store(specification, partitions=PARTITIONS)
    rows: dict[Any, Row] = {}
    stores = [
        open_logged_store(root, "s", number, backend="sqlite") for number in range(PARTITIONS)
    ]
    try:
        for number in range(3 * len(KEYS)):
            key = KEYS[number % len(KEYS)]
            partition = _partition_of(key)
            times = write(stores[partition].store, key, number)
            place = key if kind in KEEPS_THE_LAST else (key, number)
            rows[place] = {"key": key, "value": f"v{number}", **times, "partition": partition}
            if number == 2 * len(KEYS):
                for store in stores:
                    store.commit()
                    store.snapshot()
        for store in stores:
            store.commit({})
    finally:
        for store in stores:
            store.close()
    return sorted(rows.values(), key=lambda row: row["key"].encode())


def without(rows: list[Row], *names: str) -> list[Row]:
    return [{name: cell for name, cell in row.items() if name not in names} for row in rows]


def test_rows_are_shown_with_their_times(tmp_path: Path, kind: str, succeed: Run) -> None:
    """In key order and then their own, forward and backward, from every door."""
    rows = fill(tmp_path / "state", kind)

    assert succeed("scan", tmp_path / "state", "--json").lines == rows
    backward = succeed("scan", tmp_path / "state", "--json", "--reverse").lines
    assert backward == rows[::-1]
    assert succeed("scan", tmp_path / "state", "--json", "--prefix", "a").lines == [
        row for row in rows if row["key"].startswith("a")
    ]
    shown = succeed("scan", tmp_path / "state").out.splitlines()
    assert len(shown) == 1 + len(rows)
    assert "2013-07-04T00:0" in shown[1]
    snapshot = next((tmp_path / "state" / "s" / "0" / "snapshots").iterdir())
    in_snapshot = succeed("scan", snapshot, "--json").lines
    assert 0 < len(in_snapshot) <= len(rows)
    assert in_snapshot[0].keys() == rows[0].keys()


def test_a_key_has_a_value_or_windows_or_sessions(
    tmp_path: Path, kind: str, succeed: Run, run: Run
) -> None:
    """All of them, or with --start the one that starts then; none is exit code 1."""
    rows = [row for row in fill(tmp_path / "state", kind) if row["key"] == "ключ"]
    found = succeed("get", tmp_path / "state", "ключ", "--json").document
    missing = run("get", tmp_path / "state", "nobody", "--json")

    assert missing.code == 1
    assert missing.document["found"] is False
    if kind in KEEPS_THE_LAST:
        assert found == {"found": True, **rows[0]}
        plain = succeed("get", tmp_path / "state", "ключ")
        assert plain.out == f"{rows[0]['value']}\n"
        assert "timestamp 2013-07-04T00:00:00.009Z" in plain.err
        refused = run("get", tmp_path / "state", "ключ", "--start", T0)
        assert (refused.code, "leave --start out" in refused.err) == (2, True)
        return
    (name,) = {"windows", "sessions"} & found.keys()
    assert found[name] == without(rows, "key", "partition")
    start = next(cell for column, cell in rows[-1].items() if column.endswith("start_ms"))
    one = succeed("get", tmp_path / "state", "ключ", "--start", start, "--json").document
    assert one[name] == without(rows[-1:], "key", "partition")
    assert run("get", tmp_path / "state", "ключ", "--start", start + 1).code == 1
    assert len(succeed("get", tmp_path / "state", "ключ").out.splitlines()) == 1 + len(rows)


def test_there_is_no_history(tmp_path: Path, kind: str, run: Run) -> None:
    """The sentence names the kind."""
    fill(tmp_path / "state", kind)
    words = f"is a {CASES[kind][0].kind} store, which"

    for arguments in (["history", "a"], ["get", "a", "--as-of", "1"], ["scan", "--as-of", "1"]):
        command, *others = arguments
        outcome = run(command, tmp_path / "state", *others)
        assert (outcome.code, words in outcome.err) == (2, True), outcome
    target = tmp_path / "rows.arrow"
    assert words in run("export", tmp_path / "state", target, "--as-of", "1").err


def test_changes_have_the_columns_of_the_kind(tmp_path: Path, kind: str, succeed: Run) -> None:
    """From the partition, and from the changelog's directory, which knows no serdes."""
    rows = fill(tmp_path / "state", kind)
    mine = succeed("changelog", tmp_path / "state", "--partition", "0", "--json").lines
    bare = succeed("changelog", tmp_path / "state" / "s" / "0" / "changelog", "--json").lines

    numbers = {
        "timestamped-key-value": ["timestamp_ms"],
        "window": ["window_start_ms", "sequence"],
        "session": ["session_start_ms", "session_end_ms"],
    }[CASES[kind][0].kind]
    assert list(mine[0]) == ["offset", "operation", *numbers, "key", "value", "partition"]
    assert without(mine, "partition") == without(bare, "partition")
    written = {(row["key"], row["value"], row[numbers[0]]) for row in rows if row["partition"] == 0}
    assert written <= {(change["key"], change["value"], change[numbers[0]]) for change in mine}


@pytest.mark.spec("SNP-18")
def test_an_export_makes_the_same_store(tmp_path: Path, kind: str, succeed: Run) -> None:
    """Created by the import, with another number of partitions; and again, replaced."""
    rows = fill(tmp_path / "state", kind)
    file = tmp_path / "rows.parquet"
    assert succeed("export", tmp_path / "state", file, "--json").document["rows"] == len(rows)
    for extra in ([], ["--replace"]):
        done = succeed("import", file, tmp_path / "copy", "--partitions", "3", *extra, "--json")
        assert done.document == {"store": "s", "rows": len(rows), "partitions": 3}
        copied = succeed("scan", tmp_path / "copy", "--json").lines
        assert without(copied, "partition") == without(rows, "partition")

    assert ss.StateRoot.open(tmp_path / "copy").store().specification == CASES[kind][0]
    assert succeed("verify", tmp_path / "copy", "--json").document["ok"] is True


def test_upkeep_and_verify(tmp_path: Path, kind: str, succeed: Run) -> None:
    """Everything is right, before and after a snapshot and a compaction."""
    rows = fill(tmp_path / "state", kind)
    checks = succeed("verify", tmp_path / "state", "--json").document["checks"]
    assert {check["status"] for check in checks} == {"ok"}
    assert {"rows", "content", "partition"} <= {check["check"] for check in checks}
    succeed("snapshot", tmp_path / "state")
    succeed("compact", tmp_path / "state")

    assert succeed("verify", tmp_path / "state", "--json").document["ok"] is True
    assert succeed("scan", tmp_path / "state", "--json").lines == rows


def test_info_says_what_the_store_is(tmp_path: Path, kind: str, succeed: Run) -> None:
    """Durations in words, stream time, and the JSON of the specification."""
    fill(tmp_path / "state", kind)
    out = succeed("info", tmp_path / "state" / "s" / "0", "--engine").out
    document = succeed("info", tmp_path / "state" / "s" / "0", "--engine", "--json").document

    wanted = {
        "timestamped": [],
        "ttl": ["time to live        1 day", "stream time"],
        "window": ["window size", "1 minute", "retention", "1 day"],
        "duplicates": ["duplicates", "retained"],
        "session": ["retention", "1 day"],
    }[kind]
    assert all(" ".join(words.split()) in " ".join(out.split()) for words in wanted), out
    assert document["store"] == CASES[kind][0].describe()
    assert document["engine"]["stream_time_ms"] >= T0


def test_a_store_without_a_changelog_is_read_through_its_engine(
    tmp_path: Path, kind: str, succeed: Run
) -> None:
    """The store's own reads give the same records."""
    specification, write = CASES[kind]
    expected = []
    with ss.open_store(tmp_path / "alone", specification, backend="sqlite") as store:
        for number, key in enumerate(KEYS):
            times = write(store, key, number)
            expected.append({"key": key, "value": f"v{number}", **times, "partition": None})
        store.commit({})
    expected.sort(key=lambda row: row["key"].encode())

    assert succeed("scan", tmp_path / "alone", "--json").lines == expected
    assert succeed("scan", tmp_path / "alone", "--json", "--reverse").lines == expected[::-1]
    assert succeed("get", tmp_path / "alone", "é", "--json").document["found"] is True
    assert succeed("verify", tmp_path / "alone", "--json").document["ok"] is True


@pytest.mark.spec("TTL-2", "TTL-1")
def test_what_has_expired_by_the_clock_is_nowhere(tmp_path: Path, succeed: Run) -> None:
    """The log still has it, and that is no damage."""
    specification = ss.TimestampedKeyValue("s", ttl_ms=ss.DAY, ttl_clock="wall")
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(specification, partitions=1)
    with open_logged_store(root, "s", 0, backend="sqlite") as logged:
        logged.store.put(b"living", b"v")
        logged.store.put(b"gone", b"v", T0)
        logged.commit()
        logged.snapshot()
    snapshot = next((tmp_path / "state" / "s" / "0" / "snapshots").iterdir())

    for path in (tmp_path / "state", snapshot):
        assert [row["key"] for row in succeed("scan", path, "--json").lines] == ["living"]
    assert succeed("verify", tmp_path / "state", "--json").document["ok"] is True


@pytest.mark.spec("TTL-2")
def test_an_export_of_a_snapshot_has_what_a_scan_of_it_has(
    tmp_path: Path, succeed: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that had expired by the clock since the snapshot were exported, and not scanned.

    The export read the snapshot's file, and the scan what a store would show. Now both do that.
    """
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(ss.TimestampedKeyValue("s", ttl_ms=ss.DAY, ttl_clock="wall"), partitions=1)
    with open_logged_store(root, "s", 0, backend="sqlite") as logged:
        logged.store.put(b"dying", b"v")
        logged.commit()
        logged.snapshot()
    snapshot = next((tmp_path / "state" / "s" / "0" / "snapshots").iterdir())
    before = succeed("export", snapshot, tmp_path / "before.arrow", "--json").document
    later_ms = wall_clock_ms() + 2 * ss.DAY
    monkeypatch.setattr("statestores.semantics.timestamped.expiry.wall_clock_ms", lambda: later_ms)
    after = succeed("export", snapshot, tmp_path / "after.arrow", "--json").document

    assert (before["rows"], after["rows"]) == (1, 0)
    assert succeed("scan", snapshot, "--json").lines == []
