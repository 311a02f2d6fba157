"""The processors that a case names: what they do on a record, and on time."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from statestores import KeyValue
from statestores.errors import InvalidArgumentError
from statestores.processing import Cancellable, Context, Processor, Record


class CaseProcessor(Processor[Any, Any, Any, Any]):
    """Does what the step says."""

    def __init__(
        self, step: dict[str, Any], store: KeyValue[Any, Any], calls: Counter[str], prefix: str
    ) -> None:
        """Follow *step*; *store* is its store, if it has one; *calls* outlives a restart.

        The case does not know the *prefix* of topics.
        """
        self.step = step
        self.prefix = prefix
        self.declared = store
        self.on_record = getattr(self, f"_{step['on_record']}", None)
        self.on_time = getattr(self, f"_{step['on_time']}", None) if "on_time" in step else None
        if self.on_record is None or ("on_time" in step and self.on_time is None):
            raise InvalidArgumentError(
                f"a case names the processor {step['on_record']!r} with {step.get('on_time')!r}, "
                "which is not known"
            )
        self.calls = calls
        self.timer: Cancellable | None = None

    def open(self, context: Context[Any, Any]) -> None:
        """Take the store, and ask for the time."""
        self.rows: Any = self.store(self.declared) if "store" in self.step else None
        if "every" in self.step:
            self.timer = context.every(
                self.step["every"],
                self._when,
                clock=self.step.get("clock", "stream"),
                start_ms=self.step.get("start"),
            )

    def process(self, record: Record[Any, Any]) -> None:
        """Do what is to be done on a record."""
        if self.on_record is not None:
            self.on_record(record)

    def _when(self, now_ms: int) -> None:
        self.calls["time"] += 1
        if self.on_time is not None:
            self.on_time(now_ms)
        if self.timer is not None and self.calls["time"] == self.step.get("cancel_after"):
            self.timer.cancel()

    # On a record.

    def _nothing(self, record: Record[Any, Any]) -> None:
        pass

    def _forward(self, record: Record[Any, Any]) -> None:
        self.forward(record)

    def _forward_twice(self, record: Record[Any, Any]) -> None:
        self.forward(record.with_value(f"{record.value}/1"))
        self.forward(record.with_value(f"{record.value}/2"))

    def _sum(self, record: Record[Any, Any]) -> None:
        self.rows.put(record.key, (self.rows.get(record.key) or 0) + record.value)

    def _first_only(self, record: Record[Any, Any]) -> None:
        if self.rows.get(record.key) is None:
            self.rows.put(record.key, record.value)
            self.forward(record)

    def _previous(self, record: Record[Any, Any]) -> None:
        self.forward(record.with_value(self.rows.get(record.key)))
        self.rows.put(record.key, record.value)

    def _times(self, record: Record[Any, Any]) -> None:
        context = self.context
        times = [record.time_ms, context.stream_time_ms, context.wall_time_ms]
        self.forward(record.with_value(times))

    def _position(self, record: Record[Any, Any]) -> None:
        topic = (self.context.topic or "").removeprefix(self.prefix)
        self.forward(record.with_value([topic, self.context.offset]))

    def _shift_time(self, record: Record[Any, Any]) -> None:
        self.forward(record.with_time(record.time_ms + self.step["by"]))

    # On time.

    def _forward_time(self, now_ms: int) -> None:
        self.forward(Record("time", now_ms, now_ms))

    def _forward_stream_time(self, now_ms: int) -> None:
        self.forward(Record("stream_time", self.context.stream_time_ms, now_ms))

    def _forward_all(self, now_ms: int) -> None:
        for key, value in list(self.rows.range()):
            self.forward(Record(key, value, now_ms))

    def _forward_all_and_clear(self, now_ms: int) -> None:
        for key, value in list(self.rows.range()):
            self.forward(Record(key, value, now_ms))
            self.rows.put(key, None)


def processor_of(
    step: dict[str, Any], store: KeyValue[Any, Any], prefix: str
) -> tuple[Callable[[], CaseProcessor], list[KeyValue[Any, Any]]]:
    """Return what makes the processor of a step, and its stores."""
    calls = Counter[str]()
    return lambda: CaseProcessor(step, store, calls, prefix), [store] if "store" in step else []
