"""Whether two doors show the same content: a store and the changelog that should give it."""

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import pyarrow as pa

from statestores.cli.times import format_time
from statestores.cli.values import as_text

_COMPARED_ROWS = 8_192


def first_difference(
    found: Iterable[pa.RecordBatch], expected: Iterable[pa.RecordBatch], where: str, by: str
) -> str | None:
    """Return the first row that *found* and *expected* do not share, in words.

    Both are in key and time order. *where* and *by* name them.
    """
    pairs = zip_longest(_evenly(found), _evenly(expected))
    for mine, theirs in pairs:
        if mine is not None and theirs is not None and mine.equals(theirs):
            continue
        rows = zip_longest(_rows(mine), _rows(theirs))
        for here, there in rows:
            if here != there:
                return _in_words(here, there, where, by)
    return None


def visible(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that some read shows: of deletions, only their effect counts."""
    for batch in batches:
        yield batch.filter(batch.column("value").is_valid())


def _evenly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches whose borders depend on the number of rows alone."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        while rows >= _COMPARED_ROWS:
            table = pa.Table.from_batches(waiting)
            yield _one(table.slice(0, _COMPARED_ROWS))
            waiting = table.slice(_COMPARED_ROWS).to_batches()
            rows -= _COMPARED_ROWS
    if rows:
        yield _one(pa.Table.from_batches(waiting))


def _one(table: pa.Table) -> pa.RecordBatch:
    (batch,) = table.combine_chunks().to_batches()
    return batch


def _rows(batch: pa.RecordBatch | None) -> Iterator[tuple[Any, ...]]:
    if batch is not None:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _in_words(
    here: tuple[Any, ...] | None, there: tuple[Any, ...] | None, where: str, by: str
) -> str:
    if here is None or (there is not None and _place(there) < _place(here)):
        return f"{_row(there)} is missing in {where}, and there by {by}"
    if there is None or _place(here) < _place(there):
        return f"{_row(here)} is in {where}, and not there by {by}"
    return f"{_row(here)} in {where} is {_row(there)} by {by}"


def _place(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return key and, for versions, the start."""
    return (row[0], *row[2:3])


def _row(row: tuple[Any, ...] | None) -> str:
    if row is None:
        return "nothing"
    key, value, *times = row
    words = f"key {as_text(key)!r} with value {as_text(value)!r}"
    if times:
        start, end = times
        until = "now" if end is None else format_time(end)
        words += f" from {format_time(start)} until {until}"
    return words
