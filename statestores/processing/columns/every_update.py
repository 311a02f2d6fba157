"""Aggregates and tables on the columns of a run: one read and one write for each key, every update.

What comes out is, row by row, what `receive` gives record by record; it need not be the last of its
key, and nobody need be indifferent to the others (PRC-95).
"""

from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.processing.columns.aggregates import (
    check_keeps,
    chosen,
    decoded_values,
    drop_all,
    times_of,
)
from statestores.processing.columns.column import Column, NotOnColumnsError, Numbers, numbers_of
from statestores.processing.columns.groups import Groups
from statestores.processing.columns.rows import ChangeColumns, RecordColumns, places_of
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.operators.aggregates import Aggregate
from statestores.processing.operators.fold import Fold
from statestores.processing.operators.tables import TableSource
from statestores.processing.stores import key_serde, value_serde
from statestores.serdes import int64
from statestores.spi import Serde

_SAFE = float(1 << 62)


class _Stored(NamedTuple):
    """What the store has for each key."""

    values: list[bytes | None]
    """The bytes of the aggregates; ``None`` where there is none."""

    stamps: list[int | None]
    """Their times."""


class _Updates(NamedTuple):
    """What becomes of each row, and what each key has in the end."""

    new: Column
    """The aggregates after each row."""

    old: Column
    """Those before it."""

    times: Numbers
    """The time of each update."""

    stored: list[bytes | None]
    """For each key, the bytes of its last aggregate."""

    stored_ms: list[int]
    """Their times."""


def every_update(
    operator: Aggregate, columns: RecordColumns, task: TaskRows
) -> ChangeColumns | None:
    """Fold the records of each key; give on every update."""
    fold = operator.fold
    rows, values, dropped = chosen(fold, columns)
    if not len(rows):
        drop_all(operator, dropped, task)
        return None
    store = task.store(operator.store)
    check_keeps(store)
    serde = value_serde(store.specification)
    below: Any = store_of_bytes(store)
    keys = rows.key.encoded(key_serde(store.specification))
    groups = Groups.of(keys)
    names = keys.take(pa.array(groups.lasts)).to_pylist()
    stored = _Stored(*below.get_columns(names))
    updates = _whole_numbers(fold, groups, rows.times, values, stored, serde)
    if updates is None:
        updates = _one_by_one(fold, groups, rows.times, values, stored, serde)
    below.put_many(names, updates.stored, updates.stored_ms)
    drop_all(operator, dropped, task)
    new, old = updates.new, updates.old
    if fold.result is not None:
        new, old = _results(fold.result, new), _results(fold.result, old)
    return ChangeColumns(rows.key, new, old, updates.times, rows.headers, rows.rows)


def every_row(operator: TableSource, columns: RecordColumns, task: TaskRows) -> ChangeColumns:
    """Replace the row of each key; give on every change."""
    store = task.store(operator.store)
    check_keeps(store)
    no_key = columns.key.absent()
    rows = columns.take(places_of(~no_key)) if no_key.any() else columns
    specification = store.specification
    keys = rows.key.encoded(key_serde(specification))
    serde = value_serde(specification)
    values = rows.value.encoded(serde).to_pylist()
    groups = Groups.of(keys)
    names = keys.to_pylist()
    below: Any = store_of_bytes(store)
    present, _ = below.get_columns([names[row] for row in groups.lasts.tolist()])
    before = []
    for code, value in zip(groups.codes.tolist(), values, strict=True):
        before.append(present[code])
        present[code] = value
    old = Column.decoded(pa.array(before, pa.binary()), serde)
    below.put_many(names, values, rows.times.tolist())
    if no_key.any():
        task.drop_rows(operator.name, "null-key", columns.rows[no_key])
    return ChangeColumns(rows.key, rows.value, old, rows.times, rows.headers, rows.rows)


def _results(result: Any, column: Column) -> Column:
    objects = [None if each is None else result(each) for each in column.objects()]
    return Column(None, objects=objects)


