"""Standbys of tasks on an object store: how one becomes the owner, and what is told meanwhile."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from object_tasks import INPUT, NAMES, numbers, opened, put, storage_of, two_stores

import statestores as ss
from statestores import failpoints
from statestores.errors import (
    FencedError,
    StateStoreError,
)
from statestores.logged_store.object_opening import take_over
from statestores.storage import ObjectStorage, Outcome
from statestores.tasks import RestoreProgress, TaskManager, open_standby
from statestores.tasks.objects import opening


@pytest.fixture
def root(url: str) -> ss.StateRoot:
    """A state root with two stores that belong together."""
    return two_stores(url)


@pytest.fixture(autouse=True)
def _nothing_stays_armed() -> Iterator[None]:
    yield
    failpoints.disarm()


@pytest.mark.spec("TSK-20", "STB-2", "STB-6", "OBJ-36")
def test_a_standby_becomes_the_owner(
    root: ss.StateRoot, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """It replays what it lacks, fences whoever was the owner, and readers notice nothing."""
    log = root.object_log("counts")

    def copy_of(name: str) -> Any:
        return open_standby(root, "counts", 0, tmp_path / name, backend="sqlite")

    def owner_of(name: str) -> Any:
        return ss.open_logged_store(root, "counts", 0, directory=tmp_path / name, backend="sqlite")

    with subtests.test("the owner goes on until then"), owner_of("owner") as owner:
        for number in range(3):
            owner.store.put("number", number)
            owner.commit({INPUT: number})
        copy = copy_of("copy")
        assert copy.poll() == 3
        reads = copy.read_only(include_stale=True)
        owner.store.put("number", 3)
        owner.commit({INPUT: 3})
        with copy.promote() as promoted:
            assert promoted.restored.changelog_rows == 0  # it had polled before it took over
            assert reads.get("number") == promoted.store.get("number") == 3
            assert not copy.is_open
            owner.store.put("number", 100)
            with pytest.raises(FencedError):
                owner.commit({INPUT: 100})
            promoted.store.put("number", 4)
            promoted.commit({INPUT: 4})
            assert reads.get("number") == 4
    with subtests.test("what is compacted meanwhile is no commit on the way"):
        copy = copy_of("copy")
        copy.poll()
        with owner_of("owner") as owner:
            for number in range(5, 8):
                owner.store.put("number", number)
                owner.commit({INPUT: number})
        take = type(copy)._made_ready

        def compacts(self: Any) -> Any:
            ready = take(self)
            with owner_of("owner") as owner:
                for number in range(8, 10):
                    owner.store.put("number", number)
                    owner.store.put("more", number)
                    owner.commit({INPUT: number})
            log.compact()
            return ready

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(copy), "_made_ready", compacts)
            with copy.promote() as promoted:
                assert dict(promoted.store.range()) == {"number": 9, "more": 9}


@pytest.mark.spec("TSK-20")
def test_a_standby_that_cannot_become_the_owner_goes_on_following(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody was faster: it stays what it was."""

    def fail(*_: object) -> None:
        raise FencedError("somebody was faster")

    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        copy.follow(0.01)
        monkeypatch.setattr("statestores.tasks.standby.take_over", fail)
        with pytest.raises(FencedError):
            copy.promote()
        assert copy.is_following


