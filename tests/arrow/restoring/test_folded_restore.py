"""Changelogs of versioned, window and session stores, restored in bulk: folded, then sorted."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statestores.arrow import read_snapshot, restore, write_snapshot
from statestores.arrow.restoring.row_sink import RowSink
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import Durability, Session, TopicPartition, Versioned, Window

INPUT = TopicPartition("input", 0)
LOG = TopicPartition("live-changelog", 0)
RETENTION_MS = 25
COMMIT_MS = 5
"""A fifth of it, in long logs: of each moment, commits would take most of their tests."""

FOLDED = {
    "versions": Versioned("live", history_retention_ms=RETENTION_MS),
    "windows": Window("live", window_size_ms=5, retention_ms=RETENTION_MS),
    "duplicates": Window(
        "live", window_size_ms=5, retention_ms=RETENTION_MS, retain_duplicates=True
    ),
    "sessions": Session("live", retention_ms=RETENTION_MS),
}

_KEYS = st.sampled_from([b"", b"a", b"a\x00", b"a\x00\xff", b"b", b"\xff", b"\xff\xff" * 9])
_PUT = st.tuples(_KEYS, st.none() | st.binary(max_size=3), st.integers(0, 90))
_STEPS = st.lists(
    st.one_of(_PUT, _PUT, _PUT, _PUT, _PUT, _PUT, st.just("commit"), st.just("clear")), max_size=60
)

_every_kind = pytest.mark.parametrize("specification", FOLDED.values(), ids=FOLDED)


def _open(specification: Any, path: str | Path = "unused") -> Any:
    engine = load_backend("memory").open(path)
    return open_on_engine(engine, specification, durability=Durability.PROCESS_CRASH)


def _put(store: Any, key: bytes, value: bytes | None, time_ms: int) -> None:
    if store.specification.kind == "session":
        store.put(key, max(0, time_ms - 3), time_ms, value)
    else:
        store.put(key, value, time_ms)


def _live_through(store: Any, changelog: Any, steps: list[Any]) -> None:
    """Apply *steps* to *store*, logged as a store with a changelog is."""
    for number, step in enumerate(steps):
        if step == "commit":
            store.advance_position({INPUT: number})
            store.commit({LOG: changelog.record(store)})
        elif step == "clear":
            store.truncate()
            store.commit({LOG: changelog.record_clear()})
        else:
            _put(store, *step)
    store.commit({LOG: changelog.record(store)})


def _content(store: Any) -> list[Any]:
    """Return what the store has committed, but for deletions, which it may forget (VRS-20)."""
    with closing(store.committed_content().changes) as chunks:
        return [row for chunk in chunks for row in _rows_of(chunk) if row[1] is not None]


def _rows_of(chunk: Any) -> Iterator[tuple[Any, ...]]:
    columns = [chunk.keys, chunk.values, chunk.times_ms, chunk.end_times_ms]
    return zip(*(column for column in columns if column is not None), strict=True)


def _living_rows(store: Any) -> list[tuple[bytes, bytes]]:
    """Return the engine's rows of what can be read, its index or history included."""
    horizon = (store.stream_time_ms or 0) - RETENTION_MS
    rows = list(store._engine.scan(b"\x02"))
    if store.specification.kind == "versioned":
        versions = [row for row in rows if row[0][:1] == b"\x03"]
        ends = [int.from_bytes(value[:8], "big") & (1 << 63) - 1 for _, value in versions]
        return [row for row, end in zip(versions, ends, strict=True) if end > horizon]
    of = store._rows
    data = [row for row in rows if row[0][:1] == b"\x02" and of.time_of(row[0]) > horizon]
    index = {key for key, _ in rows if key[:1] == b"\x03"}
    assert {of.index_key(key) for key, _ in data} <= index
    return data


@pytest.mark.spec("SNP-10", "SNP-11", "COM-29", "COM-40", "WIN-21")
@_every_kind
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=_STEPS,
    after=_STEPS,
    more=_STEPS,
    batch_rows=st.integers(1, 30),
    with_snapshot=st.booleans(),
)
def test_folded_changes_are_the_store(
    specification: Any,
    make_changelog: Callable[[str], Any],
    before: list[Any],
    after: list[Any],
    more: list[Any],
    batch_rows: int,
    with_snapshot: bool,
) -> None:
    """Judged by the stream time of their moment, in chunks of any size; and the store goes on."""
    changelog = make_changelog(specification.kind)
    with (
        tempfile.TemporaryDirectory() as directory,
        _open(specification, "live") as live,
        _open(specification, "copy") as copy,
    ):
        _live_through(live, changelog, before)
        snapshot = None
        if with_snapshot:
            snapshot = read_snapshot(write_snapshot(live, Path(directory)).path)
        _live_through(live, changelog, after)
        restore(copy, snapshot=snapshot, changelog=changelog, batch_rows=batch_rows)

        assert _content(copy) == _content(live)
        assert _living_rows(copy) == _living_rows(live)
        assert copy.stream_time_ms == live.stream_time_ms
        assert copy.committed_offsets() == live.committed_offsets()
        assert copy.position == live.position
        for store in (live, copy):
            for step in more:
                if step == "commit":
                    store.commit({})
                elif step != "clear":
                    _put(store, *step)
            store.commit({})
        assert _content(copy) == _content(live)
        assert copy.stream_time_ms == live.stream_time_ms


