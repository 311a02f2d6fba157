"""The tasks and standbys of one process: assigned, restored in parallel, moved, reported."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from os import PathLike
from typing import Any

from statestores.changelog import ChangelogOptions
from statestores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    StoreClosedError,
    StoreNotFoundError,
    UnknownStateStoreError,
)
from statestores.spi.closing import Closing
from statestores.spi.durability import Durability
from statestores.spi.metric import Metrics
from statestores.spi.metric_catalog import tagged
from statestores.spi.specification import StoreSpecification
from statestores.spi.store import Isolation, ReadOnlyStore
from statestores.state_root import StateRoot
from statestores.tasks.lag import LagInfo, task_offset_sum
from statestores.tasks.local_directory import (
    CLEANUP_DELAY_MS,
    LocalDirectory,
    Orphan,
    RemovedEngine,
)
from statestores.tasks.rebuilding import OnCorruption, check_on_corruption
from statestores.tasks.restore_progress import RestoreListener
from statestores.tasks.standby import FOLLOW_INTERVAL_S, Standby, open_standby
from statestores.tasks.task import Task, open_task
from statestores.tasks.task_arguments import check_interval, stores_by_group, task_ids
from statestores.tasks.task_id import TaskId
from statestores.tasks.task_metrics import RestoreLedger

DEFAULT_RESTORE_THREADS = 4
"""How many tasks are restored at the same time, by default."""


class TaskManager(Closing):
    """Owns the tasks and standbys of one process. One thread assigns; any thread may query."""

    def __init__(
        self,
        root: StateRoot | str | PathLike[str],
        groups: Mapping[int, Sequence[str]],
        *,
        local_directory: str | PathLike[str] | None = None,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        durability: Durability = Durability.POWER_LOSS,
        changelog_options: ChangelogOptions | None = None,
        on_corruption: OnCorruption = "fail",
        restore_threads: int = DEFAULT_RESTORE_THREADS,
        follow_interval_s: float = FOLLOW_INTERVAL_S,
        listener: RestoreListener | None = None,
    ) -> None:
        """Manage tasks of *groups*: for each group's number, the names of its stores.

        Args:
            root: The state root, or its path; it has every store.
            groups: The stores that belong together. All of one group have as many partitions.
            local_directory: Where engines lie; by default in the state root. Standbys need one.
            backend: The backend of new engines.
            options: The backend's own options.
            durability: What a task's commit survives.
            changelog_options: How changelogs are written.
            on_corruption: As in `open_task`.
            restore_threads: How many tasks are opened at the same time.
            follow_interval_s: How often standbys look for changes.
            listener: Told of each restore, on the thread that does it.

        Raises:
            InvalidTypeError: The groups are no mapping from numbers to lists of names.
            StoreNotFoundError: There is no state root, or it has not every store.
            InvalidArgumentError: A group has no store, or its stores differ in their partitions;
                or a store is in two groups.
        """
        self._groups = stores_by_group(groups)
        self._root = root if isinstance(root, StateRoot) else StateRoot.open(root)
        self._check_groups()
        check_on_corruption(on_corruption)
        if type(restore_threads) is not int or restore_threads < 1:
            raise InvalidArgumentError(
                f"restore_threads must be an int from 1, got {restore_threads!r}"
            )
        check_interval(follow_interval_s)
        self._has_local_directory = local_directory is not None
        self._local = LocalDirectory(
            self._root.path if local_directory is None else local_directory
        )
        self._backend = backend
        self._options = options
        self._durability = durability
        self._changelog_options = changelog_options
        self._on_corruption: OnCorruption = on_corruption
        self._restore_threads = restore_threads
        self._follow_interval_s = follow_interval_s
        self._restores = RestoreLedger(listener)
        self._tasks: dict[TaskId, Task] = {}
        self._standbys: dict[TaskId, tuple[Standby, ...]] = {}
        self._moving = False

    def _check_groups(self) -> None:
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

    # Assignment.

    @property
    def tasks(self) -> dict[TaskId, Task]:
        """The active tasks."""
        return dict(self._tasks)

    @property
    def standbys(self) -> dict[TaskId, tuple[Standby, ...]]:
        """The standby tasks: a standby for each store."""
        return dict(self._standbys)

    def assign(self, active: Iterable[TaskId | str], standby: Iterable[TaskId | str] = ()) -> None:
        """Own exactly the tasks *active*, and follow exactly the tasks *standby*.

        Each is a `TaskId` or its name, such as ``0_3``.

        Tasks that are no longer assigned are closed, without a commit. A standby that becomes
        active is promoted. The others are restored in parallel. When one of them cannot be
        opened, the rest is kept, and assigning again goes on from there.

        Raises:
            InvalidTypeError: Something is neither a task nor the name of one.
            InvalidArgumentError: A task is both, its group or partition is unknown, or a standby
                is asked for and there is no local directory.
            StateStoreError: As `open_task` and `open_standby`.
        """
        wanted, copies = dict.fromkeys(task_ids(active)), dict.fromkeys(task_ids(standby))
        self._check_assignment(wanted, copies)
        self._moving = True
        try:
            for task_id in [each for each in self._tasks if each not in wanted]:
                self._tasks.pop(task_id).close()
            for task_id in [each for each in self._standbys if each not in copies]:
                if task_id not in wanted:
                    self._close_standbys(self._standbys.pop(task_id))
            self._open_tasks([each for each in wanted if each not in self._tasks])
            for task_id in copies:
                if task_id not in self._standbys:
                    self._standbys[task_id] = self._follow(task_id)
        finally:
            self._moving = False

    def _check_assignment(self, active: Collection[TaskId], standby: Collection[TaskId]) -> None:
        for task_id in (*active, *standby):
            if task_id not in self._all_tasks():
                raise InvalidArgumentError(
                    f"there is no task {task_id}: the groups are {sorted(self._groups)}, and a "
                    "partition has to be one of its stores"
                )
        if both := set(active) & set(standby):
            raise InvalidArgumentError(f"the task {min(both)} is assigned as active and as standby")
        if standby and not self._has_local_directory:
            raise InvalidArgumentError(
                "standbys keep engines of their own; give the task manager a local_directory"
            )

    def _all_tasks(self) -> set[TaskId]:
        return {
            TaskId(group, partition)
            for group, names in self._groups.items()
            for partition in range(self._root.store(names[0]).partitions)
        }

    def _open_tasks(self, task_ids: Sequence[TaskId]) -> None:
        """Open *task_ids*, several at a time; raise the first failure when all are done."""
        if not task_ids:
            return
        threads = min(self._restore_threads, len(task_ids))
        with ThreadPoolExecutor(threads, thread_name_prefix="restore") as pool:
            opening = {task_id: pool.submit(self._open_task, task_id) for task_id in task_ids}
        self._restores.forget(set(task_ids))
        failures = []
        for task_id, future in opening.items():
            error = future.exception()
            if error is None:
                self._tasks[task_id] = future.result()
                self._standbys.pop(task_id, None)  # promoted
            else:
                failures.append(error)
        if failures:
            raise failures[0]

    def _open_task(self, task_id: TaskId) -> Task:
        return open_task(
            self._root,
            task_id,
            self._groups[task_id.group],
            local_directory=self._local.path,
            backend=self._backend,
            options=self._options,
            durability=self._durability,
            changelog_options=self._changelog_options,
            on_corruption=self._on_corruption,
            standbys=self._standbys.get(task_id, ()),
            listener=self._restores,
        )

    def _follow(self, task_id: TaskId) -> tuple[Standby, ...]:
        """Open and start a standby of each store of a task."""
        with ExitStack() as on_failure:
            standbys = []
            for name in self._groups[task_id.group]:
                standby = open_standby(
                    self._root,
                    name,
                    task_id.partition,
                    self._local.partition(name, task_id.partition),
                    backend=self._backend,
                    options=self._options,
                    durability=self._durability,
                )
                standbys.append(on_failure.enter_context(standby))
                standby.follow(self._follow_interval_s)
            on_failure.pop_all()
        return tuple(standbys)

    @staticmethod
    def _close_standbys(standbys: Iterable[Standby]) -> None:
        with ExitStack() as stack:
            for standby in standbys:
                stack.callback(standby.close)

    # Queries.

    def local_stores(self, name: str, *, include_stale: bool = False) -> dict[int, ReadOnlyStore]:
        """Return a facade of each partition of the store *name* that can be read here now.

        Raises:
            UnknownStateStoreError: No group has such a store.
            InvalidStateStoreError: Tasks are moving, and stale reads were not asked for.
        """
        group = self._group_of(name)
        if self._moving and not include_stale:
            raise InvalidStateStoreError(f"the partitions of {name!r} are moving; try again")
        found: dict[int, ReadOnlyStore] = {}
        for task_id, task in self.tasks.items():
            if task_id.group == group and task.is_open:
                store = task.logged_store(name).store
                found[task_id.partition] = store.read_only(Isolation.READ_COMMITTED)
        if include_stale:
            for task_id, standbys in self.standbys.items():
                for standby in standbys:
                    if standby.name == name:
                        # It is loading, or closed by now: not here.
                        with suppress(InvalidStateStoreError, StoreClosedError):
                            facade = standby.read_only(include_stale=True)
                            found.setdefault(task_id.partition, facade)
        return found

    def specification(self, name: str) -> StoreSpecification[Any, Any]:
        """Return what the store *name* is.

        Raises:
            UnknownStateStoreError: No group has such a store.
        """
        self._group_of(name)
        return self._root.store(name).specification

    def partition_count(self, name: str) -> int:
        """Return how many partitions the store *name* has, here and elsewhere.

        Raises:
            UnknownStateStoreError: No group has such a store.
        """
        self._group_of(name)
        return self._root.store(name).partitions

    def _group_of(self, name: str) -> int:
        for group, names in self._groups.items():
            if name in names:
                return group
        known = sorted(each for names in self._groups.values() for each in names)
        raise UnknownStateStoreError(f"there is no store {name!r}; there are: {', '.join(known)}")

    # Reports.

    def all_local_store_partition_lags(self) -> dict[str, dict[int, LagInfo]]:
        """Return how far each store and partition is that is active or a standby here (KIP-535).

        Raises:
            ChangelogCorruptedError, StorageError: A changelog cannot be read.
        """
        lags: dict[str, dict[int, LagInfo]] = {}
        for task_id, task in self.tasks.items():
            for name, lag in task.lags().items():
                lags.setdefault(name, {})[task_id.partition] = lag
        for standbys in self.standbys.values():
            for standby in standbys:
                lags.setdefault(standby.name, {})[standby.partition] = standby.lag
        return lags

    def task_offset_sums(self) -> dict[TaskId, int]:
        """Return what an assignor is told of the tasks here (KIP-441).

        `LATEST_OFFSET` for an active task, and for a standby the sum of its next offsets.
        """
        sums = {task_id: task.offset_sum for task_id, task in self.tasks.items()}
        for task_id, standbys in self.standbys.items():
            known = task_offset_sum(standby.lag.current_offset for standby in standbys)
            if known is not None:
                sums[task_id] = known
        return sums

    def metrics(self) -> Metrics:
        """Return the metrics of every task, standby and running restore (MET-10, MET-11).

        Any thread may ask, also while tasks move. Reading the lag of standbys reads changelogs.
        """
        active = [metric for task in self.tasks.values() for metric in task.metrics()]
        copies = [
            metric
            for task_id, standbys in self.standbys.items()
            for standby in standbys
            for metric in tagged(standby.metrics(), {"task-id": str(task_id)})
        ]
        return (*active, *copies, *self._restores.metrics())

    def orphans(self) -> list[Orphan]:
        """Return what lies in the local directory and belongs to no store."""
        return self._local.orphans(self._root)

    def clean_up(self, *, older_than_ms: int = CLEANUP_DELAY_MS) -> list[RemovedEngine]:
        """Remove the engines of tasks that are not assigned here: see `LocalDirectory.clean_up`."""
        assigned = {
            (name, task_id.partition)
            for task_id in (*self._tasks, *self._standbys)
            for name in self._groups[task_id.group]
        }
        return self._local.clean_up(assigned, self._root, older_than_ms=older_than_ms)

    def task(self, task_id: TaskId | str) -> Task:
        """Return an active task.

        Raises:
            StoreNotFoundError: It is not active here.
        """
        wanted = TaskId.parse(task_id) if isinstance(task_id, str) else task_id
        try:
            return self._tasks[wanted]
        except KeyError as error:
            active = ", ".join(str(each) for each in sorted(self._tasks)) or "none"
            raise StoreNotFoundError(
                f"the task {wanted} is not active here; active: {active}"
            ) from error

    def close(self) -> None:
        """Close every task and standby; pending writes are forgotten. Idempotent."""
        tasks, self._tasks = self._tasks, {}
        standbys, self._standbys = self._standbys, {}
        with ExitStack() as stack:
            for task in tasks.values():
                stack.callback(task.close)
            for group in standbys.values():
                stack.callback(self._close_standbys, group)
