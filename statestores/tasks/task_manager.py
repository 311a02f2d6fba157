"""The tasks and standbys of one process: assigned, restored in parallel, moved, reported."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import cache, partial
from os import PathLike
from typing import Any

from statestores.changelog import ChangelogOptions, changelog_partition
from statestores.changelog.options import check_changelog_options
from statestores.errors import (
    InvalidArgumentError,
    StateStoreError,
)
from statestores.registry import load_backend
from statestores.semantics.every_kind.arguments import durability_of
from statestores.semantics.every_kind.store_options import split_options
from statestores.spi.closing import Closing
from statestores.spi.durability import Durability
from statestores.spi.metrics.metric import Metrics
from statestores.spi.offsets import TopicPartition
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import ReadOnlyStore
from statestores.state_root import StateRoot
from statestores.tasks.copying.copy_source import copy_source
from statestores.tasks.follower import FOLLOW_INTERVAL_S
from statestores.tasks.idle_offsets import IdleOffsets
from statestores.tasks.lag import LagInfo
from statestores.tasks.local_directory import (
    CLEANUP_DELAY_MS,
    Orphan,
    RemovedEngine,
    local_engines,
)
from statestores.tasks.rebuilding import OnCorruption, check_on_corruption
from statestores.tasks.restore_order import bytes_to_restore
from statestores.tasks.restore_progress import RestoreListener
from statestores.tasks.standby import Standby
from statestores.tasks.task import Task
from statestores.tasks.task_arguments import (
    check_interval,
    check_listener,
    stores_by_group,
    task_ids,
)
from statestores.tasks.task_board import TaskBoard
from statestores.tasks.task_groups import TaskGroups
from statestores.tasks.task_id import TaskId
from statestores.tasks.task_metrics import RestoreLedger
from statestores.tasks.task_opener import TaskOpener, close_standbys
from statestores.tasks.task_reports import TaskReports
from statestores.tasks.task_state import TaskState

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
            local_directory: Where engines lie; by default in the state root. Standbys need one,
                and so does a state root in an object store.
            backend: The backend of new engines.
            options: The backend's own options.
            durability: What a task's commit survives.
            changelog_options: How changelogs are written.
            on_corruption: As in `open_task`.
            restore_threads: How many tasks are opened at the same time.
            follow_interval_s: How often standbys look for changes.
            listener: Told of each restore, on the thread that does it.

        Raises:
            InvalidTypeError: The groups are no mapping from numbers to lists of names, or another
                argument is of another type.
            UnknownBackendError, MissingDriverError: There is no such backend, or not its driver.
            StoreNotFoundError: There is no state root, or it lacks a store.
            InvalidArgumentError: A group has no store, or its stores differ in their partitions;
                or a store is in two groups. There is no local directory, and the root is in an
                object store.
        """
        self._root = root if isinstance(root, StateRoot) else StateRoot.open(root)
        self._groups = TaskGroups(self._root, stores_by_group(groups))
        check_on_corruption(on_corruption)
        if backend is not None:
            load_backend(backend)
        split_options(options)
        check_changelog_options(changelog_options)
        check_listener(listener)
        if type(restore_threads) is not int or restore_threads < 1:
            raise InvalidArgumentError(
                f"restore_threads must be an int from 1, got {restore_threads!r}"
            )
        check_interval(follow_interval_s)
        self._has_local_directory = local_directory is not None
        self._local = local_engines(self._root, local_directory)
        self._restore_threads = restore_threads
        self._restores = RestoreLedger(listener)
        self._source = cache(partial(copy_source, self._root))
        self._opener = TaskOpener(
            root=self._root,
            groups=self._groups,
            local=self._local,
            backend=backend,
            options=options,
            durability=durability_of(durability),
            changelog_options=changelog_options,
            on_corruption=on_corruption,
            follow_interval_s=follow_interval_s,
            listener=self._restores,
        )
        self._idle = IdleOffsets(self._local, options, self._opener.durability)
        self._board = TaskBoard()
        self._reports = TaskReports(
            self._source,
            self._groups,
            self._board,
            self._restores,
            self._idle if self._has_local_directory else None,
        )

    # Assignment.

    @property
    def tasks(self) -> dict[TaskId, Task]:
        """The active tasks that are running; see `states` for those that are not ready yet."""
        return self._board.now().tasks

    @property
    def standbys(self) -> dict[TaskId, tuple[Standby, ...]]:
        """The standby tasks, also while they are promoted: a standby for each store."""
        return self._board.now().standbys

    @property
    def states(self) -> dict[TaskId, TaskState]:
        """What each assigned task is doing now; any thread may ask."""
        return self._board.now().states

    def assign(self, active: Iterable[TaskId | str], standby: Iterable[TaskId | str] = ()) -> None:
        """Own exactly the tasks *active*, and follow exactly the tasks *standby*.

        Each is a `TaskId` or its name, such as ``0_3``.

        Tasks that are no longer assigned are closed, without a commit. A standby that becomes
        active is promoted. The others are restored, several at a time. Each task is running, for
        whoever asks for it, as soon as it is ready itself, whatever the others are doing; those
        that stay are not touched. This returns when all are ready. When one of them cannot be
        opened, the rest is kept, and assigning again goes on from there; the same holds after an
        interrupt, which waits for the restores that are running.

        Raises:
            InvalidTypeError: Something is neither a task nor the name of one.
            InvalidArgumentError: A task is both, its group or partition is unknown, or a standby
                is asked for and there is no local directory.
            StateStoreError: As `open_task` and `open_standby`.
        """
        wanted, copies = dict.fromkeys(task_ids(active)), dict.fromkeys(task_ids(standby))
        self._groups.check_assignment(wanted, copies)
        if copies and not self._has_local_directory:
            raise InvalidArgumentError(
                "standbys keep engines of their own; give the task manager a local_directory"
            )
        tasks, standbys = self._board.begin({*wanted}, {*copies})
        try:
            with ExitStack() as stack:
                for task in tasks:
                    stack.callback(self._close_task, task)
                for each in standbys:
                    stack.callback(close_standbys, each)
            self._idle.wait()  # whoever looked at an engine before may still have it open
            now = self._board.now()
            failures = self._open_all(
                sorted(now.opening, key=self._effort),
                [each for each in copies if each not in now.standbys],
            )
        finally:
            self._board.end()
        if failures:
            raise failures[0]

    def _open_all(
        self, task_ids: Sequence[TaskId], copies: Sequence[TaskId]
    ) -> list[BaseException]:
        """Open *task_ids*, several at a time and in this order, and *copies*; return failures."""
        failures: list[BaseException] = []
        opening: list[Future[None]] = []
        with ExitStack() as stack:
            if task_ids:
                threads = min(self._restore_threads, len(task_ids))
                pool = ThreadPoolExecutor(threads, thread_name_prefix="restore")
                # After an interrupt those that have not begun are not begun.
                stack.callback(pool.shutdown, cancel_futures=True)
                opening = [pool.submit(self._make_ready, task_id) for task_id in task_ids]
            for task_id in copies:
                try:
                    self._board.follow(task_id, self._opener.follow(task_id))
                except StateStoreError as failure:
                    failures.append(failure)
            for each in opening:
                error = each.exception()
                if error is not None:
                    failures.append(error)
        return failures

    def _effort(self, task_id: TaskId) -> tuple[bool, int]:
        """Return what tasks are opened in the order of: promotions first, then the least to do."""
        partition = task_id.partition
        behind = 0
        if self._root.storage is None:  # where a look costs no request
            behind = sum(
                bytes_to_restore(
                    self._root.partition(name, partition), self._idle.known(name, partition)
                )
                for name in self._groups.stores(task_id)
            )
        return self.states[task_id] is not TaskState.PROMOTING, behind

    def _make_ready(self, task_id: TaskId) -> None:
        """Open one task, and publish it; when that fails, what can be read of it stays."""
        try:
            self._board.run(self._opener.open(task_id, self.standbys.get(task_id, ())))
        except BaseException:
            close_standbys(self._board.fail(task_id))
            raise
        finally:
            self._restores.forget({task_id})

    def _close_task(self, task: Task) -> None:
        """Close *task*, and remember how far its engines are."""
        offsets: dict[str, int | None] = {}
        with suppress(StateStoreError):  # then an engine is asked when somebody wants to know
            offsets = {name: store.committed_offset for name, store in task.stores.items()}
        task.close()
        for name, offset in offsets.items():
            if offset is not None:
                self._idle.note(name, task.id.partition, offset + 1)

    # Queries.

    def local_stores(self, name: str, *, include_stale: bool = False) -> dict[int, ReadOnlyStore]:
        """Return a facade of each partition of the store *name* that can be read here now.

        Raises:
            UnknownStateStoreError: No group has such a store.
        """
        return self._reports.local_stores(name, include_stale=include_stale)

    def unready(self, name: str) -> dict[int, str]:
        """Return the partitions of the store *name* that become active here, with their state.

        Raises:
            UnknownStateStoreError: No group has such a store.
        """
        group = self._groups.group_of(name)
        return {
            task_id.partition: state.value
            for task_id, state in self._board.now().opening.items()
            if task_id.group == group
        }

    def changelog_end(self, name: str, partition: int) -> tuple[TopicPartition, int]:
        """Return the changelog of *partition* of the store *name*, and where it ends now.

        Raises:
            UnknownStateStoreError: No group has such a store.
            ChangelogCorruptedError, StorageError: The changelog cannot be read.
        """
        self.group_of(name)
        return changelog_partition(name, partition), self._source(name, partition).lag(0).end_offset

    def group_of(self, name: str) -> int:
        """Return the number of the group of the store *name*.

        Raises:
            UnknownStateStoreError: No group has such a store.
        """
        return self._groups.group_of(name)

    @property
    def root(self) -> StateRoot:
        """The state root."""
        return self._root

    @property
    def store_names(self) -> tuple[str, ...]:
        """The stores of all groups."""
        return self._groups.names

    def specification(self, name: str) -> StoreSpecification[Any, Any]:
        """Return what the store *name* is.

        Raises:
            UnknownStateStoreError: No group has such a store.
        """
        return self._groups.specification(name)

    def partition_count(self, name: str) -> int:
        """Return how many partitions the store *name* has, here and elsewhere.

        Raises:
            UnknownStateStoreError: No group has such a store.
        """
        return self._groups.partition_count(name)

    # Reports.

    def all_local_store_partition_lags(self) -> dict[str, dict[int, LagInfo]]:
        """Return how far each active or standby store and partition here has come (KIP-535).

        Of a task that is restoring, how far that has come. A store and partition whose changelog
        cannot be read is left out, and hides no other (SRV-27). Any thread may ask, at any time.
        """
        lags: dict[str, dict[int, LagInfo]] = {}
        for task_id, of_stores in self._reports.lags().items():
            for name, lag in of_stores.items():
                lags.setdefault(name, {})[task_id.partition] = lag
        return lags

    def task_offset_sums(self) -> dict[TaskId, int]:
        """Return what an assignor is told of the tasks here (KIP-441).

        `LATEST_OFFSET` for an active task that runs. For one that is restoring, and for a standby,
        the sum of its next offsets; likewise for a task that is not assigned but has engines in
        the local directory (KIP-1035): these are opened once, and again only when they change. A
        store whose changelog cannot be read adds nothing.
        """
        return self._reports.offset_sums()

    def metrics(self) -> Metrics:
        """Return the metrics of every task, standby and running restore (MET-10, MET-11).

        Any thread may ask, also while tasks move. Reading the lag of standbys reads changelogs.
        """
        return self._reports.metrics()

    def orphans(self) -> list[Orphan]:
        """Return what lies in the local directory and belongs to no store."""
        return self._local.orphans(self._root)

    def clean_up(self, *, older_than_ms: int = CLEANUP_DELAY_MS) -> list[RemovedEngine]:
        """Remove the engines of tasks that are not assigned here: see `LocalDirectory.clean_up`."""
        assigned = {
            (name, task_id.partition)
            for task_id in self._board.now().assigned  # also a copy that is still to be opened
            for name in self._groups.stores(task_id)
        }
        return self._local.clean_up(assigned, self._root, older_than_ms=older_than_ms)

    def task(self, task_id: TaskId | str) -> Task:
        """Return an active task.

        Raises:
            InvalidStateStoreError: It is restoring or promoting.
            StoreNotFoundError: It is not active here.
        """
        return self._board.now().task(TaskId.of(task_id))

    def close(self) -> None:
        """Close every task and standby; pending writes are forgotten. Idempotent."""
        tasks, standbys = self._board.clear()
        with ExitStack() as stack:
            for task in tasks:
                stack.callback(task.close)
            for group in standbys:
                stack.callback(close_standbys, group)
