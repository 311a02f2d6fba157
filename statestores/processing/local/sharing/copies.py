"""The standbys of a process: copies of the stores of tasks that others run (PRC-77).

They lie in the state root, in a place of which the process has the lock; the next process that gets
the place goes on with what lies there.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

from statestores.errors import StateStoreError, StoreLockedError
from statestores.files.directory_lock import DirectoryLock
from statestores.processing.local.sharing.instances import StandbyTask
from statestores.processing.local.sharing.left_copies import LeftCopies
from statestores.processing.local.task_plan import PlannedTask
from statestores.spi.closing import Closing
from statestores.spi.metrics.catalog import tagged
from statestores.spi.metrics.metric import Metrics
from statestores.tasks import Standby

STANDBYS_DIRECTORY = "@standbys"
"""Where the places are, in a state root."""

OpenCopy = Callable[[PlannedTask, str, Path], Standby]
"""Opens a copy of a task's store of that name, in that directory."""


def copies_for(
    instance: str,
    instances: Sequence[str],
    owners: Mapping[str, str],
    tasks: Sequence[str],
    number: int,
) -> set[str]:
    """Return the tasks of which *instance* keeps a copy, of those that another one runs.

    Each has *number* of copies, or as many as there are others, beginning with another one for
    each task. All instances compute the same.

    Args:
        instance: Whose copies these are.
        instances: All of them, in one order.
        owners: Who runs each task; those without are left out.
        tasks: All tasks, in one order.
        number: How many copies each is to have.
    """
    chosen = set()
    for at, task in enumerate(tasks):
        others = [each for each in instances if each != owners.get(task)]
        if task in owners and others:
            first = at % len(others)
            if instance in (others[first:] + others[:first])[:number]:
                chosen.add(task)
    return chosen


class Copies(Closing):
    """The copies that are here. One thread keeps them; any may read them."""

    def __init__(self, state: Path, open_copy: OpenCopy, *, is_following: bool = True) -> None:
        """Keep none yet. Each follows on a thread of its own; if not, by `poll`."""
        self._is_following = is_following
        self._directory = state / STANDBYS_DIRECTORY
        self._open_copy = open_copy
        self._place: DirectoryLock | None = None
        self._path = self._directory
        self._kept: dict[str, tuple[PlannedTask, tuple[Standby, ...]]] = {}
        self._left = LeftCopies(self._directory)

    @property
    def tasks(self) -> frozenset[str]:
        """The names of the tasks of which there are some."""
        return frozenset(self._kept)

    def keep(self, tasks: Collection[PlannedTask]) -> None:
        """Follow exactly *tasks*.

        Raises:
            StateStoreError: A copy cannot be opened.
        """
        wanted = {task.name for task in tasks}
        for name in self._kept.keys() - wanted:
            self._close(self.take(name))
        for task in tasks:
            if task.name not in self._kept:
                self._kept = self._kept | {task.name: (task, self._opened(task))}

    def remove_left(self, promoted: Iterable[PlannedTask]) -> None:
        """Remove copies that nobody has kept for long; of those *promoted*, a task may be one."""
        tasks = [*promoted, *(task for task, _ in self._kept.values())]
        kept = {(store, task.partition) for task in tasks for store in task.stores}
        self._left.remove(None if self._place is None else self._path, kept)

    def poll(self) -> None:
        """Take what the changelogs have by now.

        Raises:
            StateStoreError: One cannot be read.
        """
        for _, standbys in self._kept.values():
            for standby in standbys:
                try:
                    standby.poll()
                except StateStoreError as error:
                    if not error.retryable:
                        raise

    def take(self, name: str) -> tuple[Standby, ...]:
        """Return the copies of the task *name*, which are the caller's from now on."""
        _, standbys = self._kept.get(name, (None, ()))
        self._kept = {kept: each for kept, each in self._kept.items() if kept != name}
        return standbys

    def give_back(self, task: PlannedTask, standbys: tuple[Standby, ...]) -> None:
        """Keep what was taken, unless a part of it has been promoted meanwhile."""
        if standbys and all(each.is_open for each in standbys):
            self._kept = self._kept | {task.name: (task, standbys)}
        else:
            self._close(standbys)

    def reports(self) -> list[StandbyTask]:
        """Return what is said of them to others."""
        found = []
        for name, (task, standbys) in self._kept.items():
            stores = {}
            for standby in standbys:
                with suppress(StateStoreError):  # it is closed, or the log changes just now
                    stores[standby.name] = standby.lag.current_offset
            found.append(StandbyTask(task=name, part=task.part, stores=stores))
        return found

    def standbys(self, store: str) -> dict[int, Standby]:
        """Return the copies of *store* that are here, by partition."""
        return {
            standby.partition: standby
            for _, standbys in self._kept.values()
            for standby in standbys
            if standby.name == store
        }

    def metrics(self) -> Metrics:
        """Return what they measure; any thread may ask."""
        return tuple(
            metric
            for name, (_, standbys) in self._kept.items()
            for standby in standbys
            for metric in tagged(standby.metrics(), {"task-id": name})
        )

    def close(self) -> None:
        """Close all of them, and leave the place. Idempotent."""
        with ExitStack() as stack:
            if self._place is not None:
                stack.callback(self._place.release)
            for name in self._kept:
                stack.callback(self._close, self.take(name))

    def _opened(self, task: PlannedTask) -> tuple[Standby, ...]:
        directory = self._own_place()
        with ExitStack() as on_failure:
            opened = []
            for store in task.stores:
                copy = directory / store / str(task.partition)
                opened.append(on_failure.enter_context(self._open_copy(task, store, copy)))
                if self._is_following:
                    opened[-1].follow()
            on_failure.pop_all()
        return tuple(opened)

    def _own_place(self) -> Path:
        """Return the directory of this process: the first that nobody has."""
        if self._place is None:
            for number in count():
                with suppress(StoreLockedError):
                    self._path = self._directory / str(number)
                    self._place = DirectoryLock.acquire(self._path)
                    break
        return self._path

    @staticmethod
    def _close(standbys: Iterable[Standby]) -> None:
        with ExitStack() as stack:
            for standby in standbys:
                stack.callback(standby.close)