@pytest.mark.spec("TSK-20", "STB-2", "OBJ-57")
def test_a_promotion_that_is_overtaken_leaves_a_copy_of_some_commit(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else took the partition over as the copy had, committed, and compacted the log.

    The copy took what the compaction had left up to the end that it knew, where a change was
    missing that a later one makes void, and showed it from then on. Or it had polled beyond that
    end, and the promotion was refused as that of "another" store, to be truncated.
    """
    take, log = take_over, root.object_log("counts")
    committed = [{"a": 0}]

    def commit(**rows: int) -> None:
        with ss.open_logged_store(
            root, "counts", 0, directory=tmp_path / "other", backend="memory"
        ) as counts:
            for key, value in rows.items():
                counts.store.put(key, value)
            counts.commit()
        committed.append(committed[-1] | rows)
        log.fold()

    for number, behind in enumerate((False, True)):
        with open_standby(root, "counts", 0, tmp_path / f"{number}", backend="sqlite") as copy:
            commit(a=number)
            copy.poll()
            reads: Any = copy.read_only(include_stale=True)

            def overtaken(ready: Any, options: Any, behind: bool = behind) -> Any:
                commit(b=1, c=2)
                commit(c=3, d=3)
                if behind:
                    log.compact()
                fresh = ready._replace(reader=log.reader(0))
                taken = take(fresh, options)
                commit(d=4)
                log.compact()
                return taken

            monkeypatch.setattr("statestores.tasks.standby.take_over", overtaken)
            with pytest.raises(FencedError, match="while it was being opened"):
                copy.promote()

            if not behind:  # else it was begun anew
                assert dict(reads.range()) in committed
            reads = copy.read_only(include_stale=True)
            assert dict(reads.range()) in committed
            copy.poll()
            reads = copy.read_only(include_stale=True)
            assert dict(reads.range()) == committed[-1]
        with ss.open_logged_store(
            root, "counts", 0, directory=tmp_path / f"{number}", backend="sqlite"
        ) as counts:
            assert dict(counts.store.range()) == committed[-1]


@pytest.mark.spec("TSK-20", "TSK-17", "TSK-9", "TSK-12", "TSK-13")
def test_a_task_moves_to_the_process_that_has_its_standbys(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """Without a word to the one that had it: that is told at its next commit."""
    log_id = root.object_log("counts").log_id()

    def manager(name: str) -> TaskManager:
        return TaskManager(
            root, {0: NAMES}, local_directory=tmp_path / name, backend="sqlite", restore_threads=2
        )

    with manager("one") as one, manager("two") as two:
        one.assign(["0_0", "0_1"])
        two.assign([], ["0_0"])
        put(one.task("0_0"), 1)
        for standby in two.standbys[one.task("0_0").id]:
            standby.poll()
        assert {lag[0].offset_lag for lag in two.all_local_store_partition_lags().values()} == {0}
        two.assign(["0_0"])
        moved = two.task("0_0")
        assert numbers(moved) == (1, 1, 1)
        assert {each.restored.changelog_rows for each in moved.stores.values()} == {0}
        with pytest.raises(FencedError):
            put(one.task("0_0"), 2)
        put(moved, 3)
        assert two.task_offset_sums()[moved.id] == -2
        one.assign(["0_1"])
        origin = tmp_path / "one" / "counts" / "0" / "changelog.json"
        ours = origin.read_text()
        for text, expected in ((ours.replace(log_id, "another"), {"rates"}), (ours, {"counts"})):
            origin.write_text(text)  # an engine of another log may be the only copy
            removed = one.clean_up(older_than_ms=0)
            assert {(each.store, each.partition) for each in removed} == {(n, 0) for n in expected}
    with opened(root, tmp_path / "three") as task:
        assert numbers(task) == (3, 3, 3)


@pytest.mark.spec("OBJ-53", "OBJ-11", "TSK-12")
def test_lags_are_told_while_a_commit_is_under_way(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asked how far a task is lost the commits that came after, acknowledged as they were.

    Asking is for any thread, and what announces an instance does it twice a second. It found the
    put of a commit that was under way, took it for one that an interrupt had left, and put it once
    more; then both counted it. So the next commit was put two numbers further, where nobody ever
    looks: `verify`, copies and the next opening ended at the gap. Now the asking thread settles
    nothing, and whoever does is alone.
    """
    storage = storage_of(root)
    create = type(storage).create
    lags: list[dict[str, Any]] = []
    waiting: list[Future[int]] = []
    with (
        ThreadPoolExecutor(2) as others,
        TaskManager(
            root, {0: NAMES}, local_directory=tmp_path / "one", backend="memory"
        ) as manager,
    ):
        manager.assign(["0_0"])
        task = manager.task("0_0")
        log = task.logged_store("counts").changelog

        def asked_meanwhile(own: ObjectStorage, name: str, data: bytes) -> Outcome:
            done = create(own, name, data)
            if name.startswith("counts/own/") and not waiting:
                lags.append(others.submit(manager.all_local_store_partition_lags).result(60))
                waiting.append(others.submit(lambda: log.end_offset))
            return done

        monkeypatch.setattr(type(storage), "create", asked_meanwhile)
        for number in range(4):
            waiting.clear()
            put(task, number)

            assert lags[number]["counts"][0].end_offset == number
            assert waiting[0].result(60) == number + 1
            assert manager.all_local_store_partition_lags()["counts"][0].end_offset == number + 1
        monkeypatch.undo()
    with opened(ss.StateRoot.open(storage.url), tmp_path / "two") as task:
        assert numbers(task) == (3, 3, 3)


@pytest.mark.spec("OBJ-53", "TSK-20")
def test_a_promoted_copy_tells_its_lag_while_it_commits(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same of what was a standby: it is the owner now, and is asked by any thread still."""
    storage = storage_of(root)
    create = type(storage).create
    standby = open_standby(root, "counts", 0, tmp_path / "copy", backend="memory")
    with ThreadPoolExecutor(1) as others, standby.promote() as counts:

        def asked_meanwhile(own: ObjectStorage, name: str, data: bytes) -> Outcome:
            done = create(own, name, data)
            assert others.submit(lambda: standby.lag.offset_lag).result(60) == 0
            return done

        monkeypatch.setattr(type(storage), "create", asked_meanwhile)
        for number in range(3):
            counts.store.put("number", number)
            counts.commit({INPUT: number})
        monkeypatch.undo()
    with ss.open_logged_store(
        root, "counts", 0, directory=tmp_path / "two", backend="memory"
    ) as it:
        assert it.store.get("number") == 2


@pytest.mark.spec("TSK-6", "TSK-12")
def test_each_store_tells_when_its_restore_begins_and_ends(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """Also one with nothing to do, and one that a standby has brought along."""
    with opened(root, tmp_path / "a") as task:
        put(task, 1)
    told: list[tuple[str, str]] = []

    def listen(progress: RestoreProgress) -> None:
        told.append((progress.store, progress.event))

    with open_standby(root, "counts", 0, tmp_path / "b" / "counts" / "0", backend="sqlite") as copy:
        copy.poll()
        with opened(root, tmp_path / "b", standbys=[copy], listener=listen) as task:
            assert numbers(task) == (1, 1, 1)

    for name in NAMES:
        events = [event for store, event in told if store == name]
        assert events[:1] == ["started"]
        assert events[-1:] == ["ended"]
        assert set(events[1:-1]) <= {"restored"}


@pytest.mark.spec("TSK-1", "TSK-17")
def test_an_opening_that_fails_gives_back_its_engines(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever keeps the error can try again: the engines stayed locked for as long as it lived."""

    def refuse(*given: object) -> object:
        raise StateStoreError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(opening, "take_over", refuse)
        with pytest.raises(StateStoreError, match="no answer") as caught:
            opened(root, tmp_path / "a")
    with opened(root, tmp_path / "a") as task:
        put(task, 1)
        assert numbers(task) == (1, 1, 1)

    assert caught.value.__traceback__ is not None
