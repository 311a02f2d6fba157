"""Records of a task's commits in an object store: which count, and what contradicts them."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from object_tasks import (
    INPUT,
    NAMES,
    half_a_commit,
    numbers_alike,
    opened_alike,
    put_alike,
    records,
    two_alike,
)

import statestores as ss
from statestores import failpoints
from statestores.errors import (
    CommitConflictError,
    CommitInDoubtError,
    FencedError,
    InvalidTypeError,
    StorageError,
    StoreCorruptedError,
    UnsupportedFormatError,
)
from statestores.object_log.requests import Create
from statestores.storage import Found, Outcome
from statestores.tasks.commits.record_file import pack_record, unpack_record
from statestores.tasks.objects import object_commits, recovery
from statestores.tasks.objects.commit_object import unpack_commit
from statestores.tasks.objects.commit_steps import has_counted, note_written
from statestores.tasks.objects.object_commits import object_changelog
from statestores.tasks.objects.task_names import RecordName, TaskNames
from statestores_conformance.many_cases import for_each

TASK = TaskNames("0_0", "memory://tests")


@pytest.fixture
def root(url: str) -> ss.StateRoot:
    """A state root with two stores that belong together."""
    return two_alike(url)


def _part(closed: list[tuple[int, int]], closed_from: int) -> Any:
    return SimpleNamespace(closed=closed, closed_from=closed_from)


@pytest.mark.spec("TSK-18")
@for_each(
    ("grant", "number", "expected"),
    [
        (5, 0, True),
        (5, 1, True),
        (5, 2, False),  # a grant of two entries, 0 and 1
        (7, 0, False),  # one that has made none
        (6, 0, False),  # not among those that have ended, and they are known from 4 on
        (4, 0, False),
        (3, 0, None),  # before all that is known
    ],
)
def test_a_record_counts_if_its_entry_was_made(
    grant: int, number: int, *, expected: bool | None
) -> None:
    """Under a grant that has ended; of one that is forgotten nobody can tell."""
    part = _part([(5, 2), (7, 0)], 4)

    assert has_counted(part, RecordName("counts", "log", grant, number)) is expected


@pytest.mark.spec("TSK-18")
def test_a_record_of_which_nobody_can_tell_is_left(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first store was taken over many times by others: to guess would lose it, or make it."""
    name = half_a_commit(root, tmp_path / "a")
    with monkeypatch.context() as patched:
        patched.setattr(recovery, "has_counted", lambda part, record: None)
        with pytest.raises(CommitInDoubtError, match="nobody can tell any more whether the commit"):
            opened_alike(root, tmp_path / "b")
    assert records(root) == [name]
    with opened_alike(root, tmp_path / "b") as task:
        assert numbers_alike(task) == [1, 1]


@pytest.mark.spec("TSK-18", "TSK-19")
def test_a_record_of_a_log_that_is_gone_is_refused(root: ss.StateRoot, tmp_path: Path) -> None:
    """The store was begun anew: what the record has of others belongs to what is no more."""
    with opened_alike(root, tmp_path / "a") as task:
        put_alike(task, 1)
    assert root.storage is not None
    root.storage.create(TASK.record(RecordName("counts", "another", 1, 0)), b"of no use")

    with pytest.raises(StoreCorruptedError, match="is of another changelog of 'counts' than the"):
        opened_alike(root, tmp_path / "b")


@pytest.mark.spec("TSK-18")
def test_a_record_is_of_the_entry_that_it_is_named_by(root: ss.StateRoot, tmp_path: Path) -> None:
    """Copied to another name it would be a commit of another store."""
    name = half_a_commit(root, tmp_path / "a")
    assert root.storage is not None
    found = root.storage.read(name)
    assert isinstance(found, Found)
    assert list(unpack_commit(found.data, name, "counts", root).parts) == ["rates"]

    with pytest.raises(StoreCorruptedError, match="not of the entry that it is named by"):
        unpack_commit(found.data, name, "rates", root)


def _log(end: int) -> Any:
    return SimpleNamespace(log_id="log", end_offset=end, partition=0)


@pytest.mark.spec("TSK-18")
def test_a_changelog_that_ends_before_the_record_is_not_continued(root: ss.StateRoot) -> None:
    """It has lost its end; of the other stores nothing is appended either."""
    appended: list[object] = []
    logs = {"counts": _log(3), "rates": _log(2)}
    for log in logs.values():
        log.append_batch = lambda *given, **named: appended.append(given)
    parts = {name: SimpleNamespace(base_offset=3, frame=None) for name in NAMES}
    recorded: Any = SimpleNamespace(parts=parts, logs=dict.fromkeys(NAMES, "log"))

    with pytest.raises(
        StoreCorruptedError, match=r"'rates' ends before 2, .* it at 3: it has lost"
    ):
        recovery._carry_out(TASK, "shown", recorded, logs)
    assert appended == []


