"""What a task answers to calls that it refuses, and what a commit of it writes twice."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import statestores as ss
from statestores import failpoints
from statestores.errors import (
    CommitConflictError,
    InvalidTypeError,
    StorageError,
    StoreClosedError,
    StoreCorruptedError,
    StoreMismatchError,
)
from statestores.tasks import Task, open_task

INPUT = ss.TopicPartition("words", 0)
NAMES = ("counts", "rates")


@pytest.fixture(autouse=True)
def _nothing_stays_armed() -> Iterator[None]:
    yield
    failpoints.disarm()


@pytest.fixture
def task(root: ss.StateRoot) -> Iterator[Task]:
    """A task of two stores."""
    with open_task(root, "0_0", NAMES, backend="memory") as opened:
        yield opened


@pytest.mark.parametrize("name", [None, 7, b"counts", ["counts"]])
def test_a_store_of_a_task_has_a_name(task: Task, name: Any) -> None:
    """Whatever else is given is refused as that, and not as a store that there is not."""
    for call in (task.store, task.logged_store):
        with pytest.raises(InvalidTypeError):
            call(name)


@pytest.mark.spec("TSK-3")
@pytest.mark.parametrize("written", [[], ["counts"], ["rates"]])
def test_a_commit_of_one_store_is_written_once(task: Task, written: list[str]) -> None:
    """It is one anyway. Nor are two stores needed to say how far the input has come."""
    recorded: list[str] = []
    failpoints.arm("task.recording", lambda: recorded.append("a record"))
    for name in written:
        times = {} if name == "counts" else {"timestamp_ms": 1}
        task.store(name).put("a", 1, **times)
    task.commit({INPUT: 3})

    assert recorded == []
    assert task.next_offset(INPUT) == 4
    ends = {name: task.logged_store(name).changelog.end_offset for name in NAMES}
    assert ends == {name: int(name in (written or ["counts"])) for name in NAMES}


@pytest.mark.spec("TSK-3")
def test_a_commit_of_two_stores_is_recorded(task: Task) -> None:
    """Once, and both have it."""
    recorded: list[str] = []
    failpoints.arm("task.recording", lambda: recorded.append("a record"))
    task.store("counts").put("a", 1)
    task.store("rates").put("a", 1, timestamp_ms=1)
    task.commit({INPUT: 3})

    assert recorded == ["a record"]
    assert [task.logged_store(name).changelog.end_offset for name in NAMES] == [1, 1]


CALLS: dict[str, Callable[[Task], Any]] = {
    "commit": lambda task: task.commit({INPUT: 1}),
    "rollback": lambda task: task.rollback(),
    "snapshot": lambda task: task.snapshot(),
    "next_offset": lambda task: task.next_offset(INPUT),
    "lags": lambda task: task.lags(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_task_refuses_what_needs_its_stores(task: Task, call: str) -> None:
    """By its own name: it is the task that has to be opened again."""
    is_open = [task.is_open]
    task.close()
    is_open.append(task.is_open)
    assert is_open == [True, False]
    with pytest.raises(StoreClosedError, match="the task 0_0 is closed; open it again"):
        CALLS[call](task)


def test_a_task_says_what_it_has(task: Task) -> None:
    """Its stores, in a mapping of one's own, and whether it is open."""
    task.stores.clear()
    assert list(task.stores) == list(NAMES)
    assert repr(task) == "<task 0_0, stores: counts, rates>"
    task.close()

    assert repr(task) == "<task 0_0, stores: counts, rates, closed>"


def test_a_store_is_what_its_specification_says(task: Task) -> None:
    """Whoever asks by one gets a store of its kind, with its serdes, or an error."""
    assert task.store(ss.KeyValue("counts", key=ss.utf8, value=ss.int64)).get("a") is None
    for other in (
        ss.KeyValue("counts", key=ss.utf8, value=ss.utf8),
        ss.Versioned("counts", history_retention_ms=1_000, key=ss.utf8, value=ss.int64),
    ):
        with pytest.raises(StoreMismatchError, match="'counts' differs from its specification"):
            task.store(other)


def _put(task: Task, names: Sequence[str], number: int) -> None:
    for name in names:
        times = {} if name == "counts" else {"timestamp_ms": number}
        task.store(name).put("number", number, **times)
    task.commit({INPUT: number})


def _fail() -> None:
    raise OSError(5, "Input/output error")


@pytest.mark.spec("TSK-3", "COM-43")
def test_a_commit_of_one_store_that_failed_can_be_taken_back_or_made(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk nothing of it is there: refusing either would cost an opening of the task."""

    def full(*given: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for number in (1, 2):
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwritev", full)
            with pytest.raises(StorageError, match="No space left"):
                _put(task, ["counts"], number)
        if number == 1:
            task.rollback()
            assert task.store("counts").get("number") is None
    task.commit({INPUT: 2})

    assert task.store("counts").get("number") == 2
    assert task.logged_store("counts").changelog.end_offset == 1


@pytest.mark.spec("TSK-3", "TSK-15")
@pytest.mark.parametrize("names", [["counts"], NAMES])
def test_a_commit_that_failed_when_it_was_made_cannot_be_taken_back(
    root: ss.StateRoot, names: Sequence[str]
) -> None:
    """It is there, and only its note is missing: whoever put it again had it twice."""
    with open_task(root, "0_0", NAMES, backend="sqlite") as task:
        failpoints.arm("task.noting", _fail)
        with pytest.raises(OSError, match="Input/output"):
            _put(task, names, 1)
        failpoints.disarm()
        for attempt in (task.rollback, task.commit):
            with pytest.raises(CommitConflictError, match="close the task and open it again"):
                attempt()
    with open_task(root, "0_0", NAMES) as task:
        assert task.next_offset(INPUT) == 2
        ends = {name: task.logged_store(name).changelog.end_offset for name in NAMES}
        assert ends == {name: int(name in names) for name in NAMES}


@pytest.mark.spec("TSK-16")
def test_the_newest_commit_of_another_store_forgets_no_end(root: ss.StateRoot) -> None:
    """An older copy of a store was taken for it, once another store had committed by itself."""
    place = root.partition("counts", 0).path
    with open_task(root, "0_0", NAMES, backend="sqlite") as task:
        _put(task, NAMES, 1)
    shutil.copytree(place, place.with_name("older"))
    with open_task(root, "0_0", NAMES) as task:
        _put(task, ["counts"], 2)
        _put(task, ["rates"], 3)
    shutil.rmtree(place)
    place.with_name("older").rename(place)
    with pytest.raises(StoreCorruptedError, match="'counts' up to offset 1 of its changelog"):
        open_task(root, "0_0", NAMES)


@pytest.mark.spec("TSK-3")
def test_an_interrupted_rollback_is_ended_before_the_next_commit(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One store has forgotten its writes, and another has them: a commit would take that half."""

    def interrupted(store: object) -> None:
        raise KeyboardInterrupt

    task.store("counts").put("number", 1)
    task.store("rates").put("number", 1, timestamp_ms=1)
    with monkeypatch.context() as patched:
        patched.setattr(type(task.logged_store("rates").store), "rollback", interrupted)
        with pytest.raises(KeyboardInterrupt):
            task.rollback()
    with pytest.raises(CommitConflictError, match="roll back again"):
        task.commit({INPUT: 1})
    task.rollback()
    _put(task, NAMES, 2)

    assert task.store("counts").get("number") == 2
    assert task.store("rates").get("number").value == 2
