"""A restore of each kind in bulk gives the store that the same changes give one after the other."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statestores.arrow import read_snapshot, restore, write_snapshot
from statestores.arrow.rows.retained import RetainedEncoder
from statestores.changelog.frame import FrameKind
from statestores.changelog.rows import batch_from_changes, change_schema
from statestores.errors import MissingDriverError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.retained.progress import REMOVALS_PER_WRITE
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
LOG = TopicPartition("live-changelog", 0)
RETENTION_MS = 25
_EXAMPLES_ON_DISK = 10

KINDS = {
    "key-value": KeyValue("live"),
    "timestamped": TimestampedKeyValue("live"),
    "ttl": TimestampedKeyValue("live", ttl_ms=RETENTION_MS, ttl_clock=TtlClock.EVENT),
    "versions": Versioned("live", history_retention_ms=RETENTION_MS),
    "latest-versions": Versioned("live", history_retention_ms=0),
    "all-versions": Versioned("live", history_retention_ms=1 << 40),
    "windows": Window("live", window_size_ms=5, retention_ms=RETENTION_MS),
    "duplicates": Window(
        "live", window_size_ms=5, retention_ms=RETENTION_MS, retain_duplicates=True
    ),
    "sessions": Session("live", retention_ms=RETENTION_MS),
}

_KEYS = st.sampled_from([b"", b"a", b"a\x00", b"a\x00\xff", b"b", b"\xff", b"\xff\xff" * 9])
_PUT = st.tuples(_KEYS, st.none() | st.binary(max_size=3), st.integers(0, 90))
_COMMITS = st.lists(st.lists(_PUT, max_size=12) | st.just("clear"), max_size=8)


def _open(specification: Any, backend: str, path: Path) -> Any:
    try:
        engine = load_backend(backend).open(path)
    except MissingDriverError as error:
        pytest.skip(str(error))
    return open_on_engine(engine, specification, durability=Durability.PROCESS_CRASH)


def _write_log(store: Any, changelog: Any, commits: list[Any]) -> None:
    """Live through *commits*, each of them a frame of *changelog*."""
    kind = store.specification.kind
    for number, commit in enumerate(commits):
        if commit == "clear":
            store.truncate()
            store.commit({LOG: changelog.record_clear()})
            continue
        for key, value, time_ms in commit:
            if kind == "key-value":
                store.put(key, value)
            elif kind == "session":
                store.put(key, max(0, time_ms - 3), time_ms, value)
            else:
                store.put(key, value, time_ms)
        store.advance_position({INPUT: number})
        store.commit({LOG: changelog.record(store)})


def _put_by_put(store: Any, changelog: Any) -> None:
    """Replay what *store* lacks of *changelog*, each frame by a commit of its own."""
    for frame in changelog.read(store.next_offset(LOG)):
        if frame.kind is FrameKind.CLEAR:
            store.truncate()
        else:
            store.replay(frame.changes)
        store.advance_position(frame.position)
        store.commit({LOG: frame.last_offset})


def _content(store: Any) -> list[tuple[Any, ...]]:
    """Return what *store* has committed, but for deletions, which it may forget (VRS-20)."""

    def rows(chunk: Any) -> Iterator[tuple[Any, ...]]:
        columns = [
            chunk.keys,
            chunk.values,
            chunk.times_ms,
            chunk.end_times_ms,
            chunk.sequences,
            chunk.timestamps_ms,
        ]
        return zip(*(column for column in columns if column is not None), strict=True)

    with closing(store.committed_content().changes) as chunks:
        return [row for chunk in chunks for row in rows(chunk) if row[1] is not None]


def _answers(store: Any) -> list[Any]:
    """Return the content of *store*, its stream time, and what it answers as of some times."""
    answers: list[Any] = [_content(store), getattr(store, "stream_time_ms", None)]
    if store.specification.kind == "versioned":
        answers += [list(store.scan_as_of(time_ms)) for time_ms in range(0, 95, 5)]
    return answers


class _Case(NamedTuple):
    """What a store goes through, and how it is restored."""

    before: list[Any]
    after: list[Any]
    more: list[Any]
    """Commits: up to where the restore finds something, up to its end, and behind it."""

    start: str
    """What it finds."""

    batch_rows: int


_CASES = st.builds(
    _Case,
    before=_COMMITS,
    after=_COMMITS,
    more=_COMMITS,
    start=st.sampled_from(["nothing", "a snapshot", "a store", "a store and a snapshot"]),
    batch_rows=st.integers(1, 30),
)

_every_kind = pytest.mark.parametrize("specification", KINDS.values(), ids=KINDS)
_promises = pytest.mark.spec("SNP-10", "SNP-11", "SNP-14", "COM-17", "COM-29", "COM-40")


@pytest.fixture
def check(
    make_changelog: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Any, str, _Case], None]:
    """Return what restores into a store of an engine in bulk, and compares it."""
    monkeypatch.setattr("statestores.arrow.restoring.row_sink.LEAST_ROWS", 0)

    def compare(specification: Any, engine: str, case: _Case) -> None:
        changelog = make_changelog(specification.kind)
        with (
            tempfile.TemporaryDirectory() as directory,
            _open(specification, "memory", Path(directory) / "live") as live,
            _open(specification, "memory", Path(directory) / "slow") as slow,
            _open(specification, engine, Path(directory) / "copy") as copy,
        ):
            _write_log(live, changelog, [*case.before, []])
            snapshot = None
            if "snapshot" in case.start:
                snapshot = read_snapshot(write_snapshot(live, Path(directory)).path)
            if "store" in case.start:
                restore(copy, changelog=changelog, batch_rows=case.batch_rows)
            _write_log(live, changelog, case.after)
            restore(copy, snapshot=snapshot, changelog=changelog, batch_rows=case.batch_rows)
            _put_by_put(slow, changelog)

            assert _answers(copy) == _answers(slow)
            assert copy.committed_offsets() == slow.committed_offsets()
            assert copy.position == slow.position
            _write_log(live, changelog, case.more)
            for store in (copy, slow):
                _put_by_put(store, changelog)
            assert _answers(copy) == _answers(slow)

    return compare


@_promises
@_every_kind
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=_CASES)
def test_bulk_is_put_by_put(
    specification: Any, check: Callable[[Any, str, _Case], None], case: _Case
) -> None:
    """Whatever the restore begins with, and also in what is put into the store afterwards."""
    check(specification, "memory", case)


@_promises
@_every_kind
@settings(
    max_examples=_EXAMPLES_ON_DISK, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(case=_CASES)
def test_sorted_files_are_put_by_put(
    specification: Any, check: Callable[[Any, str, _Case], None], case: _Case
) -> None:
    """The same where the engine takes files; opening it is what takes the time."""
    check(specification, "rocksdb", case)


@pytest.mark.spec("WIN-18", "SES-18")
@pytest.mark.parametrize(
    ("specification", "changes"),
    [
        (
            Window("s", window_size_ms=5, retention_ms=1_000),
            Changes([b"a", b"b", b"c"], [b"v"] * 3, [9, 7, 8]),
        ),
        (
            Session("s", retention_ms=1_000),
            Changes([b"a", b"b", b"c"], [b"v"] * 3, [1, 2, 3], end_times_ms=[9, 7, 8]),
        ),
    ],
    ids=["windows", "sessions"],
)
def test_changes_that_are_replayed_in_bulk_say_when_the_first_of_them_goes(
    specification: Any, changes: Changes
) -> None:
    """And how many expired rows the next commits may remove for them, as for puts.

    A mutant said that none of them ever goes, so they stayed until something older was put.
    """
    engine = load_backend("memory").open("unused")
    with open_on_engine(engine, specification) as store:
        batch = batch_from_changes(change_schema(specification.kind), changes)
        rows = RetainedEncoder(store).changes(batch, is_empty=False)

        assert (rows.lowest_ms, rows.highest_ms) == (7, 9)
        assert rows.removals == REMOVALS_PER_WRITE * 3
