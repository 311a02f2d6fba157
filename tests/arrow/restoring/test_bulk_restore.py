"""A restore in bulk leaves in the engine what a restore record by record leaves there."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from restored_rows import LOG, STEPS, data_of, open_bare

from statestores.arrow import read_snapshot, restore, write_snapshot
from statestores.arrow.restoring.row_sink import RowSink
from statestores.errors import InvalidArgumentError
from statestores.opening import open_store
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.serdes import int64, utf8
from statestores.spi import (
    Changes,
    Durability,
    KeyValue,
    Session,
    TimestampedKeyValue,
    TopicPartition,
    TtlClock,
    Versioned,
    Window,
)

INPUT = TopicPartition("input", 0)


PLAIN = KeyValue("live")


STAMPED = TimestampedKeyValue("live")


EXPIRING = TimestampedKeyValue("live", ttl_ms=20, ttl_clock=TtlClock.EVENT)


def _live_through(store: Any, changelog: Any, steps: list[Any]) -> None:
    """Apply *steps* to *store*, logged as a store with a changelog is."""
    for number, step in enumerate(steps):
        if step[0] == "put":
            store.put(*(step[1:3] if store.specification is PLAIN else step[1:]))
        elif step[0] == "commit":
            store.advance_position({INPUT: number})
            store.commit({LOG: changelog.record(store)})
        else:
            store.truncate()
            store.commit({LOG: changelog.record_clear()})
    store.commit({LOG: changelog.record(store)})


@pytest.mark.spec("SNP-10", "SNP-11", "SNP-14")
@pytest.mark.parametrize(
    "specification", [PLAIN, STAMPED, EXPIRING], ids=["plain", "stamped", "ttl"]
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=STEPS, after=STEPS, batch_rows=st.integers(1, 9), with_snapshot=st.booleans())
def test_the_engine_holds_the_same_rows(
    specification: Any,
    make_changelog: Callable[[str], Any],
    rows_of_each_path: Callable[..., tuple[Any, Any]],
    before: list[Any],
    after: list[Any],
    batch_rows: int,
    with_snapshot: bool,
) -> None:
    """Data, offsets, position and progress, byte for byte."""
    changelog = make_changelog(specification.kind)
    with tempfile.TemporaryDirectory() as directory, open_bare(specification) as live:
        _live_through(live, changelog, before)
        snapshot = None
        if with_snapshot:
            snapshot = read_snapshot(write_snapshot(live, Path(directory)).path)
        _live_through(live, changelog, after)
        in_bulk, by_record = rows_of_each_path(
            specification,
            "memory",
            Path(directory),
            snapshot=snapshot,
            changelog=changelog,
            batch_rows=batch_rows,
        )

    assert in_bulk == by_record


@pytest.mark.spec("SNP-10", "SNP-11")
@pytest.mark.parametrize("with_snapshot", [False, True], ids=["changelog", "snapshot"])
@pytest.mark.parametrize("specification", [PLAIN, EXPIRING], ids=["plain", "ttl"])
def test_every_backend_takes_the_rows(
    source: str,
    specification: Any,
    with_snapshot: bool,
    open_store: Any,
    make_changelog: Callable[[str], Any],
    tmp_path: Path,
) -> None:
    """Those that ingest sorted files and those that apply batches, in several commits."""
    changelog = make_changelog(specification.kind)
    live = open_store(specification)
    steps: list[Any] = []
    for number in range(900):
        key = b"%d\x00" % (number * 7919 % 400)
        steps.append(("put", key, None if number % 11 == 0 else b"%d" % number, number))
        steps += [("commit",)] if number % 30 == 0 else []
    _live_through(live, changelog, steps[:600])
    snapshot = read_snapshot(write_snapshot(live, tmp_path).path) if with_snapshot else None
    _live_through(live, changelog, steps[600:])
    copy = open_store(specification, source)

    report = restore(copy, snapshot=snapshot, changelog=changelog, batch_rows=70)

    assert list(copy.range()) == list(live.range())
    assert copy.committed_offsets() == live.committed_offsets()
    assert copy.position == live.position
    assert report.offset == live.committed_offset(LOG)


@pytest.mark.spec("COM-43")
@pytest.mark.parametrize("has_it", [False, True], ids=["failed before", "failed after"])
def test_a_failed_commit_of_rows_is_asked_about(
    has_it: bool,
    open_store: Any,
    make_changelog: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The store says what the engine has, and a restore goes on from there."""
    changelog = make_changelog(PLAIN.kind)
    live = open_store(PLAIN)
    steps = [step for n in range(40) for step in (("put", b"%d" % n, b"v", 0), ("commit",))]
    _live_through(live, changelog, steps)
    copy = open_store(PLAIN)
    apply = copy._engine.apply

    def apply_or_fail(batch: Any, durability: Durability) -> None:
        fails = b"\x0225" in batch
        if has_it or not fails:
            apply(batch, durability)
        if fails:
            raise OSError("the disk is on fire")

    with monkeypatch.context() as patched:
        patched.setattr(copy._engine, "apply", apply_or_fail)
        with pytest.raises(OSError, match="on fire"):
            restore(copy, changelog=changelog, batch_rows=10)

    assert copy.committed_offset(LOG) == (29 if has_it else 19)
    assert dict(copy.range()) == {b"%d" % n: b"v" for n in range(30 if has_it else 20)}
    restore(copy, changelog=changelog)
    assert list(copy.range()) == list(live.range())


