"""Steps that take Arrow batches: a function of them, or a processor with stores and timers.

A record that comes by itself is a batch of one.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statestores.errors import InvalidTimeError, InvalidTypeError
from statestores.processing.batch_processor import BatchProcessor
from statestores.processing.columns.column import (
    BOUND_MS,
    Column,
    NotOnColumnsError,
    Numbers,
    is_exact,
)
from statestores.processing.columns.rows import RecordColumns
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.operators.operator import Operator, Receive, TaskServices
from statestores.processing.operators.processors import TaskContext, declared_store
from statestores.processing.record import Record
from statestores.processing.serdes import header_bytes
from statestores.spi import Serde, StoreSpecification
from statestores.spi.records import new_tuple

Batch: TypeAlias = pa.RecordBatch
"""What a step takes, and gives."""

_NAMES = ["key", "value", "time_ms", "headers"]


class BatchSerdes(NamedTuple):
    """The serdes of what a step takes and of what it gives."""

    key: Serde[Any]
    value: Serde[Any]
    new_key: Serde[Any]
    new_value: Serde[Any]

    def batch(self, columns: RecordColumns) -> Batch:
        """Return *columns* as a batch.

        Raises:
            NotOnColumnsError: Something is not what the serdes take.
        """
        try:
            key, value = _typed(columns.key, self.key), _typed(columns.value, self.value)
        except NotOnColumnsError:
            raise
        except Exception as error:  # the records will say it, each for itself
            raise NotOnColumnsError(str(error)) from error
        headers = columns.headers
        if headers is None:
            headers = pa.nulls(len(columns), pa.binary())
        times = pa.array(columns.times, pa.int64())
        return pa.RecordBatch.from_arrays([key, value, times, headers], _NAMES)

    def batch_of(self, record: Record[Any, Any]) -> Batch:
        """Return the batch of one record."""
        key, value, time_ms, headers = record
        packed = header_bytes(headers) if headers else None
        return pa.RecordBatch.from_arrays(
            [
                _typed(Column(None, objects=[key]), self.key),
                _typed(Column(None, objects=[value]), self.value),
                pa.array([time_ms], pa.int64()),
                pa.array([packed], pa.binary()),
            ],
            _NAMES,
        )

    def columns(self, given: list[Any], row: int) -> RecordColumns:
        """Return the records of the batches and tables *given*, made of *row* of the input.

        Raises:
            InvalidTypeError, InvalidTimeError: They have not the columns of records.
        """
        batches = [each for one in given for each in _batches(one)]
        parts: list[list[pa.Array]] = [[], [], [], []]
        for batch in batches:
            _check(batch)
            parts[0].append(_given(batch, "key", self.new_key))
            parts[1].append(_given(batch, "value", self.new_value))
            parts[2].append(_times(batch))
            parts[3].append(_headers(batch))
        key, value, times, headers = (
            pa.concat_arrays(arrays) if arrays else pa.array([], pa.binary()) for arrays in parts
        )
        count = len(key)
        return RecordColumns(
            _column(key, self.new_key),
            _column(value, self.new_value),
            times.to_numpy() if count else np.array([], np.int64),
            None if headers.null_count == count else headers,
            np.full(count, row, np.int64),
        )


class MapBatches(Operator):
    """Gives on what a function makes of each batch."""

    def __init__(self, function: Callable[[Batch], Any], serdes: BatchSerdes) -> None:
        """Map by *function*."""
        self.function = function
        self.serdes = serdes

    def receive(self, item: Record[Any, Any]) -> None:
        """Give on what becomes of a record, as a batch of one."""
        found = self.function(self.serdes.batch_of(item))
        for fields in self.serdes.columns([found], 0).fields():
            self.forward(new_tuple(Record, fields))


class ProcessBatches(Operator):
    """Runs a batch processor."""

    def __init__(
        self,
        supply: Callable[[], BatchProcessor],
        stores: tuple[StoreSpecification[Any, Any], ...],
        serdes: BatchSerdes,
    ) -> None:
        """Make a processor by *supply*; it may use these *stores*."""
        self.stores = {store.name: store for store in stores}
        self.children: dict[str, Receive] = {}  # batches go to all of them
        self.serdes = serdes
        self.processor = supply()
        if not isinstance(self.processor, BatchProcessor):
            raise InvalidTypeError(
                "a processor of batches is a statestores.processing.BatchProcessor, got "
                f"{self.processor!r}"
            )
        self.context: _Context | None = None
        self._kept: list[Any] | None = None

    def open(self, task: TaskServices) -> None:
        """Open the processor."""
        processor = self.processor
        if processor._stores is not None:  # noqa: SLF001  # the runtime's door
            raise InvalidTypeError(
                f"{self.name!r} was given one processor for two tasks, {processor!r}; each task "
                "needs its own: hand over the class, or a function that makes a new one"
            )
        self.task = task
        processor._stores = partial(declared_store, self)  # noqa: SLF001  # the same
        context = self.context = processor.context = _Context(self, task)
        processor.open(context)
        context.begin()

    def receive(self, item: Record[Any, Any]) -> None:
        """Give a record to the processor, as a batch of one."""
        self.processor.process(self.serdes.batch_of(item))

    def process(self, batch: Batch) -> list[Any]:
        """Give *batch* to the processor; return what it forwards."""
        kept: list[Any] = []
        self._kept = kept
        try:
            self.processor.process(batch)
        finally:
            self._kept = None
        return kept

    def give(self, batch: Any) -> None:
        """Take what the processor forwards."""
        if self._kept is not None:
            self._kept.append(batch)
            return
        for fields in self.serdes.columns([batch], 0).fields():
            self.forward(new_tuple(Record, fields))

    def close(self) -> None:
        """Close the processor."""
        if self.context is not None:
            self.context.end()
        self.processor.close()
        self.processor._stores = None  # noqa: SLF001  # it may be opened again


class _Context(TaskContext):
    """The context of one batch processor in one task."""

    def __init__(self, operator: ProcessBatches, task: TaskServices) -> None:
        super().__init__(operator, task)
        self._runs = operator
        self._give: Callable[[Any], None] = self._not_now

    def begin(self) -> None:
        """Let batches be forwarded from here on."""
        self._give = self._runs.give

    def end(self) -> None:
        """Let no more batches be forwarded."""
        self._give = self._not_now

    def forward(self, record: Any, to: str | None = None) -> None:
        """Give a batch on."""
        del to
        self._give(record)


class Mapped(NamedTuple):
    """What a function of batches has made, and the task that knows of which record each is."""

    columns: RecordColumns
    """The records; *rows* are their own places."""

    task: TaskRows
    """The task as the steps behind see it."""


class _Origins:
    """A task at what a function of batches has made of a batch.

    Only when a step behind asks for the place of a record is looked up of which it was made: the
    function, which is one of records, is called for each by itself (PRC-104).
    """

    def __init__(
        self, operator: MapBatches, given: RecordColumns, count: int, task: TaskRows
    ) -> None:
        """Stand for *task*, where *operator* has made *count* records of those *given*."""
        self._operator = operator
        self._given = given
        self._count = count
        self._task = task
        self._rows: Numbers | None = None
        self.wall_ms = task.wall_ms
        self.store, self.observed_time = task.store, task.observed_time
        self.time_queue, self.emit_rows = task.time_queue, task.emit_rows

    def at(self, row: int) -> None:
        """Be at the record of which *row* was made."""
        self._task.at(int(self._origins()[row]))

    def drop_rows(self, operator: str, reason: str, rows: Numbers) -> None:
        """Count rows that go no further, each at the record of which it was made."""
        if len(rows):
            self._task.drop_rows(operator, reason, self._origins()[rows])

    def _origins(self) -> Numbers:
        """Return the row of the input of which each record was made.

        That is the last one of the batch where the function gives other records for it as a whole.
        """
        if self._rows is None:
            rows, counts = self._given.rows, self._counts()
            is_of_records = sum(counts) == self._count
            self._rows = (
                np.repeat(rows, counts) if is_of_records else np.full(self._count, rows[-1])
            )
        return self._rows

    def _counts(self) -> list[int]:
        """Return how many records are made of each; none of any where the function fails alone."""
        serdes, function = self._operator.serdes, self._operator.function
        try:
            return [
                len(serdes.columns([function(serdes.batch_of(record))], 0))
                for _, record in self._given.items()
            ]
        except Exception:  # noqa: BLE001  # what it has made of all of them stands
            return [0] * len(self._given)


def batches_mapped(operator: MapBatches, columns: RecordColumns, task: TaskRows) -> Mapped:
    """Give on what the function makes of all records at once."""
    found = operator.serdes.columns([operator.function(operator.serdes.batch(columns))], 0)
    if found.last_ms >= BOUND_MS:
        raise NotOnColumnsError("a time is too late for sums of times")
    found.rows = np.arange(len(found))
    return Mapped(found, _Origins(operator, columns, len(found), task))


def batches_processed(
    operator: ProcessBatches, columns: RecordColumns, task: TaskRows
) -> RecordColumns:
    """Give all records to the processor at once.

    What it has done to its stores when it raises cannot be undone: then the task fails.
    """
    batch = operator.serdes.batch(columns)
    task.at(int(columns.rows[0]))
    return operator.serdes.columns(operator.process(batch), int(columns.rows[-1]))


def _typed(column: Column, serde: Serde[Any]) -> pa.Array:
    return column.array_of(serde.arrow_type()) if is_exact(serde) else column.encoded(serde)


def _batches(given: Any) -> list[Batch]:
    if isinstance(given, pa.Table):
        return list(given.combine_chunks().to_batches())
    if isinstance(given, pa.RecordBatch):
        return [given]
    raise InvalidTypeError(
        f"a step of batches gives a pyarrow.RecordBatch or a pyarrow.Table, got {given!r}"
    )


def _check(batch: Batch) -> None:
    missing = [name for name in _NAMES[:3] if name not in batch.schema.names]
    if missing:
        raise InvalidTypeError(
            f"a batch of records has the columns key, value and time_ms; this one has no "
            f"{', '.join(missing)}, but {', '.join(batch.schema.names) or 'none'}"
        )


def _given(batch: Batch, name: str, serde: Serde[Any]) -> pa.Array:
    wanted = serde.arrow_type() if is_exact(serde) else pa.binary()
    array = batch.column(name)
    try:
        return array if array.type == wanted else array.cast(wanted)
    except pa.ArrowException as error:
        raise InvalidTypeError(
            f"the column {name!r} of a batch is of {array.type}, and the serde {serde.name!r} "
            f"takes {wanted}: {error}; cast it, or give the step another serde"
        ) from error


def _times(batch: Batch) -> pa.Array:
    times = batch.column("time_ms")
    if times.type != pa.int64() or times.null_count or pc.any(pc.less(times, 0)).as_py():
        raise InvalidTimeError(
            "the column 'time_ms' of a batch is of int64, from 0, and never null; got "
            f"{times.type} with {times.null_count} nulls"
        )
    return times


def _headers(batch: Batch) -> pa.Array:
    if "headers" not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.binary())
    return batch.column("headers").cast(pa.binary())


def _column(array: pa.Array, serde: Serde[Any]) -> Column:
    if is_exact(serde):
        return Column(serde, array=array if len(array) else pa.array([], serde.arrow_type()))
    return Column(serde, data=array)
