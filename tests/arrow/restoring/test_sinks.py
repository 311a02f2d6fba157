"""When what is restored is committed, and what a restore takes its way by: each at its bounds."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from restored_rows import plain_changes

from statestores.arrow import commit_many, read_snapshot, restore, write_snapshot
from statestores.arrow.restore_mark import restore_mark
from statestores.arrow.restoring import bulk_put, row_sink
from statestores.arrow.restoring.plan import RestorePlan, plan_restore
from statestores.arrow.restoring.restore import _replay
from statestores.arrow.restoring.row_sink import (
    APPLIED_ROWS,
    INGESTED_ROWS,
    LEAST_ROWS,
    RowSink,
    _until_full,
)
from statestores.arrow.restoring.sink import RecordSink
from statestores.arrow.restoring.taking_back import take_back
from statestores.arrow.rows.encoder import LARGE
from statestores.arrow.rows.key_value import TimestampedEncoder
from statestores.changelog.rows import change_schema
from statestores.errors import (
    CapabilityNotSupportedError,
    CommitConflictError,
    InvalidArgumentError,
    InvalidTypeError,
)
from statestores.failpoints import FAILPOINTS, arm, disarm
from statestores.logged_store import open_logged_store
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.serdes.typed_stores.processor_store import for_processors
from statestores.spi import KeyValue, TimestampedKeyValue, TopicPartition, Versioned, Window
from statestores.state_root import StateRoot
from statestores_conformance.many_cases import for_each

LOG = TopicPartition("live-changelog", 0)
PLAIN = KeyValue("live")
STAMPED = TimestampedKeyValue("live")
VERSIONS = Versioned("live", history_retention_ms=1_000)


def _plan(rows: int, *, committed: int | None = 0, start_over: bool = False) -> RestorePlan:
    return RestorePlan(
        partition=LOG,
        committed=committed,
        start_over=start_over,
        snapshot=None,
        start=1,
        stop=1 + rows,
    )


def _sink(store: Any, batch_rows: int | None = None, *, is_empty: bool = False) -> RowSink:
    made = RowSink.of(store, batch_rows, is_empty=is_empty)
    assert made is not None
    return made


@pytest.mark.spec("SNP-12")
def test_a_plan_counts_what_there_is_to_take(
    snapshot: Any, counts_changelog: Any, open_store: Any
) -> None:
    """For a progress bar: the changes, and the rows of a snapshot if one is loaded."""
    plan = plan_restore(
        open_store(KeyValue("counts")),
        snapshot=snapshot,
        changelog=counts_changelog,
        partition=None,
        to_offset=None,
    )

    assert plan.rows == snapshot.rows + counts_changelog.end_offset - snapshot.offset - 1
    assert plan.snapshot is snapshot
    assert _plan(7).rows == 7


@pytest.mark.spec("SNP-13")
def test_a_snapshot_at_the_offset_to_restore_to_is_taken(snapshot: Any, open_store: Any) -> None:
    """Alone, and by a store that stands there already not at all."""
    store = open_store(KeyValue("counts"))
    asked: dict[str, Any] = {"snapshot": snapshot, "changelog": None, "partition": None}

    plan = plan_restore(store, **asked, to_offset=snapshot.offset)
    assert (plan.snapshot, plan.start, plan.stop) == (
        snapshot,
        snapshot.offset + 1,
        snapshot.offset + 1,
    )
    restore(store, snapshot=snapshot)
    again = plan_restore(store, **asked, to_offset=None)
    assert (again.snapshot, again.start_over, again.rows) == (None, False, 0)


@pytest.mark.spec("SNP-12")
def test_no_offset_is_believed_beside_the_mark_of_half_a_restore(
    counts_changelog: Any, live: Any, open_store: Any
) -> None:
    """Whatever rows the store has, it begins at the first change."""
    store = open_store(KeyValue("counts"))
    store.commit({restore_mark(store.specification): 3, TopicPartition("counts-changelog", 0): 9})

    plan = plan_restore(
        store, snapshot=None, changelog=counts_changelog, partition=None, to_offset=None
    )

    assert (plan.committed, plan.start, plan.start_over) == (None, 0, True)


@pytest.mark.spec("SNP-13")
def test_only_an_owner_restores_and_not_past_a_changelog(
    snapshot: Any, open_store: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A processor's store is its runtime's, and a logged store restores itself as it opens."""
    nothing: Any = None
    with pytest.raises(InvalidTypeError, match="expected an open store"):
        restore(nothing, snapshot=snapshot)
    store = open_store(KeyValue("counts"))
    with pytest.raises(CapabilityNotSupportedError, match="the runtime does"):
        restore(for_processors(store, "the runtime does"), snapshot=snapshot)
    monkeypatch.setattr(bulk_put, "LEAST_ROWS", 1)
    rows = pa.table({"key": [b"a"], "value": [b"1"]})
    with pytest.raises(CapabilityNotSupportedError, match="the runtime does"):
        commit_many(for_processors(store, "the runtime does"), rows)
    assert list(store.range()) == []
    root = StateRoot.create(tmp_path / "root")
    root.add_store(KeyValue("counts"), partitions=1)
    with (
        open_logged_store(root, "counts", 0, backend="memory") as logged,
        pytest.raises(InvalidArgumentError, match="which a restore would have to change"),
    ):
        restore(logged.store, snapshot=snapshot)
    assert list(store.range()) == []


