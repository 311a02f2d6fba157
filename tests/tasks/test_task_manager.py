"""Tasks and standbys of a process: assigned, restored in parallel, promoted, cleaned up."""

from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    StoreClosedError,
    StoreCorruptedError,
    StoreNotFoundError,
    UnknownStateStoreError,
)
from statestores.tasks import LATEST_OFFSET, LocalDirectory, TaskId, TaskManager, open_task

GROUPS = {0: ("counts", "rates"), 1: ("names",)}
INPUT = ss.TopicPartition("words", 0)


@pytest.mark.spec("TSK-5", "TSK-6", "TSK-7", "TSK-8")
def test_a_task_moves_from_one_process_to_its_standby(root: ss.StateRoot, tmp_path: Path) -> None:
    """Two managers, as of two processes: what one gives up, the other promotes as it is."""
    with (
        TaskManager(root, GROUPS, local_directory=tmp_path / "one", backend="rocksdb") as one,
        TaskManager(root, GROUPS, local_directory=tmp_path / "two", backend="sqlite") as two,
    ):
        one.assign(active=[TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)])
        for number in range(10):
            one.task("0_0").store("counts").put(f"{number}", number)
        one.task("0_0").commit({INPUT: 9})
        two.assign(active=[TaskId(0, 2)], standby=[TaskId(0, 0)])
        for standby in two.standbys[TaskId(0, 0)]:
            standby.stop()
            standby.poll()

        assert two.all_local_store_partition_lags()["counts"][0].current_offset == 10
        assert two.all_local_store_partition_lags()["counts"][0].offset_lag == 0
        assert one.task_offset_sums() == dict.fromkeys(one.tasks, LATEST_OFFSET)
        assert two.task_offset_sums() == {TaskId(0, 2): LATEST_OFFSET, TaskId(0, 0): 10}
        assert set(two.local_stores("counts")) == {2}
        assert set(two.local_stores("counts", include_stale=True)) == {0, 2}

        one.assign(active=[TaskId(0, 1)])
        two.assign(active=[TaskId(0, 2), TaskId(0, 0)])
        moved = two.task("0_0")
        assert moved.stores["counts"].restored.changelog_rows == 0
        assert moved.position == {INPUT: 9}
        assert moved.store("counts").get("9") == 9
        assert two.standbys == {}
        with pytest.raises(StoreNotFoundError, match="active: 0_1"):
            one.task("0_0")


def test_numbers_of_stores_are_refused_at_once(root: ss.StateRoot, tmp_path: Path) -> None:
    """Who lists partitions for names is told where that stands, and not by the first assignment."""
    groups: Any = {0: [0, 1]}
    with pytest.raises(InvalidTypeError, match="a store is named by a str, got 0"):
        TaskManager(root, groups, local_directory=tmp_path / "one", backend="memory")


def test_a_closed_manager_has_closed_its_tasks(root: ss.StateRoot, tmp_path: Path) -> None:
    """Also for whoever holds one: a mutant left them open, with the locks of their engines."""
    with TaskManager(root, GROUPS, local_directory=tmp_path / "one", backend="sqlite") as manager:
        manager.assign(active=[TaskId(0, 0)])
        held = manager.task("0_0")
    with pytest.raises(StoreClosedError, match="the task 0_0 is closed"):
        held.commit()
    with open_task(root, "0_0", GROUPS[0], local_directory=tmp_path / "one", backend="sqlite"):
        assert held.stores["counts"].store.is_open is False


