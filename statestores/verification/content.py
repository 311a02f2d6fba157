"""Whether two doors show the same content: a store and the changelog that should give it."""

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statestores.text.times import format_time
from statestores.text.values import as_text

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


def living(batches: Iterable[pa.RecordBatch], horizon_ms: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows whose timestamp is above *horizon_ms*, and those without one."""
    for batch in batches:
        times = batch.column("timestamp")
        yield batch.filter(pc.or_kleene(pc.is_null(times), pc.greater(times, horizon_ms)))


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


def _rows(batch: pa.RecordBatch | None) -> Iterator[dict[str, Any]]:
    if batch is not None:
        yield from batch.to_pylist()


def _in_words(
    here: dict[str, Any] | None, there: dict[str, Any] | None, where: str, by: str
) -> str:
    if here is None or (there is not None and _place(there) < _place(here)):
        return f"{_row(there)} is missing in {where}, and there by {by}"
    if there is None or _place(here) < _place(there):
        return f"{_row(here)} is in {where}, and not there by {by}"
    return f"{_row(here)} in {where} is {_row(there)} by {by}"


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what tells the rows of a store apart, in their order."""
    numbers = (row[name] for name in _ORDER if name in row)
    return (row["key"], *(-1 if number is None else number for number in numbers))


_ORDER = ("valid_from", "window_start", "sequence", "session_end", "session_start")


def _row(row: dict[str, Any] | None) -> str:
    if row is None:
        return "nothing"
    words = f"key {as_text(row['key'])!r} with value {as_text(row['value'])!r}"
    if "valid_from" in row:
        until = "now" if row["valid_to"] is None else format_time(row["valid_to"])
        return f"{words} from {format_time(row['valid_from'])} until {until}"
    for name, number in row.items():
        if name not in {"key", "value"} and number is not None:
            shown = number if name == "sequence" else format_time(number)
            words += f", {name.replace('_', ' ')} {shown}"
    return words
