"""Tasks on a state root in an object store: one commit of all stores, and one owner that counts."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores import failpoints
from statestores.errors import (
    CapabilityNotSupportedError,
    CommitConflictError,
    FencedError,
    InvalidArgumentError,
    StateStoreError,
    StoreCorruptedError,
)
from statestores.storage import Found, ObjectStorage, Outcome
from statestores.tasks import RestoreProgress, Task, TaskManager, open_standby, open_task
from statestores.tasks.objects import commit_steps, opening, recovery

INPUT = ss.TopicPartition("words", 0)
NAMES = ("counts", "rates")


@pytest.fixture
def root(url: str) -> ss.StateRoot:
    """A state root with two stores that belong together."""
    state = ss.StateRoot.create(url)
    state.add_store(ss.KeyValue("counts", key=ss.utf8, value=ss.int64), partitions=2)
    state.add_store(
        ss.Versioned("rates", history_retention_ms=1_000, key=ss.utf8, value=ss.int64), partitions=2
    )
    return state


@pytest.fixture(autouse=True)
def _nothing_stays_armed() -> Iterator[None]:
    yield
    failpoints.disarm()


def opened(root: ss.StateRoot, directory: Path, **how: Any) -> Task:
    """Open the task with its engines in *directory*."""
    return open_task(root, "0_0", NAMES, local_directory=directory, backend="sqlite", **how)


def put(task: Task, number: int) -> None:
    """Put *number* into both stores, and commit it."""
    task.store("counts").put("number", number)
    task.store("rates").put("number", number, timestamp_ms=number)
    task.commit({INPUT: number})


def numbers(task: Task) -> tuple[Any, Any, Any]:
    """Return what the stores have, and the position."""
    record = task.store("rates").get("number")
    return task.store("counts").get("number"), record and record.value, task.position.get(INPUT)


def storage_of(root: ss.StateRoot) -> ObjectStorage:
    """Return where *root* is."""
    assert root.storage is not None
    return root.storage


def records(root: ss.StateRoot) -> list[str]:
    """Return the names of the records that are there."""
    return [each.name for each in storage_of(root).list("@tasks/0_0/records/")]


@pytest.mark.spec("TSK-17", "TSK-18", "TSK-1", "TSK-5")
def test_a_task_goes_on_elsewhere_and_who_had_it_is_fenced(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """From the objects alone; and nothing of what the one before commits then is there."""
    old = opened(root, tmp_path / "a")
    put(old, 1)
    old.store("counts").put("number", 2)
    old.store("rates").put("number", 2, timestamp_ms=2)
    new = opened(root, tmp_path / "b")
    assert numbers(new) == (1, 1, 1)
    for _ in range(2):
        with pytest.raises(FencedError, match="nothing of this commit was written"):
            old.commit({INPUT: 2})
    old.rollback()
    assert numbers(old) == (1, 1, 1)
    old.store("counts").put("number", 3)
    with pytest.raises(FencedError):
        old.commit({INPUT: 3})
    new.commit({INPUT: 4})
    put(new, 5)
    assert records(root) == []
    old.close()
    new.close()

    for directory in ("a", "b", "c"):  # an engine that is behind, one that is not, and none
        with opened(root, tmp_path / directory) as task:
            assert numbers(task) == (5, 5, 5)
            assert all(lag.offset_lag == 0 for lag in task.lags().values())


@pytest.mark.spec("TSK-17", "TSK-18", "TSK-3")
def test_a_task_that_is_lost_in_the_middle_of_a_commit(
    root: ss.StateRoot, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Until its first store has it, the commit is none; from then on it is one of both stores."""
    number = 0
    for failpoint, at, is_made in (
        ("task.recording", 1, False),
        ("task.recorded", 1, False),
        ("objects.append.before", 1, False),
        ("logged.appended", 1, True),
        ("objects.append.before", 2, True),
        ("logged.appended", 2, True),
        ("task.carried-out", 1, True),
    ):
        with subtests.test(failpoint, at=at):
            old, found = opened(root, tmp_path / "old"), []

            def take() -> None:
                failpoints.disarm()
                found.append(opened(root, tmp_path / "new"))  # noqa: B023  # it ends in this turn

            before, number = number, number + 1
            failpoints.arm(failpoint, take, at=at)
            if is_made and (failpoint, at) not in (("logged.appended", 2), ("task.carried-out", 1)):
                with pytest.raises(CommitConflictError, match="is made"):
                    put(old, number)
                with pytest.raises(CommitConflictError):
                    old.rollback()
            elif is_made:
                put(old, number)
            else:
                with pytest.raises(FencedError):
                    put(old, number)
                old.rollback()
                number = before
            (new,) = found
            assert numbers(new) == ((number, number, number) if number else (None, None, None))
            new.close()
            old.close()
    with opened(root, tmp_path / "last") as task:
        assert numbers(task) == (4, 4, 4)
        assert records(root) == []