@pytest.mark.spec("SNP-12", "SNP-14")
@pytest.mark.parametrize("one_by_one", [False, True], ids=["rows", "records"])
def test_a_restore_passes_each_place_where_a_test_may_stop_it(
    snapshot: Any,
    counts_changelog: Any,
    open_store: Any,
    monkeypatch: pytest.MonkeyPatch,
    one_by_one: bool,
) -> None:
    """In this order; what holds at each is what `FAILPOINTS` says."""
    if one_by_one:
        monkeypatch.setattr(RowSink, "of", lambda *_, **__: None)
    store = open_store(KeyValue("counts"))
    passed: list[str] = []
    for name in (each for each in FAILPOINTS if each.startswith("restore.")):
        arm(name, lambda name=name: passed.append(name))  # type: ignore[misc]
        try:
            store.truncate()
            store.commit(dict.fromkeys(store.committed_offsets()))
            restore(store, snapshot=snapshot, changelog=counts_changelog, batch_rows=5)
        finally:
            disarm()

    assert list(dict.fromkeys(passed)) == [
        "restore.begun",
        "restore.chunk",
        "restore.loaded",
        "restore.completed",
        "restore.replayed",
    ]
    assert passed.count("restore.chunk") > 1


@pytest.mark.spec("SNP-14")
def test_what_waits_is_committed_before_what_the_sink_does_not_take(
    live: Any, counts_changelog: Any, open_store: Any
) -> None:
    """With the offset that it reaches, and not with that of what comes."""
    calls: list[tuple[str, Any]] = []

    class Refusing:
        is_full = False

        def takes(self, frame: Any) -> bool:
            return bool(frame.base_offset < 10)

        def replay(self, frame: Any) -> None:
            calls.append(("replay", frame.last_offset))

        def commit(self, offsets: Any, durability: Any = None) -> None:
            calls.append(("commit", next(iter(offsets.values()))))

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    refusing: Any = Refusing()
    log = TopicPartition("counts-changelog", 0)
    store = open_store(KeyValue("counts"))
    stop = next(f.last_offset for f in counts_changelog.read(0) if f.base_offset >= 10) + 1
    plan = RestorePlan(
        partition=log, committed=None, start_over=False, snapshot=None, start=0, stop=stop
    )
    meter: Any = type("Meter", (), {"add": lambda *_: None})()

    _replay(store, counts_changelog, plan, refusing, meter)

    lasts = [f.last_offset for f in counts_changelog.read(0) if f.last_offset < stop]
    expected: list[tuple[str, Any]] = [("replay", each) for each in lasts]
    expected.insert(len(lasts) - 1, ("commit", lasts[-2]))
    assert calls == [*expected, ("commit", lasts[-1])]


