"""Where the commits of a restore stand, how many there are, and what it leaves open."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from statestores.arrow import read_snapshot, restore, write_snapshot
from statestores.arrow.restoring.row_sink import RowSink
from statestores.changelog.frame import Frame
from statestores.failpoints import arm, disarm
from statestores.spi import KeyValue, TopicPartition, Versioned

LOG = TopicPartition("live-changelog", 0)
PLAIN = KeyValue("live")

_VALUE_BYTES = 10_000


@pytest.fixture
def committed_rows(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[int]]:
    """Note how many pending rows each commit of a store has from now on."""

    def watch(store: Any) -> list[int]:
        sizes: list[int] = []
        commit = store.commit

        def note(*arguments: Any, **named: Any) -> None:
            sizes.append(len(store.pending_changes().keys))
            commit(*arguments, **named)

        monkeypatch.setattr(store, "commit", note)
        return sizes

    return watch


@pytest.fixture
def encoded_rows(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[int]]:
    """Note how many rows each commit past the write buffer of a store has from now on."""

    def watch(store: Any) -> list[int]:
        sizes: list[int] = []
        take = store.commit_rows

        def note(rows: Any, *arguments: Any, **named: Any) -> None:
            listed = list(rows.rows)
            sizes.append(len(listed))
            take(type(rows)(rows=listed), *arguments, **named)

        monkeypatch.setattr(store, "commit_rows", note)
        return sizes

    return watch


def _log(store: Any, changelog: Any, numbers: range) -> None:
    """Put and log a key for each of *numbers*, in a frame of its own."""
    times = (1,) if store.specification.kind == "versioned" else ()
    for number in numbers:
        store.put(b"%03d" % number, b"v" * _VALUE_BYTES, *times)
        store.commit({LOG: changelog.record(store)})


@pytest.mark.spec("SNP-10")
def test_few_changes_wait_until_as_many_are_there_as_were_asked_for(
    open_store: Any, make_changelog: Any, committed_rows: Any
) -> None:
    """A store with rows takes a short tail record by record: a commit for each three of them.

    Each costs a wait for the engine, so none of one frame is made, and none comes early.
    """
    changelog, live, copy = make_changelog(PLAIN.kind), open_store(PLAIN), open_store(PLAIN)
    _log(live, changelog, range(1))
    restore(copy, changelog=changelog)
    _log(live, changelog, range(1, 9))
    sizes = committed_rows(copy)

    restore(copy, changelog=changelog, batch_rows=3)

    assert sizes == [3, 3, 2]
    assert list(copy.range()) == list(live.range())


@pytest.mark.spec("SNP-10", "SNP-14")
def test_rows_that_are_loaded_one_by_one_wait_as_well(
    open_store: Any, committed_rows: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Into another author's store: the mark, pieces of three, and what is left with the offset."""
    monkeypatch.setattr(RowSink, "into", lambda *_: None)
    live, copy = open_store(PLAIN), open_store(PLAIN)
    live.put_many([b"%d" % number for number in range(8)], [b"v"] * 8)
    live.commit({LOG: 7})
    snapshot = read_snapshot(write_snapshot(live, tmp_path).path)
    sizes = committed_rows(copy)

    restore(copy, snapshot=snapshot, batch_rows=3)

    assert sizes == [0, 3, 3, 2]
    assert list(copy.range()) == list(live.range())


@pytest.mark.spec("SNP-16")
def test_pieces_of_a_snapshot_are_taken_until_their_bytes_are_enough(
    open_store: Any, encoded_rows: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """However few rows they are: large values do not take more memory than small ones."""
    monkeypatch.setattr("statestores.arrow.restoring.row_sink._CHUNK_BYTES", 40 * _VALUE_BYTES)
    live, copy = open_store(PLAIN), open_store(PLAIN)
    live.put_many([b"%03d" % number for number in range(60)], [b"v" * _VALUE_BYTES] * 60)
    live.commit({LOG: 59})
    snapshot = read_snapshot(write_snapshot(live, tmp_path).path)
    (rows,) = snapshot.batches()
    pieces = [rows.slice(start, 1).take(pa.array([0])) for start in range(60)]
    monkeypatch.setattr(type(snapshot), "batches", lambda _: iter(pieces))
    sizes = encoded_rows(copy)

    restore(copy, snapshot=snapshot)

    assert 20 < max(sizes) <= 40
    assert list(copy.range()) == list(live.range())


@pytest.mark.spec("SNP-16")
@pytest.mark.parametrize(
    ("specification", "share"),
    [(KeyValue("live"), 1), (Versioned("live", history_retention_ms=9), 2)],
    ids=["one run", "two runs"],
)
def test_changes_wait_until_their_bytes_are_enough(
    specification: Any,
    share: int,
    open_store: Any,
    make_changelog: Any,
    encoded_rows: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row of a versioned store becomes one of two runs, which are in memory together."""
    monkeypatch.setattr("statestores.arrow.restoring.row_sink._CHUNK_BYTES", 40 * _VALUE_BYTES)
    changelog = make_changelog(specification.kind)
    live, copy = open_store(specification), open_store(specification)
    _log(live, changelog, range(60))
    sizes = encoded_rows(copy)

    restore(copy, changelog=changelog)

    assert 20 < max(sizes) * share <= 40 + share


@pytest.mark.spec("SNP-16")
def test_a_failed_restore_leaves_no_changelog_open(
    open_store: Any, make_changelog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever keeps the error, as a report does, kept the files of the changelog open by it."""
    changelog, live, copy = make_changelog(PLAIN.kind), open_store(PLAIN), open_store(PLAIN)
    _log(live, changelog, range(3))
    open_readings = 0
    read = changelog.read

    def counted(*arguments: Any) -> Iterator[Frame]:
        nonlocal open_readings
        open_readings += 1
        try:
            yield from read(*arguments)
        finally:
            open_readings -= 1

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(changelog, "read", counted)
    monkeypatch.setattr(copy, "commit_rows", fail)
    with pytest.raises(OSError, match="full") as kept:
        restore(copy, changelog=changelog, batch_rows=1)

    assert open_readings == 0
    assert kept.tb is not None


@pytest.mark.spec("SNP-10")
def test_a_changelog_may_give_its_frames_by_any_iterator(
    open_store: Any, make_changelog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another author's has a list, and nothing to close."""
    changelog, live, copy = make_changelog(PLAIN.kind), open_store(PLAIN), open_store(PLAIN)
    _log(live, changelog, range(3))
    frames = list(changelog.read())
    monkeypatch.setattr(changelog, "read", lambda *_: iter(frames))

    restore(copy, changelog=changelog)

    assert list(copy.range()) == list(live.range())


def test_a_test_may_stop_a_restore_where_the_store_is_empty(
    open_store: Any, make_changelog: Any, tmp_path: Any
) -> None:
    """Before anything is loaded: what is called again begins there."""
    live, copy = open_store(PLAIN), open_store(PLAIN)
    live.put(b"a", b"1")
    live.commit({LOG: 7})
    snapshot = read_snapshot(write_snapshot(live, tmp_path).path)

    def stop() -> None:
        raise OSError("killed")

    arm("restore.begun", stop)
    try:
        with pytest.raises(OSError, match="killed"):
            restore(copy, snapshot=snapshot)
    finally:
        disarm()
    assert copy.committed_offsets() == {}
    restore(copy, snapshot=snapshot)
    assert list(copy.range()) == [(b"a", b"1")]