@pytest.mark.spec("TSK-18")
def test_a_record_of_a_later_owner_is_not_judged_by_an_earlier_view(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has taken the task, slept, and then looked for records found that of the next owner.

    By what it had seen of the log before, that record counted for nothing, and it removed it. The
    next owner went on, died, and its commit was in one store.
    """
    look = commit_steps.records_found

    def stop() -> None:
        raise OSError(5, "Input/output error")

    def sleeps(names: Any) -> Any:
        monkeypatch.setattr(recovery, "records_found", look)
        failpoints.arm("task.recorded", stop)
        with pytest.raises(OSError, match="Input/output"):
            put(opened(root, tmp_path / "later"), 1)
        failpoints.disarm()
        return (yield from look(names))

    monkeypatch.setattr(recovery, "records_found", sleeps)
    with pytest.raises(FencedError, match="while the task was being opened"):
        opened(root, tmp_path / "sleeper")
    assert len(records(root)) == 1


@pytest.mark.spec("TSK-18")
def test_a_record_that_somebody_else_has_carried_out_meanwhile_is_no_reason_to_go_on(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who found it slept, and another owner ended the commit: the stores were opened without it."""
    first = opened(root, tmp_path / "first")

    def die() -> None:
        raise OSError(5, "Input/output error")

    failpoints.arm("objects.append.before", die, at=2)
    with pytest.raises(OSError, match="Input/output"):
        put(first, 1)
    failpoints.disarm()
    first.close()
    judge = commit_steps.has_counted

    def sleeps(*arguments: Any) -> Any:
        monkeypatch.setattr(recovery, "has_counted", judge)
        with opened(root, tmp_path / "other") as other:
            assert numbers(other) == (1, 1, 1)
        return judge(*arguments)

    monkeypatch.setattr(recovery, "has_counted", sleeps)
    with pytest.raises(FencedError, match="while the task was being opened"):
        opened(root, tmp_path / "sleeper")
    assert records(root) == []


@pytest.mark.spec("TSK-18", "TSK-19", "TSK-17")
def test_what_is_damaged_missing_or_contradicts_is_refused_by_name(
    root: ss.StateRoot, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """And nothing of the commit is carried out."""
    storage = storage_of(root)

    def die_recorded(number: int) -> str:
        """Leave a commit of which the first store has its part, and return the record's name."""
        task = opened(root, tmp_path / "a")

        def die() -> None:
            raise OSError(5, "Input/output error")

        failpoints.arm("objects.append.before", die, at=2)
        with pytest.raises(OSError, match="Input/output"):
            put(task, number)
        failpoints.disarm()
        with pytest.raises(CommitConflictError, match="open it again"):
            put(task, number)
        task.close()
        (name,) = records(root)
        return name

    with subtests.test("a store of it is left out"):
        die_recorded(1)
        with pytest.raises(CommitConflictError, match="'rates'"):
            open_task(root, "0_0", ["counts"], local_directory=tmp_path / "b", backend="sqlite")
        with opened(root, tmp_path / "b") as task:
            assert numbers(task) == (1, 1, 1)
    with subtests.test("a byte of the record is another"):
        name = die_recorded(2)
        found = storage.read(name)
        assert isinstance(found, Found)
        for at in (3, 13, len(found.data) - 3):
            storage.delete(name)
            data = bytearray(found.data)
            data[at] ^= 1
            storage.create(name, bytes(data))
            with pytest.raises(StoreCorruptedError, match="damaged"):
                opened(root, tmp_path / "b")
        assert root.object_log("rates").reader(0).end_offset == 1
        storage.delete(name)
        storage.create(name, found.data)
        with opened(root, tmp_path / "b") as task:
            assert numbers(task) == (2, 2, 2)
    with subtests.test("another program has written to a store of it"):
        name = die_recorded(3)
        with ss.open_logged_store(
            root, "rates", 0, directory=tmp_path / "alone", backend="sqlite"
        ) as alone:
            alone.store.put("other", 1, timestamp_ms=3)
            alone.commit()
        with pytest.raises(StoreCorruptedError, match="another program"):
            opened(root, tmp_path / "b")
        storage.delete(name)
    with subtests.test("a changelog was begun anew"):
        for each in list(storage.list("rates/")):
            storage.delete(each.name)
        root.object_log("rates").create()
        with pytest.raises(StoreCorruptedError, match="has written 'rates'"):
            opened(root, tmp_path / "c")


@pytest.mark.spec("TSK-17")
def test_what_a_task_cannot_be_opened_with(root: ss.StateRoot, tmp_path: Path) -> None:
    """Engines lie on a local disk, and what is emitted in a directory."""
    with pytest.raises(InvalidArgumentError, match="local_directory"):
        open_task(root, "0_1", NAMES)
    with pytest.raises(InvalidArgumentError, match="local_directory"):
        TaskManager(root, {0: NAMES})
    outputs: Any = object()
    with pytest.raises(CapabilityNotSupportedError, match="emits"):
        opened(root, tmp_path / "b", outputs=outputs)


@pytest.mark.spec("TSK-4", "TSK-17", "OBJ-10")
def test_a_damaged_engine_fences_nobody_and_is_rebuilt_on_request(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """Whatever is damaged on the local disk, the objects have it."""
    with opened(root, tmp_path / "a") as task:
        put(task, 1)
    with opened(root, tmp_path / "b") as owner:
        for file in (tmp_path / "a" / "rates" / "0" / "engine").glob("*.db"):
            file.write_bytes(b"no database" * 1_000)
        with pytest.raises(StateStoreError):
            opened(root, tmp_path / "a")
        put(owner, 2)  # it still is
    with opened(root, tmp_path / "a", on_corruption="rebuild") as task:
        assert [each.store for each in task.rebuilds] == ["rates"]
        assert numbers(task) == (2, 2, 2)


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
