"""What a task is to its operators: stores, times, timers, and what becomes of a failure."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from statestores.errors import InvalidTopologyError, ProcessingError, StoreNotFoundError
from statestores.processing.error_policy import Action, ErrorPolicy
from statestores.processing.operators.operator import ObservedTime, Receive
from statestores.processing.operators.time_queue import TimeQueue
from statestores.processing.record import RawRecord, Record, RecordFields
from statestores.processing.runtime.emission import Emission
from statestores.processing.runtime.failures import (
    FOR_GOOD,
    NOT_OF_A_RECORD,
    dead_letter,
    dead_letter_topic,
    failing_operator,
    guarded_timer,
    processing_error,
)
from statestores.processing.runtime.task_log import TaskLog
from statestores.processing.runtime.task_meter import TaskMeter
from statestores.processing.runtime.timers import TaskTimer, Timers
from statestores.processing.serdes import time_bytes
from statestores.processing.topology import SubTopology

_TIME = b"time/"
_STREAM_TIME = b"stream-time"

NO_RECORD: RawRecord = Record(None, None, 0)
"""What is at hand in a timer or a commit."""


class OperatorSide:
    """One task as its operators see it: see `TaskServices`."""

    def __init__(
        self,
        part: SubTopology,
        partition: int,
        stores: Mapping[str, Any],
        log: TaskLog,
        *,
        wall_ms: int,
        errors: ErrorPolicy,
        meter: TaskMeter,
        no_wall_clock: str | None = None,
    ) -> None:
        """Go on where *stores* are, those of global tables included.

        Raises:
            StoreNotFoundError: A store is missing.
        """
        self.part = part
        self.task_partition = self.partition = partition
        self.topic, self.offset = "", -1
        self.wall_ms = wall_ms
        self.counts = meter.counts
        self.commit_requested = False
        self._has_failed = False
        self._no_wall_clock = no_wall_clock
        self._errors = errors
        self._stores = stores
        for name in [store.name for store in part.stores] + list(part.global_stores):
            if name not in stores:
                raise StoreNotFoundError(
                    f"the part {part.name!r} needs the store {name!r}, and was given: "
                    f"{', '.join(stores) or 'none'}"
                )
        self._task_store = stores[part.task_store.name]
        kept = self._task_store.get(_STREAM_TIME)
        self.stream_time_ms = self._saved_stream_time_ms = (
            -1 if kept is None else int.from_bytes(kept, "big")
        )
        self._times: dict[str, ObservedTime] = {}
        self._queues: dict[str, TimeQueue] = {}
        self.meter = meter
        self._stream_timers = Timers(self._task_store, "stream", self.meter.punctuations)
        self._wall_timers = Timers(self._task_store, "wall", self.meter.punctuations)
        self._wall_listeners: list[Callable[[int], None]] = []
        self._raw: RecordFields | Callable[[], RawRecord] = NO_RECORD
        self._emission = Emission(log, self.counts)
        self.emit, self.emit_rows = self._emission.emit, self._emission.emit_rows
        self.emitter = self._emission.emitter
        self._entries: dict[str, tuple[Any, Receive]] = {}
        """What decodes the records of each topic, and what takes them: none once it has failed."""

    def store(self, name: str) -> Any:
        """Return the store *name*."""
        return self._stores[name]

    def drop(self, operator: str, reason: str, record: Any) -> None:
        """Count a record that goes no further."""
        self.counts.drop(operator, reason, self.topic, self.partition, self.offset)

    def at(self, offset: int, raw: Callable[[], RawRecord]) -> None:
        """Be at one record of a batch, which came as what *raw* returns."""
        self.offset, self._raw = offset, raw

    def observed_time(self, name: str) -> ObservedTime:
        """Return the time that is kept under *name*."""
        if name not in self._times:
            kept = self._task_store.get(_TIME + name.encode())
            now_ms = -1 if kept is None else int.from_bytes(kept, "big")
            self._times[name] = ObservedTime(now_ms, self.wall_ms)
        return self._times[name]

    def time_queue(self, store: str) -> TimeQueue:
        """Return the queue over the store of bytes *store*."""
        if store not in self._queues:
            self._queues[store] = TimeQueue(self._stores[store])
        return self._queues[store]

    def every(
        self,
        node: str,
        interval_ms: int,
        callback: Callable[[int], None],
        clock: str,
        start_ms: int | None,
    ) -> TaskTimer:
        """Add a timer of *node*.

        Raises:
            InvalidTopologyError: It is one of the wall clock, and the runner has none.
        """
        if clock != "stream" and self._no_wall_clock is not None:
            raise InvalidTopologyError(
                f"the step {node!r} asks for a timer of the wall clock, and {self._no_wall_clock}"
            )
        callback = guarded_timer(node, callback, self._errors.process, self.failed)
        if clock == "stream":
            return self._stream_timers.add(node, interval_ms, callback, start_ms or 0)
        first_ms = self.wall_ms + interval_ms if start_ms is None else start_ms
        return self._wall_timers.add(node, interval_ms, callback, first_ms)

    def on_wall_clock(self, callback: Callable[[int], None]) -> None:
        """Call *callback* whenever the wall clock has moved.

        Raises:
            InvalidTopologyError: The runner has no wall clock.
        """
        if self._no_wall_clock is not None:
            raise InvalidTopologyError(
                f"a step of {self.part.name!r} goes by the wall clock, and {self._no_wall_clock}"
            )
        self._wall_listeners.append(callback)

    def request_commit(self) -> None:
        """Ask the runner for a commit soon."""
        self.commit_requested = True

    def failed(self, operator: str, error: Exception, action: Action) -> None:
        """Do with the record at hand what *action* says.

        Raises:
            ProcessingError: It says to fail, or what failed is not of the record (PRC-99).
        """
        if self._has_been_said(error):  # by a step further on
            raise error
        if action == "fail" or isinstance(error, NOT_OF_A_RECORD):
            raise self._wrapped(error, operator) from error
        reason = f"failed-{type(error).__name__}"
        self.counts.drop(operator, reason, self.topic, self.partition, self.offset)
        topic = dead_letter_topic(action)
        raw = self._raw() if callable(self._raw) else self._raw
        if topic is not None and raw is not NO_RECORD:
            letter = dead_letter(
                Record(*raw), operator, self.topic, self.partition, self.offset, error
            )
            self.emit(topic, letter, None)

    def fail_one(self, operator: str, error: Exception) -> None:
        """Deal with what has failed for one of several records; the others go on.

        Raises:
            Exception: *error* itself, where the policy is to fail.
        """
        if self._errors.process == "fail":
            raise error
        self.failed(operator, error, self._errors.process)

    def forgive(self, error: Exception) -> None:
        """Go on without what a row was: that it fails was said when the row came.

        Raises:
            Exception: *error* itself, where the policy is to fail, or no row is to blame.
        """
        if self._errors.process == "fail" or isinstance(error, NOT_OF_A_RECORD):
            raise error

    def fail_task(self, operator: str, error: Exception) -> None:
        """Stop, whatever the policy is.

        Raises:
            ProcessingError: Always.
        """
        raise self._wrapped(error, operator, FOR_GOOD) from error

    def _keep_times(self) -> None:
        """Write the times to the store that have moved since the last commit."""
        if self.stream_time_ms != self._saved_stream_time_ms:
            self._task_store.put(_STREAM_TIME, time_bytes(self.stream_time_ms))
            self._saved_stream_time_ms = self.stream_time_ms
        for name, time in self._times.items():
            if time.now_ms != time.saved_ms:
                self._task_store.put(_TIME + name.encode(), time_bytes(time.now_ms))
                time.saved_ms = time.now_ms

    def _no_record(self) -> None:
        self.topic, self.partition, self.offset = "", self.task_partition, -1
        self._raw = NO_RECORD

    @contextmanager
    def _telling_failures(self) -> Iterator[None]:
        """Wrap what fails as the runner is to be told it. Records, one by one, do without the call.

        Raises:
            ProcessingError: It failed; after that the task does nothing more.
        """
        try:
            yield
        except Exception as error:
            if self._has_been_said(error):
                raise
            raise self._wrapped(error) from error

    def _has_been_said(self, error: Exception) -> bool:
        """Whether *error* is what the runner is told already, and the task does nothing more."""
        return self._has_failed and isinstance(error, ProcessingError)

    def _wrapped(
        self, error: Exception, operator: str | None = None, advice: str | None = None
    ) -> ProcessingError:
        """Return what the runner is told, and do nothing more from here on."""
        self._has_failed = True
        self._entries = {}  # so that `process` need not ask each time
        named = operator or failing_operator(error) or self.part.name
        return processing_error(named, self.topic, self.partition, self.offset, error, advice)

    def _check_whole(self) -> None:
        if self._has_failed:
            raise ProcessingError(
                f"the part {self.part.name!r} has failed, and a part of a record is in its stores; "
                "roll them back and make the task anew"
            )