@pytest.mark.spec("TSK-19")
def test_a_store_that_was_written_and_is_empty_has_gone(root: ss.StateRoot) -> None:
    """Also where its log has the id that it had."""
    recovery._check_there(TASK, "rates", "log", _log(1))
    recovery._check_there(TASK, "rates", "log", None)  # not opened here

    for log_id, end in (("log", 0), ("another", 1)):
        with pytest.raises(StoreCorruptedError, match="0_0 has written 'rates', of which"):
            recovery._check_there(TASK, "rates", log_id, _log(end))


@pytest.mark.spec("TSK-18")
def test_a_stranger_whose_changes_begin_as_the_recorded_ones_is_noticed(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """Its commit was taken for the recorded one, since as many changes of it were the same."""
    half_a_commit(root, tmp_path / "a")
    with ss.open_logged_store(
        root, "rates", 0, directory=tmp_path / "alone", backend="memory"
    ) as rates:
        rates.store.put("number", 1)
        rates.store.put("stranger", 1)
        rates.commit()

    with pytest.raises(StoreCorruptedError, match="another program has opened the store by itself"):
        opened_alike(root, tmp_path / "b")


@pytest.mark.spec("TSK-18")
@pytest.mark.parametrize("fold", [True, False])
def test_a_commit_that_a_store_has_is_ended_once(
    root: ss.StateRoot, tmp_path: Path, *, fold: bool
) -> None:
    """Its part is found again, also where the log was folded meanwhile; the record is forgotten."""

    def die() -> None:
        raise OSError(5, "Input/output error")

    with opened_alike(root, tmp_path / "a") as task:
        failpoints.arm("task.carried-out", die)
        with pytest.raises(OSError, match="Input/output"):
            put_alike(task, 1)
        failpoints.disarm()
    if fold:
        root.object_log("rates").fold()
    assert len(records(root)) == 1
    with opened_alike(root, tmp_path / "b") as task:
        assert numbers_alike(task) == [1, 1]
        assert [task.logged_store(name).changelog.end_offset for name in NAMES] == [1, 1]

    assert records(root) == []


@pytest.mark.spec("TSK-18", "TSK-3")
def test_after_an_interrupt_when_its_record_was_gone_a_commit_cannot_be_rolled_back(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """Both stores have it, and nothing but them says so: a rollback would have it made twice."""

    def interrupt() -> None:
        assert records(root) == []
        raise KeyboardInterrupt

    with opened_alike(root, tmp_path / "a") as task:
        failpoints.arm("task.forgotten", interrupt)
        with pytest.raises(KeyboardInterrupt):
            put_alike(task, 1)
        failpoints.disarm()
        for attempt in (task.rollback, task.commit):
            with pytest.raises(CommitConflictError, match="close the task and open it again"):
                attempt()
    with opened_alike(root, tmp_path / "b") as task:
        assert numbers_alike(task) == [1, 1]
        assert [task.logged_store(name).changelog.end_offset for name in NAMES] == [1, 1]


@pytest.mark.spec("TSK-18")
def test_a_commit_that_failed_before_its_record_was_put_can_be_rolled_back(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """Nothing of it is in the object store; the first commit of an opening, and a later one."""

    def fail() -> None:
        raise OSError(5, "Input/output error")

    with opened_alike(root, tmp_path / "a") as task:
        for number in (1, 2):
            failpoints.arm("task.recording", fail)
            with pytest.raises(OSError, match="Input/output"):
                put_alike(task, 10 + number)
            failpoints.disarm()
            task.rollback()
            put_alike(task, number * 20)
            assert numbers_alike(task) == [number * 20, number * 20]
    assert records(root) == []


@pytest.mark.spec("TSK-18", "TSK-19")
def test_a_record_of_a_later_format_or_with_more_in_it_is_not_carried_out(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """Its checksum is right: of what this release does not understand it would make the rest."""
    name = half_a_commit(root, tmp_path / "a")
    assert root.storage is not None
    found = root.storage.read(name)
    assert isinstance(found, Found)
    record = unpack_record(found.data, "here")
    part = found.data[record.parts_at :]
    assert unpack_commit(found.data, "here", "counts", root).first_offset == 0
    later = pack_record({**record.content, "format": 2}, [part])
    with pytest.raises(UnsupportedFormatError, match="format 2"):
        unpack_commit(later, "here", "counts", root)
    longer = pack_record(record.content, [part, b"more"])
    with pytest.raises(StoreCorruptedError, match="its parts end at byte"):
        unpack_commit(longer, "here", "counts", root)


@pytest.mark.spec("TSK-18", "OBJ-5")
def test_a_commit_is_none_once_somebody_has_one_of_its_stores(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """The other one is the task's still, and would have its part: a commit of half the stores."""
    with opened_alike(root, tmp_path / "a") as task:
        put_alike(task, 1)
        with ss.open_logged_store(root, "rates", 0, directory=tmp_path / "b", backend="memory"):
            pass
        with pytest.raises(FencedError, match="nothing of this commit was written"):
            put_alike(task, 2)
        task.rollback()
    assert records(root) == []
    with opened_alike(root, tmp_path / "c") as task:
        assert numbers_alike(task) == [1, 1]


@pytest.mark.spec("TSK-18")
def test_a_commit_of_one_store_puts_no_record(root: ss.StateRoot, tmp_path: Path) -> None:
    """It is one anyway, and a record costs two requests."""
    with opened_alike(root, tmp_path / "a") as task:
        failpoints.arm("task.recording", lambda: pytest.fail("a record"))
        task.store("rates").put("number", 1)
        task.commit({INPUT: 1})

        assert task.logged_store("rates").changelog.end_offset == 1


@pytest.mark.spec("TSK-18")
def test_a_record_in_the_place_of_another_stops_the_commit(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there is another commit's: the entry of this one would make that one count."""
    with opened_alike(root, tmp_path / "a") as task:

        def taken(*given: object) -> Any:
            yield from ()
            return False

        monkeypatch.setattr(object_commits, "put_record", taken)
        with pytest.raises(
            CommitConflictError,
            match=r"'\S+@tasks/0_0/records/\S+' is that of another commit; close the task",
        ):
            put_alike(task, 1)
        with pytest.raises(CommitConflictError, match="open it again"):
            task.rollback()
    with opened_alike(root, tmp_path / "b") as task:
        assert numbers_alike(task) == [None, None]


@pytest.mark.spec("TSK-18")
def test_a_record_that_cannot_be_removed_is_removed_by_the_next_opening(
    root: ss.StateRoot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The commit is made, so it raises nothing; the task goes on, and who runs it is told."""
    with opened_alike(root, tmp_path / "a") as task:

        def refuse(*given: object) -> Any:
            yield from ()
            raise StorageError("no answer")

        with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
            patched.setattr(object_commits, "forget_record", refuse)
            put_alike(task, 1)
        assert "0_0 is carried out, and its record cannot be removed (no answer)" in caplog.text
        assert len(records(root)) == 1
        put_alike(task, 2)
        assert len(records(root)) == 1
    with opened_alike(root, tmp_path / "b") as task:
        assert numbers_alike(task) == [2, 2]
        assert records(root) == []


@pytest.mark.spec("TSK-19")
def test_a_store_is_noted_once(root: ss.StateRoot, tmp_path: Path) -> None:
    """With its first commit: each note is a request, and a commit would cost one more for ever."""
    noted: list[str] = []
    failpoints.arm("task.noting", lambda: noted.append("a store"))
    for _ in range(2):
        with opened_alike(root, tmp_path / "a") as task:
            for _ in range(2):
                put_alike(task, task.next_offset(INPUT))

    assert noted == ["a store", "a store"]


@for_each(
    "name",
    [
        "records/counts/a1/00/x",
        "records/counts/a1/x/00",
        "records/counts/a1/00",
        "records/counts/a1/\u0663/00",
        "records/counts/a1/00/-1",
        "written/counts/a1/00/00",
    ],
)
def test_an_object_of_another_name_is_no_record(name: str) -> None:
    """Whoever put it there, it is neither carried out nor an error of Python's."""
    assert TASK.record_of(TASK.all + name) is None
    record = RecordName("counts", "a1", 3, 4)
    assert TASK.record_of(TASK.record(record)) == record
    assert TASK.shown(TASK.record(record)).startswith("memory://tests/@tasks/0_0/records/counts/a1")


def _unanswered(steps: Any) -> None:
    """Go through *steps*, with an object store that does not answer."""
    step = next(steps)
    while True:
        step = steps.send(Outcome.UNKNOWN if isinstance(step, Create) else None)


def test_a_note_in_doubt_is_called_by_its_address() -> None:
    """Whoever looks for it pastes that: a mutant put the name before the root of the storage."""
    address = "memory://tests/@tasks/0_0/written/counts/a1"
    with pytest.raises(CommitInDoubtError, match=f"'{address}' was written"):
        _unanswered(note_written(TASK, "counts", "a1"))


def test_a_changelog_in_files_is_none_of_an_object_store(tmp_path: Path) -> None:
    """A task of a mixture of both does not commit as one."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("counts"), partitions=1)
    with (
        ss.open_logged_store(state, "counts", 0, backend="memory") as counts,
        pytest.raises(InvalidTypeError, match="'counts' is not in an object store"),
    ):
        object_changelog(counts)
