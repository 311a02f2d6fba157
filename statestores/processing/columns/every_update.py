"""Aggregates and tables on the columns of a run: one read and one write for each key, every update.

What comes out is, row by row, what `receive` gives record by record; it need not be the last of its
key, and nobody need be indifferent to the others (PRC-95).
"""

from typing import Any

import pyarrow as pa

from statestores.arrow.stamped_rows import StampedRows
from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.processing.columns.aggregates import check_keeps, chosen, drop_all
from statestores.processing.columns.column import Column
from statestores.processing.columns.folding import folded, results
from statestores.processing.columns.groups import Groups
from statestores.processing.columns.rows import ChangeColumns, RecordColumns, places_of
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.operators.aggregates import Aggregate
from statestores.processing.operators.tables import TableSource
from statestores.processing.stores import key_serde, value_serde


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
    stored = StampedRows(below, keys.take(pa.array(groups.lasts)))
    updates = folded(fold, groups, rows.times, values, stored, serde)
    stored.put(updates.stored, updates.stored_ms)
    drop_all(operator, dropped, task)
    new, old = results(fold, updates.new), results(fold, updates.old)
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
    present = StampedRows(below, keys.take(pa.array(groups.lasts))).values.to_pylist()
    before = []
    for code, value in zip(groups.codes.tolist(), values, strict=True):
        before.append(present[code])
        present[code] = value
    old = Column.decoded(pa.array(before, pa.binary()), serde)
    below.put_many(names, values, rows.times.tolist())
    if no_key.any():
        task.drop_rows(operator.name, "null-key", columns.rows[no_key])
    return ChangeColumns(rows.key, rows.value, old, rows.times, rows.headers, rows.rows)
