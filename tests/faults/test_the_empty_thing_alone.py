"""The smallest change that there is, as the only change of a commit.

The story: `put(b"", b"")`, or the deletion of the key ``b""``, counts no uncommitted bytes, and by
these it was judged whether anything was pending. A logged store then changed its engine and
appended nothing: the deleted value was back after a restore, and a store whose first write this was
could not be opened again. A task committed its other store and the position, and not this one.

What holds now: that something is pending is a fact of its own, and each of these changes is in the
engine, in the changelog, and in what a restore makes of it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import statestores as ss
from statestores import arrow as ssa
from statestores.changelog import ChangelogReader
from statestores.errors import StoreClosedError
from statestores.tasks import open_task

INPUT = ss.TopicPartition("input", 0)
BACKENDS = ["memory", "sqlite"]


class Kind(NamedTuple):
    """A kind of store; how it is written, and read as a whole."""

    specification: Any
    put: Callable[[Any, bytes, bytes | None], object]
    content: Callable[[Any], list[Any]]


KINDS = {
    "key-value": Kind(ss.KeyValue("s"), lambda s, k, v: s.put(k, v), lambda s: list(s.range())),
    "timestamped": Kind(
        ss.TimestampedKeyValue("s"), lambda s, k, v: s.put(k, v, 0), lambda s: list(s.range())
    ),
    "ttl": Kind(
        ss.TimestampedKeyValue("s", ttl_ms=9),
        lambda s, k, v: s.put(k, v, 0),
        lambda s: list(s.range()),
    ),
    "versioned": Kind(
        ss.Versioned("s", history_retention_ms=9),
        lambda s, k, v: s.put(k, v, 0),
        lambda s: list(s.scan_as_of()),
    ),
    "window": Kind(
        ss.Window("s", retention_ms=9, window_size_ms=1),
        lambda s, k, v: s.put(k, v, 0),
        lambda s: list(s.fetch_all()),
    ),
    "session": Kind(
        ss.Session("s", retention_ms=9),
        lambda s, k, v: s.put(k, 0, 0, v),
        lambda s: list(s.find_all_sessions()),
    ),
}

CHANGES: dict[str, tuple[bytes, bytes | None]] = {
    "empty key and value": (b"", b""),
    "empty key": (b"", b"v"),
    "empty value": (b"k", b""),
    "deletion of the empty key": (b"", None),
    "deletion of a key that is not there": (b"absent", None),
}


def _check(root: ss.StateRoot, kind: Kind, expected: list[Any], copy: Path) -> None:
    """Accept that the changelog alone gives *expected*."""
    with (
        ChangelogReader.open(root.partition("s", 0).changelog) as log,
        ss.open_store(copy, kind.specification, backend="memory") as store,
    ):
        ssa.restore(store, changelog=log)

        assert kind.content(store) == expected


@pytest.mark.spec("COM-45", "COM-28", "COM-16")
@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_change_of_no_bytes_is_pending_until_it_is_committed(kind: Kind, tmp_path: Path) -> None:
    """In a store alone: not at first, after each write, and not after commit or rollback."""
    with ss.open_store(tmp_path / "s", kind.specification, backend="memory") as store:
        assert not store.has_pending_writes
        for key, value in CHANGES.values():
            kind.put(store, key, value)
            assert store.has_pending_writes
            store.rollback()
            assert not store.has_pending_writes
            kind.put(store, key, value)
            store.commit({})
            assert not store.has_pending_writes
    with pytest.raises(StoreClosedError):
        _ = store.has_pending_writes


@pytest.mark.spec("COM-45", "COM-28", "LGS-1", "LGS-6")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_logged_store_has_the_smallest_change(kind: Kind, backend: str, tmp_path: Path) -> None:
    """As its first commit, and over what was there: owner, reopened store and restore agree."""
    for number, (key, value) in enumerate(CHANGES.values()):
        root = ss.StateRoot.create(tmp_path / str(number))
        root.add_store(kind.specification, partitions=1)
        with ss.open_logged_store(root, "s", 0, backend=backend) as logged:
            kind.put(logged.store, key, value)
            assert logged.commit() == 0
        with ss.open_logged_store(root, "s", 0, backend=backend) as logged:
            kind.put(logged.store, b"", b"before")
            logged.commit()
            kind.put(logged.store, key, value)
            assert logged.commit() == 2
            expected = kind.content(logged.store)
            assert logged.changelog.end_offset == 3
        with ss.open_logged_store(root, "s", 0, backend=backend) as logged:
            assert kind.content(logged.store) == expected
        _check(root, kind, expected, tmp_path / f"copy-{number}")


@pytest.mark.spec("COM-45", "TSK-3")
@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_task_has_the_smallest_change(kind: Kind, tmp_path: Path) -> None:
    """Beside a write of another store, and alone: all of it is committed with the position."""
    root = ss.StateRoot.create(tmp_path / "root")
    root.add_store(ss.KeyValue("other"), partitions=1)
    root.add_store(kind.specification, partitions=1)
    for number, (key, value) in enumerate(CHANGES.values()):
        with open_task(root, "0_0", ["other", "s"], backend="sqlite") as task:
            if number % 2:
                task.stores["other"].store.put(b"n", b"%d" % number)
            kind.put(task.stores["s"].store, key, value)
            task.commit({INPUT: number})
            expected = kind.content(task.stores["s"].store)
        with open_task(root, "0_0", ["other", "s"]) as task:
            assert task.position == {INPUT: number}
            assert kind.content(task.stores["s"].store) == expected
        _check(root, kind, expected, tmp_path / f"copy-{number}")


@pytest.mark.spec("LGS-1", "LGS-3", "COM-4", "COM-10", "COM-47")
@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_position_or_an_offset_alone_is_committed(kind: Kind, tmp_path: Path) -> None:
    """The offset 0 too, in a store alone, a logged one, and a task; nothing at all is nothing."""
    with ss.open_store(tmp_path / "s", kind.specification, backend="sqlite") as alone:
        alone.commit({INPUT: 0})
    with ss.open_store(tmp_path / "s", kind.specification) as alone:
        assert (alone.committed_offset(INPUT), alone.next_offset(INPUT)) == (0, 1)

    root = ss.StateRoot.create(tmp_path / "root")
    root.add_store(kind.specification, partitions=1)
    with ss.open_logged_store(root, "s", 0, backend="sqlite") as logged:
        assert logged.commit() is None
        assert logged.next_offset(INPUT) == 0
        assert logged.commit({INPUT: 0}) == 0
        assert logged.commit({INPUT: 0}) == 0
    with open_task(root, "0_0", ["s"]) as task:
        assert (dict(task.position), task.next_offset(INPUT)) == ({INPUT: 0}, 1)
        task.commit({INPUT: 1})
    with ss.open_logged_store(root, "s", 0) as logged:
        assert (dict(logged.position), logged.next_offset(INPUT)) == ({INPUT: 1}, 2)
        assert logged.changelog.end_offset == 2


@pytest.mark.spec("COM-10", "TSK-3")
def test_a_position_of_the_second_store_is_committed_with_its_task(tmp_path: Path) -> None:
    """It was left pending: only the given position was handed to the store that committed."""
    root = ss.StateRoot.create(tmp_path / "root")
    for name in ("a", "b"):
        root.add_store(ss.KeyValue(name), partitions=1)
    with open_task(root, "0_0", ["a", "b"], backend="sqlite") as task:
        task.stores["b"].store.advance_position({INPUT: 7})
        task.stores["a"].store.put(b"k", b"v")
        task.commit()
    with open_task(root, "0_0", ["a", "b"]) as task:
        assert task.position == {INPUT: 7}
