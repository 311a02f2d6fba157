"""What waits for a commit of a restore is folded, and a restore that folds gives the same store."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statestores.arrow import restore
from statestores.arrow.restoring.waiting_changes import WaitingChanges
from statestores.arrow.rows.key_value import KeyValueEncoder
from statestores.changelog.rows import change_schema
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.spi import Durability, KeyValue, TimestampedKeyValue, TopicPartition, TtlClock

LOG = TopicPartition("live-changelog", 0)

PLAIN = KeyValue("live")
STAMPED = TimestampedKeyValue("live")
EXPIRING = TimestampedKeyValue("live", ttl_ms=20, ttl_clock=TtlClock.EVENT)

_PUT = st.tuples(
    st.just("put"),
    st.sampled_from([b"", b"a", b"a\x00", b"b", b"\xff\xff" * 9]),
    st.none() | st.binary(max_size=30),
    st.integers(0, 60),
)
_STEPS = st.lists(st.one_of(_PUT, _PUT, _PUT, st.just(("commit",)), st.just(("clear",))))


def _open(specification: Any, backend: str = "memory", path: str | Path = "unused") -> Any:
    engine = load_backend(backend).open(path)
    return open_on_engine(engine, specification, durability=Durability.PROCESS_CRASH)


def _live_through(store: Any, changelog: Any, steps: list[Any]) -> None:
    for step in [*steps, ("commit",)]:
        if step[0] == "put":
            store.put(*(step[1:3] if store.specification is PLAIN else step[1:]))
        elif step[0] == "commit":
            store.commit({LOG: changelog.record(store)})
        else:
            store.truncate()
            store.commit({LOG: changelog.record_clear()})


def _batch(*rows: tuple[bytes, bytes | None]) -> pa.RecordBatch:
    schema = change_schema("key-value")
    return pa.RecordBatch.from_pylist([{"key": k, "value": v} for k, v in rows], schema)


def _waiting(limit: int) -> WaitingChanges:
    return WaitingChanges(change_schema("key-value"), limit, KeyValueEncoder())


def _taken(waiting: WaitingChanges) -> list[tuple[bytes, bytes | None]]:
    """Return the rows of what waits, as those of a store that holds rows already."""
    return list(waiting.take(is_empty=False).rows)


@pytest.mark.spec("SNP-10", "SNP-11", "SNP-14")
@pytest.mark.parametrize("engine", ["memory", "rocksdb"])
@pytest.mark.parametrize("specification", [PLAIN, STAMPED], ids=["plain", "stamped"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_STEPS, limit=st.integers(1, 400))
def test_the_engine_holds_what_was_put_one_by_one(
    specification: Any,
    engine: str,
    make_changelog: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
    steps: list[Any],
    limit: int,
) -> None:
    """Rows, offsets and stream time, byte for byte."""
    monkeypatch.setattr("statestores.arrow.restoring.row_sink._CHUNK_BYTES", limit)
    changelog = make_changelog(specification.kind)
    with tempfile.TemporaryDirectory() as directory, _open(specification) as live:
        _live_through(live, changelog, steps)
        with _open(specification, engine, Path(directory) / "copy") as copy:
            restore(copy, changelog=changelog)

            assert list(copy._engine.scan(b"\x00")) == list(live._engine.scan(b"\x00"))


@pytest.mark.spec("SNP-10", "TTL-2")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_STEPS, limit=st.integers(1, 400))
def test_stream_time_is_that_of_changes_that_were_dropped(
    make_changelog: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
    steps: list[Any],
    limit: int,
) -> None:
    """A value that another one overwrites has moved it, and so made others expire."""
    monkeypatch.setattr("statestores.arrow.restoring.row_sink._CHUNK_BYTES", limit)
    changelog = make_changelog(EXPIRING.kind)
    with _open(EXPIRING) as live, _open(EXPIRING) as copy:
        _live_through(live, changelog, steps)
        restore(copy, changelog=changelog)

        assert list(copy.range()) == list(live.range())
        assert copy.stream_time_ms == live.stream_time_ms


@pytest.mark.spec("SNP-16")
@pytest.mark.parametrize(
    ("keys", "commits"), [(10, 1), (300, 3)], ids=["overwritten again and again", "all different"]
)
def test_few_commits_where_little_remains(
    keys: int,
    commits: int,
    open_store: Any,
    make_changelog: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What remains of the changes takes the memory, and no commit is made to make room."""
    monkeypatch.setattr("statestores.arrow.restoring.row_sink._CHUNK_BYTES", 11_000)
    changelog = make_changelog(PLAIN.kind)
    live = open_store(PLAIN)
    for number in range(300):
        key = b"%03d" % (number % keys)
        _live_through(live, changelog, [("put", key, b"%03d" % number + b"v" * 87)])
    copy = open_store(PLAIN)
    sizes: list[int] = []
    take = copy.commit_rows

    def record(rows: SortedRows, *arguments: Any, **named: Any) -> None:
        listed = list(rows.rows)
        sizes.append(len(listed))
        take(SortedRows(rows=listed), *arguments, **named)

    monkeypatch.setattr(copy, "commit_rows", record)
    restore(copy, changelog=changelog)

    assert list(copy.range()) == list(live.range())
    assert len(sizes) == commits
    assert sum(sizes) == keys


