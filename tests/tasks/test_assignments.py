"""What an assignment closes, what it leaves when a part of it fails, and what it is given."""

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.changelog import FileChangelog
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    StoreClosedError,
    StoreLockedError,
    UnknownBackendError,
    UnknownStateStoreError,
)
from statestores.files.directory_lock import LOCK_FILE
from statestores.opening import AnyStore, open_existing
from statestores.spi.durability import Durability
from statestores.tasks import (
    LATEST_OFFSET,
    LocalDirectory,
    RemovedEngine,
    RestoreProgress,
    TaskId,
    TaskManager,
    TaskState,
    idle_offsets,
    open_standby,
)
from statestores.tasks.idle_offsets import IdleOffsets
from statestores.tasks.task_opener import TaskOpener

GROUPS = {0: ("counts", "rates"), 1: ("names",)}
BOTH, ALONE = TaskId(0, 0), TaskId(1, 0)


@pytest.fixture
def manager(root: ss.StateRoot, tmp_path: Path) -> Iterator[TaskManager]:
    """Return that of a process."""
    with TaskManager(root, GROUPS, local_directory=tmp_path / "one", backend="sqlite") as found:
        yield found


@pytest.fixture
def written(root: ss.StateRoot) -> None:
    """Have one commit of each store in the first partition."""
    with TaskManager(root, GROUPS, backend="memory") as writer:
        writer.assign([BOTH, ALONE])
        for task in writer.tasks.values():
            for name in task.stores:
                given = {"timestamp_ms": 1} if name == "rates" else {}
                task.store(name).put("a", "b" if name == "names" else 1, **given)
            task.commit()


