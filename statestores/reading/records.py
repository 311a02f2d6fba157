"""The rows of a store of any kind, one by one: key, value, and up to two times."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.spi.specification import StoreSpecification
from statestores.spi.window_specification import Window

_ROWS_AT_ONCE = 1_024
"""Rows that become Python objects together: few are asked for, and a batch has many."""


class Record(NamedTuple):
    """One row of a store."""

    key: bytes
    value: bytes
    start_ms: int | None = None
    """The timestamp, or the start of the version, window or session."""
    end_ms: int | None = None
    """The end of the version, window or session; ``None`` for the latest version."""


def records_of(
    batches: Iterable[pa.RecordBatch], specification: StoreSpecification[Any, Any]
) -> Iterator[Record]:
    """Yield the content rows of *batches*."""
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            yield from _records(batch.slice(start, _ROWS_AT_ONCE), specification)


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of *batches* as they are, whatever their columns."""
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            columns = batch.slice(start, _ROWS_AT_ONCE).columns
            yield from zip(*(column.to_pylist() for column in columns), strict=True)


def backwards(
    batches: Iterable[pa.RecordBatch], specification: StoreSpecification[Any, Any], limit: int
) -> Iterator[Record]:
    """Yield the content rows of *batches* from the last one on.

    With a *limit*, only the batches that hold that many rows stay in memory.
    """
    kept: deque[pa.RecordBatch] = deque()
    rows = 0
    for batch in batches:
        kept.append(batch)
        rows += batch.num_rows
        while limit and rows - kept[0].num_rows >= limit:
            rows -= kept.popleft().num_rows
    while kept:
        batch = kept.pop()
        for stop in range(batch.num_rows, 0, -_ROWS_AT_ONCE):
            start = max(0, stop - _ROWS_AT_ONCE)
            yield from reversed(_records(batch.slice(start, stop - start), specification))


def _records(batch: pa.RecordBatch, specification: StoreSpecification[Any, Any]) -> list[Record]:
    columns = [column.to_pylist() for column in batch.columns]
    if isinstance(specification, Window):
        # In place of the sequence, which is the order in which they stand.
        size_ms = specification.window_size_ms
        columns[3] = [min(start_ms + size_ms, MAX_TIME_MS) for start_ms in columns[2]]
    return list(map(Record, *columns))
