"""What a task does for operators on columns: stores and times, the place of a row, and outputs."""

from typing import Any, Protocol

import pyarrow as pa

from statestores.processing.columns.column import Numbers
from statestores.processing.operators.operator import ObservedTime
from statestores.processing.operators.time_queue import TimeQueue


class TaskRows(Protocol):
    """A task while a batch is processed."""

    wall_ms: int
    """The wall clock, as the runner has moved it."""

    def store(self, name: str) -> Any:
        """Return the task's store *name*, or that of a global table."""

    def observed_time(self, name: str) -> ObservedTime:
        """Return the time that is kept under *name*."""

    def time_queue(self, store: str) -> TimeQueue:
        """Return the queue over the store of bytes *store*."""

    def at(self, row: int) -> None:
        """Be at a row of the input: what is asked for its offset is that row's."""

    def drop_rows(self, operator: str, reason: str, rows: Numbers) -> None:
        """Count rows that go no further."""

    def emit_rows(self, topic: str, rows: pa.RecordBatch) -> None:
        """Send records to a topic, to the partitions that their keys say."""
