"""Tumbling and hopping windows on columns: one read and one write a key and window of a batch.

With `closed()`, what comes out is just what records give: every window once, in the order of
starts and keys. A window that the batch closes is read before anything is put, since the puts may
move the store's own time past it.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.processing.columns.aggregates import changes, drop_all
from statestores.processing.columns.column import Column, Numbers, WindowedColumn
from statestores.processing.columns.folding import (
    NO_TIME,
    Stored,
    folded,
    last_folded,
    results,
)
from statestores.processing.columns.groups import Groups
from statestores.processing.columns.observing import (
    Observed,
    closing_rows,
    keep_observed,
    observed,
)
from statestores.processing.columns.rows import ChangeColumns, RecordColumns, places_of
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.operators.windowed import TimeWindowed
from statestores.processing.serdes import time_bytes
from statestores.processing.stores import key_serde, value_serde
from statestores.spi import Serde

_STAMP_BYTES = 8


class _Open(NamedTuple):
    """The rows that are in windows that are open, and what else there was."""

    rows: RecordColumns
    """The rows: each once for each of its windows, the earliest first."""

    values: Any
    """What of them is folded: an Arrow array, or a list; ``None`` where rows are counted."""

    starts: Numbers
    """When the window of each starts."""

    late: Numbers
    """The rows of the input that were too late, once for each window."""

    seen: Observed
    """The times, and the rows that were left out before."""

    names: list[bytes]
    """The keys of the windows that have rows, in the order of the last row of each."""

    groups: Groups
    """The rows of each window."""

    stored: Stored
    """What the store has of each."""

    @property
    def begins(self) -> Numbers:
        """When each window starts."""
        begins: Numbers = self.starts[self.groups.lasts]
        return begins


def windowed(
    operator: TimeWindowed, columns: RecordColumns, task: TaskRows
) -> ChangeColumns | None:
    """Fold the records of each key and window; give on each last update, or what is closed."""
    found = _open(operator, columns, task)
    fold, groups, rows = operator.fold, found.groups, found.rows
    serde = _inner(operator, task)
    before, after, encoded, times = last_folded(
        fold, groups, rows.times, found.values, found.stored, serde
    )
    stamped = _stamped(encoded, times)
    out: ChangeColumns | None = None
    if operator.pending is not None:
        out = _closed(operator, found, stamped, columns, task)
    elif len(rows):
        begins = found.begins
        window = WindowedColumn(
            rows.key.take(groups.lasts), begins, begins + operator.windows.size_ms
        )
        out = changes(fold, rows, groups, before, after, times, window)
    _keep(operator, found, stamped, columns, task)
    return out


def every_window(
    operator: TimeWindowed, columns: RecordColumns, task: TaskRows
) -> ChangeColumns | None:
    """Fold the records of each key and window; give on every update, or what is closed."""
    if operator.pending is not None:
        return windowed(operator, columns, task)
    found = _open(operator, columns, task)
    fold, rows, starts = operator.fold, found.rows, found.starts
    out: ChangeColumns | None = None
    stamped: list[bytes] = []
    if len(rows):
        serde = _inner(operator, task)
        updates = folded(fold, found.groups, rows.times, found.values, found.stored, serde)
        stamped = _stamped(updates.stored, updates.stored_ms)
        out = ChangeColumns(
            WindowedColumn(rows.key, starts, starts + operator.windows.size_ms),
            results(fold, updates.new),
            results(fold, updates.old),
            updates.times,
            rows.headers,
            rows.rows,
        )
    _keep(operator, found, stamped, columns, task)
    return out


def _inner(operator: TimeWindowed, task: TaskRows) -> Serde[Any]:
    """Return the serde of what is stamped in the store."""
    serde: Any = value_serde(task.store(operator.store).specification)
    inner: Serde[Any] = serde.inner
    return inner


def _stamped(values: pa.Array, times: Numbers) -> list[bytes]:
    """Return *values* behind their times, as `StampedSerde` writes them."""
    pairs = zip(values.to_pylist(), times.tolist(), strict=True)
    return [time_bytes(time_ms) + (data or b"") for data, time_ms in pairs]


def _open(operator: TimeWindowed, columns: RecordColumns, task: TaskRows) -> _Open:
    """Return what of *columns* is folded, and what the store has of its windows."""
    windows, size_ms = operator.windows, operator.windows.size_ms
    seen = observed(operator, columns, task)
    rows, values, now = seen.rows, seen.values, seen.now
    starts = rows.times // size_ms * size_ms
    if windows.advance_ms != size_ms:
        places, starts = _several(rows.times, size_ms, windows.advance_ms)
        rows, values, now = rows.take(places), _taken(values, places), now[places]
    is_late = starts < now - windows.closes_after_ms(size_ms)
    late = rows.rows[is_late]
    if len(late):
        kept = places_of(~is_late)
        rows, starts, values = rows.take(kept), starts[kept], _taken(values, kept)
    store = task.store(operator.store)
    keys = rows.key.encoded(key_serde(store.specification))
    groups = Groups.of_both(keys, starts)
    names = keys.take(pa.array(groups.lasts)).to_pylist()
    below: Any = store_of_bytes(store)
    found = list(map(below.fetch, names, starts[groups.lasts].tolist()))
    values_of = [None if each is None else each[_STAMP_BYTES:] for each in found]
    stamps = [NO_TIME if each is None else int.from_bytes(each[:_STAMP_BYTES]) for each in found]
    stored = Stored(pa.array(values_of, pa.binary()), np.array(stamps, np.int64))
    return _Open(rows, values, starts, late, seen, names, groups, stored)


def _keep(
    operator: TimeWindowed,
    found: _Open,
    stamped: list[bytes],
    columns: RecordColumns,
    task: TaskRows,
) -> None:
    """Put what has become of the windows, and let what was not folded be counted."""
    below: Any = store_of_bytes(task.store(operator.store))
    below.put_many(found.names, stamped, found.begins.tolist())
    keep_observed(operator, found.seen, columns, task)
    drop_all(operator, [*found.seen.dropped, ("late", found.late)], task)


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


def _closed(
    operator: TimeWindowed,
    found: _Open,
    stamped: list[bytes],
    columns: RecordColumns,
    task: TaskRows,
) -> ChangeColumns | None:
    """Queue the new windows that stay open; give on those that the batch has closed, in order."""
    queue = task.time_queue(operator.pending or "")
    store = task.store(operator.store)
    fetch: Any = store_of_bytes(store).fetch  # type: ignore[attr-defined]  # a window store
    open_for_ms = operator.windows.closes_after_ms(operator.windows.size_ms)
    last_closed_ms = int(found.seen.moved[-1]) - open_for_ms - 1
    places = list(zip(found.begins.tolist(), found.names, strict=True))
    touched = dict(zip(places, stamped, strict=True))
    closing: dict[tuple[int, bytes], bytes] = {}
    for start_ms, key, _ in queue.until(last_closed_ms):
        data = touched.get((start_ms, key)) or fetch(key, start_ms)
        if data is not None:
            closing[start_ms, key] = data
    opened = []
    for place, data, before in zip(places, stamped, found.stored.values.to_pylist(), strict=True):
        if before is None and place[0] <= last_closed_ms:
            closing[place] = data  # it may have waited: an aggregate that is deleted does
        elif before is None:
            opened.append(place)
    given = [(*place, data) for place, data in sorted(closing.items())]
    out = _results(operator, task, given, found, columns) if given else None
    queue.pop_until(last_closed_ms)
    for place in opened:
        queue.put(*place, b"")
    return out


def _results(
    operator: TimeWindowed,
    task: TaskRows,
    closing: list[tuple[int, bytes, bytes]],
    found: _Open,
    columns: RecordColumns,
) -> ChangeColumns:
    """Return what the closed windows give."""
    size_ms = operator.windows.size_ms
    serde = key_serde(task.store(operator.store).specification)
    keys = Column.decoded(pa.array([each[1] for each in closing], pa.binary()), serde)
    starts = np.array([each[0] for each in closing], np.int64)
    data = pa.array([each[2][_STAMP_BYTES:] for each in closing], pa.binary())
    values = Column.decoded(data, _inner(operator, task))
    return ChangeColumns(
        WindowedColumn(keys, starts, starts + size_ms),
        results(operator.fold, values),
        Column(None, objects=[None] * len(closing)),
        np.array([int.from_bytes(each[2][:_STAMP_BYTES]) for each in closing], np.int64),
        None,
        closing_rows(starts + operator.windows.closes_after_ms(size_ms), found.seen, columns),
    )
