"""Which stores belong to which tasks: the groups of an application, checked against its root."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from statestores.errors import InvalidArgumentError, UnknownStateStoreError
from statestores.spi.specification import StoreSpecification
from statestores.state_root import StateRoot
from statestores.tasks.task_id import TaskId


class TaskGroups:
    """For each group's number, the names of its stores."""

    def __init__(self, root: StateRoot, groups: Mapping[int, Sequence[str]]) -> None:
        """Check *groups* against *root*.

        Raises:
            StoreNotFoundError: The root lacks a store.
            InvalidArgumentError: A group has no store, or its stores differ in their partitions;
                or a store is in two groups.
        """
        self._root = root
        self._groups = {group: tuple(names) for group, names in groups.items()}
        self._check()

    def _check(self) -> None:
        seen: set[str] = set()
        for group, names in self._groups.items():
            TaskId(group, 0)
            if not names:
                raise InvalidArgumentError(f"the group {group} has no stores; name at least one")
            counts = {name: self._root.store(name).partitions for name in names}
            if len(set(counts.values())) > 1:
                raise InvalidArgumentError(
                    f"the stores of the group {group} differ in their partitions: {counts}"
                )
            if twice := seen & set(names):
                raise InvalidArgumentError(f"the store {min(twice)!r} is in two groups")
            seen |= set(names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all stores, in their order."""
        return tuple(sorted(name for names in self._groups.values() for name in names))

    def stores(self, task_id: TaskId) -> tuple[str, ...]:
        """Return the names of the stores of *task_id*."""
        return self._groups[task_id.group]

    def tasks(self) -> set[TaskId]:
        """Return every task that there can be."""
        return {
            TaskId(group, partition)
            for group, names in self._groups.items()
            for partition in range(self._root.store(names[0]).partitions)
        }

    def check_assignment(self, active: Collection[TaskId], standby: Collection[TaskId]) -> None:
        """Accept tasks that exist, each in one role.

        Raises:
            InvalidArgumentError: A task is both, or its group or partition is unknown.
        """
        known = self.tasks()
        for task_id in (*active, *standby):
            if task_id not in known:
                raise InvalidArgumentError(
                    f"there is no task {task_id}: the groups are {sorted(self._groups)}, and a "
                    "partition has to be one of its stores"
                )
        if both := set(active) & set(standby):
            raise InvalidArgumentError(f"the task {min(both)} is assigned as active and as standby")

    def group_of(self, name: str) -> int:
        """Return the number of the group of the store *name*.

        Raises:
            UnknownStateStoreError: No group has such a store.
        """
        for group, names in self._groups.items():
            if name in names:
                return group
        known = sorted(each for names in self._groups.values() for each in names)
        raise UnknownStateStoreError(f"there is no store {name!r}; there are: {', '.join(known)}")

    def specification(self, name: str) -> StoreSpecification[Any, Any]:
        """Return what the store *name* is.

        Raises:
            UnknownStateStoreError: No group has such a store.
        """
        self.group_of(name)
        return self._root.store(name).specification

    def partition_count(self, name: str) -> int:
        """Return how many partitions the store *name* has.

        Raises:
            UnknownStateStoreError: No group has such a store.
        """
        self.group_of(name)
        return self._root.store(name).partitions