@pytest.mark.spec("COM-43")
def test_puts_go_by_the_rows_of_a_commit_that_raised(subtests: pytest.Subtests) -> None:
    """The engine had rows that went past the write buffer, and Ctrl-C came before the store knew.

    Stream time was that from before: late records were taken, expired ones were shown, and the next
    commit stored a stream time that had gone back. New duplicates had numbers of those that were
    there, and replaced them. `restore` rolls back, which mended it; `commit_many` did not.
    """
    for specification in (
        EXPIRING,
        Versioned("live", history_retention_ms=20),
        Window("live", window_size_ms=5, retention_ms=20, retain_duplicates=True),
        Session("live", retention_ms=20),
    ):
        with subtests.test(str(specification.kind)):
            live, copy = open_bare(specification), open_bare(specification)
            put = _timed_put(specification)
            for number in range(20):
                put(live, b"a", b"%d" % number, 30 + number)
            live.commit({})
            engine = copy._engine
            apply = engine.apply

            def apply_and_interrupt(batch: Any, durability: Durability, of: Any = apply) -> None:
                of(batch, durability)
                raise KeyboardInterrupt

            rows = SortedRows(rows=data_of(live), highest_ms=49, lowest_ms=30, next_number=20)
            engine.apply = apply_and_interrupt
            with pytest.raises(KeyboardInterrupt):
                copy.commit_rows(rows, {})
            engine.apply = apply

            assert copy.stream_time_ms == 49
            for store in (live, copy):
                put(store, b"a", b"late", 3)
                put(store, b"a", b"new", 45)
                store.commit({})

            assert data_of(copy) == data_of(live)
            assert open_on_engine(engine, specification).stream_time_ms == 49


def _timed_put(specification: Any) -> Callable[..., Any]:
    """Return a function that puts a key and value with a time, whatever the kind."""
    if isinstance(specification, Session):
        return lambda store, key, value, time_ms: store.put(key, time_ms, time_ms, value)
    return lambda store, key, value, time_ms: store.put(key, value, time_ms)


def test_rows_are_not_committed_past_pending_writes(open_store: Any) -> None:
    """They would be committed with them, or lost."""
    store = open_store(PLAIN)
    store.put(b"a", b"1")

    with pytest.raises(InvalidArgumentError, match="pending writes"):
        store.commit_rows(SortedRows(rows=[(b"\x02b", b"2")]), {})
    store.commit({})
    assert list(store.range()) == [(b"a", b"1")]


def test_a_long_tail_of_a_store_with_rows_goes_in_bulk(
    open_store: Any, make_changelog: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deletions included, which an empty store may leave out."""
    monkeypatch.setattr("statestores.arrow.restoring.row_sink.LEAST_ROWS", 3)
    changelog = make_changelog(PLAIN.kind)
    live = open_store(PLAIN)
    _live_through(live, changelog, [("put", b"gone", b"v", 0), ("put", b"kept", b"v", 0)])
    copy = open_store(PLAIN)
    copy.replay(Changes([b"gone", b"kept"], [b"v", b"v"]))
    copy.commit({LOG: live.committed_offset(LOG)})
    steps = [("put", b"gone", None, 0), *(("put", b"%d" % n, b"w", 0) for n in range(5))]
    _live_through(live, changelog, steps)

    restore(copy, changelog=changelog)

    assert list(copy.range()) == list(live.range())
    assert copy.get(b"gone") is None


@pytest.mark.spec("SNP-10", "SNP-16")
def test_deletions_come_in_smaller_commits(
    open_store: Any, make_changelog: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is a dictionary in memory; what is only put before it is committed first."""
    monkeypatch.setattr("statestores.arrow.restoring.row_sink.APPLIED_ROWS", 4)
    changelog = make_changelog(PLAIN.kind)
    live = open_store(PLAIN)
    steps: list[Any] = []
    for number in range(60):
        deletes = 20 <= number < 35
        steps += [("put", b"%d" % (number % 15), None if deletes else b"%d" % number, 0)]
        steps += [("commit",)]
    _live_through(live, changelog, steps)
    copy = open_store(PLAIN)
    commits: list[tuple[int, bool]] = []
    take = copy.commit_rows

    def record(rows: SortedRows, *arguments: Any, **named: Any) -> None:
        listed = list(rows.rows)
        commits.append((len(listed), rows.has_deletions))
        take(replace(rows, rows=listed), *arguments, **named)

    monkeypatch.setattr(copy, "commit_rows", record)
    restore(copy, changelog=changelog, batch_rows=8)

    assert list(copy.range()) == list(live.range())
    assert max(rows for rows, deletes in commits if deletes) <= 5
    assert max(rows for rows, deletes in commits if not deletes) == 8


@pytest.mark.spec("SNP-10")
def test_a_store_with_serdes_is_restored_by_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a store takes sorted rows was asked of the typed one, and answered with no."""
    specification = KeyValue("live", key=utf8, value=int64)
    sinks: list[RowSink] = []
    commit = RowSink.commit

    def note(self: RowSink, *rest: Any) -> None:
        sinks.append(self)
        commit(self, *rest)

    monkeypatch.setattr(RowSink, "commit", note)
    with open_store(tmp_path / "live", specification) as live:
        live.put_many(["a", "b"], [1, 2])
        live.commit({LOG: 7})
        write_snapshot(live, tmp_path / "snapshots", partition=LOG)
    [path] = (tmp_path / "snapshots").iterdir()
    with open_store(tmp_path / "copy", specification) as copy:
        restore(copy, snapshot=read_snapshot(path))

        assert list(copy.range()) == [("a", 1), ("b", 2)]
        assert copy.committed_offset(LOG) == 7
    assert sinks
