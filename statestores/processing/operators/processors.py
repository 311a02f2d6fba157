"""The operator that runs a processor, and the context that it gives it."""

from collections.abc import Callable, Mapping
from typing import Any

from statestores.errors import InvalidArgumentError, InvalidTypeError, StoreNotFoundError
from statestores.processing.operators.operator import (
    Operator,
    Receive,
    TaskServices,
    Timer,
    one_child,
)
from statestores.processing.processor import Clock, Processor
from statestores.processing.record import Record
from statestores.processing.windows import check_duration


class Process(Operator):
    """Runs a processor."""

    def __init__(
        self, supply: Callable[[], Processor[Any, Any, Any, Any]], stores: tuple[str, ...]
    ) -> None:
        """Make a processor by *supply*; it may use the stores named."""
        self.stores = stores
        self.processor = supply()
        if not isinstance(self.processor, Processor):
            raise InvalidTypeError(
                f"a processor is a statestores.processing.Processor, got {self.processor!r}"
            )
        self.receive = self.processor.process  # type: ignore[assignment,method-assign]  # a call less

    def wire(self, children: Mapping[str, Receive]) -> None:
        """Keep the children by name as well."""
        super().wire(children)
        self.children = dict(children)

    def open(self, task: TaskServices) -> None:
        """Open the processor."""
        self.task = task
        self.processor._stores = self._store  # noqa: SLF001  # the runtime's door
        self.processor._name = self.name  # noqa: SLF001  # for the message of a failure
        self.processor.context = TaskContext(self, task)
        self.processor.open(self.processor.context)

    def receive(self, item: Record[Any, Any]) -> None:
        """Give it to the processor."""
        self.processor.process(item)

    def close(self) -> None:
        """Close the processor."""
        self.processor.close()

    def _store(self, name: str) -> Any:
        if name not in self.stores:
            raise StoreNotFoundError(
                f"{self.name!r} has not declared the store {name!r}; it has declared: "
                f"{', '.join(self.stores) or 'none'}. Declare it as an attribute of the class, or "
                "in stores=[...]"
            )
        return self.task.store(name)


class TaskContext:
    """The context of one processor in one task."""

    def __init__(self, operator: Process, task: TaskServices) -> None:
        """Speak for *operator*."""
        self._operator = operator
        self._task = task
        self._forward = operator.forward

    @property
    def topic(self) -> str:
        """The topic of the record at hand."""
        return self._task.topic

    @property
    def partition(self) -> int:
        """The partition of the record at hand."""
        return self._task.partition

    @property
    def offset(self) -> int:
        """The offset of the record at hand."""
        return self._task.offset

    @property
    def stream_time_ms(self) -> int:
        """The task's stream time."""
        return self._task.stream_time_ms

    @property
    def wall_time_ms(self) -> int:
        """The runner's wall clock."""
        return self._task.wall_ms

    def forward(self, record: Record[Any, Any], to: str | None = None) -> None:
        """Give *record* on."""
        if to is None:
            self._forward(record)
        else:
            one_child(self._operator.children, to, self._operator.name)(record)

    def every(
        self,
        interval_ms: int,
        callback: Callable[[int], None],
        *,
        clock: Clock = "stream",
        start_ms: int | None = None,
    ) -> Timer:
        """Call *callback* again and again."""
        check_duration("interval_ms", interval_ms, least=1)
        if clock not in ("stream", "wall"):
            raise InvalidArgumentError(f"clock must be 'stream' or 'wall', got {clock!r}")
        return self._task.every(self._operator.name, interval_ms, callback, clock, start_ms)

    def commit(self) -> None:
        """Ask for a commit."""
        self._task.request_commit()

    def drop(self, record: Record[Any, Any], reason: str) -> None:
        """Count *record* as dropped."""
        self._task.drop(self._operator.name, reason, record)
