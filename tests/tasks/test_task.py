"""A task commits its stores as one, and a crash in between leaves none or all of it."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from forked_programs import run

import statestores as ss
from statestores import failpoints
from statestores.errors import (
    CommitConflictError,
    InvalidArgumentError,
    StorageError,
    StoreClosedError,
    StoreCorruptedError,
    StoreLockedError,
    StoreNotFoundError,
)
from statestores.migration import write_legacy_offsets
from statestores.tasks import RestoreProgress, TaskId, open_task

INPUT = ss.TopicPartition("words", 0)
NAMES = ("counts", "rates")
BACKENDS = ["rocksdb", "leveldb", "sqlite"]

# Puts the number into both stores, and dies at the n-th time that a failpoint is reached.
WRITER = """
import os, signal, sys
import statestores as ss
from statestores import failpoints
from statestores.tasks import open_task

root, backend, name, at = sys.argv[1:]
part = ss.TopicPartition("words", 0)
with open_task(root, "0_0", ("counts", "rates"), backend=backend) as task:
    if name != "-":
        failpoints.arm(name, lambda: os.kill(os.getpid(), signal.SIGKILL), at=int(at))
    first = task.position.get(part, -1) + 1
    for number in range(first, first + 4):
        task.store("counts").put("number", number)
        task.store("rates").put("number", number, timestamp_ms=number)
        task.commit({part: number})
        print(number, flush=True)
"""


@pytest.mark.spec("TSK-1", "TSK-3")
@pytest.mark.parametrize("backend", BACKENDS)
def test_stores_of_a_task_commit_together(root: ss.StateRoot, backend: str) -> None:
    """One commit, one position, whichever stores have written."""
    with open_task(root, TaskId(0, 0), NAMES, backend=backend) as task:
        task.store("counts").put("a", 1)
        task.store("rates").put("a", 10, timestamp_ms=5)
        task.commit({INPUT: 7})
        task.store("counts").put("a", 2)
        task.commit({INPUT: 8})
        task.commit({INPUT: 9})
        task.store("counts").put("lost", 1)
        task.store("rates").put("lost", 1, timestamp_ms=6)

    with open_task(root, "0_0", NAMES) as task:
        assert task.position == {INPUT: 9}
        assert dict(task.store("counts").range()) == {"a": 2}
        assert task.store("rates").get("a").value == 10
        assert task.store("rates").get("lost") is None


@pytest.mark.spec("TSK-3")
def test_a_kill_at_any_step_leaves_a_commit_of_all_stores(
    root_in: Callable[[Path], ss.StateRoot], tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Killed at each step of a commit: both stores have the number that the position says."""
    for name in (
        "task.record-written",
        "task.recording",
        "task.recorded",
        "logged.appended",
        "changelog.append.before",
        "changelog.append.written",
        "changelog.append.durable",
        "commit.apply.before",
        "commit.apply.after",
        "task.carried-out",
        "task.forgotten",
        "task.noting",
    ):
        root = root_in(tmp_path / name)
        for at in ("1",) if name == "task.noting" else ("1", "4"):
            with subtests.test(name, at=at):
                check_after_kill(root, name, at)


def check_after_kill(root: ss.StateRoot, name: str, at: str) -> None:
    """Kill the writer at the failpoint *name*, and look at what it has left."""
    killed = run(WRITER, root.path, "rocksdb", name, at)
    assert killed.returncode == -signal.SIGKILL
    acknowledged = [int(line) for line in killed.stdout.split()]
    with open_task(root, "0_0", NAMES) as task:
        reached = task.position.get(INPUT, -1)
        found = task.store("counts").get("number")
        record = task.store("rates").get("number")

        assert reached >= max(acknowledged, default=-1)
        assert found == (None if reached < 0 else reached)
        assert (record and record.value) == found
        ends = {store.changelog.end_offset for store in task.stores.values()}
        assert ends == {reached + 1}


@pytest.mark.spec("TSK-3")
def test_after_a_commit_that_stopped_halfway_the_task_is_opened_again(root: ss.StateRoot) -> None:
    """What is recorded is committed: it can be neither extended nor taken back."""
    with open_task(root, "0_0", NAMES, backend="rocksdb") as task:
        task.store("counts").put("a", 1)
        task.store("rates").put("a", 1, timestamp_ms=1)

        def fail() -> None:
            raise OSError(5, "Input/output error")

        failpoints.arm("task.recorded", fail)
        try:
            with pytest.raises(OSError, match="Input/output"):
                task.commit({INPUT: 1})
        finally:
            failpoints.disarm()
        with pytest.raises(CommitConflictError, match="open it again"):
            task.commit({INPUT: 2})

    with open_task(root, "0_0", NAMES) as task:
        assert task.position == {INPUT: 1}
        assert task.store("counts").get("a") == 1
        assert task.store("rates").get("a").value == 1