@pytest.mark.spec("TSK-6")
def test_many_partitions_are_restored_at_the_same_time(tmp_path: Path) -> None:
    """Whatever the number of threads, every partition gets what is its own."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(ss.KeyValue("counts", key=ss.utf8, value=ss.int64), partitions=20)
    tasks = [TaskId(0, partition) for partition in range(20)]
    with TaskManager(root, {0: ["counts"]}, backend="sqlite") as manager:
        manager.assign(tasks)
        for task_id in tasks:
            manager.task(task_id).store("counts").put("partition", task_id.partition)
            manager.task(task_id).commit()
    with TaskManager(
        root, {0: ["counts"]}, local_directory=tmp_path / "local", backend="rocksdb"
    ) as manager:
        manager.assign(tasks)
        found = {
            partition: store.get("partition")
            for partition, store in manager.local_stores("counts").items()
            if isinstance(store, ss.ReadOnlyKeyValueStore)
        }

    assert found == {partition: partition for partition in range(20)}


@pytest.mark.spec("TSK-6")
def test_one_damaged_task_does_not_take_the_others(root: ss.StateRoot) -> None:
    """The rest is opened, the error is raised, and assigning again goes on from there."""
    tasks = [TaskId(0, 0), TaskId(0, 1)]
    with TaskManager(root, GROUPS, backend="rocksdb") as manager:
        manager.assign(tasks)
        manager.task("0_1").store("counts").put("a", 1)
        manager.task("0_1").commit()
    (root.partition("counts", 1).path / "engine" / "CURRENT").write_bytes(b"nonsense")
    with TaskManager(root, GROUPS) as manager:
        with pytest.raises(StoreCorruptedError):
            manager.assign(tasks)
        assert list(manager.tasks) == [TaskId(0, 0)]
    with TaskManager(root, GROUPS, on_corruption="rebuild") as manager:
        manager.assign(tasks)
        assert manager.task("0_1").store("counts").get("a") == 1
        [damaged] = manager.orphans()
        assert damaged.reason == "damaged engine"
        assert damaged.bytes > 0


@pytest.mark.spec("TSK-9")
def test_clean_up_removes_engines_and_nothing_else(root: ss.StateRoot, tmp_path: Path) -> None:
    """Only engines that nobody is assigned and that can be restored; orphans are reported."""
    local = tmp_path / "local"
    with TaskManager(root, GROUPS, local_directory=local, backend="rocksdb") as manager:
        manager.assign([TaskId(0, 0), TaskId(0, 1)])
        for task in manager.tasks.values():
            task.store("counts").put("a", task.id.partition)
            task.commit()
        (local / "stranger").mkdir()
        (local / "counts" / "99").mkdir()
        assert [(each.path.name, each.reason) for each in manager.orphans()] == [
            ("99", "unknown partition"),
            ("stranger", "unknown store"),
        ]
        manager.assign([TaskId(0, 0)])
        assert manager.clean_up() == []  # written to a moment ago
        removed = manager.clean_up(older_than_ms=0)
        assert {(each.store, each.partition) for each in removed} == {("counts", 1), ("rates", 1)}
        assert set(LocalDirectory(local).engines()) == {("counts", 0), ("rates", 0)}
        assert (local / "stranger").is_dir()
        manager.assign([TaskId(0, 0), TaskId(0, 1)])
        assert manager.task("0_1").store("counts").get("a") == 1


@pytest.mark.spec("TSK-9")
def test_clean_up_keeps_the_only_copy(root: ss.StateRoot) -> None:
    """A plain store in a state root has no changelog: nobody could bring it back."""
    path = root.partition("names", 0).path
    specification = ss.KeyValue("names", key=ss.utf8, value=ss.utf8)
    with ss.open_store(path, specification, backend="sqlite") as names:
        names.put("a", "b")
        names.commit({})

    assert LocalDirectory(root.path).clean_up([], root, older_than_ms=0) == []
    with ss.open_store(path, specification) as names:
        assert names.get("a") == "b"


def test_assignments_that_cannot_be_are_refused(root: ss.StateRoot, tmp_path: Path) -> None:
    """Groups, tasks and standbys that contradict the state root or each other."""
    with pytest.raises(StoreNotFoundError, match="no store 'typo'"):
        TaskManager(root, {0: ["typo"]})
    with pytest.raises(InvalidArgumentError, match="differ in their partitions"):
        TaskManager(root, {0: ["counts", "names"]})
    groups: Any = {"first": ["counts"]}
    with pytest.raises(InvalidTypeError, match="a task's group must be an int"):
        TaskManager(root, groups)
    with pytest.raises(InvalidArgumentError, match="in two groups"):
        TaskManager(root, {0: ["counts"], 1: ["counts"]})
    with TaskManager(root, GROUPS, backend="memory") as manager:
        with pytest.raises(InvalidArgumentError, match="no task 0_3"):
            manager.assign([TaskId(0, 3)])
        with pytest.raises(InvalidArgumentError, match="local_directory"):
            manager.assign([], standby=[TaskId(0, 0)])
        with pytest.raises(UnknownStateStoreError, match="there are: counts, names, rates"):
            manager.local_stores("typo")
    with (
        TaskManager(root, GROUPS, local_directory=tmp_path, backend="memory") as manager,
        pytest.raises(InvalidArgumentError, match="active and as standby"),
    ):
        manager.assign([TaskId(0, 0)], [TaskId(0, 0)])


def test_a_task_held_elsewhere_is_named(root: ss.StateRoot) -> None:
    """The manager says who has the task; nothing of it is changed."""
    with (
        open_task(root, "0_0", GROUPS[0], backend="sqlite"),
        TaskManager(root, GROUPS) as manager,
        pytest.raises(ss.errors.StoreLockedError, match="in process"),
    ):
        manager.assign([TaskId(0, 0)])
