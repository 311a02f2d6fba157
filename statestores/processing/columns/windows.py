"""Tumbling and hopping windows on columns: one read and one write a key and window of a batch.

With `closed()`, what comes out is just what records give: every window once, in the order of
starts and keys. A window that the batch closes is read before anything is put, since the puts may
move the store's own time past it.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.processing.columns.aggregates import NO_TIME, changes, chosen, drop_all
from statestores.processing.columns.column import (
    Column,
    NotOnColumnsError,
    Numbers,
    WindowedColumn,
)
from statestores.processing.columns.groups import Groups
from statestores.processing.columns.kernels import kernel_of
from statestores.processing.columns.rows import ChangeColumns, RecordColumns, places_of
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.operators.windowed import TimeWindowed
from statestores.processing.stores import key_serde, value_serde
from statestores.spi import TimestampedValue


class _Closed(NamedTuple):
    """A window whose result comes out."""

    start_ms: int
    """When it starts."""

    key: bytes
    """Whose it is."""

    stored: TimestampedValue[Any]
    """Its aggregate, with its time."""


class _Open(NamedTuple):
    """The rows that are in windows that are open, and what else there was."""

    rows: RecordColumns
    """The rows."""

    values: Any
    """What of them is folded: an Arrow array, or a list; ``None`` where rows are counted."""

    starts: Numbers
    """When the window of each starts."""

    dropped: list[tuple[str, Numbers]]
    """The other rows of the input, by reason."""

    now_ms: int
    """The time that the operator has observed at the end."""


def windowed(
    operator: TimeWindowed, columns: RecordColumns, task: TaskRows
) -> ChangeColumns | None:
    """Fold the records of each key and window."""
    fold, size_ms = operator.fold, operator.windows.size_ms
    if fold.kernel is None:
        raise NotOnColumnsError("the fold is a Python function")
    observed = task.observed_time(operator.store)
    rows, values, starts, dropped, now_ms = _open(operator, columns, observed.now_ms)
    store = task.store(operator.store)
    serde = value_serde(store.specification)
    below: Any = store_of_bytes(store)
    keys = rows.key.encoded(key_serde(store.specification))
    groups = Groups.of_both(keys, starts)
    names = keys.take(pa.array(groups.lasts)).to_pylist()
    begins = starts[groups.lasts]
    stored = [
        None if each is None else serde.decode(each)
        for each in map(below.fetch, names, begins.tolist())
    ]
    before = [None if each is None else each[0] for each in stored]
    seen = [NO_TIME if each is None or each[1] is None else each[1] for each in stored]
    times = groups.greatest(rows.times, np.array(seen, np.int64))
    after = kernel_of(fold.kernel)(groups, before, values) if len(rows) else []
    stamped = list(map(TimestampedValue, after, times.tolist()))
    encoded = list(map(serde.encode, stamped))
    out: ChangeColumns | None = None
    if operator.emission.on_close:
        touched = dict(zip(zip(begins.tolist(), names, strict=True), stamped, strict=True))
        fresh = [each is None for each in stored]
        closing = _closing(operator, task, touched, fresh, now_ms)
        out = _results(operator, task, closing, columns) if closing else None
    elif len(rows):
        window = WindowedColumn(rows.key.take(groups.lasts), begins, begins + size_ms)
        out = changes(fold, rows, groups, before, after, times, window)
    below.put_many(names, encoded, begins.tolist())
    if not columns.key.absent().all():
        observed.now_ms, observed.arrived_ms = now_ms, task.wall_ms
    drop_all(operator, dropped, task)
    return out


def _open(operator: TimeWindowed, columns: RecordColumns, observed_ms: int) -> _Open:
    """Return what of *columns* is folded. A record without value moves time on too."""
    windows, size_ms = operator.windows, operator.windows.size_ms
    moving = np.where(columns.key.absent(), NO_TIME, columns.times)
    now = np.maximum.accumulate(np.maximum(moving, observed_ms))
    numbered = RecordColumns(
        columns.key, columns.value, columns.times, columns.headers, np.arange(len(columns))
    )
    rows, values, dropped = chosen(operator.fold, numbered)
    starts = rows.times // size_ms * size_ms
    if windows.advance_ms != size_ms:
        places, starts = _several(rows.times, size_ms, windows.advance_ms)
        rows, values = rows.take(places), _taken(values, places)
    is_late = starts < now[rows.rows] - windows.closes_after_ms(size_ms)
    if is_late.any():
        dropped.append(("late", rows.rows[is_late]))
        kept = places_of(~is_late)
        rows, starts, values = rows.take(kept), starts[kept], _taken(values, kept)
    rows.rows = columns.rows[rows.rows]
    by_input = [(reason, columns.rows[places]) for reason, places in dropped]
    return _Open(rows, values, starts, by_input, int(now[-1]))


def _several(times: Numbers, size_ms: int, advance_ms: int) -> tuple[Numbers, Numbers]:
    """Return for each window of each row, the earliest first, the row's place and the start."""
    steps = np.arange(-(-size_ms // advance_ms) - 1, -1, -1, dtype=np.int64) * advance_ms
    starts = (times // advance_ms * advance_ms)[:, None] - steps[None, :]
    has_row = (starts >= 0) & (starts > times[:, None] - size_ms)
    places = np.broadcast_to(np.arange(len(times))[:, None], starts.shape)
    return places[has_row], starts[has_row]


def _taken(values: Any, places: Numbers) -> Any:
    """Return the values at *places*: of an Arrow array, of a list, or of none at all."""
    if isinstance(values, list):
        return [values[place] for place in places.tolist()]
    return None if values is None else values.take(pa.array(places))


def _closing(
    operator: TimeWindowed,
    task: TaskRows,
    touched: dict[tuple[int, bytes], TimestampedValue[Any]],
    fresh: list[bool],
    now_ms: int,
) -> list[_Closed]:
    """Queue the new windows that stay open; return those that are closed at *now_ms*, in order."""
    if operator.pending is None:
        return []
    queue = task.time_queue(operator.pending)
    store = task.store(operator.store)
    serde = value_serde(store.specification)
    fetch: Any = store_of_bytes(store).fetch  # type: ignore[attr-defined]  # a window store
    last_closed_ms = now_ms - operator.windows.closes_after_ms(operator.windows.size_ms) - 1
    found = []
    for start_ms, key, _ in queue.pop_until(last_closed_ms):
        stored = touched.get((start_ms, key))
        if stored is None:
            data = fetch(key, start_ms)
            stored = None if data is None else serde.decode(data)
        if stored is not None:
            found.append(_Closed(start_ms, key, stored))
    for (place, stored), is_new in zip(touched.items(), fresh, strict=True):
        if is_new and place[0] <= last_closed_ms:
            found.append(_Closed(*place, stored))
        elif is_new:
            queue.put(*place, b"")
    return sorted(found, key=lambda each: (each.start_ms, each.key))


def _results(
    operator: TimeWindowed, task: TaskRows, closing: list[_Closed], columns: RecordColumns
) -> ChangeColumns:
    """Return what the closed windows give."""
    result = operator.fold.result
    serde = key_serde(task.store(operator.store).specification)
    keys = Column.decoded(pa.array([each.key for each in closing], pa.binary()), serde)
    starts = np.array([each.start_ms for each in closing], np.int64)
    values = [each.stored[0] for each in closing]
    return ChangeColumns(
        WindowedColumn(keys, starts, starts + operator.windows.size_ms),
        Column(None, objects=values if result is None else list(map(result, values))),
        Column(None, objects=[None] * len(closing)),
        np.array([each.stored[1] for each in closing], np.int64),
        None,
        np.full(len(closing), columns.rows[-1], np.int64),
    )
