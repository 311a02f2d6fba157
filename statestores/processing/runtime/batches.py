"""The batches of a task: which sources take them, and from how many records on. Needs Arrow."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from statestores.errors import InvalidArgumentError
from statestores.processing.columns.column import Numbers
from statestores.processing.columns.rows import RecordColumns
from statestores.processing.columns.stateless import decoded
from statestores.processing.columns.ways import ColumnEntry
from statestores.processing.operators.ends import Source
from statestores.processing.operators.operator import Operator, Receive
from statestores.processing.record import RawRecord, RecordFields
from statestores.processing.record_rows import batch_records, record_batch
from statestores.processing.runtime.row_order import Lot

if TYPE_CHECKING:
    from statestores.processing.runtime.task_runtime import TaskRuntime


_LEAST_DECODED_ROWS = 50
"""Below that, Arrow's calls take longer than it takes to decode one by one."""


class BatchTask:
    """A task at one batch: what operators on columns ask of it (`TaskRows`)."""

    def __init__(self, task: "TaskRuntime", offsets: Sequence[int], batch: pa.RecordBatch) -> None:
        """Be at *batch*, whose rows have *offsets*."""
        self._task = task
        self._offsets = offsets
        self._batch = batch
        self.store, self.wall_ms = task.store, task.wall_ms
        self.observed_time, self.time_queue = task.observed_time, task.time_queue
        self.emit_rows = task.emit_rows

    def at(self, row: int) -> None:
        """Be at a row of the batch."""
        self._task.at(
            self._offsets[row], lambda: next(iter(batch_records(self._batch.slice(row, 1))))
        )

    def drop_rows(self, operator: str, reason: str, rows: Numbers) -> None:
        """Count rows that go no further."""
        for row in rows.tolist():
            self.at(row)
            self._task.drop(operator, reason, None)


class BlockTask(BatchTask):
    """A task at one block: a row is one of the block, in the order in which they come up."""

    def __init__(self, task: "TaskRuntime", lots: Sequence[Lot], order: Numbers) -> None:
        """Be at rows of *lots*: for each row of *order*, the next one of that lot."""
        super().__init__(task, (), lots[0].batch)
        self._lots = lots
        self._order = order
        self._places = np.empty(len(order), np.int64)
        for number, lot in enumerate(lots):
            self._places[order == number] = np.arange(len(lot.offsets))

    def at(self, row: int) -> None:
        """Be at a row of the block."""
        lot, place = self._lots[self._order[row]], int(self._places[row])
        self._task.topic, self._task.partition = lot.partition
        self._task.at(
            lot.offsets[place], lambda: next(iter(batch_records(lot.batch.slice(place, 1))))
        )


class Batches:
    """The ways of batches through a task."""

    def __init__(
        self,
        task: "TaskRuntime",
        operators: Mapping[str, Operator],
        ways: Mapping[str, Receive],
        least_rows: int,
        least_run_rows: int,
    ) -> None:
        """Find the ways behind every source of *task*, of batches and of runs."""
        self._task = task
        part = task.part
        self._batches: dict[str, ColumnEntry] = {}
        self._runs: dict[str, ColumnEntry] = {}
        self._sources: dict[str, Source] = {}
        for node in part.sources:
            source = operators[node.name]
            if isinstance(source, Source):
                name = source.topic.name
                self._sources[name] = source
                self._batches[name] = ColumnEntry(part, node, operators, ways, least_rows)
                self._runs[name] = ColumnEntry(
                    part, node, operators, ways, least_run_rows, is_run=True
                )

    def entry(self, topic: str, rows: int) -> ColumnEntry | None:
        """Return where so many records of *topic* begin as columns; ``None``: one by one."""
        for entries in (self._batches, self._runs):
            entry = entries.get(topic)
            if entry is not None and entry.why_not is None and rows >= entry.least_rows:
                return entry
        return None

    def has_columns(self, topic: str, rows: int) -> bool:
        """Whether columns are worth trying for so many records of *topic*."""
        return self.entry(topic, rows) is not None

    def decoded(self, topic: str, batch: pa.RecordBatch) -> RecordColumns:
        """Return the decoded records of *topic*. Raises what cannot be decoded."""
        return decoded(self._sources[topic], batch)

    def columns(
        self, entry: ColumnEntry, topic: str, batch: pa.RecordBatch
    ) -> RecordColumns | None:
        """Return the decoded records; ``None`` when they have to be looked at one by one."""
        try:
            return decoded(self._sources[topic], batch)
        except Exception as error:  # noqa: BLE001  # the records will say it, each for itself
            entry.declined[f"{type(error).__name__}: {error}"] += 1
            return None

    def items(self, topic: str, batch: pa.RecordBatch) -> Iterator[RecordFields] | None:
        """Return the fields of the decoded records, each of which is then processed by itself.

        ``None`` when they have to be decoded one by one: one of them cannot be, or has no time.
        """
        source = self._sources.get(topic)
        if source is None or not source.is_plain or batch.num_rows < _LEAST_DECODED_ROWS:
            return None
        try:
            return decoded(source, batch).fields()
        except Exception:  # noqa: BLE001  # the records will say it, each for itself
            return None

    def raw_at(self, offsets: Sequence[int], batch: pa.RecordBatch) -> Callable[[], RawRecord]:
        """Return what finds the record that the task is at, as it came."""
        task = self._task

        def raw() -> RawRecord:
            row = bisect_left(offsets, task.offset)
            return next(iter(batch_records(batch.slice(row, 1))))

        return raw

    def take(
        self,
        entry: ColumnEntry,
        offsets: Sequence[int],
        batch: pa.RecordBatch,
        columns: RecordColumns,
    ) -> None:
        """Do with *columns*, decoded from *batch*, all there is to do."""
        entry.take(columns, BatchTask(self._task, offsets, batch))

    def batch(self, topic: str, records: list[RawRecord]) -> pa.RecordBatch | None:
        """Return *records* as rows, if columns are worth trying and the records have them."""
        if not self.has_columns(topic, len(records)):
            return None
        try:
            return record_batch(records)
        except InvalidArgumentError:
            return None  # each says it for itself when it is decoded

    @property
    def declined(self) -> dict[str, dict[str, int]]:
        """Where columns were tried and not used, why, and how often; for tests and tuning."""
        found = {
            way.operator.name: dict(way.declined)
            for entries in (self._runs, self._batches)
            for entry in entries.values()
            for way in entry.steps
            if way.declined
        }
        return found | {
            topic: dict(entry.declined)
            for entries in (self._runs, self._batches)
            for topic, entry in entries.items()
            if entry.declined
        }
