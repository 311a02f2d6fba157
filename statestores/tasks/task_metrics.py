"""What tasks and standbys measure: restores that run, and how standbys keep up."""

from collections.abc import Mapping
from time import perf_counter_ns
from types import MappingProxyType

from statestores.metering.recent_past import RecentPast
from statestores.spi.metrics.catalog import (
    RESTORE_REMAINING,
    RESTORED,
    UPDATE_REMAINING,
    UPDATED,
    tagged,
)
from statestores.spi.metrics.metric import Metrics
from statestores.tasks.lag import LATEST_OFFSET, LagInfo
from statestores.tasks.restore_progress import RestoreListener, RestoreProgress
from statestores.tasks.task_id import TaskId


class RestoreLedger:
    """The restores of a task manager that run, and a listener that is told of them as well."""

    __slots__ = ("_ended", "_listener", "_running")

    def __init__(self, listener: RestoreListener | None) -> None:
        self._listener = listener
        self._running: dict[tuple[TaskId, str], RestoreProgress] = {}
        self._ended: set[tuple[TaskId, str]] = set()  # of tasks that are not ready yet

    def __call__(self, progress: RestoreProgress) -> None:
        """Take note of a restore's start, batch or end."""
        restored = progress.task, progress.store
        if progress.event == "ended":
            self._ended.add(restored)
            self._running.pop(restored, None)  # its rows are the logged store's to tell from now on
        else:
            self._running[restored] = progress
        if self._listener is not None:
            self._listener(progress)

    def forget(self, tasks: set[TaskId]) -> None:
        """Take note that the restores of *tasks* are over, however they ended."""
        for restored in self._running.copy():
            if restored[0] in tasks:
                self._running.pop(restored, None)
        for restored in self._ended.copy():
            if restored[0] in tasks:
                self._ended.discard(restored)

    def next_offset(self, task: TaskId, store: str) -> int | None:
        """Return the next offset that a restore applies; ``None`` if that is not known yet.

        `LATEST_OFFSET` when the store has everything, and the task has others still to come.
        """
        if (task, store) in self._ended:
            return LATEST_OFFSET
        progress = self._running.get((task, store))
        if progress is None or progress.offset is None:
            return None
        return progress.offset + 1

    def metrics(self) -> Metrics:
        """Return the metrics of the restores that run."""
        metrics = []
        for (task, store), progress in self._running.copy().items():
            tags = MappingProxyType(
                {"state-id": store, "task-id": str(task), "partition": str(task.partition)}
            )
            total, rate = RESTORED
            metrics.append(total.of(progress.rows, tags))
            metrics.append(rate.of(progress.rows_per_second or 0, tags))
            if progress.total_rows is not None:
                remaining = max(0, progress.total_rows - progress.rows)
                metrics.append(RESTORE_REMAINING.of(remaining, tags))
        return tuple(metrics)


class UpdateMeter:
    """The meter of one standby. One thread at a time records, any thread may read."""

    __slots__ = ("_past", "_taken")

    def __init__(self) -> None:
        self._taken = 0
        self._past = RecentPast((0,), perf_counter_ns())

    def taken(self, rows: int) -> None:
        """Count *rows* that were taken from snapshot or changelog."""
        self._taken += rows
        self._past.keep((self._taken,), perf_counter_ns())

    def metrics(self, of_store: Metrics, lag: LagInfo | None, tags: Mapping[str, str]) -> Metrics:
        """Return the metrics of this moment, after those *of_store*; all with *tags* as well."""
        store_tags = of_store[0].tags if of_store else {}
        now_ns = perf_counter_ns()
        taken = self._taken
        change = self._past.change((taken,), now_ns)
        self._past.keep((taken,), now_ns)
        total, rate = UPDATED
        own = [
            total.of(taken, store_tags),
            rate.of(change.added[0] / change.seconds, store_tags),
        ]
        if lag is not None:
            own.append(UPDATE_REMAINING.of(lag.offset_lag, store_tags))
        return tagged((*of_store, *own), tags)
