"""Sessions on columns: those of a key are read once, merged in memory, and written once.

What becomes of each record is what it becomes in `SessionWindowed.add`, in the same order, and each
aggregate passes through its serde as if it had been stored. Of a session that came and went within
the batch nothing is written: neither the store nor the queue has ever had it.
"""

from bisect import bisect_left, insort
from itertools import islice, repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.processing.columns.aggregates import drop_all
from statestores.processing.columns.column import (
    Column,
    NotOnColumnsError,
    Numbers,
    WindowedColumn,
)
from statestores.processing.columns.folding import results
from statestores.processing.columns.groups import Groups
from statestores.processing.columns.observing import (
    Observed,
    closing_rows,
    keep_observed,
    observed,
)
from statestores.processing.columns.rows import ChangeColumns, RecordColumns, headers_at
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.operators.sessions import SessionWindowed
from statestores.processing.serdes import time_bytes
from statestores.processing.stores import key_serde, value_serde

_Session: TypeAlias = tuple[int, int, bytes]
"""End, start and aggregate: as a store orders the sessions of a key."""

_Place: TypeAlias = tuple[int, int, int]
"""The number of a key, and end and start of a session of it."""


class _Update(NamedTuple):
    """What a record has made of a session."""

    row: int
    """Which record, by its place among those that have a key and a value."""

    place: _Place
    """Of which session."""

    new: Any
    """The aggregate; ``None``: the session has become a part of another."""

    old: Any
    """What it was before."""


class _Merged(NamedTuple):
    """What becomes of the sessions of a batch."""

    updates: list[_Update]
    """Every update, in order."""

    written: dict[_Place, bytes | None]
    """The sessions that have changed, in the order of their last change; ``None``: gone."""

    stored: set[_Place]
    """Those that the store has."""

    late: list[int]
    """The rows that came too late."""


def every_session(
    operator: SessionWindowed, columns: RecordColumns, task: TaskRows
) -> ChangeColumns | None:
    """Merge the records into sessions; give on every update, or what is closed."""
    return _sessions(operator, columns, task, is_each=True)


def last_sessions(
    operator: SessionWindowed, columns: RecordColumns, task: TaskRows
) -> ChangeColumns | None:
    """Merge the records into sessions; give on the last update of each, or what is closed."""
    return _sessions(operator, columns, task, is_each=False)


def _sessions(
    operator: SessionWindowed, columns: RecordColumns, task: TaskRows, *, is_each: bool
) -> ChangeColumns | None:
    seen = observed(operator, columns, task)
    rows = seen.rows
    specification = task.store(operator.store).specification
    serde = key_serde(specification)
    keys = rows.key.encoded(serde)
    groups = Groups.of(keys)
    names = keys.take(pa.array(groups.lasts)).to_pylist()
    merged = _merged(operator, seen, groups, names, task)
    out: ChangeColumns | None = None
    if operator.pending is not None:
        out = _closed(operator, merged, names, seen, columns, task)
    elif merged.updates:
        updates = merged.updates if is_each else _last_of_each(merged.updates)
        out = _changes(operator, updates, rows)
    _write(operator, merged, names, task)
    if operator.pending is not None:
        _queue(operator.pending, operator, merged, names, seen, task)
    keep_observed(operator, seen, columns, task)
    late = ("late", rows.rows[np.array(merged.late, np.int64)])
    drop_all(operator, [*seen.dropped, late], task)
    return out


def _merged(
    operator: SessionWindowed, seen: Observed, groups: Groups, names: list[bytes], task: TaskRows
) -> _Merged:
    """Do in memory what `SessionWindowed.add` does with each record."""
    fold, windows = operator.fold, operator.windows
    gap_ms, open_for_ms = windows.gap_ms, windows.closes_after_ms(0)
    store = task.store(operator.store)
    serde = value_serde(store.specification)
    encode, decode, initial, add = serde.encode, serde.decode, fold.initial, fold.add
    merge: Any = fold.merge
    times = seen.rows.times
    several = _stored(store_of_bytes(store), names, groups, times, gap_ms)
    stored = {
        (code, end_ms, start_ms)
        for code, sessions in enumerate(several)
        for end_ms, start_ms, _ in sessions
    }
    updates: list[_Update] = []
    written: dict[_Place, bytes | None] = {}
    late: list[int] = []
    wants_updates = operator.pending is None
    columns = (groups.codes.tolist(), times.tolist(), seen.now.tolist(), _objects(seen))
    for row, (code, time_ms, now_ms, value) in enumerate(zip(*columns, strict=False)):
        sessions = several[code]
        start_ms = end_ms = time_ms
        aggregate = initial()
        near: list[_Session] = []
        first = bisect_left(sessions, (time_ms - gap_ms,))
        for session in islice(sessions, first, None):
            ends_ms, starts_ms, data = session
            if starts_ms <= time_ms + gap_ms and ends_ms + open_for_ms >= now_ms:
                found = decode(data)
                near.append(session)
                start_ms, end_ms = min(start_ms, starts_ms), max(end_ms, ends_ms)
                aggregate = merge(aggregate, found)
        if end_ms + open_for_ms < now_ms:
            late.append(row)
            continue
        is_same = (start_ms, end_ms) == (time_ms, time_ms)
        new = add(aggregate, value)
        if new is None:
            raise NotOnColumnsError("an aggregate is deleted")
        # A function may have changed in place what it was given.
        old = decode(near[0][2]) if near and is_same else None
        for session in near:
            sessions.remove(session)
            if not is_same:
                gone = (code, session[0], session[1])
                written.pop(gone, None)
                written[gone] = None
                if wants_updates:
                    updates.append(_Update(row, gone, None, decode(session[2])))
        place = (code, end_ms, start_ms)
        data = encode(new)
        written.pop(place, None)
        written[place] = data
        insort(sessions, (end_ms, start_ms, data))
        if wants_updates:
            updates.append(_Update(row, place, new, old))
    return _Merged(updates, written, stored, late)


