"""What a sink is, and what it does for a task.

A sink empties a topic (PRC-63): it gets each record of it behind its position, which is committed
with what it has written.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from statestores.processing.record import RawRecord
from statestores.processing.topic import Topic
from statestores.tasks.commits.task_outputs import OutputFiles


class Delivery(NamedTuple):
    """A record of the topic, and where it is."""

    partition: int
    """The partition."""

    offset: int
    """The offset in it."""

    raw: RawRecord
    """The record as it lies there."""


class SinkWriter(Protocol):
    """Takes records, and makes them visible with the commit; see `statestores.tasks.TaskOutputs`.

    `record` may be called for some records more than once: after a commit that failed.
    """

    @property
    def has_pending(self) -> bool:
        """Whether records wait for the commit."""

    def is_due(self, wall_ms: int) -> bool:
        """Whether it is time to commit them."""

    def deliver(self, delivery: Delivery, wall_ms: int) -> None:
        """Take a record.

        Raises:
            Exception: It is none that can be written; the error policy decides.
        """

    def record(self) -> OutputFiles:
        """Return what waits, for the record of the commit."""

    def publish(self, files: OutputFiles) -> None:
        """Make visible what `record` gave; what is visible already stays."""

    def forget(self) -> None:
        """Have nothing waiting."""


@dataclass(frozen=True)
class LocalSink(ABC):
    """Describes a sink; nothing is opened."""

    @abstractmethod
    def writer(self, topic: Topic[Any, Any], state: str) -> SinkWriter:
        """Open it for what the topology with the state *state* has in *topic*.

        Raises:
            InvalidArgumentError: It cannot take the records of *topic*.
            StoreMismatchError: Another topic or state writes there.
            StorageError: It cannot be written.
        """
