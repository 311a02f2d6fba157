"""Judging what callers say about tasks, before anything is opened."""

from collections.abc import Iterable, Mapping

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.semantics.every_kind.arguments import store_names
from statestores.tasks.task_id import TaskId


def stores_by_group(groups: Mapping[int, Iterable[str]]) -> dict[int, tuple[str, ...]]:
    """Return *groups*: a mapping from the numbers of groups to the names of their stores.

    Whether these are numbers of groups, and of which stores, is for `TaskGroups` to judge.

    Raises:
        InvalidTypeError: It is something else.
    """
    if not isinstance(groups, Mapping):
        raise InvalidTypeError(
            "groups must be a mapping from a number to names of stores, such as {0: ['counts']}, "
            f"got {groups!r}"
        )
    return {group: tuple(store_names(names)) for group, names in groups.items()}


def check_listener(listener: object) -> None:
    """Accept what can be called, and ``None``.

    Raises:
        InvalidTypeError: It is something else.
    """
    if listener is not None and not callable(listener):
        raise InvalidTypeError(f"a listener is a function of a RestoreProgress, got {listener!r}")


def check_interval(interval_s: object) -> None:
    """Accept a number of seconds above 0.

    Raises:
        InvalidArgumentError: It is something else.
    """
    if type(interval_s) not in {int, float} or not interval_s > 0:  # type: ignore[operator]  # a number
        raise InvalidArgumentError(
            f"follow_interval_s must be a number of seconds above 0, got {interval_s!r}"
        )


def task_ids(tasks: Iterable[TaskId | str]) -> list[TaskId]:
    """Return *tasks*, each of which is given itself or by its name.

    Raises:
        InvalidTypeError, InvalidArgumentError: One is not a task, or they are not a list of them.
    """
    if isinstance(tasks, str) or not isinstance(tasks, Iterable):
        raise InvalidTypeError(f"tasks are given as a list, such as ['0_1'], got {tasks!r}")
    return [TaskId.of(task) for task in tasks]
