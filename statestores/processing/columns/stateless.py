"""Steps that remember nothing, on columns: filters, maps, keys, and the ends of a task.

Each function does on columns what the operator's `receive` does, or raises before it has done
anything; then the rows are given to `receive`.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statestores.changelog.rows import RECORD_ROWS
from statestores.processing.columns.column import (
    BOUND_MS,
    Column,
    Flags,
    NotOnColumnsError,
    Numbers,
)
from statestores.processing.columns.expressions import is_on_columns
from statestores.processing.columns.rows import (
    ChangeColumns,
    RecordColumns,
    columns_of,
    places_of,
)
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.operators.ends import RepartitionSink, Sink, Source
from statestores.processing.operators.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    Rekey,
    several_of,
)
from statestores.processing.operators.tables import ToStream
from statestores.processing.record import Record, check_headers

_LIST_TYPES: tuple[Callable[[Any], bool], ...] = (pa.types.is_list, pa.types.is_large_list)
_MAX_TIME_MS = (1 << 63) - 1


def decoded(source: Source, batch: pa.RecordBatch) -> RecordColumns:
    """Return the records of *batch*, at their times.

    Raises:
        NotOnColumnsError: The times need a look at each record.
        SerializationError: A key or value cannot be decoded.
    """
    if source.use_partition_time:
        raise NotOnColumnsError("the time of a record may depend on the one before")
    key = Column.decoded(batch.column(0), source.topic.key)
    value = Column.decoded(batch.column(1), source.topic.value)
    headers = None if batch.column(3).null_count == batch.num_rows else batch.column(3)
    rows = np.arange(batch.num_rows)
    columns = RecordColumns(key, value, batch.column(2).to_numpy(), headers, rows)
    if source.time is not None:
        columns.times = _extracted(source.time, columns)
    if len(columns) and columns.times.min() < 0:
        raise NotOnColumnsError("a time is before the epoch")
    if columns.last_ms >= BOUND_MS:
        raise NotOnColumnsError("a time is too late for sums of times")
    return columns


def _extracted(time: Callable[[Record[Any, Any]], Any], columns: RecordColumns) -> Numbers:
    found = [time(record) for _, record in columns.items()]
    if not all(type(each) is int and 0 <= each <= _MAX_TIME_MS for each in found):
        raise NotOnColumnsError("a time is none")
    return np.array(found, np.int64)


def filtered(operator: Filter, columns: RecordColumns, task: TaskRows) -> RecordColumns:
    """Keep the records of which the expression or the function is true, or not true."""
    del task
    predicate: Any = operator.predicate
    if not is_on_columns(predicate):
        keep = operator.keep
        kept = [bool(predicate(record)) is keep for _, record in columns.items()]
        return columns.take(places_of(np.array(kept, np.bool_)))
    found = predicate.on_columns(columns)
    if not pa.types.is_boolean(found.type):
        raise NotOnColumnsError("a truth is no boolean")
    true: Flags = pc.fill_null(found, fill_value=False).to_numpy(zero_copy_only=False)
    return columns.take(places_of(true if operator.keep else ~true))


def mapped(operator: Map, columns: RecordColumns, task: TaskRows) -> RecordColumns:
    """Give each record the value of the expression, or what the function makes of it."""
    del task
    function: Any = operator.function
    if is_on_columns(function):
        return columns.with_value(Column(None, array=function.on_columns(columns)))
    made = [function(record) for _, record in columns.items()]
    if Record in set(map(type, made)):
        return _records(columns, made, columns.rows)
    return columns.with_value(Column(None, objects=made))


def values_mapped(operator: MapValues, columns: RecordColumns, task: TaskRows) -> RecordColumns:
    """Give each record the value that the function makes of its own."""
    del task
    made = list(map(operator.function, columns.value.objects()))
    return columns.with_value(Column(None, objects=made))


def flat_mapped(operator: FlatMap, columns: RecordColumns, task: TaskRows) -> RecordColumns:
    """Make a record of each value of the expression's lists, or of what the function gives."""
    del task
    function: Any = operator.function
    if not is_on_columns(function):
        several = [list(several_of(function(record))) for _, record in columns.items()]
        return _flattened(columns, several)
    lists = function.on_columns(columns)
    if not any(test(lists.type) for test in _LIST_TYPES) or lists.null_count:
        raise NotOnColumnsError("an expression gives no list")
    places = pc.list_parent_indices(lists).to_numpy().astype(np.int64, copy=False)
    return columns.take(places).with_value(Column(None, array=pc.list_flatten(lists)))


def values_flat_mapped(
    operator: FlatMapValues, columns: RecordColumns, task: TaskRows
) -> RecordColumns:
    """Make a record of each value that the function gives."""
    del task
    several = [list(several_of(operator.function(value))) for value in columns.value.objects()]
    return _flattened(columns, several)


def _flattened(columns: RecordColumns, several: list[list[Any]]) -> RecordColumns:
    """Return the records that were made of each of *columns*."""
    made = list(chain.from_iterable(several))
    places = np.repeat(np.arange(len(columns)), list(map(len, several)))
    origins = columns.take(places)
    if Record in set(map(type, made)):
        return _records(origins, made, origins.rows)
    return origins.with_value(Column(None, objects=made))


def _records(origins: RecordColumns, made: list[Any], rows: Numbers) -> RecordColumns:
    """Return *made* as columns: records, or values of records that are else as *origins*."""
    records = [
        each if type(each) is Record else origin.with_value(each)
        for each, (_, origin) in zip(made, origins.items(), strict=True)
    ]
    for each in records:
        if each.headers:
            check_headers(each.headers)
    if not all(type(each.time_ms) is int and 0 <= each.time_ms < BOUND_MS for each in records):
        raise NotOnColumnsError("a record was made with a time that is none, or too late for sums")
    return columns_of(records, rows)


def rekeyed(operator: Rekey, columns: RecordColumns, task: TaskRows) -> RecordColumns:
    """Give each record the key that the path, expression or function takes from it."""
    del task
    select: Any = operator.select
    if is_on_columns(select):
        return columns.with_key(Column(None, array=select.on_columns(columns)))
    if operator.path == "value":
        return columns.with_key(columns.value)
    if operator.path == "key":
        return columns
    keys = [select(record) for _, record in columns.items()]
    return columns.with_key(Column(None, objects=keys))


def to_stream(operator: ToStream, columns: ChangeColumns, task: TaskRows) -> RecordColumns:
    """Give on each change as a record with the new value."""
    del operator, task
    return RecordColumns(columns.key, columns.new, columns.times, columns.headers, columns.rows)


def emitted(operator: Sink, columns: RecordColumns, task: TaskRows) -> None:
    """Encode and emit."""
    if isinstance(operator, RepartitionSink):
        absent = columns.key.absent()
        if absent.any():
            kept = columns.take(places_of(~absent))
            batch = _encoded(operator, kept)
            task.drop_rows(operator.name, "null-key", columns.rows[absent])
            task.emit_rows(operator.topic.name, batch)
            return
    task.emit_rows(operator.topic.name, _encoded(operator, columns))


def _encoded(operator: Sink, columns: RecordColumns) -> pa.RecordBatch:
    key = columns.key.encoded(operator.topic.key)
    value = columns.value.encoded(operator.topic.value)
    times = pa.array(columns.times, pa.int64())
    headers = columns.headers
    if headers is None:
        headers = pa.nulls(len(columns), pa.binary())
    return pa.RecordBatch.from_arrays([key, value, times, headers], schema=RECORD_ROWS)
