"""Damage in the rows of a versioned store is found, rule by rule; what may be missing is none."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import statestores as ss
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.rows.layout import DATA, HISTORY, OFFSETS, PROGRESS_ROW
from statestores.semantics.rows.progress import Progress
from statestores.semantics.versioned.rows import history_key, history_row, latest_row
from statestores.spi import Durability, Engine
from statestores.verification.engine_rows import examine_rows
from statestores_conformance.many_cases import for_each

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
@for_each("name", _DAMAGED_ROWS)
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