def _whole_numbers(
    fold: Fold,
    groups: Groups,
    times: Numbers,
    values: Any,
    stored: _Stored,
    serde: Serde[Any],
) -> _Updates | None:
    """Return the updates of counts, and of sums of whole numbers; ``None`` of anything else."""
    if serde != int64 or fold.kernel not in ("count", "sum", "add"):
        return None
    added: Numbers = np.ones(len(times), np.int64)
    if fold.kernel != "count":
        try:
            numbers = values.to_numpy() if isinstance(values, pa.Array) else numbers_of(values)
        except NotOnColumnsError:
            return None
        if numbers.dtype != np.int64:
            return None
        added = numbers
    before = decoded_values(serde, stored.values)
    is_new = np.array([each is None for each in before], np.bool_)
    start: Numbers = np.array([0 if each is None else each for each in before], np.int64)
    if np.abs(added.astype(np.float64)).sum() + np.abs(start.astype(np.float64)).max() >= _SAFE:
        return None  # a sum may need more than 64 bits
    order = np.argsort(groups.codes, kind="stable")
    sums = np.cumsum(added[order])
    firsts = np.searchsorted(groups.codes[order], np.arange(groups.count))
    sums += (start - (sums[firsts] - added[order[firsts]]))[groups.codes[order]]
    new: Numbers = np.empty(len(times), np.int64)
    new[order] = sums
    is_first = np.zeros(len(times), np.bool_)
    is_first[groups.firsts[is_new]] = True
    out_times = _running(groups, times, times_of(stored.stamps))
    after = pa.array(new)
    return _Updates(
        Column(int64, array=after),
        Column(int64, array=pa.array(new - added, mask=is_first)),
        out_times,
        int64.encode_array(after.take(pa.array(groups.lasts))).to_pylist(),
        out_times[groups.lasts].tolist(),
    )


def _running(groups: Groups, times: Numbers, seen: Numbers) -> Numbers:
    """Return for each row the highest time of its group so far, and of what it had *seen*."""
    if (np.diff(times) >= 0).all():
        in_order: Numbers = np.maximum(times, seen[groups.codes])
        return in_order
    highest = seen.tolist()
    found = []
    for code, time_ms in zip(groups.codes.tolist(), times.tolist(), strict=True):
        highest[code] = max(highest[code], time_ms)
        found.append(highest[code])
    return np.array(found, np.int64)


def _one_by_one(
    fold: Fold,
    groups: Groups,
    times: Numbers,
    values: Any,
    stored: _Stored,
    serde: Serde[Any],
) -> _Updates:
    """Return the updates of any fold.

    Each aggregate is encoded and decoded as if it had been stored: a function may change the one
    that it is given.

    Raises:
        NotOnColumnsError: One is deleted: a store has also seen what is put before that.
    """
    rows: list[tuple[bytes, int | None] | None] = [
        None if data is None else (data, seen_ms)
        for data, seen_ms in zip(stored.values, stored.stamps, strict=True)
    ]
    initial, add, encode, decode = fold.initial, fold.add, serde.encode, serde.decode
    objects = values.to_pylist() if isinstance(values, pa.Array) else values
    olds, news, out_times = [], [], []
    for code, value, time_ms in zip(
        groups.codes.tolist(),
        repeat(None, len(times)) if objects is None else objects,
        times.tolist(),
        strict=True,
    ):
        row = rows[code]
        if row is None:
            old, new = None, add(initial(), value)
        else:
            data, seen_ms = row
            old = decode(data)
            new = add(old, value)
            if seen_ms is not None and seen_ms > time_ms:
                time_ms = seen_ms  # noqa: PLW2901  # as in `Aggregate.receive`
        if new is None:
            raise NotOnColumnsError("an aggregate is deleted")
        rows[code] = encode(new), time_ms
        olds.append(old)
        news.append(new)
        out_times.append(time_ms)
    last = [row for row in rows if row is not None]
    return _Updates(
        Column(None, objects=news),
        Column(None, objects=olds),
        np.array(out_times, np.int64),
        [data for data, _ in last],
        [time_ms or 0 for _, time_ms in last],
    )
