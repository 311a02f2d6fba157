"""What a task's opening leaves behind when it fails, and what a damaged engine is replaced by."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import statestores as ss
from statestores import failpoints
from statestores.arrow.progress import Progress
from statestores.changelog import FileChangelog, change_schema
from statestores.errors import (
    MalformedCheckpointError,
    StorageError,
    StoreCorruptedError,
    StoreLockedError,
    StoreMismatchError,
)
from statestores.serdes.rows import row
from statestores.staging.staged_write import publish, stage
from statestores.tasks import (
    LATEST_OFFSET,
    RestoreProgress,
    TaskId,
    open_task,
    rebuilding,
    restore_progress,
)
from statestores.tasks.rebuilding import missing_for_restore
from statestores_conformance.many_cases import for_each

INPUT = ss.TopicPartition("words", 0)
NAMES = ("counts", "rates")


def _commit(root: ss.StateRoot, *numbers: int) -> None:
    with open_task(root, "0_0", ["counts"], backend="sqlite") as task:
        for number in numbers:
            task.store("counts").put(f"{number}", number)
            task.commit({INPUT: number})


@pytest.mark.spec("TSK-1")
def test_an_opening_that_fails_leaves_no_engine_open(root: ss.StateRoot) -> None:
    """It stayed locked until the process ended: trying again said that somebody has the store."""
    _commit(root, 1)
    partition = root.partition("counts", 0)
    failures: list[BaseException] = []  # what is in their frames is not let go of
    with FileChangelog.open(partition.changelog, "key-value"):
        with pytest.raises(StoreLockedError) as locked:
            open_task(root, "0_0", ["counts"])
        failures.append(locked.value)
    (partition.path / ".checkpoint").write_text("no checkpoint")
    with pytest.raises(MalformedCheckpointError) as malformed:
        open_task(root, "0_0", ["counts"])
    failures.append(malformed.value)
    (partition.path / ".checkpoint").unlink()

    with open_task(root, "0_0", ["counts"]) as task:
        assert task.next_offset(INPUT) == 2
    assert len(failures) == 2


@pytest.mark.spec("TSK-1")
def test_a_task_has_what_a_job_has_committed(root: ss.StateRoot) -> None:
    """Also where the job has died behind its commit: it is finished, and not in the way."""

    def die() -> None:
        raise KeyboardInterrupt

    _commit(root, 1)
    specification = root.store("counts").specification
    written = {"key": b"1", "value": ss.int64.encode(2)}
    change = pa.RecordBatch.from_pylist([written], change_schema(specification.kind))
    staged = stage(root.path, specification, 3, "w", "t", [change], partition=0)
    failpoints.arm("publish.committed", die)
    try:
        with pytest.raises(KeyboardInterrupt):
            publish(root, "counts", "w", [staged])
    finally:
        failpoints.disarm()

    with open_task(root, "0_0", ["counts"]) as task:
        assert task.store("counts").get("1") == 2


@pytest.mark.spec("TSK-4")
def test_what_a_snapshot_and_the_changelog_have_together_is_restored(root: ss.StateRoot) -> None:
    """A changelog that begins right behind a snapshot is enough; one that begins later is not."""
    with open_task(root, "0_0", ["counts"], backend="sqlite") as task:
        counts = task.logged_store("counts")
        log = counts.changelog
        assert isinstance(log, FileChangelog)
        for number in range(3):
            counts.store.put(f"{number}", number)
            task.commit({INPUT: number})
            log.seal()
        partition, specification = root.partition("counts", 0), root.store("counts").specification
        assert missing_for_restore(partition, specification) is None
        for begins in (1, 2):  # one change that has gone is enough to lack
            log.delete_before(begins)
            lacking = missing_for_restore(partition, specification)
            assert lacking is not None
            words = f"begins at offset {begins}, and no valid snapshot has what was before"
            assert lacking.endswith(words)
        counts.snapshot()
        [newest] = partition.snapshots.iterdir()
        assert missing_for_restore(partition, specification) is None
        (newest / "manifest.json").write_text("{")
        lacking = missing_for_restore(partition, specification)
        assert lacking is not None
        assert "before; " in lacking
        assert newest.name in lacking


@pytest.mark.spec("TSK-4")
@pytest.mark.parametrize(("begins", "is_enough"), [(2, True), (3, False)])
def test_a_snapshot_reaches_the_offset_before_the_first(
    root: ss.StateRoot, begins: int, *, is_enough: bool
) -> None:
    """The snapshot at offset 1 has what was before offset 2."""
    with open_task(root, "0_0", ["counts"], backend="sqlite") as task:
        counts = task.logged_store("counts")
        log = counts.changelog
        assert isinstance(log, FileChangelog)
        for number in range(4):
            counts.store.put(f"{number}", number)
            task.commit({INPUT: number})
            if number == 1:
                counts.snapshot()
            log.seal()
        log.delete_before(begins)
        lacking = missing_for_restore(
            root.partition("counts", 0), root.store("counts").specification
        )

        assert log.first_offset == begins
        assert (lacking is None) is is_enough


@pytest.mark.spec("TSK-4")
def test_a_damaged_engine_that_cannot_be_set_aside_is_named(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails: no new engine is made, and the next opening finds the damage kept."""
    _commit(root, 1)
    partition = root.partition("counts", 0)
    [database] = (partition.path / "engine").glob("*.db")
    database.write_bytes(b"no database at all" * 1_000)

    def fail(directory: Path) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(rebuilding, "make_durable", fail)
        with pytest.raises(StorageError, match=r"cannot set aside '.*engine': Input/output error"):
            open_task(root, "0_0", ["counts"], on_corruption="rebuild")
    with open_task(root, "0_0", ["counts"], on_corruption="rebuild") as task:
        assert task.store("counts").get("1") == 1

    assert len(list(partition.path.glob("engine.damaged-*"))) == 1


