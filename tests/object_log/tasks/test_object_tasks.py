"""Tasks on a state root in an object store: one commit of all stores, and one owner that counts."""

from pathlib import Path
from typing import Any

import pytest
from object_tasks import INPUT, NAMES, numbers, opened, put, records, storage_of, two_stores

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
from statestores.storage import Found
from statestores.tasks import TaskManager, open_task
from statestores.tasks.objects import commit_steps, recovery


@pytest.fixture
def root(url: str) -> ss.StateRoot:
    """A state root with two stores that belong together."""
    return two_stores(url)


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
