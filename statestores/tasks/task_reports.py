"""What tasks of a process tell: stores to read, lags, offset sums (KIP-535, KIP-441), metrics."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from statestores.errors import (
    InvalidStateStoreError,
    StateStoreError,
    StorageError,
    StoreClosedError,
)
from statestores.spi.metrics.catalog import tagged
from statestores.spi.metrics.metric import Metrics
from statestores.spi.stores.store import Isolation, ReadOnlyStore
from statestores.tasks.copying.object_source import ObjectSource
from statestores.tasks.copying.source import CopySource
from statestores.tasks.idle_offsets import IdleOffsets
from statestores.tasks.lag import LATEST_OFFSET, LagInfo, task_offset_sum
from statestores.tasks.standby import Standby
from statestores.tasks.task_board import TaskBoard
from statestores.tasks.task_groups import TaskGroups
from statestores.tasks.task_id import TaskId
from statestores.tasks.task_metrics import RestoreLedger


class TaskReports:
    """Asks what is published, at any moment, on any thread; what closes meanwhile is not here."""

    def __init__(
        self,
        source: Callable[[str, int], CopySource],
        groups: TaskGroups,
        board: TaskBoard,
        restores: RestoreLedger,
        idle: IdleOffsets | None,
    ) -> None:
        """Report what is on *board*, and the engines that *idle* knows, where these are local.

        *source* gives where a partition of a store has its rows from.
        """
        self._source = source
        self._groups = groups
        self._board = board
        self._restores = restores
        self._idle = idle

    def lags(self) -> dict[TaskId, dict[str, LagInfo]]:
        """Return the lag of each store of each assigned task, where it can be told (SRV-27).

        A store whose changelog cannot be read is left out. Once an object store has not answered,
        nothing more is asked of it by this call: each question would take as long again.
        """
        now = self._board.now()
        lags: dict[TaskId, dict[str, LagInfo]] = {}
        asked = [
            (task_id, name, partial(self._restore_lag, task_id, name))
            for task_id in now.opening
            for name in self._groups.stores(task_id)
        ] + [
            (task_id, standby.name, partial(_lag_of, standby))
            for task_id, copies in now.standbys.items()
            for standby in copies
        ]
        is_silent = False
        for task_id, name, ask in asked:
            of_stores = lags.setdefault(task_id, {})
            is_remote = isinstance(self._source(name, task_id.partition), ObjectSource)
            if is_silent and is_remote:
                continue
            try:
                of_stores[name] = ask()
            except StateStoreError as error:  # whoever follows or restores it is told why
                is_silent = is_silent or (is_remote and isinstance(error, StorageError))
        for task_id, task in now.tasks.items():
            with suppress(StoreClosedError):
                lags[task_id] = task.lags()
        return lags

    def metrics(self) -> Metrics:
        """Return the metrics of every task, standby and running restore (MET-10, MET-11)."""
        now = self._board.now()
        active = [metric for task in now.tasks.values() for metric in task.metrics()]
        copies = [
            metric
            for task_id, standbys in now.standbys.items()
            for standby in standbys
            for metric in tagged(standby.metrics(), {"task-id": str(task_id)})
        ]
        return (*active, *copies, *self._restores.metrics())

    def local_stores(self, name: str, *, include_stale: bool) -> dict[int, ReadOnlyStore]:
        """Return a facade of each partition of the store *name* that can be read here now.

        Raises:
            UnknownStateStoreError: No group has such a store.
        """
        group, now = self._groups.group_of(name), self._board.now()
        found: dict[int, ReadOnlyStore] = {}
        # What is closed at this moment, or loading, is not here.
        for task_id, task in now.tasks.items():
            if task_id.group == group:
                with suppress(StoreClosedError):
                    store = task.logged_store(name).store
                    found[task_id.partition] = store.read_only(Isolation.READ_COMMITTED)
        if include_stale:
            for task_id, standbys in now.standbys.items():  # of tasks that do not run
                for standby in standbys:
                    if standby.name == name:
                        with suppress(InvalidStateStoreError, StoreClosedError):
                            found[task_id.partition] = standby.read_only(include_stale=True)
        return found

    def _restore_lag(self, task_id: TaskId, name: str) -> LagInfo:
        """Return the lag of a store that is being restored, from what its restore tells."""
        reached = self._restores.next_offset(task_id, name)
        if reached is None:
            known = None if self._idle is None else self._idle.known(name, task_id.partition)
            reached = known or 0
        has_everything = reached == LATEST_OFFSET
        lag = self._source(name, task_id.partition).lag(0 if has_everything else reached)
        return LagInfo(lag.end_offset, lag.end_offset) if has_everything else lag

    def offset_sums(self) -> dict[TaskId, int]:
        """Return the offset sum of each task that has something here.

        A store whose changelog cannot be read adds nothing to that of its task (SRV-27).
        """
        sums = {}
        for task_id, of_stores in self.lags().items():
            known = task_offset_sum(lag.current_offset for lag in of_stores.values())
            if known is not None:
                sums[task_id] = known
        now = self._board.now()
        sums.update(dict.fromkeys(now.tasks, LATEST_OFFSET))
        if self._idle is not None:
            for task_id in sorted(self._groups.tasks() - now.assigned):
                known = task_offset_sum(self._idle_offsets(task_id, self._idle))
                if known is not None:
                    sums[task_id] = known
        return sums

    def _idle_offsets(self, task_id: TaskId, idle: IdleOffsets) -> list[int]:
        """Return the next offset of each engine of a task that is not assigned here."""

        def is_idle() -> bool:
            return task_id not in self._board.now().assigned

        offsets = [
            idle.next_offset(name, task_id.partition, is_idle)
            for name in self._groups.stores(task_id)
        ]
        return [offset for offset in offsets if offset is not None]


def _lag_of(standby: Standby) -> LagInfo:
    return standby.lag
