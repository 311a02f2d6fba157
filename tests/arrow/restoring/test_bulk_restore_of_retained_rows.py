"""A restore in bulk of kinds with a retention, which keep two rows of each record."""

import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from restored_rows import LOG, STEPS, data_of, open_bare, rows_of

from statestores.arrow import read_snapshot, restore, write_snapshot
from statestores.semantics.rows.layout import DATA, HISTORY, PROGRESS_ROW
from statestores.spi import (
    Session,
    Versioned,
    Window,
)

_TWO_RUNS = [
    Versioned("live", history_retention_ms=25),
    Window("live", window_size_ms=5, retention_ms=25),
    Window("live", window_size_ms=5, retention_ms=25, retain_duplicates=True),
    Session("live", retention_ms=25),
]


@pytest.mark.spec("SNP-10", "SNP-11")
@pytest.mark.parametrize(
    "specification", _TWO_RUNS, ids=["versions", "windows", "more", "sessions"]
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, batch_rows=st.integers(1, 9))
def test_content_with_two_rows_each_is_the_same(
    specification: Any,
    rows_of_each_path: Callable[..., tuple[Any, Any]],
    steps: list[Any],
    batch_rows: int,
) -> None:
    """Latest and history, or rows and their index; how far a sweep has come may differ."""
    with tempfile.TemporaryDirectory() as directory, open_bare(specification) as live:
        _put_all(live, steps)
        live.commit({LOG: 7})
        snapshot = read_snapshot(write_snapshot(live, Path(directory)).path)
        in_bulk, by_record = rows_of_each_path(
            specification, "memory", Path(directory), snapshot=snapshot, batch_rows=batch_rows
        )

    assert [row for row in in_bulk if row[0] != PROGRESS_ROW] == [
        row for row in by_record if row[0] != PROGRESS_ROW
    ]


@pytest.mark.spec("SNP-10", "VRS-14", "WIN-7")
@pytest.mark.parametrize(
    "specification", _TWO_RUNS, ids=["versions", "windows", "more", "sessions"]
)
def test_a_store_loaded_in_bulk_goes_on_as_the_original(
    source: str, specification: Any, open_store: Any, tmp_path: Path
) -> None:
    """Stream time, sequences and what has yet to expire came with the rows."""
    early = [("put", b"%d\x00" % (n * 7 % 50), b"%d" % n, n // 10) for n in range(300)]
    late = [("put", b"%d" % (n % 50), None if n % 9 == 0 else b"w", 20 + n) for n in range(300)]
    live = open_store(specification)
    _put_all(live, early)
    live.commit({LOG: 7})
    snapshot = read_snapshot(write_snapshot(live, tmp_path).path)
    copy = open_store(specification, source)
    restore(copy, snapshot=snapshot, batch_rows=70)
    assert copy.stream_time_ms == live.stream_time_ms
    for store in (live, copy):
        for step in late:
            _put_all(store, [step])
            store.commit({})

    assert _content(copy) == _content(live)
    assert len(rows_of(copy)) == len(rows_of(live))


@pytest.mark.spec("SNP-10", "VRS-14", "WIN-7")
@pytest.mark.parametrize(
    "specification", _TWO_RUNS, ids=["versions", "windows", "more", "sessions"]
)
def test_what_was_loaded_in_bulk_goes_when_it_has_expired(
    specification: Any, open_store: Any, tmp_path: Path
) -> None:
    """Nobody puts anything as old again: the rows themselves say when the first of them goes."""
    live, copy = open_store(specification), open_store(specification)
    _put_all(live, [("put", b"%d" % (n % 50), b"%d" % n, n // 10) for n in range(300)])
    live.commit({LOG: 7})
    restore(copy, snapshot=read_snapshot(write_snapshot(live, tmp_path).path), batch_rows=70)
    assert len(data_of(copy)) > 100
    for number in range(60):
        _put_all(copy, [("put", b"clock", b"", 9_000 + number), ("commit",)])

    assert {key for key, _ in data_of(copy) if b"clock" not in key and key < HISTORY} == {
        DATA + b"%d" % number for number in range(50) if specification.kind == "versioned"
    }
    assert [key for key, _ in data_of(copy) if b"clock" not in key and key >= HISTORY] == []


@pytest.mark.spec("SNP-10", "WIN-6")
def test_a_duplicate_that_is_put_after_a_load_replaces_none(
    open_store: Any, tmp_path: Path
) -> None:
    """Its number is above those that were loaded, in whichever part of the snapshot they were."""
    specification = Window("live", window_size_ms=5, retention_ms=25, retain_duplicates=True)
    live, copy = open_store(specification), open_store(specification)
    for number in range(9):
        live.put(b"%d" % (9 - number), b"%d" % number, 7)
    live.commit({LOG: 7})
    restore(copy, snapshot=read_snapshot(write_snapshot(live, tmp_path).path), batch_rows=3)
    for number in range(1, 10):
        copy.put(b"%d" % number, b"again", 7)
    copy.commit({})

    assert len(list(copy.fetch_all())) == 18


@pytest.mark.spec("SNP-9")
def test_the_ends_of_versions_are_those_of_the_rows(
    open_store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer may leave the column out of account: nothing is read from it."""
    specification = _TWO_RUNS[0]
    live = open_store(specification)
    _put_all(live, [("put", b"%d" % (n % 7), b"%d" % n, n // 5) for n in range(100)])
    live.commit({LOG: 7})
    snapshot = read_snapshot(write_snapshot(live, tmp_path).path)
    (rows,) = snapshot.batches()
    without = rows.set_column(3, rows.schema.field(3), pa.nulls(rows.num_rows, pa.int64()))
    monkeypatch.setattr(type(snapshot), "batches", lambda _: iter([without]))
    copy = open_store(specification)

    restore(copy, snapshot=snapshot, batch_rows=10)

    assert _content(copy) == _content(live)
    assert len(rows_of(copy)) == len(rows_of(live))


def _put_all(store: Any, steps: list[Any]) -> None:
    kind = store.specification.kind
    for step in steps:
        if step[0] == "commit":
            store.commit({})
        elif step[0] == "clear":
            store.truncate()
        elif kind == "session":
            store.put(step[1], max(0, step[3] - 3), step[3], step[2])
        else:
            store.put(*step[1:])


def _content(store: Any) -> list[Any]:
    with closing(store.committed_content().changes) as chunks:
        return [(list(each.keys), list(each.values), list(each.times_ms or ())) for each in chunks]
