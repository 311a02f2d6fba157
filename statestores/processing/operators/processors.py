"""The operator that runs a processor, and the context that it gives it."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from statestores.errors import InvalidArgumentError, InvalidTypeError, StoreNotFoundError
from statestores.processing.any_processor import Clock
from statestores.processing.functions import check_function
from statestores.processing.operators.operator import (
    Operator,
    Receive,
    TaskServices,
    Timer,
    one_child,
)
from statestores.processing.processor import Processor
from statestores.processing.record import Record
from statestores.processing.windows import check_duration
from statestores.spi import StoreSpecification


class Process(Operator):
    """Runs a processor."""

    def __init__(
        self,
        supply: Callable[[], Processor[Any, Any, Any, Any]],
        stores: tuple[StoreSpecification[Any, Any], ...],
    ) -> None:
        """Make a processor by *supply*; it may use these *stores*."""
        self.stores = {store.name: store for store in stores}
        self.context: TaskContext | None = None
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
        if self.processor._stores is not None:  # noqa: SLF001  # the runtime's door
            raise InvalidTypeError(
                f"{self.name!r} was given one processor for two tasks, {self.processor!r}; each "
                "task needs its own: hand over the class, or a function that makes a new one"
            )
        self.task = task
        processor_store = partial(declared_store, self)
        self.processor._stores = processor_store  # noqa: SLF001  # the runtime's door
        self.processor._name = self.name  # noqa: SLF001  # for the message of a failure
        context = self.context = self.processor.context = TaskContext(self, task)
        self.processor.open(context)
        context.begin()

    def receive(self, item: Record[Any, Any]) -> None:
        """Give it to the processor."""
        self.processor.process(item)

    def close(self) -> None:
        """Close the processor."""
        if self.context is not None:
            self.context.end()
        self.processor.close()
        self.processor._stores = None  # noqa: SLF001  # it may be opened again


class RunsProcessor(Protocol):
    """An operator that runs a processor, of records or of batches."""

    name: str
    stores: dict[str, StoreSpecification[Any, Any]]
    """Those that it may use, as the processor has declared them."""

    task: TaskServices
    forward: Receive
    children: dict[str, Receive]
    """Those that it can forward to by name."""


def declared_store(operator: RunsProcessor, specification: StoreSpecification[Any, Any]) -> Any:
    """Return the store of *specification* for the processor of *operator*.

    Raises:
        StoreNotFoundError: It has not declared it, or as another one.
    """
    name = specification.name
    declared = operator.stores.get(name)
    if declared is not specification:
        if declared is None:
            raise StoreNotFoundError(
                f"{operator.name!r} has not declared the store {name!r}; it has declared: "
                f"{', '.join(operator.stores) or 'none'}. Declare it as an attribute of the class, "
                "or in stores=[...]"
            )
        if declared.describe() != specification.describe():
            raise StoreNotFoundError(
                f"{operator.name!r} has declared the store {name!r} as {declared.describe()!r}, "
                f"and asks for {specification.describe()!r}; ask for it by what declares it"
            )
    return operator.task.store(name)


class TaskContext:
    """The context of one processor in one task."""

    def __init__(self, operator: RunsProcessor, task: TaskServices) -> None:
        """Speak for *operator*."""
        self._operator = operator
        self._task = task
        self._forward: Receive = self._not_now
        self._children: Mapping[str, Receive] = {}

    def begin(self) -> None:
        """Let records be forwarded from here on."""
        self._forward, self._children = self._operator.forward, self._operator.children

    def end(self) -> None:
        """Let no more records be forwarded."""
        self._forward = self._not_now
        self._children = dict.fromkeys(self._children, self._not_now)

    def _not_now(self, item: Any) -> None:
        raise InvalidArgumentError(
            f"{self._operator.name!r} can forward in process(record) and in a timer, and not in "
            f"open, in close or after it; got {item!r}"
        )

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
        if type(record) is not Record:
            raise InvalidTypeError(
                f"{self._operator.name!r} can forward a Record, such as record.with_value(...), "
                f"got {record!r}"
            )
        if to is None:
            self._forward(record)
        else:
            one_child(self._children, to, self._operator.name)(record)

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
        check_function("a timer", callback, ("now_ms",))
        if clock not in ("stream", "wall"):
            raise InvalidArgumentError(f"clock must be 'stream' or 'wall', got {clock!r}")
        return self._task.every(self._operator.name, interval_ms, callback, clock, start_ms)

    def commit(self) -> None:
        """Ask for a commit."""
        self._task.request_commit()

    def drop(self, record: Record[Any, Any], reason: str) -> None:
        """Count *record* as dropped."""
        self._task.drop(self._operator.name, reason, record)
