"""Damage in the rows of windows, sessions and timestamps is found, and keys in wrong places are."""

from pathlib import Path
from typing import Any, TypeAlias

import pytest

import statestores as ss
from statestores.logged_store import open_logged_store
from statestores.opening import backend_of
from statestores.partitioning import crc32_partitioner
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.retained.progress import RetainedProgress
from statestores.semantics.retained.rows import RetainedRows
from statestores.semantics.rows.layout import DATA, HISTORY, PROGRESS_ROW
from statestores.semantics.rows.progress import Progress
from statestores.semantics.timestamped.opening import UNSTAMPED_ROW
from statestores.semantics.timestamped.rows import stamped_row
from statestores.spi import Durability, Engine
from statestores.verification import Status, verify
from statestores.verification.engine_rows import examine_rows
from statestores_conformance.many_cases import for_each

Damage: TypeAlias = dict[bytes, bytes | None]

K = b"\x00k"
PLAIN, NUMBERED = RetainedRows(has_number=False), RetainedRows(has_number=True)
WINDOW = ss.Window("w", retention_ms=1_000, window_size_ms=10)
DUPLICATES = ss.Window("w", retention_ms=1_000, window_size_ms=10, retain_duplicates=True)
SESSION = ss.Session("s", retention_ms=1_000)
TTL = ss.TimestampedKeyValue("t", ttl_ms=1_000)


def _both(rows: RetainedRows, time_ms: int, number: int = 0) -> Damage:
    """Return a row with its row in the index."""
    data_key = rows.data_key(K, time_ms, number)
    return {data_key: b"v", rows.index_key(data_key): b""}


W20, D20, S20 = (
    PLAIN.data_key(K, 20),
    NUMBERED.data_key(K, 20, 1),
    NUMBERED.data_key(K, 20, 15),
)

RETAINED: dict[str, tuple[Any, Damage, str]] = {
    "window without index": (WINDOW, {PLAIN.index_key(W20): None}, "no name in the index (LAY-20)"),
    "index without window": (WINDOW, {W20: None}, "a row that is not there (LAY-20)"),
    "index with a value": (WINDOW, {PLAIN.index_key(W20): b"x"}, "holds b'x', not nothing"),
    "short index row": (WINDOW, {HISTORY + b"x": b""}, "is too short (LAY-20)"),
    "after stream time": (WINDOW, _both(PLAIN, 31), "time 31, after the stream time 30"),
    "above every time": (WINDOW, _both(PLAIN, 1 << 63), "above the largest one (LAY-19)"),
    "no terminator": (WINDOW, {DATA + b"k" * 12: b"v"}, "no terminator"),
    "unescaped": (WINDOW, {DATA + b"\x00k\x00\x00" + bytes(8): b"v"}, "not escaped"),
    "below the cursor": (
        WINDOW,
        {PROGRESS_ROW: RetainedProgress(30, 0, PLAIN.index_key(W20)).pack()},
        "below the cursor",
    ),
    "strange cursor": (
        WINDOW,
        {PROGRESS_ROW: RetainedProgress(30, 0, DATA, 1).pack()},
        "no key of",
    ),
    "malformed cursor": (WINDOW, {PROGRESS_ROW: RetainedProgress(30, 0, DATA).pack()}, "malformed"),
    "no stream time": (WINDOW, {PROGRESS_ROW: None}, "after the stream time -1"),
    "progress": (WINDOW, {PROGRESS_ROW: b"x"}, "(LAY-21)"),
    "duplicate without index": (
        DUPLICATES,
        {NUMBERED.index_key(D20): None},
        "no name in the index",
    ),
    "sequence to come": (DUPLICATES, _both(NUMBERED, 20, 3), "the next one is to be 3 (LAY-21)"),
    "session without index": (SESSION, {NUMBERED.index_key(S20): None}, "no name in the index"),
    "inverted session": (SESSION, _both(NUMBERED, 20, 21), "starts at 21 and ends at 20"),
    "session after stream time": (SESSION, _both(NUMBERED, 40, 1), "after the stream time 30"),
}

STAMPED: dict[str, tuple[Any, Damage, str]] = {
    "too short": (TTL, {DATA + K: b"\x00"}, "too short for a timestamp (TKV-7)"),
    "after the stream time": (TTL, {DATA + K: stamped_row(b"v", 31)}, "stream time is 30 (TKV-5)"),
    "below every time": (TTL, {DATA + K: b"\xff" * 7 + b"\xfe"}, "timestamp -2"),
    "before the floor": (
        TTL,
        {PROGRESS_ROW: Progress(30, 35, 35, DATA).pack()},
        "before the floor 35 that the sweep trusts (TTL-12)",
    ),
    "progress of a sweep": (TTL, {PROGRESS_ROW: b"x"}, "(TTL-12)"),
    "history": (TTL, {HISTORY + b"x": b""}, "has the history row"),
}


