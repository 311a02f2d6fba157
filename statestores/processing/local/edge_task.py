"""Tasks at the edges of a topology: what fills a topic, and what empties one (PRC-59, PRC-63).

They are tasks as others are: what they remember is in a store, and a commit has that, their outputs
and their position as one.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from statestores.processing.error_policy import Action
from statestores.processing.record import RawRecord, Record
from statestores.processing.runtime import TaskCounts
from statestores.processing.runtime.failures import dead_letter, dead_letter_topic
from statestores.processing.runtime.task_meter import TaskMeter
from statestores.spi import TopicPartition
from statestores.spi.closing import Closing
from statestores.spi.metrics.metric import Metrics
from statestores.tasks import Task

EmitLetter = Callable[[str, RawRecord], None]
"""Takes the name of a topic and a dead letter for it."""


class EdgeTask(Closing):
    """What the runner sees of such a task. One thread at a time uses it."""

    def __init__(self, name: str, task: Task, action: Action) -> None:
        """Be called *name* in messages, and do with what fails what *action* says."""
        self.name = name
        self.task = task
        self.counts = TaskCounts()
        """What was dropped; nothing is processed at an edge, and what passes is counted there."""
        self.uncommitted = 0
        """How many records wait for a commit in memory; 0 where the task itself knows when."""
        self.committed = dict[TopicPartition, int]()
        """Up to which offset, exclusive, each partition is committed that it reads."""
        self._action = action
        self.meter = TaskMeter(self.counts, {"task-id": str(task.id)})
        """What it measures."""

    def metrics(self) -> Metrics:
        """Return what the task and its store measure; any thread may ask."""
        return (*self.meter.metrics(), *self.task.metrics())

    @property
    def commit_requested(self) -> bool:
        """Whether it wants to commit before its time."""
        return False

    @property
    def has_waiting(self) -> bool:
        """Whether it knows of something that it does not do yet."""
        return False

    @abstractmethod
    def advance(self, wall_ms: int, limit: int) -> int:
        """Move up to *limit* records; return how many.

        Raises:
            ProcessingError: One failed, and the policy is to fail.
            StateStoreError: A file or a topic cannot be read.
        """

    @abstractmethod
    def commit(self) -> bool:
        """Commit what has happened, if anything has.

        Raises:
            StateStoreError: See `statestores.tasks.Task.commit`.
        """

    def commit_when_due(self) -> bool:
        """Commit because the runner's interval is over."""
        return self.commit()

    def close(self) -> None:
        """Close the stores; what is not committed is forgotten."""
        self.task.close()

    def dropped(
        self,
        error: Exception,
        place: tuple[str, int, int],
        raw: RawRecord,
        emit: Callable[[str, RawRecord], None],
        more: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Count what failed at *place*, and send *raw* to the dead letters if there are any."""
        topic, partition, offset = place
        self.counts.drop(self.name, f"failed-{type(error).__name__}", topic, partition, offset)
        letters = dead_letter_topic(self._action)
        if letters is not None:
            letter = dead_letter(raw, self.name, topic, partition, offset, error)
            headers = tuple((f"__streams.errors.{name}", text.encode()) for name, text in more)
            emit(letters, letter._replace(headers=(*letter.headers, *headers)))
            self.counts.emitted += 1


def store_name_of(topic: str, edge: str) -> str:
    """Return the name of the store of an edge (``source`` or ``sink``) of *topic*."""
    return f"{topic}-{edge}"


def empty_letter(data: bytes | None, wall_ms: int) -> RawRecord:
    """Return the record that a dead letter is made of when there is no record yet."""
    record: Record[Any, Any] = Record(None, data, wall_ms)
    return record
