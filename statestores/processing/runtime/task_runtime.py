"""A task at work: records in, changes in its stores and records out. One class for every runner.

A runner opens the stores, makes a `TaskRuntime`, and then in a loop: gives it records, moves the
wall clock, and commits. To commit it calls `prepare_commit`, which writes times to the stores and
returns the position, and makes stores, emitted records and position durable as one. Whatever an
operator has to remember lies in the stores; so a runtime that is made anew over stores as a commit
left them goes on as if nothing had happened. After a failure, throw the runtime away, roll the
stores back, and make another.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from statestores.errors import (
    InvalidArgumentError,
    MissingDriverError,
    ProcessingError,
    StoreNotFoundError,
)
from statestores.processing.error_policy import Action, ErrorPolicy
from statestores.processing.operators.ends import Sink, Source
from statestores.processing.operators.operator import ObservedTime, Operator, Pass, Receive
from statestores.processing.operators.time_queue import TimeQueue
from statestores.processing.record import RawRecord, Record
from statestores.processing.runtime.failures import (
    dead_letter,
    dead_letter_topic,
    failing_operator,
    guarded,
    guarded_timer,
    processing_error,
)
from statestores.processing.runtime.task_log import TakesRows, TaskLog
from statestores.processing.runtime.task_metrics import TaskCounts
from statestores.processing.runtime.timers import TaskTimer, Timers
from statestores.processing.serdes import time_bytes
from statestores.processing.topology import Node, SubTopology
from statestores.spi import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from statestores.processing.runtime.batches import Batches

LEAST_COLUMN_ROWS = 1_000
"""Below that, records are faster than columns."""

_TIME = b"time/"
_STREAM_TIME = b"stream-time"
_NO_RECORD: RawRecord = Record(None, None, 0)


class TaskRuntime:
    """One part of a topology for one partition. One thread at a time uses it."""

    def __init__(
        self,
        part: SubTopology,
        partition: int,
        stores: Mapping[str, Any],
        log: TaskLog,
        *,
        wall_ms: int,
        errors: ErrorPolicy | None = None,
        global_stores: Mapping[str, Any] | None = None,
        least_column_rows: int = LEAST_COLUMN_ROWS,
    ) -> None:
        """Make the operators of *part*, over open stores.

        Args:
            part: What to run.
            partition: The partition of the task.
            stores: A typed store for each of ``part.stores``, by name, best as processors get them
                (`statestores.tasks.Task.store`).
            log: Takes what is emitted.
            wall_ms: The wall clock now.
            errors: What becomes of records that fail; by default the task fails.
            global_stores: The stores of the global tables that ``part.global_stores`` names.
            least_column_rows: From how many records on a batch is processed as columns.

        Raises:
            StoreNotFoundError: A store is missing.
        """
        self.part = part
        self.task_partition = self.partition = partition
        self.topic, self.offset = "", -1
        self.wall_ms = wall_ms
        self._moved_to_ms: int | None = None
        self.counts = TaskCounts()
        self.commit_requested = False
        self._has_failed = False
        self._log = log
        self._least_column_rows = least_column_rows
        self._errors = errors or ErrorPolicy()
        self._stores = {**(global_stores or {}), **stores}
        for name in [store.name for store in part.stores] + list(part.global_stores):
            if name not in self._stores:
                raise StoreNotFoundError(
                    f"the part {part.name!r} needs the store {name!r}, and was given: "
                    f"{', '.join(self._stores) or 'none'}"
                )
        self._task_store = self._stores[part.task_store.name]
        kept = self._task_store.get(_STREAM_TIME)
        self.stream_time_ms = self._saved_stream_time_ms = (
            -1 if kept is None else int.from_bytes(kept, "big")
        )
        self._times: dict[str, ObservedTime] = {}
        self._queues: dict[str, TimeQueue] = {}
        self._position: dict[tuple[str, int], int] = {}
        self._stream_timers = Timers(self._task_store, "stream")
        self._wall_timers = Timers(self._task_store, "wall")
        self._wall_listeners: list[Callable[[int], None]] = []
        self._raw: RawRecord | Callable[[], RawRecord] = _NO_RECORD
        self._operators = self._made(part)
        self._sources = {
            operator.topic.name: operator
            for operator in self._operators.values()
            if isinstance(operator, Source)
        }
        self._entries: dict[str, tuple[Any, Receive]] = {
            name: (source.decode, source.forward) for name, source in self._sources.items()
        }
        for operator in self._operators.values():
            operator.open(self)

    # The runner's side.

    def process(self, topic: str, partition: int, offset: int, record: RawRecord) -> None:
        """Take one record, and do with it and with the timers that it sets off all there is to do.

        Records of one partition come in the order of their offsets.

        Raises:
            InvalidArgumentError: The task does not read *topic*.
            ProcessingError: It failed, and the policy is to fail; the cause says why. After that
                the task does nothing more: a part of the record is in its stores.
        """
        try:
            decode, forward = self._entries[topic]
        except KeyError as error:
            self._check_whole()
            raise InvalidArgumentError(
                f"the part {self.part.name!r} does not read {topic!r}; it reads: "
                f"{', '.join(self._sources)}"
            ) from error
        self.topic, self.partition, self.offset, self._raw = topic, partition, offset, record
        self.counts.processed += 1
        self._position[topic, partition] = offset
        try:
            item = decode(record)
        except Exception as error:  # noqa: BLE001  # serdes and extractors may raise anything
            self.failed(self._sources[topic].name, error, self._errors.decode)
            return
        self.stream_time_ms = max(self.stream_time_ms, item[2])
        try:
            forward(item)
            if self.stream_time_ms >= self._stream_timers.next_ms:
                self._no_record()
                self._stream_timers.fire(self.stream_time_ms)
        except Exception as error:
            raise self._wrapped(error) from error

    def process_batch(
        self, topic: str, partition: int, first_offset: int, records: Sequence[RawRecord]
    ) -> None:
        """Take several records of one partition, the first of which has *first_offset*.

        The stores are then as if each had been processed for itself, and for each key the last of
        what is emitted is the same (PRC-9). Where there are enough of them, they are processed as
        columns.

        Raises:
            InvalidArgumentError, ProcessingError: See `process`.
        """
        if len(records) > 1 and self._batches is not None:
            batch = self._batches.batch(topic, list(records))
            if batch is not None:
                self.process_rows(
                    topic, partition, range(first_offset, first_offset + len(records)), batch
                )
                return
        for offset, record in enumerate(records, first_offset):
            self.process(topic, partition, offset, record)

    def process_rows(
        self, topic: str, partition: int, offsets: Sequence[int], batch: "pa.RecordBatch"
    ) -> None:
        """Take records of one partition as the columns of a log of records (PRC-48).

        What becomes of them is what `process_batch` says. They are processed record by record
        where columns could not give the same (PRC-56).

        Raises:
            InvalidArgumentError, ProcessingError: See `process`.
        """
        batches = self._batches if self._entries else None
        columns = None if batches is None else batches.columns(topic, batch)
        if batches is None or columns is None or columns.last_ms >= self._stream_timers.next_ms:
            records = import_module("statestores.processing.record_rows").batch_records(batch)
            for offset, record in zip(offsets, records, strict=True):
                self.process(topic, partition, offset, record)
            return
        self.topic, self.partition = topic, partition
        self.counts.processed += batch.num_rows
        self._position[topic, partition] = offsets[-1]
        self.stream_time_ms = max(self.stream_time_ms, columns.last_ms)
        try:
            batches.take(topic, offsets, batch, columns)
        except Exception as error:
            raise self._wrapped(error) from error

    def takes_rows(self, topic: str) -> bool:
        """Whether batches of *topic* are processed as columns when they are large enough."""
        return self._batches is not None and self._batches.has_columns(topic, 1 << 62)

    def use_columns_from(self, least_rows: int) -> None:
        """Process batches as columns from *least_rows* on, from now on."""
        self._least_column_rows = least_rows
        self.__dict__.pop("_batches", None)

    @property
    def declined_columns(self) -> dict[str, dict[str, int]]:
        """Which steps were given columns and used records, why, and how often."""
        return {} if self._batches is None else self._batches.declined

    @cached_property
    def _batches(self) -> "Batches | None":
        """The ways of batches; ``None`` without Arrow."""
        try:
            module = import_module("statestores.processing.runtime.batches")
        except MissingDriverError:
            return None
        made: Batches = module.Batches(self, self._operators, self._ways, self._least_column_rows)
        return made

    def advance_wall_clock(self, now_ms: int) -> None:
        """Move the wall clock to *now_ms*, and do what is due. Backward moves nothing.

        The first move may be to where the clock was when the task was opened: timers may have come
        due while nobody ran it.

        Raises:
            ProcessingError: A timer failed, and the policy is to fail.
        """
        self._check_whole()
        if now_ms < self.wall_ms or now_ms == self._moved_to_ms:
            return
        self.wall_ms = self._moved_to_ms = now_ms
        self._no_record()
        try:
            if now_ms >= self._wall_timers.next_ms:
                self._wall_timers.fire(now_ms)
            for listener in self._wall_listeners:
                listener(now_ms)
        except Exception as error:
            raise self._wrapped(error) from error

    @property
    def next_wall_ms(self) -> int:
        """When the next timer of the wall clock is due; beyond 2**63 - 1 when there is none."""
        return self._wall_timers.next_ms

    def prepare_commit(self) -> dict[TopicPartition, int]:
        """Write to the stores what is kept beside them; return the position to commit with them.

        It has the last offset of each partition that has been processed since the task was opened.

        Raises:
            ProcessingError: The task has failed: what is in its stores is not whole.
        """
        self._check_whole()
        for operator in self._operators.values():
            operator.prepare_commit()
        if self.stream_time_ms != self._saved_stream_time_ms:
            self._task_store.put(_STREAM_TIME, time_bytes(self.stream_time_ms))
            self._saved_stream_time_ms = self.stream_time_ms
        for name, time in self._times.items():
            if time.now_ms != time.saved_ms:
                self._task_store.put(_TIME + name.encode(), time_bytes(time.now_ms))
                time.saved_ms = time.now_ms
        self.commit_requested = False
        return {TopicPartition(*place): last for place, last in self._position.items()}

    def close(self) -> None:
        """Close the operators; the stores are the runner's."""
        for operator in self._operators.values():
            operator.close()

    # The operators' side: see `TaskServices`.

    def store(self, name: str) -> Any:
        """Return the store *name*."""
        return self._stores[name]

    def drop(self, operator: str, reason: str, record: Any) -> None:
        """Count a record that goes no further."""
        self.counts.drop(operator, reason, self.topic, self.partition, self.offset)

    def at(self, offset: int, raw: Callable[[], RawRecord]) -> None:
        """Be at one record of a batch, which came as what *raw* returns."""
        self.offset, self._raw = offset, raw

    def emit_rows(self, topic: str, rows: "pa.RecordBatch") -> None:
        """Give records of columns to the runner's log, all at once or one by one."""
        if isinstance(self._log, TakesRows):
            self.counts.emitted += rows.num_rows
            self._log.emit_rows(topic, rows)
            return
        for record in import_module("statestores.processing.record_rows").batch_records(rows):
            self.emit(topic, record, None)

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
        """Add a timer of *node*."""
        callback = guarded_timer(node, callback, self._errors.process, self.failed)
        if clock == "stream":
            return self._stream_timers.add(node, interval_ms, callback, start_ms or 0)
        first_ms = self.wall_ms + interval_ms if start_ms is None else start_ms
        return self._wall_timers.add(node, interval_ms, callback, first_ms)

    def on_wall_clock(self, callback: Callable[[int], None]) -> None:
        """Call *callback* whenever the wall clock has moved."""
        self._wall_listeners.append(callback)

    def emit(self, topic: str, record: RawRecord, partition: int | None) -> None:
        """Give *record* to the runner's log."""
        self.counts.emitted += 1
        self._log.emit(topic, record, partition)

    def request_commit(self) -> None:
        """Ask the runner for a commit soon."""
        self.commit_requested = True

    def failed(self, operator: str, error: Exception, action: Action) -> None:
        """Do with the record at hand what *action* says.

        Raises:
            ProcessingError: It says to fail.
        """
        if action == "fail":
            raise self._wrapped(error, operator) from error
        reason = f"failed-{type(error).__name__}"
        self.counts.drop(operator, reason, self.topic, self.partition, self.offset)
        topic = dead_letter_topic(action)
        raw = self._raw() if callable(self._raw) else self._raw
        if topic is not None and raw is not _NO_RECORD:
            letter = dead_letter(raw, operator, self.topic, self.partition, self.offset, error)
            self.emit(topic, letter, None)

    # Making operators.

    def _made(self, part: SubTopology) -> dict[str, Operator]:
        """Make the operators and wire them, children first."""
        children: dict[str, list[Node]] = {node.name: [] for node in part.nodes}
        for node in part.nodes:
            for parent in node.parents:
                children[parent].append(node)
        operators: dict[str, Operator] = {}
        ways: dict[str, Receive] = {}
        for node in reversed(part.nodes):
            operator = operators[node.name] = node.make()
            operator.name = node.name
            operator.wire({child.name: ways[child.name] for child in children[node.name]})
            if isinstance(operator, Pass):
                ways[node.name] = operator.forward
            else:
                sinks = isinstance(operator, Sink)
                action = self._errors.encode if sinks else self._errors.process
                ways[node.name] = guarded(operator, action, self.failed)
        self._ways = ways
        return operators

    def _no_record(self) -> None:
        self.topic, self.partition, self.offset = "", self.task_partition, -1
        self._raw = _NO_RECORD

    def _wrapped(self, error: Exception, operator: str | None = None) -> ProcessingError:
        """Return what the runner is told, and do nothing more from here on."""
        self._has_failed = True
        self._entries = {}  # so that `process` need not ask each time
        named = operator or failing_operator(error) or self.part.name
        return processing_error(named, self.topic, self.partition, self.offset, error)

    def _check_whole(self) -> None:
        if self._has_failed:
            raise ProcessingError(
                f"the part {self.part.name!r} has failed, and a part of a record is in its stores; "
                "roll them back and make the task anew"
            )
