"""What is published of a process's tasks, at each step of an assignment."""

from types import SimpleNamespace
from typing import Any

import pytest

from statestores.errors import InvalidStateStoreError, StoreNotFoundError
from statestores.tasks import TaskId, TaskState
from statestores.tasks.task_board import TaskBoard
from statestores_conformance.many_cases import for_each

RUNS, COPIED, COLD, OTHER = (TaskId(0, number) for number in range(4))


def _task(task_id: TaskId) -> Any:
    return SimpleNamespace(id=task_id)


def _copies(are_open: tuple[bool, ...] = (True,)) -> Any:
    return tuple(SimpleNamespace(is_open=is_open) for is_open in are_open)


@pytest.fixture
def board() -> TaskBoard:
    """One task runs, one is copied; both stay, and a third one is being restored."""
    board = TaskBoard()
    board.begin({RUNS}, {COPIED})
    board.run(_task(RUNS))
    board.follow(COPIED, _copies())
    board.end()
    assert board.begin({RUNS, COLD}, {COPIED, OTHER}) == ([], [])
    return board


@pytest.mark.spec("TSK-12", "TSK-13")
def test_what_is_assigned_is_so_while_it_is_opened(board: TaskBoard) -> None:
    """An engine that is about to be opened is not looked into as an idle one, which locks it.

    What could not be opened by the end is not assigned: its engine may be asked again.
    """
    assert board.now().assigned == {RUNS, COPIED, COLD, OTHER}
    assert board.now().states == {
        RUNS: TaskState.RUNNING,
        COPIED: TaskState.STANDBY,
        COLD: TaskState.RESTORING,
    }
    board.end()

    assert board.now().assigned == {RUNS, COPIED}
    assert board.now().states == {RUNS: TaskState.RUNNING, COPIED: TaskState.STANDBY}


@pytest.mark.spec("TSK-12")
def test_a_task_that_is_ready_is_no_longer_restoring(board: TaskBoard) -> None:
    """While others still are: its lag is its own, and no longer that of a restore."""
    board.begin({RUNS, COLD, COPIED}, set())
    assert board.now().states[COPIED] is TaskState.PROMOTING
    board.run(_task(COLD))
    board.run(_task(COPIED))

    now = board.now()
    assert (now.opening, now.standbys) == ({}, {})
    assert set(now.tasks) == {RUNS, COLD, COPIED}


@pytest.mark.spec("TSK-12")
def test_a_task_that_could_not_be_opened_is_no_longer_restoring(board: TaskBoard) -> None:
    """While others still are: who asks for it is not told to try again, in vain."""
    with pytest.raises(InvalidStateStoreError, match="the task 0_2 is restoring here; try again"):
        board.now().task(COLD)
    assert board.fail(COLD) == ()
    with pytest.raises(StoreNotFoundError, match="the task 0_2 is not active here; active: 0_0"):
        board.now().task(COLD)

    assert board.now().opening == {}


@pytest.mark.spec("TSK-6", "STB-4")
@for_each("are_open", [(True, True), (False, True), (True, False)])
def test_half_of_a_standby_is_none(are_open: tuple[bool, bool]) -> None:
    """If one of its copies was promoted, the others are given back to be closed."""
    board = TaskBoard()
    copies = _copies(are_open)
    board.follow(COPIED, copies)
    board.begin({COPIED}, set())
    left = board.fail(COPIED)

    assert left == (() if all(are_open) else copies)
    assert board.now().standbys == ({COPIED: copies} if all(are_open) else {})


def test_what_is_taken_out_is_given_back_to_be_closed(board: TaskBoard) -> None:
    """Each once: what was active or copied, and is neither any more."""
    copies = board.now().standbys[COPIED]
    tasks, standbys = board.begin(set(), {RUNS})
    assert [each.id for each in tasks] == [RUNS]
    assert standbys == [copies]
    assert board.now().states == {COLD: TaskState.RESTORING}
    board.end()

    assert board.clear() == ([], [])
    with pytest.raises(StoreNotFoundError, match="not active here; active: none"):
        board.now().task(RUNS)
