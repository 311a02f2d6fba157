"""How far the restore of a task's store has come, with its speed and what remains."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from statestores.arrow.progress import Progress
from statestores.tasks.task_id import TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreProgress:
    """A moment in the restore of one store of a task."""

    task: TaskId
    """The task."""

    store: str
    """The store's name; its partition is the task's."""

    event: Literal["started", "restored", "ended"]
    """``restored`` comes after each batch; ``ended`` also when there was nothing to do."""

    rows: int
    """Rows and changes taken so far."""

    bytes: int
    """Their bytes, uncompressed."""

    total_rows: int | None
    """How many there will be; ``None`` when that is not known."""

    seconds: float
    """Time since the start."""

    offset: int | None = None
    """The changelog offset up to which it has been read; ``None`` before the changelog.

    A long restore commits what it has read a little later."""

    @property
    def rows_per_second(self) -> float | None:
        """The mean speed so far; ``None`` before it can be told."""
        return self.rows / self.seconds if self.rows and self.seconds > 0 else None

    @property
    def remaining_seconds(self) -> float | None:
        """The time that the rest takes at that speed; ``None`` while nobody knows."""
        if self.total_rows is None or self.rows_per_second is None:
            return None
        return max(0, self.total_rows - self.rows) / self.rows_per_second


RestoreListener: TypeAlias = Callable[[RestoreProgress], None]
"""Told of each restore's start, batches and end, on the thread that restores. What it raises ends
the restore."""


class RestoreReporter:
    """Tells a listener, if there is one, of the restore of one store."""

    __slots__ = ("_began", "_last", "_listener", "_store", "_task")

    def __init__(self, listener: RestoreListener | None, task: TaskId, store: str) -> None:
        self._listener = listener
        self._task = task
        self._store = store
        self._began = time.monotonic()
        self._last = Progress(rows=0, bytes=0)

    def start(self) -> None:
        """Tell that the restore begins."""
        self._tell("started")

    def __call__(self, progress: Progress) -> None:
        """Tell of a batch; the callback of `statestores.arrow.restore.restore`."""
        self._last = progress
        self._tell("restored")

    def end(self) -> None:
        """Tell that the store has everything."""
        self._tell("ended")

    def _tell(self, event: Literal["started", "restored", "ended"]) -> None:
        if self._listener is not None:
            self._listener(
                RestoreProgress(
                    task=self._task,
                    store=self._store,
                    event=event,
                    rows=self._last.rows,
                    bytes=self._last.bytes,
                    total_rows=self._last.total_rows,
                    seconds=time.monotonic() - self._began,
                    offset=self._last.offset,
                )
            )
