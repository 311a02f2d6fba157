"""What every operator is: something that is given records or changes, and gives some on.

An operator belongs to one task. What it has to remember lies in stores; `prepare_commit` writes
what it keeps beside them for speed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from statestores.errors import InvalidArgumentError
from statestores.processing.operators.time_queue import TimeQueue
from statestores.processing.record import Record, RecordFields

Receive: TypeAlias = Callable[[Any], None]
"""Takes a `Record` or a `Change`."""


class ObservedTime:
    """The highest time that an operator, or two that share it, has been given."""

    __slots__ = ("arrived_ms", "now_ms", "saved_ms")

    def __init__(self, now_ms: int, arrived_ms: int) -> None:
        """Begin where the last commit left it; -1 before the first record."""
        self.now_ms = self.saved_ms = now_ms
        self.arrived_ms = arrived_ms


class Timer(Protocol):
    """A callback that comes again and again."""

    def cancel(self) -> None:
        """Stop it, for good."""


class TaskServices(Protocol):
    """What a task offers its operators."""

    topic: str
    """The topic of the record that is being processed; empty when a timer fires."""

    partition: int
    """Its partition."""

    offset: int
    """Its offset; -1 when a timer fires."""

    stream_time_ms: int
    """The highest timestamp that the task has seen; -1 before the first."""

    wall_ms: int
    """The wall clock, as the runner has moved it."""

    task_partition: int
    """The partition of the task itself."""

    def store(self, name: str) -> Any:
        """Return the task's store *name*, or that of a global table."""

    def drop(self, operator: str, reason: str, record: Any) -> None:
        """Count a record that goes no further, and say so in the log."""

    def fail_one(self, operator: str, error: Exception) -> None:
        """Deal with what has failed for one of several records, as the error policy says.

        The operator goes on with the others: they are not to be lost with it (PRC-98).

        Raises:
            Exception: *error* itself, where the policy is to fail.
        """

    def forgive(self, error: Exception) -> None:
        """Go on without what a row was, which fails now as it did when the row came (PRC-100).

        Raises:
            Exception: *error* itself, where the policy is to fail, or no row is to blame.
        """

    def fail_task(self, operator: str, error: Exception) -> None:
        """Stop, whatever the policy is: what comes later could not be right (PRC-101).

        Raises:
            ProcessingError: Always.
        """

    def observed_time(self, name: str) -> ObservedTime:
        """Return the time that is kept under *name*, one for all who ask by that name."""

    def time_queue(self, store: str) -> TimeQueue:
        """Return the queue over the store of bytes *store*, one for all who ask."""

    def every(
        self,
        node: str,
        interval_ms: int,
        callback: Callable[[int], None],
        clock: str,
        start_ms: int | None,
    ) -> Timer:
        """Call *callback* every *interval_ms* of *clock*; kept across crashes."""

    def on_wall_clock(self, callback: Callable[[int], None]) -> None:
        """Call *callback* whenever the wall clock is moved."""

    def emit(
        self, topic: str, record: Record[bytes | None, bytes | None], partition: int | None
    ) -> None:
        """Send a record to a topic, to a partition that is said or that its key says."""

    def emitter(self, topic: str) -> Callable[[RecordFields], None]:
        """Return what sends the fields of a record to *topic*, to the partition of its key."""

    def request_commit(self) -> None:
        """Ask for a commit soon."""


class Operator(ABC):
    """A step of one task."""

    name: str = ""
    """The name of its node."""

    forward: Receive
    """Gives on to every child, depth first, in the order in which they were attached."""

    is_leaf: bool = False
    """Whether there is no child: what is forwarded goes nowhere."""

    def wire(self, children: Mapping[str, Receive]) -> None:
        """Take the children, by the names of their nodes."""
        self.is_leaf = not children
        self.forward = fan_out(list(children.values()))

    def open(self, task: TaskServices) -> None:  # noqa: B027  # most need nothing
        """Get ready: stores, times and timers are there. Children are open already."""

    @abstractmethod
    def receive(self, item: Any) -> None:
        """Take a record or a change."""

    def prepare_commit(self) -> None:  # noqa: B027  # most need nothing
        """Write to the stores what is kept beside them."""

    def close(self) -> None:  # noqa: B027  # most need nothing
        """Let go of what is not a store."""


def fan_out(children: Sequence[Receive]) -> Receive:
    """Return what gives an item to each of *children*; the one child itself where there is one."""
    if not children:
        return _nowhere
    if len(children) == 1:
        return children[0]
    several = tuple(children)

    def forward(item: Any) -> None:
        for child in several:
            child(item)

    return forward


def _nowhere(item: Any) -> None:
    """Take what nobody wants."""


class Pass(Operator):
    """Gives on what it gets: where branches end and sides of joins meet. Elided when wired."""

    def receive(self, item: Any) -> None:
        """Give it on."""
        self.forward(item)


def one_child(children: Mapping[str, Receive], name: str, operator: str) -> Receive:
    """Return the child *name*.

    Raises:
        InvalidArgumentError: There is none.
    """
    try:
        return children[name]
    except KeyError as error:
        raise InvalidArgumentError(
            f"{operator!r} has no child {name!r}; it has: {', '.join(children) or 'none'}"
        ) from error
