"""Groups of stores, and the numbers and names of the tasks that they make."""

from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError, InvalidTypeError, UnknownStateStoreError
from statestores.tasks import TaskId
from statestores.tasks.task_groups import TaskGroups
from statestores_conformance.many_cases import for_each

HIGHEST = (1 << 31) - 1


def test_groups_have_a_task_for_each_partition(root: ss.StateRoot) -> None:
    """Of their stores, which have as many as one another."""
    groups = TaskGroups(root, {3: ["rates", "counts"], 0: ["names"]})

    assert groups.tasks() == {
        *(TaskId(3, partition) for partition in range(3)),
        *(TaskId(0, partition) for partition in range(2)),
    }
    assert groups.names == ("counts", "names", "rates")
    assert groups.stores(TaskId(3, 1)) == ("rates", "counts")
    assert (groups.group_of("counts"), groups.group_of("names")) == (3, 0)
    assert (groups.partition_count("counts"), groups.partition_count("names")) == (3, 2)
    assert groups.specification("rates").name == "rates"
    for ask in (groups.group_of, groups.partition_count, groups.specification):
        with pytest.raises(UnknownStateStoreError, match="'typo'; there are: counts, names, rates"):
            ask("typo")


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ({-1: ["counts"]}, InvalidArgumentError, "a task's group must be from 0"),
        ({"0": ["counts"]}, InvalidTypeError, "a task's group must be an int"),
        ({0: []}, InvalidArgumentError, "the group 0 has no stores; name at least one"),
        ({0: ["counts"], 1: ["rates", "counts"]}, InvalidArgumentError, "'counts' is in two"),
        ({0: ["counts", "names"]}, InvalidArgumentError, "differ in their partitions: {'counts'"),
    ],
)
def test_groups_that_cannot_be_are_refused(
    root: ss.StateRoot, groups: dict[Any, list[str]], error: type[Exception], message: str
) -> None:
    """Before any task of them is opened."""
    with pytest.raises(error, match=message):
        TaskGroups(root, groups)


def test_an_assignment_is_of_tasks_that_exist_once_each(root: ss.StateRoot) -> None:
    """As active, as standby, or not at all."""
    groups = TaskGroups(root, {0: ["counts"], 1: ["names"]})
    groups.check_assignment([TaskId(0, 2)], [TaskId(0, 0), TaskId(1, 1)])
    groups.check_assignment([], [])
    for active, standby in (([TaskId(0, 3)], []), ([], [TaskId(1, 2)]), ([TaskId(2, 0)], [])):
        with pytest.raises(InvalidArgumentError, match=r"there is no task .* groups are \[0, 1\]"):
            groups.check_assignment(active, standby)
    both = [TaskId(0, 2), TaskId(0, 1)]
    with pytest.raises(InvalidArgumentError, match="the task 0_1 is assigned as active and as"):
        groups.check_assignment(both, both)


@for_each("number", [0, HIGHEST])
def test_a_number_that_kafka_has_is_one_of_a_task(number: int) -> None:
    """It has 31 bits there, and a name as many digits as that takes."""
    assert TaskId(HIGHEST, HIGHEST).partition == HIGHEST
    assert TaskId.parse(f"{number}_{number}") == TaskId(number, number)
    assert TaskId.of(f"{number}_0") == TaskId(number, 0)
    assert TaskId.of(TaskId(number, 0)) == TaskId(number, 0)


@for_each("number", [-1, HIGHEST + 1, HIGHEST * 2])
def test_a_number_that_kafka_has_not_is_none_of_a_task(number: int) -> None:
    """And the error says which of the two it is."""
    with pytest.raises(InvalidArgumentError, match=f"a task's group must be .*, got {number}"):
        TaskId(number, 0)
    with pytest.raises(InvalidArgumentError, match=f"a task's partition must be .*, got {number}"):
        TaskId(0, number)


def test_what_is_no_name_of_a_task_is_called_by_what_it_is() -> None:
    """Whoever gave it knows it by that."""
    task: Any
    for task in (None, 3, (0, 3)):
        with pytest.raises(InvalidTypeError, match="a task is a TaskId or its name"):
            TaskId.of(task)
        with pytest.raises(InvalidTypeError, match="a task's name must be a str"):
            TaskId.parse(task)
    for task in ("", "0", "0_", "_3", "0_3_4", " 0_3"):
        with pytest.raises(InvalidArgumentError, match="named by its group and its partition"):
            TaskId.parse(task)