@pytest.mark.spec("TSK-3")
def test_a_rollback_that_has_forgotten_nothing_keeps_no_commit_back(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk failed for a moment, before the first store: all of them have their writes still."""
    with open_task(root, "0_0", NAMES, backend="memory") as task:
        task.store("counts").put("a", 1)
        task.store("rates").put("a", 1, timestamp_ms=1)

        def fail() -> None:
            raise StorageError("not now")

        with monkeypatch.context() as patched:
            patched.setattr(task.logged_store("counts").store, "rollback", fail)
            with pytest.raises(StorageError, match="not now"):
                task.rollback()
        task.commit({INPUT: 1})

        assert task.next_offset(INPUT) == 2
        assert task.store("rates").get("a").value == 1


def test_a_task_says_what_it_is(root: ss.StateRoot) -> None:
    """Its stores by their specifications, and whether it is closed."""
    task = open_task(root, "0_2", NAMES, backend="memory")
    counts = task.store(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))
    counts.put("a", 1)
    assert counts.get("a") == 1
    for other in (
        ss.KeyValue("rates", key=ss.utf8, value=ss.int64),
        ss.Versioned("rates", history_retention_ms=7, key=ss.utf8, value=ss.int64),
    ):
        with pytest.raises(StoreMismatchError, match="'rates'"):
            task.store(other)
    assert repr(task) == "<task 0_2, stores: counts, rates>"
    assert (task.id, task.offset_sum) == (TaskId(0, 2), LATEST_OFFSET)
    assert task.rebuilds == ()  # nothing was damaged
    task.close()

    assert repr(task) == "<task 0_2, stores: counts, rates, closed>"


@pytest.mark.spec("SRD-40")
def test_a_store_that_is_open_goes_on_with_the_schema_that_it_has(root: ss.StateRoot) -> None:
    """A later one would read its rows; what is put would lose the new fields, or be refused."""
    old, new = row("a: int64"), row("a: int64, b: int8")
    root.add_store(ss.KeyValue("rows", key=ss.utf8, value=old), partitions=1)
    with open_task(root, "0_0", ["rows"], backend="memory") as task:
        task.store(ss.KeyValue("rows", key=ss.utf8, value=old)).put("a", {"a": 1})
        with pytest.raises(StoreMismatchError, match="'rows' differs from its specification"):
            task.store(ss.KeyValue("rows", key=ss.utf8, value=new))


def _progress(**how: Any) -> RestoreProgress:
    given: dict[str, Any] = {"rows": 10, "bytes": 100, "total_rows": 30, "seconds": 2.0, **how}
    return RestoreProgress(task=TaskId(0, 0), store="counts", **{"event": "restored", **given})


@for_each(
    ("how", "speed", "remaining_s"),
    [
        ({}, 5.0, 4.0),
        ({"total_rows": None}, 5.0, None),
        ({"rows": 0}, None, None),
        ({"seconds": 0.0}, None, None),  # of a clock that does not go on
        ({"rows": 40}, 20.0, 0.0),  # more than were expected
        ({"rows": 30}, 15.0, 0.0),
    ],
)
def test_what_remains_of_a_restore_is_told_once_it_is_known(
    how: dict[str, Any], speed: float | None, remaining_s: float | None
) -> None:
    """From the mean speed so far, and never less than nothing."""
    progress = _progress(**how)

    assert (progress.rows_per_second, progress.remaining_seconds) == (speed, remaining_s)


@pytest.mark.spec("TSK-6")
def test_a_restore_is_told_from_its_start_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first batch it has nothing, and nobody knows how much there is."""
    clock = iter([100.0, 100.0, 102.5, 104.0])
    monkeypatch.setattr(restore_progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    told: list[RestoreProgress] = []
    reporter = restore_progress.RestoreReporter(told.append, TaskId(0, 0), "counts")
    reporter.start()
    reporter(Progress(rows=10, bytes=100, total_rows=30, offset=9))
    reporter.end()

    nothing = _progress(event="started", rows=0, bytes=0, total_rows=None, seconds=0.0)
    batch = _progress(seconds=2.5, offset=9)
    assert told == [nothing, batch, replace(batch, event="ended", seconds=4.0)]


@pytest.mark.spec("TSK-10")
def test_a_record_that_is_a_directory_without_its_file_is_damage(root: ss.StateRoot) -> None:
    """As a copy leaves it that was stopped."""
    _commit(root, 1)
    (root.path / "@tasks" / "0_0" / "commit").mkdir()

    with pytest.raises(StoreCorruptedError, match=r"it has no commit\.json"):
        open_task(root, "0_0", ["counts"])