@pytest.mark.spec("COM-1", "SNP-10", "SNP-14")
@pytest.mark.parametrize("specification", [PLAIN, STAMPED], ids=["plain", "stamped"])
@pytest.mark.parametrize("whole", [0, 1, 3])
def test_an_interrupted_restore_stands_at_a_prefix(
    source: str,
    whole: int,
    specification: Any,
    open_store: Any,
    make_changelog: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However much of it was folded; and what is called again goes on from there."""
    monkeypatch.setattr("statestores.arrow.restoring.row_sink._CHUNK_BYTES", 2_000)
    changelog = make_changelog(specification.kind)
    live = open_store(specification)
    states: dict[int, list[Any]] = {}
    for number in range(400):
        # Half of the keys are overwritten again and again, the others come once.
        key = b"%d" % (number % 8) if number % 2 else b"once-%03d" % number
        value = None if number % 13 == 0 else b"%03d" % number * 4
        _live_through(live, changelog, [("put", key, value, number)])
        states[live.committed_offset(LOG)] = list(live.range())
    copy = open_store(specification, source)
    commits = 0
    take = copy.commit_rows

    def interrupt(*arguments: Any, **named: Any) -> None:
        nonlocal commits
        commits += 1
        if commits > whole:
            raise OSError("the process is killed")
        take(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(copy, "commit_rows", interrupt)
        with pytest.raises(OSError, match="killed"):
            restore(copy, changelog=changelog)

    reached = copy.committed_offset(LOG)
    assert (reached is None) == (whole == 0)
    assert list(copy.range()) == ([] if reached is None else states[reached])
    restore(copy, changelog=changelog)
    assert list(copy.range()) == list(live.range())
    assert copy.committed_offsets() == live.committed_offsets()


def test_what_waits_is_counted_before_it_is_folded() -> None:
    """So that a commit comes after as many changes as were asked for, at the latest."""
    waiting = _waiting(limit=100)
    for number in range(9):
        waiting.add(_batch((b"a", b"%d" % number * 30)), deletes=False)
        assert not waiting.is_full(10, is_empty=False)
    waiting.add(_batch((b"b", b"")), deletes=False)

    assert waiting.is_full(10, is_empty=False)
    assert waiting.bytes < 100
    assert _taken(waiting) == [(b"\x02a", b"8" * 30), (b"\x02b", b"")]
    assert waiting.rows == waiting.bytes == 0


def test_deletions_of_stored_rows_are_not_kept_for_later() -> None:
    """They make the commit a batch, which is a dictionary: it is better small than late."""
    waiting = _waiting(limit=10)
    waiting.add(_batch((b"a", b"1" * 20), (b"a", None)), deletes=True)

    assert waiting.is_full(1_000, is_empty=False)
    assert _taken(waiting) == [(b"\x02a", None)]
    assert not waiting.deletes


def test_an_empty_store_need_not_be_told_of_deletions() -> None:
    """What was put before them is dropped with them, also when it was folded earlier."""
    waiting = _waiting(limit=300)
    waiting.add(_batch((b"b", b"1"), (b"a", b"2" * 300), (b"a", b"3")), deletes=False)
    assert not waiting.is_full(1_000, is_empty=True)
    waiting.add(_batch((b"a", None), (b"c", b"4" * 300)), deletes=False)
    assert waiting.is_full(1_000, is_empty=True)

    assert _taken(waiting) == [(b"\x02b", b"1"), (b"\x02c", b"4" * 300)]


def test_what_exceeds_columns_of_two_gibibytes_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of many frames together may need offsets of 64 bits."""
    monkeypatch.setattr("statestores.arrow.restoring.waiting_changes._SMALL_BYTES", 10)
    types: list[Any] = []

    class Recording(KeyValueEncoder):
        def changes(self, changes: pa.RecordBatch, *, is_empty: bool) -> SortedRows:
            types.extend(changes.schema.types)
            return super().changes(changes, is_empty=is_empty)

    waiting = WaitingChanges(change_schema("key-value"), 1_000, Recording())
    for number in range(3):
        waiting.add(_batch((b"k%d" % number, b"v" * 9)), deletes=False)

    assert [key for key, _ in _taken(waiting)] == [b"\x02k0", b"\x02k1", b"\x02k2"]
    assert types == [pa.large_binary(), pa.large_binary()]


def test_what_deletes_is_committed_when_it_takes_its_memory() -> None:
    """However often it was overwritten: a batch is a dictionary in memory, and must stay small."""
    puts, deletions = _waiting(limit=100), _waiting(limit=100)
    for number in range(9):
        puts.add(_batch((b"a", b"%d" % number * 30)), deletes=False)
        deletions.add(_batch((b"a", b"%d" % number * 30)), deletes=number == 0)

    assert not puts.is_full(10, is_empty=False)
    assert deletions.is_full(10, is_empty=False)
