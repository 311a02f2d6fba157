"""Each task of a process is published as soon as it is ready, whatever the others are doing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.changelog import FileChangelog
from statestores.errors import InvalidStateStoreError, StoreLockedError
from statestores.opening import AnyStore, open_existing
from statestores.query import QueryableStores, key_value_store
from statestores.tasks import (
    LATEST_OFFSET,
    RestoreProgress,
    TaskId,
    TaskManager,
    TaskState,
)
from statestores.tasks.local_directory import LocalDirectory

GROUPS = {0: ("counts",)}
ACTIVE, COLD, COPIED = TaskId(0, 0), TaskId(0, 1), TaskId(0, 2)
KEYS = {0: "milk", 1: "cocoa", 2: "tea"}
PATIENCE_S = 60.0


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """A state root whose three partitions have a commit of one key each."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("counts", key=ss.utf8, value=ss.int64), partitions=3)
    for partition, key in KEYS.items():
        with ss.open_logged_store(state, "counts", partition, backend="memory") as counts:
            counts.store.put(key, partition)
            counts.commit()
    return state


class SlowRestore:
    """A listener that lets the restore of `COLD` go on when it is told to."""

    def __init__(self) -> None:
        """Wait at the first word of it."""
        self.told: list[RestoreProgress] = []
        self._at: dict[str, tuple[threading.Event, threading.Event]] = {
            event: (threading.Event(), threading.Event()) for event in ("started", "restored")
        }

    def __call__(self, progress: RestoreProgress) -> None:
        """Wait for `go_on`, if it is that task."""
        self.told.append(progress)
        if progress.task == COLD and progress.event in self._at:
            reached, go_on = self._at[progress.event]
            reached.set()
            assert go_on.wait(PATIENCE_S)

    def wait(self, event: str) -> None:
        """Wait until the restore is there."""
        assert self._at[event][0].wait(PATIENCE_S)

    def go_on(self, event: str) -> None:
        """Let it go on from there."""
        self._at[event][1].set()


@contextmanager
def assigning(manager: TaskManager, slow: SlowRestore, active: list[TaskId]) -> Iterator[None]:
    """Assign *active* on a thread; it is over at the end of the block."""
    thread = threading.Thread(target=manager.assign, args=(active,))
    thread.start()
    try:
        yield
    finally:
        slow.go_on("started")
        slow.go_on("restored")
        thread.join()