@pytest.mark.spec("TSK-3", "COM-43")
def test_a_commit_that_lost_its_record_when_it_was_done_cannot_be_rolled_back(
    root: ss.StateRoot,
) -> None:
    """The removal of the record failed; who rolled back then, and did it again, had it twice."""
    with open_task(root, "0_0", NAMES, backend="sqlite") as task:
        task.store("counts").put("a", 1)
        task.store("rates").put("a", 1, timestamp_ms=1)

        def fail() -> None:
            raise OSError(5, "Input/output error")

        failpoints.arm("task.forgotten", fail)
        try:
            with pytest.raises(StorageError, match=r"cannot remove '.*commit': Input/output"):
                task.commit({INPUT: 1})
        finally:
            failpoints.disarm()
        with pytest.raises(CommitConflictError, match="open it again"):
            task.rollback()

    with open_task(root, "0_0", NAMES) as task:
        assert task.next_offset(INPUT) == 2
        assert task.store("counts").get("a") == 1


@pytest.mark.spec("TSK-3")
def test_what_a_half_rollback_leaves_is_not_committed(root: ss.StateRoot) -> None:
    """One store could not be rolled back, when another had been: the next commit had a part.

    The engine of ``rates`` had failed after its changelog had the commit. Then both were written.
    `rollback` forgot what ``counts`` had, met the error of ``rates``, and said to commit again.
    """
    with open_task(root, "0_0", NAMES, backend="sqlite") as task:
        task.store("rates").put("a", 1, timestamp_ms=1)

        def fail() -> None:
            raise OSError(5, "Input/output error")

        failpoints.arm("logged.appended", fail)
        try:
            with pytest.raises(OSError, match="Input/output"):
                task.commit({INPUT: 1})
        finally:
            failpoints.disarm()
        task.store("counts").put("a", 2)
        task.store("rates").put("a", 2, timestamp_ms=2)
        with pytest.raises(CommitConflictError):
            task.rollback()
        with pytest.raises(CommitConflictError, match="close the task and open it again"):
            task.commit({INPUT: 2})

    with open_task(root, "0_0", NAMES) as task:
        assert task.next_offset(INPUT) == 2
        assert task.store("counts").get("a") is None
        assert task.store("rates").get("a").value == 1


@pytest.mark.spec("TSK-3")
def test_a_record_that_contradicts_a_changelog_is_refused(root: ss.StateRoot) -> None:
    """A changelog that has lost what came before a recorded commit is not silently continued."""
    run(WRITER, root.path, "rocksdb", "task.recorded", 3)
    [segment] = root.partition("rates", 0).changelog.glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-8])  # the last frame is torn

    with pytest.raises(StoreCorruptedError, match=r"'rates' up to offset 1 .* ends before 1"):
        open_task(root, "0_0", NAMES)
    (root.path / "@tasks" / "0_0.ends").unlink()  # the record says it too
    with pytest.raises(StoreCorruptedError, match="'rates' ends before 1"):
        open_task(root, "0_0", NAMES)


@pytest.mark.spec("TSK-3")
def test_a_writer_that_passed_the_task_by_is_noticed(root: ss.StateRoot) -> None:
    """Offsets alone would say that the recorded commit was carried out, and it would be lost."""
    run(WRITER, root.path, "rocksdb", "task.recorded", 1)
    record = root.path / "@tasks" / "0_0" / "commit"
    record.rename(record.with_name("hidden"))  # an earlier release does not ask for it (TSK-24)
    with ss.open_logged_store(root, "counts", 0) as counts:
        counts.store.put("stranger", 1)
        counts.commit()
    record.with_name("hidden").rename(record)

    with pytest.raises(StoreCorruptedError, match="another program has written"):
        open_task(root, "0_0", NAMES)


@pytest.mark.spec("TSK-2")
def test_a_task_has_one_owner(root: ss.StateRoot) -> None:
    """The second one is told who has it; other tasks are free."""
    with open_task(root, "0_0", NAMES, backend="sqlite"):
        with pytest.raises(StoreLockedError, match="in process"):
            open_task(root, "0_0", NAMES)
        with open_task(root, "0_1", NAMES, backend="sqlite"):
            pass
    with open_task(root, "0_0", NAMES):
        pass


