"""A process's published tasks and their states: written by restores, read by anyone.

Each change is one step under a lock, so whoever asks sees a task once, in one state.
"""

from dataclasses import dataclass
from threading import Lock

from statestores.errors import InvalidStateStoreError, StoreNotFoundError
from statestores.tasks.standby import Standby
from statestores.tasks.task import Task
from statestores.tasks.task_id import TaskId
from statestores.tasks.task_state import TaskState

Standbys = tuple[Standby, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """All of it, at one moment."""

    tasks: dict[TaskId, Task]
    """Those that run."""

    opening: dict[TaskId, TaskState]
    """Active ones that are not ready: restoring or promoting."""

    standbys: dict[TaskId, Standbys]
    """A standby for each store; also of tasks that are promoting."""

    assigned: frozenset[TaskId]
    """What was assigned last, including what could not be opened yet."""

    @property
    def states(self) -> dict[TaskId, TaskState]:
        """The state of each task."""
        return {
            **dict.fromkeys(self.standbys, TaskState.STANDBY),
            **self.opening,
            **dict.fromkeys(self.tasks, TaskState.RUNNING),
        }

    def task(self, task_id: TaskId) -> Task:
        """Return the task *task_id*, which runs.

        Raises:
            InvalidStateStoreError: It is restoring or promoting.
            StoreNotFoundError: It is not active here.
        """
        if task_id in self.tasks:
            return self.tasks[task_id]
        if task_id in self.opening:
            raise InvalidStateStoreError(
                f"the task {task_id} is {self.opening[task_id].value} here; try again"
            )
        active = ", ".join(str(each) for each in sorted(self.tasks)) or "none"
        raise StoreNotFoundError(f"the task {task_id} is not active here; active: {active}")


class TaskBoard:
    """Where tasks are published."""

    def __init__(self) -> None:
        """Begin without tasks."""
        self._lock = Lock()
        self._tasks: dict[TaskId, Task] = {}
        self._standbys: dict[TaskId, Standbys] = {}
        self._opening: dict[TaskId, TaskState] = {}
        self._assigned: frozenset[TaskId] = frozenset()

    def now(self) -> Published:
        """Return what is published."""
        with self._lock:
            return Published(
                tasks=dict(self._tasks),
                opening=dict(self._opening),
                standbys=dict(self._standbys),
                assigned=self._assigned,
            )

    def begin(self, active: set[TaskId], copies: set[TaskId]) -> tuple[list[Task], list[Standbys]]:
        """Publish an assignment that begins; return what was taken out and must be closed."""
        with self._lock:
            self._assigned = frozenset(active | copies)
            tasks = [self._tasks.pop(each) for each in {*self._tasks} - active]
            going = {*self._standbys} - copies - active
            standbys = [self._standbys.pop(each) for each in going]
            for task_id in active - {*self._tasks}:
                is_copied = task_id in self._standbys
                self._opening[task_id] = TaskState.PROMOTING if is_copied else TaskState.RESTORING
        return tasks, standbys

    def run(self, task: Task) -> None:
        """Publish a task that is ready. Its standbys are promoted, or were closed."""
        with self._lock:
            self._tasks[task.id] = task
            self._standbys.pop(task.id, None)
            self._opening.pop(task.id, None)

    def follow(self, task_id: TaskId, standbys: Standbys) -> None:
        """Publish the standbys of a task."""
        with self._lock:
            self._standbys[task_id] = standbys

    def fail(self, task_id: TaskId) -> Standbys:
        """Take note that a task could not be opened; return standbys that are of no further use.

        If one was promoted and closed again, they are no longer a standby of the whole task.
        """
        with self._lock:
            self._opening.pop(task_id, None)
            standbys = self._standbys.get(task_id, ())
            if all(each.is_open for each in standbys):
                return ()
            return self._standbys.pop(task_id)

    def end(self) -> None:
        """Take note that an assignment is over: what is not open by now is not assigned."""
        with self._lock:
            self._opening.clear()
            self._assigned = frozenset({*self._tasks, *self._standbys})

    def clear(self) -> tuple[list[Task], list[Standbys]]:
        """Take everything out; return what must be closed."""
        return self.begin(set(), set())