@pytest.mark.spec("TSK-12", "TSK-6")
def test_one_slow_restore_hides_and_blocks_no_other_task(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """One restore took minutes, and the whole process looked dead for as long.

    Reads of tasks that had not moved were refused, lags and offset sums raised `StoreClosedError`,
    and a promoted task, ready in a moment, could not be used. Each task is published now when it
    is ready itself, and one that is not says what it is doing.
    """
    slow = SlowRestore()
    with TaskManager(
        root, GROUPS, local_directory=tmp_path / "local", backend="sqlite", listener=slow
    ) as manager:
        manager.assign([ACTIVE], standby=[COPIED])
        [copy] = manager.standbys[COPIED]
        copy.poll()
        counts = QueryableStores(manager).store("counts", key_value_store())
        with assigning(manager, slow, [ACTIVE, COLD, COPIED]):
            slow.wait("started")
            deadline = threading.Event()
            while manager.states[COPIED] is not TaskState.RUNNING:
                assert not deadline.wait(0.01)

            assert manager.states == {
                ACTIVE: TaskState.RUNNING,
                COLD: TaskState.RESTORING,
                COPIED: TaskState.RUNNING,
            }
            assert counts.get(KEYS[0]) == 0
            assert counts.get(KEYS[2]) == 2
            manager.task(COPIED).store("counts").put(KEYS[2], 3)
            manager.task(COPIED).commit()
            assert counts.get(KEYS[2]) == 3
            lag = manager.all_local_store_partition_lags()["counts"][1]
            assert (lag.current_offset, lag.offset_lag) == (0, 1)
            slow.go_on("started")
            slow.wait("restored")
            assert manager.all_local_store_partition_lags()["counts"][1].offset_lag == 0
            assert manager.task_offset_sums() == {
                ACTIVE: LATEST_OFFSET,
                COLD: 1,
                COPIED: LATEST_OFFSET,
            }
        assert counts.get(KEYS[1]) == 1
        assert set(manager.states.values()) == {TaskState.RUNNING}


@pytest.mark.spec("TSK-12")
def test_reads_of_a_restoring_task_name_its_state(root: ss.StateRoot, tmp_path: Path) -> None:
    """And can be tried again. A read of all partitions is refused: it would lack one in silence."""
    slow = SlowRestore()
    with TaskManager(
        root, GROUPS, local_directory=tmp_path / "local", backend="sqlite", listener=slow
    ) as manager:
        manager.assign([ACTIVE])
        stores = QueryableStores(manager)
        counts = stores.store("counts", key_value_store())
        alone = stores.store("counts", key_value_store(), partition=1)
        with assigning(manager, slow, [ACTIVE, COLD]):
            slow.wait("started")
            for read in (
                lambda: counts.get(KEYS[1]),
                lambda: alone.get(KEYS[1]),
                lambda: dict(counts.range()),
                counts.approximate_num_entries,
                lambda: manager.task(COLD),
            ):
                with pytest.raises(InvalidStateStoreError, match="restoring") as caught:
                    read()
                assert caught.value.retryable
        assert dict(counts.range()) == {KEYS[1]: 1, KEYS[0]: 0}


@pytest.mark.spec("TSK-12")
@pytest.mark.parametrize(("heavy", "light"), [(ACTIVE, COLD), (COLD, ACTIVE)])
def test_promotions_come_first_and_then_what_has_the_least_to_do(
    root: ss.StateRoot, tmp_path: Path, heavy: TaskId, light: TaskId
) -> None:
    """With one thread the order is seen: what is soonest ready waits for nothing long."""
    with ss.open_logged_store(root, "counts", heavy.partition, backend="memory") as counts:
        for number in range(50):
            counts.store.put(f"{number}", number)
            counts.commit()
    told: list[RestoreProgress] = []
    with TaskManager(
        root,
        GROUPS,
        local_directory=tmp_path / "local",
        backend="sqlite",
        restore_threads=1,
        listener=told.append,
    ) as manager:
        manager.assign([], standby=[COPIED])
        manager.assign([ACTIVE, COLD, COPIED])

    events = [(each.task, each.event) for each in told if each.event != "restored"]
    assert events == [
        (task, event) for task in (COPIED, light, heavy) for event in ("started", "ended")
    ]


@pytest.mark.spec("TSK-12")
@pytest.mark.parametrize(("known", "other"), [(ACTIVE, COLD), (COLD, ACTIVE)])
def test_what_an_engine_has_is_not_to_be_restored(
    root: ss.StateRoot, tmp_path: Path, known: TaskId, other: TaskId
) -> None:
    """A task that was here comes before one with less in its changelog, of which nothing is."""
    told: list[RestoreProgress] = []
    with TaskManager(
        root,
        GROUPS,
        local_directory=tmp_path / "local",
        backend="sqlite",
        restore_threads=1,
        listener=told.append,
    ) as manager:
        manager.assign([known])
        counts = manager.task(known).logged_store("counts")
        for number in range(50):
            counts.store.put(f"{number}", number)
            manager.task(known).commit()
        assert isinstance(counts.changelog, FileChangelog)
        counts.changelog.seal()
        manager.assign([])
        with ss.open_logged_store(root, "counts", other.partition, backend="memory") as less:
            for number in range(5):
                less.store.put(f"{number}", number)
                less.commit()
        told.clear()
        manager.assign([ACTIVE, COLD])

    assert [each.task for each in told if each.event == "ended"] == [known, other]


@pytest.mark.spec("TSK-12", "TSK-6", "STB-4")
def test_a_task_that_cannot_be_opened_leaves_the_others_and_its_standby(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """The others run; what was a standby is one again, and follows."""
    with (
        ss.open_logged_store(root, "counts", 2, backend="memory"),
        TaskManager(root, GROUPS, local_directory=tmp_path / "local", backend="sqlite") as manager,
    ):
        manager.assign([ACTIVE], standby=[COPIED])
        with pytest.raises(StoreLockedError):
            manager.assign([ACTIVE, COLD, COPIED])

        assert manager.states == {
            ACTIVE: TaskState.RUNNING,
            COLD: TaskState.RUNNING,
            COPIED: TaskState.STANDBY,
        }
        assert all(each.is_following for each in manager.standbys[COPIED])


@pytest.mark.spec("TSK-13")
def test_offset_sums_include_engines_that_nobody_is_assigned(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An assignor sent a task to a machine without its state, since the one that had it was silent.

    A process that begins, or that has lost a task, tells what its disk has. Engines are opened
    once for that, and one that another process has open is left alone.
    """
    local = tmp_path / "local"
    with TaskManager(root, GROUPS, local_directory=local, backend="sqlite") as manager:
        manager.assign([ACTIVE, COLD])
        assert manager.task_offset_sums() == {ACTIVE: LATEST_OFFSET, COLD: LATEST_OFFSET}
        manager.assign([ACTIVE])
        assert manager.task_offset_sums() == {ACTIVE: LATEST_OFFSET, COLD: 1}
    opened: list[Path] = []

    def counted(path: Path, **options: Any) -> AnyStore:
        opened.append(path)
        return open_existing(path, **options)

    monkeypatch.setattr("statestores.tasks.idle_offsets.open_existing", counted)
    with (
        TaskManager(root, GROUPS, local_directory=local) as manager,
        TaskManager(root, GROUPS, local_directory=local) as other,
    ):
        other.assign([ACTIVE])
        assert [manager.task_offset_sums() for _ in range(3)] == [{COLD: 1}] * 3
        assert opened.count(local / "counts" / "1") == 1
        assert other.task(ACTIVE).is_open
        other.task(ACTIVE).store("counts").put("more", 1)
        other.task(ACTIVE).commit()
        other.assign([])
        assert manager.task_offset_sums() == {ACTIVE: 2, COLD: 1}


def test_a_local_directory_that_is_the_state_root_is_nobodys_alone(root: ss.StateRoot) -> None:
    """Every process has the same engines there, so they say nothing, and nobody opens them."""
    with TaskManager(root, GROUPS, backend="sqlite") as manager:
        manager.assign([ACTIVE])
        manager.assign([])

        assert manager.task_offset_sums() == {}


@pytest.mark.spec("TSK-13")
def test_an_engine_without_an_offset_says_nothing(tmp_path: Path) -> None:
    """A task that was opened and never committed: whoever asked for the sums got Python's error."""
    state = ss.StateRoot.create(tmp_path / "empty")
    state.add_store(ss.KeyValue("counts", key=ss.utf8, value=ss.int64), partitions=3)
    local = tmp_path / "local"
    with TaskManager(state, GROUPS, local_directory=local, backend="sqlite") as manager:
        manager.assign([ACTIVE])
    assert (local / "counts" / "0" / "engine").is_dir()

    with TaskManager(state, GROUPS, local_directory=local) as manager:
        assert manager.task_offset_sums() == {}


def test_a_local_directory_that_is_not_there_yet_has_nothing(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """A process that begins asks before anything is opened."""
    local = LocalDirectory(tmp_path / "none")

    assert (local.engines(), local.orphans(root)) == ({}, [])