@pytest.mark.spec("SNP-10", "SNP-11")
@_every_kind
def test_every_backend_takes_folded_rows(
    source: str, specification: Any, open_store: Any, make_changelog: Callable[[str], Any]
) -> None:
    """Those that ingest sorted files and those that apply batches, in several commits."""
    changelog = make_changelog(specification.kind)
    live = open_store(specification)
    steps: list[Any] = []
    for number in range(900):
        key = b"%d\x00" % (number * 7919 % 40)
        value = None if number % 11 == 0 else b"%d" % number
        steps.append((key, value, max(0, number // 20 - number % 7)))
        steps += ["commit"] if number % 30 == 0 else []
    _live_through(live, changelog, steps)
    copy = open_store(specification, source)

    report = restore(copy, changelog=changelog, batch_rows=70)

    assert _content(copy) == _content(live)
    assert copy.stream_time_ms == live.stream_time_ms
    assert copy.committed_offsets() == live.committed_offsets()
    assert report.offset == changelog.end_offset - 1


@pytest.mark.spec("WIN-18", "SES-18")
@pytest.mark.parametrize("kind", ["windows", "duplicates", "sessions"])
def test_a_long_log_leaves_few_expired_rows(
    kind: str, open_store: Any, make_changelog: Callable[[str], Any]
) -> None:
    """A sorted file deletes nothing, so rows that expire between two of them are removed after."""
    specification = FOLDED[kind]
    changelog = make_changelog(specification.kind)
    live = open_store(specification)
    for time_ms in range(0, 50 * RETENTION_MS, 1):
        for key in range(4):
            _put(live, b"%d" % key, b"v" * 10, time_ms)
        if (time_ms + 1) % COMMIT_MS == 0:
            live.commit({LOG: changelog.record(live)})
    copy = open_store(specification)

    restore(copy, changelog=changelog, batch_rows=300)

    visible = len(_content(copy))
    stored = sum(1 for _ in copy._engine.scan(b"\x02"))
    assert visible == 4 * RETENTION_MS
    assert stored <= 2 * (2 * visible + 64), "two rows each"
    assert not copy.owes_removals


@pytest.mark.spec("VRS-14")
def test_a_long_log_leaves_few_expired_versions(
    open_store: Any, make_changelog: Callable[[str], Any]
) -> None:
    """Versions that expire between two sorted files are removed after them as well."""
    specification = FOLDED["versions"]
    changelog = make_changelog(specification.kind)
    live = open_store(specification)
    for time_ms in range(200 * RETENTION_MS):
        for key in range(4):
            _put(live, b"%d" % key, b"v" * 10, time_ms)
        if (time_ms + 1) % COMMIT_MS == 0:
            live.commit({LOG: changelog.record(live)})
    copy = open_store(specification)

    restore(copy, changelog=changelog, batch_rows=1_000)

    needed = len(_content(copy))
    assert needed == 4 * (RETENTION_MS + 1)
    assert sum(1 for _ in copy._engine.scan(b"\x02")) <= 2 * needed + 64
    assert not copy.owes_removals


@pytest.mark.spec("VRS-20", "COM-31")
def test_a_value_in_the_place_of_a_deletion_does_not_expire(
    open_store: Any, make_changelog: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion has a marker in the history, by which the vacuum would remove the value."""
    monkeypatch.setattr("statestores.arrow.restoring.row_sink.LEAST_ROWS", 0)
    specification = FOLDED["versions"]
    changelog = make_changelog(specification.kind)
    live, copy = open_store(specification), open_store(specification)
    _live_through(live, changelog, [(b"a", None, 5), (b"b", b"1", 5)])
    restore(copy, changelog=changelog)
    _live_through(live, changelog, [(b"a", b"2", 5)])
    restore(copy, changelog=changelog)
    for time_ms in range(6, 6 + 3 * RETENTION_MS):
        copy.put(b"c", b"3", time_ms)
        copy.commit({})

    assert copy.get(b"a").value == b"2"


@_every_kind
def test_a_long_tail_of_a_store_with_rows(
    specification: Any,
    open_store: Any,
    make_changelog: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It goes in bulk onto what is there; where a version ends depends on that."""
    monkeypatch.setattr("statestores.arrow.restoring.row_sink.LEAST_ROWS", 3)
    changelog = make_changelog(specification.kind)
    live = open_store(specification)
    _live_through(live, changelog, [(b"gone", b"v", 5), (b"kept", b"v", 5)])
    copy = open_store(specification)
    restore(copy, changelog=changelog)
    _live_through(
        live,
        changelog,
        [(b"gone", None, 5), (b"kept", b"w", 7), *((b"%d" % n, b"w", n) for n in range(9))],
    )
    taken: list[int] = []
    take = RowSink.commit

    def count(bulk: RowSink, *rest: Any) -> None:
        taken.append(1)
        take(bulk, *rest)

    monkeypatch.setattr(RowSink, "commit", count)

    restore(copy, changelog=changelog)

    assert taken == [1]
    assert _content(copy) == _content(live)
    assert _living_rows(copy) == _living_rows(live)
