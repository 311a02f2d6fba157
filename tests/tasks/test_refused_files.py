"""Files of a task's commits that the disk refuses, or that something else is in the place of."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores import failpoints
from statestores.errors import StorageError, StoreCorruptedError
from statestores.tasks import Task, open_task
from statestores.tasks.commits import task_commit
from statestores.tasks.commits.commit_record import read_part
from statestores.tasks.commits.record_file import read_file

INPUT = ss.TopicPartition("words", 0)
NAMES = ("counts", "rates")


def _put(task: Task, number: int) -> None:
    task.store("counts").put("number", number)
    task.store("rates").put("number", number, timestamp_ms=number)


def _found(root: ss.StateRoot) -> tuple[object, object, object]:
    with open_task(root, "0_0", NAMES) as task:
        number = task.store("rates").get("number")
        return task.store("counts").get("number"), number and number.value, task.position.get(INPUT)


def _directory(root: ss.StateRoot) -> Path:
    return root.path / "@tasks" / "0_0"


def _fail(*given: object, **named: object) -> Any:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def _is_recorded(directory: Path, root: ss.StateRoot) -> object:
    return task_commit.is_recorded(directory)


def _recorded(directory: Path, root: ss.StateRoot) -> object:
    return task_commit.recorded_commit(directory, root)


def _finish(directory: Path, root: ss.StateRoot) -> None:
    task_commit.finish_commit(directory, root, 0)


@pytest.mark.spec("TSK-3")
def test_a_commit_whose_record_gets_no_name_is_none(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what could not be written, and the same commit succeeds once it can be."""
    with open_task(root, "0_0", NAMES, backend="sqlite") as task:
        _put(task, 1)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", _fail)
            with pytest.raises(StorageError, match=f"cannot write '{_directory(root)}': "):
                task.commit({INPUT: 1})
        task.commit({INPUT: 1})

    assert _found(root) == (1, 1, 1)


@pytest.mark.spec("TSK-10")
@pytest.mark.parametrize(
    ("call", "look", "message"),
    [
        ("exists", _is_recorded, "cannot read '{}': "),
        ("is_dir", _recorded, "cannot read '{}/commit'"),
        ("unlink", _finish, "cannot remove '{}'"),
    ],
)
def test_what_the_disk_refuses_is_called_by_its_name(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    root: ss.StateRoot,
    call: str,
    look: Callable[[Path, ss.StateRoot], object],
    message: str,
) -> None:
    """The word for what was being done, and the path of what it was done to."""
    with monkeypatch.context() as patched:
        patched.setattr(Path, call, _fail)
        with pytest.raises(StorageError, match=message.format(tmp_path)):
            look(tmp_path, root)


@pytest.mark.spec("TSK-10")
def test_a_record_that_cannot_be_opened_is_called_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that is a pipe, or a device, keeps nobody waiting."""
    record = tmp_path / "commit"
    os.mkfifo(record)
    with pytest.raises(StoreCorruptedError, match=f"'{record}' is damaged: it is no file"):
        read_file(record)
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", _fail)
        with pytest.raises(StorageError, match=f"cannot read '{record}': "):
            read_file(record)


@pytest.mark.spec("TSK-10")
def test_a_part_that_is_no_changelog_is_told_as_damage_of_the_record(root: ss.StateRoot) -> None:
    """Who has to put something back needs the record's name; the part is in no file of its own."""
    with pytest.raises(
        StoreCorruptedError, match="commit of a task in 'there' is damaged: 'counts' cannot be read"
    ):
        read_part("there", "counts", 0, b"no changelog", root)


@pytest.mark.spec("TSK-3")
@pytest.mark.parametrize("name", ["commit.tmp", "commit.done"])
def test_a_record_that_was_left_half_written_is_removed(root: ss.StateRoot, name: str) -> None:
    """It is no commit, and it would lie there for ever."""
    with open_task(root, "0_0", NAMES, backend="sqlite") as task:
        _put(task, 1)
        task.commit({INPUT: 1})
    left = _directory(root) / name
    left.write_bytes(b"half")

    assert _found(root) == (1, 1, 1)
    assert not left.exists()


@pytest.mark.spec("TSK-15")
def test_a_first_commit_that_is_interrupted_before_it_is_noted_is_noted_later(
    root: ss.StateRoot,
) -> None:
    """It is committed; once it is noted, a store of which the directory has gone is missed."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    with open_task(root, "0_0", NAMES, backend="sqlite") as task:
        _put(task, 1)
        failpoints.arm("task.noting", interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                task.commit({INPUT: 1})
        finally:
            failpoints.disarm()
    note = _directory(root) / "written.json"
    assert not note.exists()

    assert _found(root) == (1, 1, 1)
    assert note.exists()


@pytest.mark.spec("TSK-3")
def test_a_record_has_its_name_only_when_it_is_whole(root: ss.StateRoot) -> None:
    """What an interrupt leaves of it while it is written is no commit."""

    def interrupt() -> None:
        assert not (_directory(root) / "commit").exists()
        raise KeyboardInterrupt

    for name in ("task.record-written", "task.recording"):
        with open_task(root, "0_0", NAMES, backend="sqlite") as task:
            _put(task, 1)
            failpoints.arm(name, interrupt)
            try:
                with pytest.raises(KeyboardInterrupt):
                    task.commit({INPUT: 1})
            finally:
                failpoints.disarm()
            task.rollback()

        assert _found(root) == (None, None, None)