@pytest.mark.usefixtures("written")
@pytest.mark.spec("TSK-9")
def test_a_clean_up_beside_an_assignment_leaves_what_is_assigned(
    root: ss.StateRoot, manager: TaskManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An assigned standby lost its engine when a clean-up came before it was opened.

    A thread that cleans up now and then went by what was open already, and the copies of an
    assignment are opened one after the other: they had to be restored from the first change on.
    """
    manager.assign([], standby=[BOTH, ALONE])
    for copies in manager.standbys.values():
        for copy in copies:
            copy.stop()
            copy.poll()
    manager.assign([])
    follow = TaskOpener.follow
    removed: list[RemovedEngine] = []

    def beside(opener: TaskOpener, task_id: TaskId) -> Any:
        removed.extend(manager.clean_up(older_than_ms=0))
        return follow(opener, task_id)

    monkeypatch.setattr(TaskOpener, "follow", beside)
    manager.assign([], standby=[BOTH])
    assert {each.store for each in removed} == {"names"}  # which is not assigned

    assert [copy.lag.current_offset for copy in manager.standbys[BOTH]] == [1, 1]


def _threads() -> set[str]:
    return {each.name for each in threading.enumerate() if each.name.startswith("standby-")}


@pytest.mark.usefixtures("written")
def test_a_standby_that_is_no_longer_assigned_is_closed(manager: TaskManager) -> None:
    """It followed on, and its engine stayed locked: no other process here could have it."""
    manager.assign([], standby=["0_0", "1_0"])
    copies = [*manager.standbys[BOTH], *manager.standbys[ALONE]]
    assert [each.is_following for each in copies] == [True] * 3
    assert _threads() == {"standby-counts-0", "standby-rates-0", "standby-names-0"}
    manager.assign([], standby=["1_0"])
    assert [each.is_open for each in copies] == [False, False, True]
    assert _threads() == {"standby-names-0"}
    assert manager.states == {ALONE: TaskState.STANDBY}
    manager.assign(["0_0"], standby=["1_0"])
    assert manager.standbys[ALONE] == (copies[2],)  # those that stay are not touched
    manager.close()

    assert not copies[2].is_open
    assert (manager.tasks, manager.standbys, manager.states) == ({}, {}, {})


@pytest.mark.usefixtures("written")
def test_a_standby_that_cannot_be_opened_keeps_no_other_back(
    root: ss.StateRoot, manager: TaskManager
) -> None:
    """Another process of this machine has its engine: the rest of the assignment is carried out."""
    with TaskManager(root, GROUPS, local_directory=manager._local.path, backend="sqlite") as other:
        other.assign([], standby=[BOTH])
        with pytest.raises(StoreLockedError):
            manager.assign([ALONE], standby=[BOTH, TaskId(0, 1)])
        assert manager.states == {ALONE: TaskState.RUNNING, TaskId(0, 1): TaskState.STANDBY}
        assert manager.task_offset_sums()[ALONE] == LATEST_OFFSET
    manager.assign([ALONE], standby=[BOTH, TaskId(0, 1)])

    assert set(manager.standbys) == {BOTH, TaskId(0, 1)}


@pytest.mark.usefixtures("written")
@pytest.mark.spec("TSK-6", "STB-4")
def test_a_task_of_which_one_store_could_not_be_promoted_has_no_standbys(
    root: ss.StateRoot, manager: TaskManager
) -> None:
    """The first had been, and was closed: half of a standby is none, and nothing stays locked."""
    manager.assign([], standby=[BOTH])
    counts, rates = manager.standbys[BOTH]
    with FileChangelog.open(root.partition("rates", 0).changelog, "versioned"):
        with pytest.raises(StoreLockedError):
            manager.assign([BOTH])
        assert (manager.states, manager.standbys) == ({}, {})
        assert not counts.is_open
        assert not rates.is_open
    manager.assign([BOTH])

    assert manager.task("0_0").store("counts").get("a") == 1
    assert manager.task("0_0").store("rates").get("a").value == 1


@pytest.mark.usefixtures("written")
@pytest.mark.spec("TSK-6")
def test_after_an_interrupt_what_has_not_begun_is_not_begun(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C waits for the restore that is running, and for no other one."""
    begun, go_on = threading.Event(), threading.Event()

    def listen(progress: RestoreProgress) -> None:
        begun.set()
        assert go_on.wait(60.0)

    def interrupted(opener: TaskOpener, task_id: TaskId) -> Any:
        assert begun.wait(60.0)
        threading.Timer(0.2, go_on.set).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(TaskOpener, "follow", interrupted)
    with TaskManager(
        root,
        GROUPS,
        local_directory=tmp_path / "one",
        backend="sqlite",
        restore_threads=1,
        listener=listen,
    ) as manager:
        with pytest.raises(KeyboardInterrupt):
            manager.assign([BOTH, ALONE], standby=[TaskId(0, 1)])
        assert len(manager.tasks) == 1
        assert manager.states == dict.fromkeys(manager.tasks, TaskState.RUNNING)
        manager.assign([BOTH, ALONE])

        assert set(manager.tasks) == {BOTH, ALONE}


@pytest.mark.usefixtures("written")
def test_a_store_is_looked_for_in_its_own_group(manager: TaskManager) -> None:
    """Tasks of other groups have none of this name, and their standbys neither."""
    manager.assign([ALONE, TaskId(0, 1)], standby=[BOTH])
    for copies in manager.standbys.values():
        for copy in copies:
            copy.stop()
            copy.poll()

    assert set(manager.local_stores("names")) == {0}
    assert set(manager.local_stores("counts")) == {1}
    stale: dict[int, Any] = {**manager.local_stores("counts", include_stale=True)}
    assert set(stale) == {0, 1}
    assert stale[0].get("a") == 1  # and not what the copy of another store of the task has
    assert set(manager.local_stores("names", include_stale=True)) == {0}
    assert manager.store_names == ("counts", "names", "rates")
    assert [manager.partition_count(name) for name in manager.store_names] == [3, 2, 3]
    assert [manager.group_of(name) for name in manager.store_names] == [0, 1, 0]
    assert manager.specification("names").name == "names"
    for partition, end in ((0, 1), (2, 0)):  # of the last one there is no changelog yet
        changelog = ss.TopicPartition("counts-changelog", partition)
        assert manager.changelog_end("counts", partition) == (changelog, end)
    for ask in (
        manager.partition_count,
        manager.specification,
        manager.unready,
        lambda name: manager.changelog_end(name, 0),
    ):
        with pytest.raises(UnknownStateStoreError, match="no store 'typo'; there are: counts, nam"):
            ask("typo")


@pytest.mark.usefixtures("written")
@pytest.mark.spec("TSK-13")
def test_an_engine_that_is_damaged_counts_as_nothing(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is for who opens it for work to tell; it was asked at each report, and failed that."""
    local = LocalDirectory(tmp_path / "one")
    with TaskManager(root, GROUPS, local_directory=local.path, backend="sqlite") as manager:
        manager.assign([ALONE, BOTH])
    for file in (local.partition("names", 0) / "engine").glob("*.db*"):
        file.write_bytes(b"no database at all" * 1_000)
    asked: list[str] = []
    ask = IdleOffsets._ask

    def counted(idle: IdleOffsets, name: str, partition: int) -> int | None:
        asked.append(name)
        return ask(idle, name, partition)

    monkeypatch.setattr(IdleOffsets, "_ask", counted)
    with TaskManager(root, GROUPS, local_directory=local.path) as again:
        assert [again.task_offset_sums() for _ in range(2)] == [{BOTH: 2}] * 2

    assert sorted(asked) == ["counts", "names", "rates"]


@pytest.mark.usefixtures("written")
@pytest.mark.spec("TSK-13")
def test_an_engine_is_asked_while_it_is_idle(root: ss.StateRoot, tmp_path: Path) -> None:
    """Not while somebody here is about to open it; and what is gone is no longer known."""
    local = LocalDirectory(tmp_path / "one")
    with TaskManager(root, GROUPS, local_directory=local.path, backend="sqlite") as manager:
        manager.assign([BOTH])
    idle = IdleOffsets(local, None, Durability.POWER_LOSS)
    assert idle.next_offset("counts", 0, lambda: False) is None
    assert idle.known("counts", 0) is None
    assert idle.next_offset("counts", 0, lambda: True) == 1
    assert idle.next_offset("counts", 0, lambda: False) == idle.known("counts", 0) == 1
    for file in (local.partition("counts", 0) / "engine").glob("*.db*"):
        file.write_bytes(b"no database at all" * 1_000)
    assert idle.next_offset("counts", 0, lambda: True) is None  # no longer what it was
    assert idle.known("counts", 0) is None
    assert idle.next_offset("rates", 0, lambda: True) == 1
    shutil.rmtree(local.partition("rates", 0) / "engine")

    assert idle.next_offset("rates", 0, lambda: False) is None
    assert idle.known("rates", 0) is None


@pytest.mark.usefixtures("written")
@pytest.mark.spec("TSK-6")
def test_a_task_that_is_no_longer_assigned_is_closed(manager: TaskManager) -> None:
    """Also for whoever holds it: the next owner finds nothing locked, and no late commit."""
    manager.assign([BOTH, ALONE])
    gone, stays = manager.task(BOTH), manager.task(ALONE)
    manager.assign([ALONE])

    assert stays.is_open
    with pytest.raises(StoreClosedError, match="the task 0_0 is closed"):
        gone.commit()


@pytest.mark.usefixtures("written")
@pytest.mark.spec("TSK-13")
def test_an_assignment_waits_for_an_engine_that_is_being_looked_into(
    root: ss.StateRoot, manager: TaskManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An assignor asks on another thread: the task could not be opened, since we had its engine."""
    manager.assign([BOTH])
    manager.close()
    opened, go_on = threading.Event(), threading.Event()

    def slow(path: Path, **how: Any) -> AnyStore:
        store = open_existing(path, **how)
        opened.set()
        assert go_on.wait(60.0)
        return store

    monkeypatch.setattr(idle_offsets, "open_existing", slow)
    with (
        TaskManager(root, GROUPS, local_directory=manager._local.path) as again,
        ThreadPoolExecutor(2) as pool,
    ):
        asking = pool.submit(again.task_offset_sums)
        assert opened.wait(60.0)
        assigning = pool.submit(again.assign, [BOTH])
        wait([assigning], 0.3)  # until it has failed, or waits
        go_on.set()
        assigning.result()

        assert asking.result()[BOTH] in {1, 2}
        assert again.states == {BOTH: TaskState.RUNNING}


@pytest.mark.usefixtures("written")
@pytest.mark.spec("TSK-13")
def test_what_was_closed_here_need_not_be_asked(
    root: ss.StateRoot, manager: TaskManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its offset is that of the task's last commit; and a lock that was taken is no change of it.

    The next assignment restores what has the least to do first, and goes by these offsets.
    """
    manager.assign([BOTH])
    manager.assign([])
    monkeypatch.setattr(IdleOffsets, "_ask", lambda *_: pytest.fail("it was opened"))
    for name in ("counts", "rates"):
        (manager._local.partition(name, 0) / "engine" / LOCK_FILE).write_text("somebody's")
    assert manager.task_offset_sums() == {BOTH: 2}

    assert [manager._idle.known(name, 0) for name in ("counts", "rates")] == [1, 1]


@pytest.mark.spec("TSK-13")
def test_of_an_engine_that_is_not_there_nothing_is_known(tmp_path: Path) -> None:
    """One in memory has gone with the task: its offset would be that of what has to be restored."""
    idle = IdleOffsets(LocalDirectory(tmp_path), None, Durability.POWER_LOSS)
    idle.note("counts", 0, 7)

    assert idle.known("counts", 0) is None
    assert idle.next_offset("counts", 0, lambda: True) is None


@pytest.mark.usefixtures("written")
def test_a_state_root_may_be_named_by_its_path(root: ss.StateRoot, tmp_path: Path) -> None:
    """As text or as a path, wherever tasks and standbys are opened."""
    with TaskManager(str(root.path), {1: ["names"]}, backend="memory") as manager:
        manager.assign([ALONE])
        assert manager.task("1_0").store("names").get("a") == "b"
        assert manager.root.path == root.path
    for place in (root.path, str(root.path)):
        with open_standby(place, "names", 0, tmp_path / "copy", backend="memory") as copy:
            assert copy.poll() == 1


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"restore_threads": 0}, "restore_threads must be an int from 1, got 0"),
        ({"restore_threads": True}, "restore_threads must be an int from 1"),
        ({"follow_interval_s": 0}, "follow_interval_s must be a number of seconds above 0, got 0"),
        ({"follow_interval_s": True}, "follow_interval_s"),
        ({"follow_interval_s": float("nan")}, "follow_interval_s"),
        ({"listener": 7}, "a listener is a function"),
        ({"groups": ["counts"]}, "groups must be a mapping"),
        ({"on_corruption": "keep"}, "on_corruption is 'fail' or 'rebuild', got 'keep'"),
        ({"backend": "typo"}, "no backend is registered as 'typo'"),
        ({"options": 7}, "options"),
        ({"changelog_options": 7}, "changelog_options"),
        ({"groups": {0: []}}, "the group 0 has no stores"),
        ({"groups": {1 << 31: ["counts"]}}, "a task's group must be from 0 to"),
    ],
)
def test_what_a_manager_cannot_be_made_with(
    root: ss.StateRoot, how: dict[str, Any], words: str
) -> None:
    """It is refused by name, before there is anything to close."""
    given: dict[str, Any] = {"groups": GROUPS, **how}
    groups = given.pop("groups")

    with pytest.raises((InvalidArgumentError, InvalidTypeError, UnknownBackendError), match=words):
        TaskManager(root, groups, **given)


def test_what_is_no_assignment_is_refused(manager: TaskManager) -> None:
    """Text is no list of tasks, and a number is none of them."""
    wrong: tuple[Any, ...] = ("0_0", 7, None)
    for active in wrong:
        with pytest.raises(InvalidTypeError, match=r"given as a list, such as \['0_1'\]"):
            manager.assign(active)
    number: Any = 7
    with pytest.raises(InvalidTypeError, match="a task is a TaskId or its name"):
        manager.assign([number])
    with pytest.raises(InvalidTypeError, match="a task's name must be a str, got 7"):
        TaskId.parse(number)
    assert TaskId.of(BOTH) is BOTH
    TaskId(0, (1 << 31) - 1)
    for outside in (-1, 1 << 31):
        with pytest.raises(InvalidArgumentError, match=r"from 0 to 2\*\*31 - 1"):
            TaskId(0, outside)
