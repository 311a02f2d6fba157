"""What logged stores, tasks, task managers and standbys measure."""

from collections.abc import Callable
from pathlib import Path

import pytest

import statestores as ss
from statestores.metrics import MetricSource
from statestores.tasks import RestoreProgress, TaskId, TaskManager, open_standby, open_task

Values = Callable[[MetricSource], dict[str, int | float]]

TASK = TaskId(0, 0)


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """A state root with one store of two partitions."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("counts", key=ss.utf8, value=ss.int64), partitions=2)
    return state


@pytest.mark.spec("MET-10")
def test_a_logged_store_measures_its_changelog(root: ss.StateRoot, values: Values) -> None:
    """Appends with their records and latency; and what opening had to restore."""
    with ss.open_logged_store(root, "counts", 1, backend="memory") as logged:
        opened = values(logged)
        logged.store.put_many(["a", "b"], [1, 2])
        logged.commit()
        logged.store.put("a", 3)
        logged.commit()
        measured = values(logged)
        tags = {metric.tags["partition"] for metric in logged.metrics()}

        assert measured["changelog-append-total"] == 2
        assert measured["commit-total"] - opened["commit-total"] == 2
        assert measured["changelog-records-total"] == 3
        assert measured["commit-latency-max"] >= measured["changelog-append-latency-max"] > 0
        assert measured["put-total"] == 3
        assert measured["restore-total"] == 0
        assert tags == {"1"}
    # The memory backend forgets, so everything has to be restored.
    with ss.open_logged_store(root, "counts", 1, backend="memory") as logged:
        restored = values(logged)

        assert restored["restore-total"] == 3
        assert restored["restore-remaining-records-total"] == 0
        assert restored["put-total"] == 0


@pytest.mark.spec("MET-10", "MET-2")
def test_a_task_tags_its_stores(root: ss.StateRoot) -> None:
    """A collector of many tasks tells them apart."""
    root.add_store(ss.KeyValue("names"), partitions=2)
    with open_task(root, "0_1", ["counts", "names"], backend="memory") as task:
        task.store("counts").put("a", 1)
        task.commit()
        metrics = task.metrics()
        identities = {(metric.name, *sorted(metric.tags.items())) for metric in metrics}

        assert {metric.tags["task-id"] for metric in metrics} == {"0_1"}
        assert {metric.tags["state-id"] for metric in metrics} == {"counts", "names"}
        assert len(identities) == len(metrics)


@pytest.mark.spec("MET-11")
def test_a_standby_tells_how_far_it_is(root: ss.StateRoot, tmp_path: Path, values: Values) -> None:
    """What it has taken, and what it has not."""
    with ss.open_logged_store(root, "counts", 0, backend="memory") as active:
        active.store.put_many(["a", "b"], [1, 2])
        active.commit()
        with open_standby(root, "counts", 0, tmp_path / "copy", backend="memory") as standby:
            behind = values(standby)
            standby.poll()
            polled = values(standby)
            active.store.put("c", 3)
            active.commit()
            behind_again = values(standby)
            assert {metric.tags["partition"] for metric in standby.metrics()} == {"0"}
        closed = standby.metrics()

    assert (behind["update-total"], behind["update-remaining-records-total"]) == (0, 2)
    assert (polled["update-total"], polled["update-remaining-records-total"]) == (2, 0)
    assert behind_again["update-remaining-records-total"] == 1
    assert polled["put-total"] == 0
    assert closed == ()


@pytest.mark.spec("MET-11", "MET-4", "MET-1")
def test_a_lag_that_cannot_be_read_is_left_out(
    root: ss.StateRoot, tmp_path: Path, values: Values
) -> None:
    """A damaged changelog is for `poll` to report; a collector goes on with the rest."""
    with ss.open_logged_store(root, "counts", 0, backend="memory") as active:
        active.store.put("a", 1)
        active.commit()
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="memory") as standby:
        standby.poll()
        for segment in root.partition("counts", 0).changelog.iterdir():
            segment.write_bytes(b"no changelog at all" * 10)
        measured = values(standby)

    assert measured["update-total"] == 1
    assert "update-remaining-records-total" not in measured


@pytest.mark.spec("MET-10", "MET-11", "MET-2")
def test_a_task_manager_has_them_all(root: ss.StateRoot, tmp_path: Path) -> None:
    """Tasks, standbys, and the restores that run, which a listener hears of as before."""
    with ss.open_logged_store(root, "counts", 0, backend="memory") as writer:
        writer.store.put_many(["a", "b"], [1, 2])
        writer.commit()
    told: list[RestoreProgress] = []
    during: list[dict[str, int | float]] = []

    def listen(progress: RestoreProgress) -> None:
        told.append(progress)
        during.append({metric.name: metric.value for metric in manager.metrics()})

    with TaskManager(
        root,
        {0: ["counts"]},
        local_directory=tmp_path / "local",
        backend="memory",
        listener=listen,
    ) as manager:
        manager.assign([TASK], [TaskId(0, 1)])
        metrics = manager.metrics()
        identities = {(metric.name, *sorted(metric.tags.items())) for metric in metrics}
        copies = {each.tags["task-id"] for each in metrics if each.name == "update-total"}
        restored = [each.value for each in metrics if each.name == "restore-total"]

        assert [progress.event for progress in told][0::2] == ["started", "ended"]
        assert [each.get("restore-total") for each in during] == [0, 2, None]
        assert during[1]["restore-remaining-records-total"] == 0
        assert copies == {"0_1"}
        assert restored == [2]
        assert len(identities) == len(metrics)
    assert manager.metrics() == ()


@pytest.mark.spec("MET-10")
def test_a_restore_that_failed_is_not_running(root: ss.StateRoot, tmp_path: Path) -> None:
    """It is over, however it ended."""

    def refuse(progress: RestoreProgress) -> None:
        raise KeyboardInterrupt

    with TaskManager(
        root, {0: ["counts"]}, local_directory=tmp_path, backend="memory", listener=refuse
    ) as manager:
        with pytest.raises(KeyboardInterrupt):
            manager.assign([TASK])

        assert manager.metrics() == ()
