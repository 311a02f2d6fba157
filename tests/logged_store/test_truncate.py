"""`truncate()` of a store with a changelog: it is in the changelog, or what it deleted comes back.

The story: put a, commit, truncate, put b, commit gave ``{b}``. When the engine was lost, the
changelog gave ``{a, b}``; replicas had a too. What holds now: the truncation is a frame of its own,
appended before the engine is emptied, and whoever replays the log empties its copy there.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import statestores as ss
from statestores import arrow as ssa
from statestores.changelog import ChangelogReader, compact
from statestores.errors import InvalidArgumentError
from statestores.failpoints import arm, disarm
from statestores.reading.partition_reader import PartitionReader

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

INPUT = ss.TopicPartition("input", 0)
SPECIFICATION = ss.KeyValue("s")


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """A state root with one store of bytes."""
    state = ss.StateRoot.create(tmp_path / "root")
    state.add_store(SPECIFICATION, partitions=1)
    return state


def _open(root: ss.StateRoot) -> ss.LoggedStore[ss.KeyValueStore[bytes, bytes]]:
    return ss.open_logged_store(root, "s", backend="sqlite")


def _lose_engine(root: ss.StateRoot) -> None:
    shutil.rmtree(root.partition("s", 0).path / "engine")
    (root.partition("s", 0).path / "engine.json").unlink()


@pytest.mark.spec("LGS-12", "LGS-6", "COM-18")
def test_what_was_truncated_does_not_come_back(root: ss.StateRoot, tmp_path: Path) -> None:
    """Owner, reopened store, replica, reader, snapshot, compacted log: all have b alone."""
    replica = ss.open_store(tmp_path / "replica", SPECIFICATION, backend="memory")
    with _open(root) as logged:
        logged.store.put(b"a", b"1")
        logged.commit({INPUT: 4})
        with ChangelogReader.open(root.partition("s", 0).changelog) as log:
            ssa.restore(replica, changelog=log)
        logged.store.put(b"pending", b"1")
        logged.store.truncate()

        assert dict(logged.store.range()) == {}
        assert (dict(logged.position), logged.next_offset(INPUT)) == ({}, 0)
        assert (logged.committed_offset, logged.changelog.end_offset) == (1, 2)
        logged.snapshot()
        logged.store.put(b"b", b"2")
        logged.commit({INPUT: 0})
    with ChangelogReader.open(root.partition("s", 0).changelog) as log, replica:
        ssa.restore(replica, changelog=log)
        assert (dict(replica.range()), dict(replica.position)) == ({b"b": b"2"}, {INPUT: 0})
    reader = PartitionReader(root.partition("s", 0), SPECIFICATION)
    assert [row["key"] for batch in reader.rows() for row in batch.to_pylist()] == [b"b"]
    for _ in range(2):
        _lose_engine(root)
        with _open(root) as logged:
            assert (dict(logged.store.range()), dict(logged.position)) == ({b"b": b"2"}, {INPUT: 0})
            logged.changelog.seal()  # type: ignore[attr-defined]  # a changelog in files
            compact(logged.changelog)  # type: ignore[arg-type]  # likewise


class _DiedError(Exception):
    """In the place of a process that died there."""


def _die() -> None:
    raise _DiedError


@pytest.mark.spec("LGS-12", "COM-37", "COM-42")
@pytest.mark.parametrize("failpoint", ["logged.appended", "truncate.marked", "truncate.deleted"])
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_truncation_that_stopped_halfway_is_completed(
    root: ss.StateRoot, failpoint: str, *, goes_on: bool
) -> None:
    """By the next commit, or by the next opening; nothing of before is there then."""
    logged = _open(root)
    logged.store.put(b"a", b"1")
    logged.commit({INPUT: 4})
    arm(failpoint, _die)
    with pytest.raises(_DiedError):
        logged.store.truncate()
    disarm()
    if goes_on:
        logged.store.rollback()
        logged.store.put(b"b", b"2")
        logged.commit({INPUT: 0})
    logged.close()

    expected: tuple[object, ...] = ({b"b": b"2"}, {INPUT: 0}) if goes_on else ({}, {})
    for lose in (lambda _: None, _lose_engine):
        lose(root)
        with _open(root) as logged:
            assert (dict(logged.store.range()), dict(logged.position)) == expected
            assert logged.committed_offset == logged.changelog.end_offset - 1


@pytest.mark.spec("LGS-12")
def test_a_logged_store_is_not_restored_into(root: ss.StateRoot) -> None:
    """A restore begins by emptying the store, which would empty its changelog's copies too."""
    with _open(root) as logged:
        logged.store.put(b"a", b"1")
        logged.commit()
        with pytest.raises(InvalidArgumentError, match="open_logged_store"):
            ssa.restore(logged.store, changelog=logged.changelog)

        assert dict(logged.store.range()) == {b"a": b"1"}


LOGGED = ss.TopicPartition("s-changelog", 0)
Opened = ss.LoggedStore[ss.KeyValueStore[bytes, bytes]]
CONFUSIONS: dict[str, tuple[Callable[[Opened], object], str]] = {
    "an input as an offset": (lambda opened: opened.store.commit({INPUT: 5}), "advance_position"),
    "an offset of its own": (lambda opened: opened.store.commit({LOGGED: 5}), "by itself"),
    "no offset": (lambda opened: opened.store.commit({LOGGED: None}), "by itself"),
    "the changelog as an input": (lambda opened: opened.commit({LOGGED: 5}), "leave it out"),
    "an advance of it": (
        lambda opened: opened.store.advance_position({LOGGED: 5}),
        "leave it out",
    ),
    "no offsets": (lambda opened: opened.store.clear_offsets(), "truncate"),
}


@pytest.mark.spec("LGS-13", "COM-47")
@pytest.mark.parametrize(("confuse", "hint"), CONFUSIONS.values(), ids=list(CONFUSIONS))
def test_offsets_and_position_are_not_confused(
    root: ss.StateRoot,
    confuse: Callable[[Opened], object],
    hint: str,
) -> None:
    """The story: one document committed the input as an offset, another as the position.

    A store with a changelog took both, and only one of them survived the loss of its engine. Each
    other meaning is refused now, and says what to call.
    """
    with _open(root) as logged:
        logged.store.put(b"a", b"1")
        with pytest.raises(InvalidArgumentError, match=hint):
            confuse(logged)
        logged.commit({INPUT: 5})

        assert (dict(logged.position), logged.committed_offset) == ({INPUT: 5}, 0)
        assert logged.next_offset(INPUT) == logged.store.read_only().next_offset(INPUT) == 6
        assert logged.next_offset(LOGGED) == logged.store.read_only().next_offset(LOGGED) == 1


@pytest.mark.spec("COM-47")
def test_who_resumes_at_the_next_offset_counts_each_record_once(root: ss.StateRoot) -> None:
    """The story: `position` was said to be where to resume, and the record there counted twice."""
    source = [b"a"] * 10
    for stop in (5, 10):
        with _open(root) as logged:
            for offset in range(logged.next_offset(INPUT), stop):
                count = int(logged.store.get(source[offset]) or 0)
                logged.store.put(source[offset], b"%d" % (count + 1))
                logged.commit({INPUT: offset})

    with _open(root) as logged:
        assert logged.store.get(b"a") == b"10"