@pytest.mark.spec("SNP-16")
@pytest.mark.parametrize(("engine", "rows"), [("memory", APPLIED_ROWS), ("rocksdb", INGESTED_ROWS)])
def test_commits_are_as_large_as_suits_the_engine(open_store: Any, engine: str, rows: int) -> None:
    """Unless somebody says how large."""
    store = open_store(PLAIN, engine)

    assert _sink(store).piece_rows == rows
    assert _sink(store, 7).piece_rows == 7


def test_a_few_changes_to_a_store_with_rows_are_put_one_by_one(open_store: Any) -> None:
    """From `LEAST_ROWS` on, and into a store that begins, they go in bulk."""
    store = open_store(PLAIN)

    assert RowSink.into(store, _plan(LEAST_ROWS - 1), None) is None
    assert RowSink.into(store, _plan(LEAST_ROWS), None) is not None
    assert RowSink.into(store, _plan(1, committed=None), None) is not None
    assert RowSink.into(store, _plan(1, start_over=True), None) is not None


def test_the_store_of_another_author_is_restored_record_by_record(
    open_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody here knows its rows, nor those of a kind that nobody here encodes."""
    other: Any = object()
    assert RowSink.of(other, is_empty=True) is None
    monkeypatch.setattr(row_sink, "encoder_of", lambda _: None)
    assert RowSink.of(open_store(PLAIN), is_empty=True) is None


@pytest.mark.spec("SNP-16")
@pytest.mark.parametrize(("specification", "full_at"), [(PLAIN, 7), (VERSIONS, 3)])
def test_runs_that_are_in_memory_together_have_less_of_it_each(
    open_store: Any, monkeypatch: pytest.MonkeyPatch, specification: Any, full_at: int
) -> None:
    """A versioned store has two: latest rows, and those of history."""
    monkeypatch.setattr(row_sink, "_CHUNK_BYTES", 6_000)
    filling = _sink(open_store(specification))
    schema = change_schema(specification.kind)
    times = {"timestamp": 1, "valid_from": 1}
    added = 0
    while not filling.is_full:
        row = {"key": b"%03d" % added, "value": b"v" * 985} | times
        batch = pa.RecordBatch.from_pylist([{name: row[name] for name in schema.names}], schema)
        filling.add(batch)
        added += 1

    assert added == full_at
    assert filling.waiting_bytes > 5_900 // (2 if specification is VERSIONS else 1)


@pytest.mark.spec("SNP-16")
def test_deletions_are_counted_where_they_delete(
    open_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a store with rows; not of an empty one, nor where a deletion is a version."""
    monkeypatch.setattr(row_sink, "APPLIED_ROWS", 2)
    deletion = plain_changes((b"a", None), (b"b", None))
    put = plain_changes((b"a", b"1"), (b"b", b"2"))
    store = open_store(PLAIN)
    for is_empty, changes, full in ((False, deletion, True), (False, put, False)):
        filling = _sink(store, 10, is_empty=is_empty)
        filling.add(changes)
        assert filling.is_full == full
    filling = _sink(store, 10, is_empty=True)
    filling.add(deletion)
    assert not filling.is_full
    emptied = _sink(store, 10)
    emptied.truncate()
    emptied.add(deletion)
    assert not emptied.is_full
    schema = change_schema("versioned")
    names = [name for name in schema.names if name not in {"key", "value"}]
    rows = [{"key": b"a", "value": None} | dict.fromkeys(names, time_ms) for time_ms in (1, 2)]
    versions = _sink(open_store(VERSIONS), 10)
    versions.add(pa.RecordBatch.from_pylist(rows, schema))
    assert not versions.is_full


@pytest.mark.spec("SNP-16")
def test_deletions_wait_beside_what_is_small(
    open_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is larger can be a sorted file, which deletes nothing, and is committed before them."""
    monkeypatch.setattr(row_sink, "APPLIED_ROWS", 2)
    filling = _sink(open_store(PLAIN), 10)
    deletion = plain_changes((b"x", None))

    filling.add(plain_changes((b"a", b"1"), (b"b", b"2")))
    assert filling.has_room_for(deletion)
    filling.add(plain_changes((b"c", b"3")))
    assert not filling.has_room_for(deletion)
    assert filling.has_room_for(plain_changes((b"d", b"4")))


def test_a_load_is_followed_by_deletions_of_what_was_loaded(open_store: Any) -> None:
    """The store is not empty any more, though the sink has begun with an empty one."""
    store = open_store(PLAIN)
    filling = _sink(store, is_empty=True)
    rows = pa.RecordBatch.from_pylist([{"key": b"a", "value": b"1"}, {"key": b"b", "value": b"2"}])
    filling.load(iter([rows.cast(change_schema("key-value"))]), None)
    filling.add(plain_changes((b"a", None)))
    filling.commit({LOG: 3})

    assert list(store.range()) == [(b"b", b"2")]


@pytest.mark.spec("SNP-10")
@pytest.mark.parametrize("duplicates", [False, True])
def test_a_loaded_store_goes_on_with_the_number_of_the_original(
    open_store: Any, tmp_path: Any, duplicates: bool
) -> None:
    """Of its next duplicate: none is overwritten, and none has a number for nothing."""
    window = Window("live", window_size_ms=5, retention_ms=25, retain_duplicates=duplicates)
    live, copy = open_store(window), open_store(window)
    for value in (b"1", b"2"):
        live.put(b"a", value, 5)
    live.commit({LOG: 2})

    restore(copy, snapshot=read_snapshot(write_snapshot(live, tmp_path / "s").path))

    assert list(copy._engine.scan(b"\x00")) == list(live._engine.scan(b"\x00"))


def test_pieces_are_taken_until_they_are_enough() -> None:
    """By rows and by bytes, each to the last one that is needed, and none is read before."""
    pieces = [pa.RecordBatch.from_pydict({"value": np.arange(4)}) for _ in range(5)]
    size = pieces[0].nbytes
    for rows, limit, taken in (
        (8, 1 << 30, 2),
        (9, 1 << 30, 3),
        (100, 2 * size, 2),
        (100, 2 * size + 1, 3),
        (1, 1, 1),
        (100, 1 << 30, 5),
    ):
        rest = iter(pieces[1:])

        found = list(_until_full(pieces[0], rest, rows, limit))

        assert len(found) == taken
        assert len(list(rest)) == 5 - taken


def test_stream_time_comes_without_rows(open_store: Any) -> None:
    """It may have outlived all of them."""
    store = open_store(STAMPED)
    loading = RecordSink(store, None)

    loading.load(iter(()), 70)
    loading.commit({LOG: 1})

    assert (store.stream_time_ms, list(store.range())) == (70, [])


def test_a_table_is_committed_by_columns_that_hold_any_number_of_bytes(
    open_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its chunks become one, with offsets of 64 bits; timestamps stay numbers."""
    types: list[pa.DataType] = []

    class Recording(TimestampedEncoder):
        def changes(self, changes: pa.RecordBatch, *, is_empty: bool) -> SortedRows:
            types.extend(changes.schema.types)
            return super().changes(changes, is_empty=is_empty)

    monkeypatch.setattr("statestores.arrow.restoring.bulk_put.encoder_of", lambda _: Recording())
    monkeypatch.setattr("statestores.arrow.restoring.bulk_put.LEAST_ROWS", 1)
    store = open_store(STAMPED)
    rows = pa.table({"key": [b"a"], "value": [b"1"], "timestamp": [3]})

    assert commit_many(store, rows, {LOG: 1}) == 1
    assert types == [LARGE, LARGE, pa.int64()]
    assert [key for key, _ in store.range()] == [b"a"]


@pytest.mark.spec("COM-43")
@for_each("is_pending", [False, True])
def test_what_came_after_a_commit_that_is_there_is_rolled_back(is_pending: bool) -> None:
    """The first rollback says that the commit is there; what was put since goes nonetheless."""
    calls: list[str] = []

    class Store:
        is_open = True
        has_pending_writes = is_pending

        def rollback(self) -> None:
            calls.append("rollback")
            if len(calls) == 1:
                raise CommitConflictError("the commit is there")

    store: Any = Store()
    error = OSError("the disk")

    take_back(store, error)

    assert len(calls) == (2 if is_pending else 1)
    assert error.__notes__ == ["the commit is there"]