def _objects(seen: Observed) -> Any:
    """Return what is folded, as Python's values; counts fold nothing."""
    if seen.values is None:
        return repeat(None)
    return seen.values.to_pylist() if isinstance(seen.values, pa.Array) else seen.values


def _stored(
    below: Any, names: list[bytes], groups: Groups, times: Numbers, gap_ms: int
) -> list[list[_Session]]:
    """Return for each key the sessions that a record of it may reach."""
    highest = groups.greatest(times, np.full(groups.count, -1, np.int64)).tolist()
    lowest = (-groups.greatest(-times, np.full(groups.count, -(1 << 63), np.int64))).tolist()
    return [
        [
            (each.end_ms, each.start_ms, each.value)
            for each in below.find_sessions(name, max(0, low_ms - gap_ms), high_ms + gap_ms)
        ]
        for name, low_ms, high_ms in zip(names, lowest, highest, strict=True)
    ]


def _last_of_each(updates: list[_Update]) -> list[_Update]:
    """Return the last update of each session, which says what was before the first (PRC-55)."""
    lasts: dict[_Place, _Update] = {}
    for update in updates:
        before = lasts.pop(update.place, None)
        lasts[update.place] = update if before is None else update._replace(old=before.old)
    return list(lasts.values())


def _changes(
    operator: SessionWindowed, updates: list[_Update], rows: RecordColumns
) -> ChangeColumns:
    places = np.array([each.row for each in updates], np.int64)
    ends = np.array([each.place[1] for each in updates], np.int64)
    starts = np.array([each.place[2] for each in updates], np.int64)
    return ChangeColumns(
        WindowedColumn(rows.key.take(places), starts, ends),
        results(operator.fold, Column(None, objects=[each.new for each in updates])),
        results(operator.fold, Column(None, objects=[each.old for each in updates])),
        ends,
        headers_at(rows.headers, places),
        rows.rows[places],
    )


def _closed(
    operator: SessionWindowed,
    merged: _Merged,
    names: list[bytes],
    seen: Observed,
    columns: RecordColumns,
    task: TaskRows,
) -> ChangeColumns | None:
    """Return what the sessions give that the batch has closed, by their ends, starts and keys."""
    store = task.store(operator.store)
    codes = {name: code for code, name in enumerate(names)}
    below: Any = store_of_bytes(store)
    last_closed_ms = _last_closed_ms(operator, seen)
    several: dict[tuple[int, int, bytes], bytes | None] = {}
    for end_ms, name, _ in task.time_queue(operator.pending or "").until(last_closed_ms):
        start_ms, key = int.from_bytes(name[:8], "big"), name[8:]
        place = (codes.get(key, -1), end_ms, start_ms)
        if place in merged.written:
            several[end_ms, start_ms, key] = merged.written[place]
        else:
            several[end_ms, start_ms, key] = below.fetch_session(key, start_ms, end_ms)
    for (code, end_ms, start_ms), data in merged.written.items():
        if end_ms <= last_closed_ms and (code, end_ms, start_ms) not in merged.stored:
            several[end_ms, start_ms, names[code]] = data  # one that was deleted may have waited
    found = sorted((*place, data) for place, data in several.items() if data is not None)
    if not found:
        return None
    ends, starts = (np.array([each[at] for each in found], np.int64) for at in (0, 1))
    keys = pa.array([each[2] for each in found], pa.binary())
    keyed = Column.decoded(keys, key_serde(store.specification))
    new = Column.decoded(
        pa.array([each[3] for each in found], pa.binary()), value_serde(store.specification)
    )
    return ChangeColumns(
        WindowedColumn(keyed, starts, ends),
        results(operator.fold, new),
        Column(None, objects=[None] * len(found)),
        ends,
        None,
        closing_rows(ends + operator.windows.closes_after_ms(0), seen, columns),
    )


def _write(operator: SessionWindowed, merged: _Merged, names: list[bytes], task: TaskRows) -> None:
    """Put what has changed into the store, and into the queue what is not closed."""
    written = {
        place: data
        for place, data in merged.written.items()
        if data is not None or place in merged.stored
    }
    codes, ends, starts = zip(*written, strict=True) if written else ((), (), ())
    keys = [names[code] for code in codes]
    below: Any = store_of_bytes(task.store(operator.store))
    below.put_many(keys, list(starts), list(ends), list(written.values()))


def _queue(
    pending: str,
    operator: SessionWindowed,
    merged: _Merged,
    names: list[bytes],
    seen: Observed,
    task: TaskRows,
) -> None:
    """Let the sessions wait that are open, and no others."""
    queue = task.time_queue(pending)
    last_closed_ms = _last_closed_ms(operator, seen)
    queue.pop_until(last_closed_ms)
    for place, data in merged.written.items():
        code, end_ms, start_ms = place
        if end_ms > last_closed_ms and (data is None) == (place in merged.stored):
            name = time_bytes(start_ms) + names[code]
            if data is None:
                queue.remove(end_ms, name)
            else:
                queue.put(end_ms, name, b"")


def _last_closed_ms(operator: SessionWindowed, seen: Observed) -> int:
    return int(seen.moved[-1]) - operator.windows.closes_after_ms(0) - 1