@pytest.mark.spec("TSK-4")
def test_damage_is_reported_and_never_wiped_without_a_word(root: ss.StateRoot) -> None:
    """By default opening fails; with ``rebuild`` the damaged files are kept beside the new ones."""
    with open_task(root, "0_0", NAMES, backend="rocksdb") as task:
        task.store("counts").put("a", 1)
        task.store("rates").put("a", 1, timestamp_ms=1)
        task.commit({INPUT: 1})
    engine = root.partition("counts", 0).path / "engine"
    (engine / "CURRENT").write_bytes(b"nonsense")
    before = {path.name for path in engine.iterdir()}

    with pytest.raises(StoreCorruptedError):
        open_task(root, "0_0", NAMES)
    assert before <= {path.name for path in engine.iterdir()}
    assert (engine / "CURRENT").read_bytes() == b"nonsense"

    with open_task(root, "0_0", NAMES, on_corruption="rebuild") as task:
        [rebuild] = task.rebuilds
        assert rebuild.store == "counts"
        assert (rebuild.kept_at / "CURRENT").read_bytes() == b"nonsense"
        assert dict(task.store("counts").range()) == {"a": 1}
        assert task.position == {INPUT: 1}


@pytest.mark.spec("TSK-4")
def test_the_only_copy_is_not_set_aside(root: ss.StateRoot) -> None:
    """A damaged engine that nothing could replace stays where it is, and the error says so."""
    with open_task(root, "0_0", ["counts"], backend="rocksdb") as task:
        task.store("counts").put("a", 1)
        task.commit()
        task.store("counts").put("b", 1)
        task.commit()
        log = task.stores["counts"].changelog
        assert isinstance(log, ss.changelog.FileChangelog)
        log.seal()
        assert log.delete_before(2) == 2
    engine = root.partition("counts", 0).path / "engine"
    (engine / "CURRENT").write_bytes(b"nonsense")

    with pytest.raises(StoreCorruptedError, match="cannot be rebuilt, since its changelog begins"):
        open_task(root, "0_0", ["counts"], on_corruption="rebuild")
    assert engine.is_dir()


@pytest.mark.spec("TSK-5")
def test_a_lost_local_disk_is_restored(root: ss.StateRoot, tmp_path: Path) -> None:
    """Engines on a local disk are a copy; snapshot and changelog in the root are the state."""
    told: list[RestoreProgress] = []
    with open_task(root, "0_2", NAMES, local_directory=tmp_path / "one", backend="rocksdb") as task:
        for number in range(100):
            task.store("counts").put(f"{number}", number)
        task.commit({INPUT: 99})
        assert task.snapshot() == {"counts": 99}
        task.store("counts").put("after", 1)
        task.commit({INPUT: 100})

    with open_task(
        root,
        "0_2",
        NAMES,
        local_directory=tmp_path / "two",
        backend="sqlite",
        listener=told.append,
    ) as task:
        assert task.store("counts").approximate_num_entries() == 101
        assert task.position == {INPUT: 100}
        assert task.stores["counts"].restored.snapshot_offset == 99

    events = [(each.store, each.event) for each in told]
    assert events[0] == ("counts", "started")
    assert events[-1] == ("rates", "ended")
    [ended] = [each for each in told if each.store == "counts" and each.event == "ended"]
    assert ended.rows == 101
    assert ended.total_rows == 101
    assert ended.remaining_seconds == 0


@pytest.mark.spec("TSK-15")
@pytest.mark.parametrize("gone", ["rates", "counts"])
def test_a_store_that_has_gone_is_not_begun_anew(root: ss.StateRoot, gone: str) -> None:
    """A store's directory was left out of a copy: it began empty behind the task's position."""
    killed = run(WRITER, root.path, "sqlite", "task.noting", "1")
    assert killed.returncode == -signal.SIGKILL
    with open_task(root, "0_0", NAMES):
        pass  # notes what the kill has kept from being noted
    lost = root.partition(gone, 0).path
    lost.rename(root.path / "elsewhere")

    for _ in range(2):
        with pytest.raises(StoreCorruptedError, match=f"0_0 has written '{gone}'.*partition 0"):
            open_task(root, "0_0", NAMES)
        shutil.rmtree(lost, ignore_errors=True)
        lost.mkdir()  # an empty one, as a disk that is not mounted leaves it
    lost.rmdir()
    (root.path / "elsewhere").rename(lost)
    with open_task(root, "0_0", NAMES) as task:
        assert task.store("counts").get("number") == task.store("rates").get("number").value == 0


