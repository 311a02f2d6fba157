"""Recording every call of a store: Kafka's level DEBUG (MET-8).

A recorded store has its methods replaced, on the object itself, by ones that read the clock before
and after. That costs two readings a call, and, in CPython, some nanoseconds more for every call
after recording is switched off again; a store that was never recorded pays nothing.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from enum import Enum
from inspect import getattr_static
from time import perf_counter_ns
from types import MappingProxyType, MemberDescriptorType
from typing import Any

from statestores.errors import InvalidTypeError
from statestores.metering.operation_meter import OperationMeter
from statestores.spi.metrics.catalog import count_of, latency_of
from statestores.spi.metrics.metric import Metrics
from statestores.spi.stores.store import StateStore

CALLS: Mapping[str, str] = MappingProxyType(
    {
        "put": "put",
        "put_if_absent": "put-if-absent",
        "put_all": "put-all",
        "put_many": "put-many",
        "add_many": "add-many",
        "min_many": "min-many",
        "max_many": "max-many",
        "update_many": "update-many",
        "delete": "delete",
        "remove": "remove",
        "get": "get",
        "get_many": "get-many",
        "fetch": "fetch",
        "fetch_session": "fetch",
        "fetch_many": "fetch-many",
    }
)
"""The methods that return when they are done, and the operations that they are: Kafka's names,
and ours for what Kafka does not have."""

ITERATIONS: Mapping[str, str] = MappingProxyType(
    {
        "range": "range",
        "prefix_scan": "prefix-scan",
        "history": "history",
        "range_history": "history",
        "scan_as_of": "scan-as-of",
        "fetch_range": "fetch",
        "fetch_all": "fetch",
        "find_sessions": "fetch",
        "find_all_sessions": "fetch",
        "find_sessions_by_end": "fetch",
    }
)
"""The methods that return iterators. Each is recorded when the iterator ends, as in Kafka."""

_RECORDER = "_call_recorder"


class RecordingLevel(Enum):
    """How much of a store is measured."""

    INFO = "INFO"
    """What costs next to nothing; always measured."""

    DEBUG = "DEBUG"
    """In addition, the number and latency of each kind of call."""


class CallRecorder:
    """What the calls of one store took. The owner calls, any thread may read."""

    def __init__(self, tags: Mapping[str, str]) -> None:
        """Record nothing yet; metrics will have *tags*."""
        self._tags = tags
        self._meters: dict[str, OperationMeter] = {}
        self._is_inside = False

    def recorded(self, operation: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return *call*, recorded as *operation*; what it calls in turn is not."""
        meter = self._meters.setdefault(operation, OperationMeter())

        def timed(*arguments: Any, **options: Any) -> Any:
            if self._is_inside:
                return call(*arguments, **options)
            self._is_inside = True
            began_ns = perf_counter_ns()
            try:
                return call(*arguments, **options)
            finally:
                now_ns = perf_counter_ns()
                self._is_inside = False
                meter.record(now_ns - began_ns, now_ns)

        return timed

    def recorded_iteration(
        self, operation: str, call: Callable[..., Iterator[Any]]
    ) -> Callable[..., Iterator[Any]]:
        """Return *call*, whose iterators are recorded as *operation* when they end."""
        meter = self._meters.setdefault(operation, OperationMeter())

        def timed(*arguments: Any, **options: Any) -> Iterator[Any]:
            began_ns = perf_counter_ns()
            running = _until_it_ends(call(*arguments, **options), meter, began_ns)
            next(running)  # or its end would go unnoticed if nobody ever asked it for an item
            return running

        return timed

    def metrics(self, others: Metrics) -> Metrics:
        """Return *others*, followed by what was recorded and is not among them."""
        tags = self._tags
        known = {metric.name for metric in others}
        own = [
            metric
            for operation, meter in self._meters.copy().items()
            for metric in (
                *meter.counted(count_of(operation, f"calls of {operation}", unit="{call}"), tags),
                *meter.latencies(latency_of(operation, f"a call of {operation}"), tags),
            )
        ]
        return (*others, *(metric for metric in own if metric.name not in known))


def _until_it_ends(
    items: Iterator[Any], meter: OperationMeter, began_ns: int
) -> Generator[Any, None, None]:
    try:
        yield None
        yield from items
    finally:
        now_ns = perf_counter_ns()
        meter.record(now_ns - began_ns, now_ns)


def set_recording_level(store: StateStore, level: RecordingLevel | str) -> None:
    """Have each call of *store* recorded, or no longer. Called by its owner.

    A caller that has kept a bound method from before is not recorded; neither are facades. What was
    recorded stays among `StateStore.metrics` when the level is INFO again.

    Raises:
        InvalidTypeError: The store's class has slots, and so no place for replacement methods.
        ValueError: There is no such level.
    """
    wanted = RecordingLevel(level)
    try:
        own = vars(store)
    except TypeError as error:
        raise InvalidTypeError(
            f"{store!r} takes no attributes, so it cannot be recorded"
        ) from error
    if isinstance(getattr_static(store, "put", None), MemberDescriptorType):
        raise InvalidTypeError(
            f"{store!r} has its methods in slots, as a processor's store has, so it cannot be "
            "recorded; record the whole store before processors are given theirs"
        )
    for method in (*CALLS, *ITERATIONS):
        own.pop(method, None)
    if wanted is RecordingLevel.INFO:
        return
    recorder = own.get(_RECORDER)
    if recorder is None:
        recorder = _recorder_of(store)
    for method, operation in CALLS.items():
        if hasattr(store, method):
            own[method] = recorder.recorded(operation, getattr(store, method))
    for method, operation in ITERATIONS.items():
        if hasattr(store, method):
            own[method] = recorder.recorded_iteration(operation, getattr(store, method))


def is_recorded(store: object) -> bool:
    """Return whether the calls of *store* are recorded: then they are not to be gone round."""
    own: Mapping[str, object] = getattr(store, "__dict__", {})
    return "put" in own and _RECORDER in own


def _recorder_of(store: StateStore) -> CallRecorder:
    """Return a recorder whose metrics are among those of *store* from now on."""
    measured = store.metrics
    metrics = measured()
    tags = metrics[0].tags if metrics else MappingProxyType({"state-id": store.name})
    recorder = CallRecorder(tags)
    own = vars(store)
    own[_RECORDER] = recorder
    own["metrics"] = lambda: recorder.metrics(measured())
    return recorder
