"""What windows of all kinds do with a batch first: move time on, drop what is folded nowhere.

A record without value moves time on too; one without key does not (PRC-14).
"""

from typing import Any, NamedTuple

import numpy as np

from statestores.processing.columns.aggregates import chosen
from statestores.processing.columns.column import Numbers
from statestores.processing.columns.folding import NO_TIME
from statestores.processing.columns.rows import RecordColumns
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.operators.windowed import WindowedOperator


class Observed(NamedTuple):
    """A batch at its times."""

    rows: RecordColumns
    """The rows that have a key and something to fold."""

    values: Any
    """What of them is folded: an Arrow array, or a list; ``None`` where rows are counted."""

    now: Numbers
    """The time that is observed at each of them."""

    dropped: list[tuple[str, Numbers]]
    """The other rows of the input, by reason."""

    moved: Numbers
    """The time that is observed at each row of the input; at the end, by all."""


def observed(operator: WindowedOperator, columns: RecordColumns, task: TaskRows) -> Observed:
    """Return *columns*, which are not empty, at the times that *operator* observes."""
    before_ms = task.observed_time(operator.store).now_ms
    moving = np.where(columns.key.absent(), NO_TIME, columns.times)
    moved = np.maximum.accumulate(np.maximum(moving, before_ms))
    places = np.arange(len(columns))
    numbered = RecordColumns(columns.key, columns.value, columns.times, columns.headers, places)
    rows, values, dropped = chosen(operator.fold, numbered)
    now = moved[rows.rows]
    rows = RecordColumns(rows.key, rows.value, rows.times, rows.headers, columns.rows[rows.rows])
    by_input = [(reason, columns.rows[several]) for reason, several in dropped]
    return Observed(rows, values, now, by_input, moved)


def keep_observed(
    operator: WindowedOperator, seen: Observed, columns: RecordColumns, task: TaskRows
) -> None:
    """Let *operator* have observed what it has *seen*."""
    if not columns.key.absent().all():
        time = task.observed_time(operator.store)
        time.now_ms, time.arrived_ms = int(seen.moved[-1]), task.wall_ms


def closing_rows(closed_after: Numbers, seen: Observed, columns: RecordColumns) -> Numbers:
    """Return the row of the input that closes each window, which is open up to *closed_after*."""
    places = np.searchsorted(seen.moved, closed_after, side="right")
    return columns.rows[np.minimum(places, len(columns) - 1)]