@pytest.mark.spec("TSK-15")
def test_a_store_that_is_new_to_a_task_is_begun(root: ss.StateRoot) -> None:
    """So is one that has had no commit; a note that cannot be read is an error that names it."""
    with open_task(root, "0_0", ["counts"]) as task:
        task.store("counts").put("a", 1)
        task.commit({INPUT: 1})
    with open_task(root, "0_0", NAMES) as task:
        task.store("rates").put("a", 1, timestamp_ms=1)
    shutil.rmtree(root.home("rates"))  # with the note that there was one (LAY-35)
    with open_task(root, "0_0", NAMES) as task:
        assert task.store("counts").get("a") == 1
    (root.path / "@tasks" / "0_0" / "written.json").write_text("{")

    with pytest.raises(StoreCorruptedError, match=r"written\.json"):
        open_task(root, "0_0", NAMES)


@pytest.mark.spec("MIG-3", "TSK-1")
def test_legacy_offsets_are_moved_into_the_store_at_the_first_opening(root: ss.StateRoot) -> None:
    """A store of the older layout continues from its ``.checkpoint``, and replays nothing twice.

    Beside an engine that is gone the file speaks of rows that are gone, and is not believed.
    """
    logged = ss.TopicPartition("counts-changelog", 0)
    with open_task(root, "0_0", ["counts"], backend="rocksdb") as task:
        task.store("counts").put("a", 1)
        task.commit({INPUT: 1})
    directory = root.partition("counts", 0).path
    with ss.open_store(directory, root.store("counts").specification) as counts:
        write_legacy_offsets(counts, directory, [logged])
        counts.clear_offsets()

    with open_task(root, "0_0", ["counts"]) as task:
        assert task.stores["counts"].restored.changelog_rows == 0
        assert task.position == {INPUT: 1}
    assert not (directory / ".checkpoint").exists()

    (directory / ".checkpoint").write_text("0\n1\ncounts-changelog 0 0\n")
    shutil.rmtree(directory / "engine")
    (directory / "engine.json").unlink()
    with open_task(root, "0_0", ["counts"], backend="sqlite") as task:
        assert task.stores["counts"].restored.changelog_rows == 1
        assert task.store("counts").get("a") == 1


def test_bad_arguments_are_refused_before_anything_is_opened(root: ss.StateRoot) -> None:
    """Unknown stores and partitions, no stores, unknown policies."""
    with pytest.raises(InvalidArgumentError, match="at least one"):
        open_task(root, "0_0", [])
    with pytest.raises(StoreNotFoundError, match="no store 'typo'"):
        open_task(root, "0_0", ["typo"])
    with pytest.raises(InvalidArgumentError, match="partitions 0 to 2"):
        open_task(root, "0_3", ["counts"])
    with pytest.raises(InvalidArgumentError, match="'fail' or 'rebuild'"):
        open_task(root, "0_0", ["counts"], on_corruption="wipe")  # type: ignore[arg-type]  # on purpose
    assert not (root.path / "@tasks").exists()


@pytest.mark.spec("TSK-3", "LGS-13")
def test_a_position_does_not_name_the_changelog_of_a_store(root: ss.StateRoot) -> None:
    """Of any store of the task, also one that this commit does not write to; it stays pending."""
    with open_task(root, "0_0", NAMES, backend="memory") as task:
        task.store("counts").put("a", 1)
        rates = task.stores["rates"].changelog_partition
        with pytest.raises(InvalidArgumentError, match="a position names what the task reads"):
            task.commit({INPUT: 0, rates: 7})
        assert task.next_offset(INPUT) == 0
        task.commit({INPUT: 0})
        assert task.next_offset(INPUT) == 1


def test_a_closed_task_says_so(root: ss.StateRoot) -> None:
    """Every call that needs the stores is refused; closing again is fine."""
    task = open_task(root, "0_0", ["counts"], backend="memory")
    task.close()
    task.close()

    # Of the task, and not of the first of its stores: that is what has to be opened again.
    for call in (task.commit, task.lags, lambda: task.next_offset(INPUT)):
        with pytest.raises(StoreClosedError, match="the task 0_0 is closed; open it again"):
            call()
    with pytest.raises(StoreNotFoundError, match="it has: counts"):
        task.store("rates")
