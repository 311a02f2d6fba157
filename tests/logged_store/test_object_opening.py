"""What an opening in an object store begins with, gives back, and leaves behind when it fails."""

from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.arrow.restoring.restore import RestoreReport
from statestores.errors import SnapshotCorruptedError, StorageError, StoreMismatchError
from statestores.logged_store import object_opening, open_logged_store
from statestores.logged_store.object_opening import (
    ReadyEngine,
    restore_after_snapshot,
    restore_from_objects,
)

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

COUNTS = ss.KeyValue("counts")
LOG = ss.TopicPartition("counts-changelog", 0)


class Standing:
    """A store and a changelog, as far as it is decided what to restore from."""

    def __init__(self, committed: int | None, first: int, end: int) -> None:
        self.committed, self.first_offset, self.end_offset = committed, first, end

    def committed_offset(self, _: object) -> int | None:
        """Return what the store has of the changelog."""
        return self.committed


class Snapshots:
    """Snapshots of which each next one is asked for, below an offset."""

    def __init__(self, there: list[Any]) -> None:
        self.there, self.asked = there, list[int]()

    def newest_valid(self, *, to_offset: int) -> Any:
        """Return the next, as the choice of it."""
        self.asked.append(to_offset)
        return type("Choice", (), {"snapshot": self.there.pop(0)})


def snapshot_that_is(*, there: bool) -> Any:
    """Return one that is there still, or was removed meanwhile."""
    return type("Snapshot", (), {"is_there": there})


@pytest.mark.spec("OBJ-38")
@pytest.mark.parametrize(
    ("committed", "first", "is_short"),
    [(None, 0, True), (3, 5, True), (4, 5, False), (5, 5, False), (0, 1, False), (0, 2, True)],
)
def test_a_snapshot_is_loaded_where_the_changelog_does_not_go_on_from_the_store(
    monkeypatch: pytest.MonkeyPatch, *, committed: int | None, first: int, is_short: bool
) -> None:
    """The newest that the changelog goes on from; else the rows that are there would go for it."""
    used: list[Any] = []
    monkeypatch.setattr(object_opening, "restore", lambda *_, **how: used.append(how["snapshot"]))
    newest = snapshot_that_is(there=True)
    at: Any = Standing(committed, first, 9)
    snapshots: Any = Snapshots([newest])
    restore_after_snapshot(at, snapshots, at, LOG)

    assert used == [newest if is_short else None]
    assert snapshots.asked == ([8] if is_short else [])


@pytest.mark.spec("OBJ-38")
def test_an_empty_changelog_has_no_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """None can be of a commit that it has."""
    used: list[Any] = []
    monkeypatch.setattr(object_opening, "restore", lambda *_, **how: used.append(how["snapshot"]))
    at: Any = Standing(None, 0, 0)
    snapshots: Any = Snapshots([])
    restore_after_snapshot(at, snapshots, at, LOG)

    assert (used, snapshots.asked) == ([None], [])


@pytest.mark.spec("OBJ-38")
@pytest.mark.parametrize("error", [SnapshotCorruptedError("damaged"), StorageError("failed")])
def test_a_snapshot_that_is_removed_while_it_is_read_is_followed_by_the_next(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """By the changelog alone after three; and one that is there, or none, failed for itself."""
    used: list[Any] = []

    def fail(*_: object, snapshot: Any = None, **__: object) -> Any:
        used.append(snapshot)
        if snapshot is None and len(used) == 4:
            return "restored"
        raise error

    monkeypatch.setattr(object_opening, "restore", fail)
    at: Any = Standing(None, 0, 9)
    gone = [snapshot_that_is(there=False) for _ in range(3)]
    alone: Any = restore_after_snapshot(at, Snapshots(list(gone)), at, LOG)  # type: ignore[arg-type]  # as far as it is used

    assert alone == "restored"
    assert used == [*gone, None]
    for there in (snapshot_that_is(there=True), None):
        used.clear()
        with pytest.raises(type(error), match=str(error)):
            restore_after_snapshot(at, Snapshots([there]), at, LOG)  # type: ignore[arg-type]  # likewise
        assert used == [there]


@pytest.mark.spec("OBJ-10")
def test_what_was_read_for_a_restore_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer appends from then on, and needs none of it in memory."""
    steps: list[str] = []

    def restored(*_: object, **__: object) -> RestoreReport:
        steps.append("restored")
        raise StorageError("far enough")

    class Store:
        def committed_offset(self, _: object) -> None:
            return None

    class Log:
        end_as_known = 0

        def forget_read(self) -> None:
            steps.append("forgotten")

    report: Any = None
    store: Any = Store()
    ready = ReadyEngine(*[report] * 6)._replace(store=store)
    monkeypatch.setattr(object_opening, "restore_after_snapshot", lambda *_: report)
    monkeypatch.setattr(object_opening, "typed_store", restored)
    with pytest.raises(StorageError, match="far enough"):
        object_opening.bring_up(ready, Log(), None)  # type: ignore[arg-type]  # as far as it is used

    assert steps == ["forgotten", "restored"]


class Closing:
    """Something that is closed."""

    def __init__(self, closed: list[str], name: str) -> None:
        self._closed, self._name = closed, name

    def close(self) -> None:
        """Note it."""
        self._closed.append(self._name)


@pytest.mark.spec("OBJ-10")
def test_an_engine_that_was_got_ready_is_closed_with_what_reads_its_log() -> None:
    """Where the opening goes no further: the engine stayed locked."""
    closed: list[str] = []
    nothing: Any = None
    store: Any = Closing(closed, "store")
    reader: Any = Closing(closed, "reader")
    ReadyEngine(store, reader, LOG, None, nothing, nothing).close()

    assert closed == ["reader", "store"]


@pytest.mark.spec("OBJ-10", "OBJ-18")
@pytest.mark.parametrize("step", ["note_origin", "take_over"])
def test_an_opening_in_an_object_store_that_fails_leaves_no_engine_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Neither where nobody can note whose the engine is, nor where the log cannot be taken."""
    root = ss.StateRoot.create("memory://tests/opening-steps-" + step)
    root.add_store(COUNTS, partitions=1)

    def fail(*_: object, **__: object) -> Any:
        raise StorageError("the disk failed")

    with monkeypatch.context() as patch:
        patch.setattr(object_opening, step, fail)
        with pytest.raises(StorageError, match="the disk failed") as kept:
            open_logged_store(root, COUNTS, directory=tmp_path / "engine", backend="sqlite")
    with open_logged_store(root, COUNTS, directory=tmp_path / "engine") as logged:
        logged.store.put(b"k", b"v")
        assert logged.commit() == 0

    del kept  # as long as there is an error there is what it has met


@pytest.mark.spec("OBJ-18")
def test_a_copy_that_is_ahead_of_its_log_is_not_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has what the log has lost, or is of another one; nothing is loaded over it."""
    root = ss.StateRoot.create("memory://tests/opening-steps-ahead")
    root.add_store(COUNTS, partitions=1)
    steps: list[str] = []

    def refuse(*_: object) -> None:
        steps.append("checked")
        raise StoreMismatchError("it is ahead")

    monkeypatch.setattr(object_opening, "check_committed", refuse)
    monkeypatch.setattr(object_opening, "restore", lambda *_, **__: steps.append("restored"))
    with pytest.raises(StoreMismatchError, match="it is ahead"):
        restore_from_objects(
            root,
            COUNTS,
            0,
            directory=tmp_path / "engine",
            backend="sqlite",
            options=None,
            progress=None,
        )

    assert steps == ["checked"]
