"""Whether two doors show the same content: a store and the changelog that should give it."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from statestores.text.times import format_time
from statestores.text.values import as_text

_MOST_ROWS = 1 << 16
"""Rows that are compared at once, as columns."""

Row: TypeAlias = dict[str, Any]
"""A row by the names of its columns."""


def first_difference(
    found: Iterable[pa.RecordBatch], expected: Iterable[pa.RecordBatch], where: str, by: str
) -> str | None:
    """Return the first row that *found* and *expected* do not share, in words.

    Both are in key and time order. *where* and *by* name them.
    """
    for here, there in differences(found, expected):
        return _in_words(here, there, where, by)
    return None


def differences(
    found: Iterable[pa.RecordBatch], expected: Iterable[pa.RecordBatch]
) -> Iterator[tuple[Row | None, Row | None]]:
    """Yield the rows that *found* and *expected* do not share, in their order, side by side.

    Both are in key and time order, and of each one batch is held. A row that only one of them has
    stands beside ``None``. Rows of the same place, see `place_of`, stand beside each other.
    """
    mine, theirs = _Ahead(found), _Ahead(expected)
    step = 1
    while mine.left and theirs.left:
        rows = min(step, mine.left, theirs.left)
        if mine.next_rows(rows).equals(theirs.next_rows(rows)):
            mine.skip(rows)
            theirs.skip(rows)
            step = min(2 * step, _MOST_ROWS)
            continue
        step = 1
        if rows > 1:
            continue  # look closer
        here, there = mine.row(), theirs.row()
        before, after = place_of(here) < place_of(there), place_of(there) < place_of(here)
        if not after:
            mine.skip(1)
        if not before:
            theirs.skip(1)
        if here != there:  # the columns may differ in no more than whether null is allowed
            yield None if after else here, None if before else there
    while mine.left:
        yield mine.row(), None
        mine.skip(1)
    while theirs.left:
        yield None, theirs.row()
        theirs.skip(1)


class _Ahead:
    """The rows of batches that have not been looked at yet."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._batch: pa.RecordBatch | None = None
        self._at = 0
        self.left = 0
        self.skip(0)

    def next_rows(self, rows: int) -> pa.RecordBatch:
        """Return the next *rows*, which are left in the batch."""
        assert self._batch is not None  # noqa: S101  # rows are left
        return self._batch.slice(self._at, rows)

    def row(self) -> Row:
        """Return the next row."""
        (row,) = self.next_rows(1).to_pylist()
        found: Row = row
        return found

    def skip(self, rows: int) -> None:
        """Go on by *rows*, which are left in the batch."""
        self._at += rows
        self.left -= rows
        while not self.left and (batch := next(self._batches, None)) is not None:
            self._batch, self._at, self.left = batch, 0, batch.num_rows


def visible(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that some read shows: of deletions, only their effect counts."""
    for batch in batches:
        yield batch.filter(batch.column("value").is_valid())


def _in_words(here: Row | None, there: Row | None, where: str, by: str) -> str:
    if here is None or (there is not None and place_of(there) < place_of(here)):
        return f"{_row(there)} is missing in {where}, and there by {by}"
    if there is None or place_of(here) < place_of(there):
        return f"{_row(here)} is in {where}, and not there by {by}"
    return f"{_row(here)} in {where} is {_row(there)} by {by}"


def place_of(row: Row) -> tuple[Any, ...]:
    """Return what tells the rows of a store apart, in their order."""
    numbers = (row[name] for name in PLACES if name in row)
    return (row["key"], *(-1 if number is None else number for number in numbers))


PLACES = ("valid_from", "window_start", "sequence", "session_end", "session_start")
"""The columns that tell the rows of one key apart, in their order."""


def _row(row: Row | None) -> str:
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
