"""What a task emits: on its way to the runner's log, and counted."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from statestores.processing.record import RawRecord, Record, RecordFields
from statestores.processing.runtime.task_log import TakesRows, TakesTuples, TaskLog
from statestores.processing.runtime.task_metrics import TaskCounts
from statestores.spi.records import new_tuple

if TYPE_CHECKING:
    import pyarrow as pa


class Emission:
    """The way from the sinks of one task to its log.

    Invariant: of what lies in an outbox, as much is counted as a commit that failed has counted.
    """

    def __init__(self, log: TaskLog, counts: TaskCounts) -> None:
        """Give what is emitted to *log*, and count it in *counts*."""
        self._log = log
        self._counts = counts
        self._outboxes: dict[str, list[Any]] = {}
        self._counted: dict[str, int] = {}

    def emit(self, topic: str, record: RawRecord, partition: int | None) -> None:
        """Give *record* to the log."""
        self._counts.emitted += 1
        self._log.emit(topic, record, partition)

    def emit_rows(self, topic: str, rows: "pa.RecordBatch") -> None:
        """Give records of columns to the log, all at once or one by one."""
        if isinstance(self._log, TakesRows):
            waiting = len(self._outboxes.get(topic, ())) - self._counted.pop(topic, 0)
            self._counts.emitted += rows.num_rows + waiting
            self._log.emit_rows(topic, rows)
            return
        for record in import_module("statestores.processing.record_rows").batch_records(rows):
            self.emit(topic, record, None)

    def emitter(self, topic: str) -> Callable[[RecordFields], None]:
        """Return what gives the fields of a record to the log."""
        box = self._log.outbox(topic) if isinstance(self._log, TakesTuples) else None
        if box is not None:
            self._outboxes[topic] = box
            return box.append
        emit = self.emit

        def give(fields: RecordFields) -> None:
            emit(topic, new_tuple(Record, fields), None)

        return give

    def count_waiting(self) -> None:
        """Count what lies in the outboxes, which a commit empties."""
        for topic, box in self._outboxes.items():
            self._counts.emitted += len(box) - self._counted.get(topic, 0)
            self._counted[topic] = len(box)

    def committed(self) -> None:
        """Note that the outboxes were emptied."""
        self._counted.clear()