@pytest.mark.spec("LAY-19", "LAY-20", "LAY-21", "TKV-5", "TKV-7", "TTL-12")
@for_each("name", [*RETAINED, *STAMPED])
def test_each_rule_of_the_layout_is_checked(name: str) -> None:
    """A healthy store is damaged in one row, or in a row and its index."""
    specification, damage, expected = (RETAINED | STAMPED)[name]
    engine = load_backend("memory").open("unused")
    with engine:
        _fill(engine, specification)
        before = examine_rows(engine)
        engine.apply(damage, Durability.PROCESS_CRASH)
        after = examine_rows(engine)

    assert before is not None
    assert before.problems == []
    assert after is not None
    assert any(expected in problem for problem in after.problems), after.problems


def _fill(engine: Engine, specification: Any) -> None:
    """Put three rows of one key, of which some kinds keep the last; the engine stays open."""
    store = open_on_engine(engine, specification)
    target: Any = store
    for time_ms in (10, 20, 30):
        if specification is SESSION:
            target.put(K, time_ms - 5, time_ms, b"v")
        else:
            target.put(K, b"v", time_ms)
    store.commit({})


@pytest.mark.spec("TTL-13")
def test_an_interrupted_opening_is_no_damage() -> None:
    """Rows that wait for their timestamps have none yet."""
    with load_backend("memory").open("unused") as engine:
        _fill(engine, TTL)
        engine.apply({UNSTAMPED_ROW: DATA, DATA + b"old": b"v"}, Durability.PROCESS_CRASH)
        examined = examine_rows(engine)

    assert examined is not None
    assert examined.problems == []


@pytest.mark.parametrize("specification", [WINDOW, DUPLICATES, SESSION], ids=["w", "d", "s"])
def test_a_row_that_flips_is_found(tmp_path: Path, specification: Any) -> None:
    """The row is well-formed, and the changelog knows its value better."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(specification, partitions=1)
    with open_logged_store(root, specification.name, 0, backend="sqlite") as logged:
        for time_ms in (10, 20):
            if specification is SESSION:
                logged.store.put(K, time_ms - 5, time_ms, b"v")
            else:
                logged.store.put(K, b"v", time_ms)
        logged.commit()
    partition = tmp_path / "state" / specification.name / "0"
    backend = backend_of(partition)
    assert backend is not None
    with load_backend(backend).open(str(partition / "engine")) as engine:
        (row_key, _), *_ = engine.scan(DATA, HISTORY)
        engine.apply({row_key: b"forged"}, Durability.PROCESS_CRASH)
    (found,) = [finding for finding in verify(tmp_path / "state") if finding.is_failure]

    assert (found.check, found.status, found.path) == (
        "content",
        Status.DAMAGED,
        partition / "engine",
    )
    assert "with value 'forged'" in found.detail
    assert " in the store is key " in found.detail
    assert "k' with value 'v', " in found.detail


@pytest.mark.spec("PAR-8", "PAR-9", "PAR-10")
def test_keys_that_librdkafka_placed_are_recognised(tmp_path: Path) -> None:
    """The finding names the partitioners that would have put all of the keys where they are."""
    root = ss.StateRoot.create(tmp_path / "state")
    specifications = {
        name: ss.Window("w" + name, retention_ms=100, window_size_ms=10, partitioner=name)
        for name in ("murmur2", "crc32_random")
    }
    for name, specification in specifications.items():
        root.add_store(specification, partitions=2)
        for number in range(2):
            with open_logged_store(root, "w" + name, number, backend="memory") as logged:
                for key in (b"k%d" % each for each in range(50)):
                    if crc32_partitioner.partition(key, 2) == number:
                        logged.store.put(key, b"v", window_start_ms=10)
                        logged.store.put(key, b"v", window_start_ms=20)
                logged.commit()
    placed = {
        (Path(finding.path).parent.name, finding.status.value): finding.detail
        for finding in verify(root.path)
        if finding.check == "partition"
    }

    assert set(placed) == {("wmurmur2", "misplaced"), ("wcrc32_random", "ok")}
    assert (
        "where 'crc32' and 'crc32_random' would put all of them"
        in (placed["wmurmur2", "misplaced"])
    )
    with open_logged_store(root, "wcrc32_random", 1, backend="memory") as logged:
        logged.store.put(b"", b"v", window_start_ms=20)
        logged.commit()
    (found,) = [finding for finding in verify(root.path / "wcrc32_random") if finding.is_failure]
    assert (found.check, found.status) == ("partition", Status.MISPLACED)
    assert "the empty key may be in any partition" in found.detail
