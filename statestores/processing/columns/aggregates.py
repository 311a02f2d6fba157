"""Aggregates and tables on columns: one read and one write for each key of a batch.

What comes out is what a cache gives that is flushed at the batch's end: the last update of each
key, with what its row was before the batch.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from statestores.arrow.stamped_rows import StampedRows
from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.processing.columns.column import Column, Flags, NotOnColumnsError, Numbers
from statestores.processing.columns.folding import last_folded, results
from statestores.processing.columns.groups import Groups
from statestores.processing.columns.rows import (
    ChangeColumns,
    RecordColumns,
    headers_at,
    places_of,
)
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.operators.aggregates import Aggregate
from statestores.processing.operators.fold import Fold
from statestores.processing.operators.tables import TableSource, VersionedTableSource
from statestores.processing.stores import key_serde, value_serde
from statestores.serdes import int64

_SAFE_COUNT = 1 << 62


class Chosen(NamedTuple):
    """The rows that are folded, and what was left out."""

    columns: RecordColumns
    """The rows."""

    values: Any
    """What of them is folded: an Arrow array, or a list."""

    dropped: list[tuple[str, Numbers]]
    """The rows of the input that are not, by reason."""


def chosen(fold: Fold, columns: RecordColumns) -> Chosen:
    """Return the rows of *columns* that have a key and a value to fold."""
    no_key = columns.key.absent()
    no_value = columns.value.absent() & ~no_key
    dropped = [
        (reason, columns.rows[flags])
        for reason, flags in (("null-key", no_key), ("null-value", no_value))
        if flags.any()
    ]
    if dropped:
        columns = columns.take(places_of(~(no_key | no_value)))
    values: Any = None
    if fold.kernel != "count":
        values = _selected(fold, columns)
        missing = _missing(values)
        if missing.any():
            dropped.append(("null-value", columns.rows[missing]))
            kept = places_of(~missing)
            columns = columns.take(kept)
            values = values.drop_null() if isinstance(values, pa.Array) else _present(values)
    return Chosen(columns, values, dropped)


def _selected(fold: Fold, columns: RecordColumns) -> Any:
    """Return what is folded, as an array where that is exact."""
    if fold.select is None:
        try:
            return columns.value.array()
        except NotOnColumnsError:
            return columns.value.objects()
    return [fold.select(record) for _, record in columns.items()]


def _missing(values: Any) -> Flags:
    if isinstance(values, pa.Array):
        return values.is_null().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    return np.array([each is None for each in values], np.bool_)


def _present(values: list[Any]) -> list[Any]:
    return [each for each in values if each is not None]


def drop_all(operator: Any, dropped: list[tuple[str, Numbers]], task: TaskRows) -> None:
    """Count what was left out."""
    for reason, rows in dropped:
        task.drop_rows(operator.name, reason, rows)


def check_keeps(store: Any) -> None:
    """Accept a store whose rows do not expire while a batch is put.

    Raises:
        NotOnColumnsError: They do.
    """
    if getattr(store.specification, "ttl_ms", None) is not None:
        raise NotOnColumnsError("rows expire, at the time of each record")


def aggregated(operator: Aggregate, columns: RecordColumns, task: TaskRows) -> ChangeColumns | None:
    """Fold the records of each key; give on the last update of each."""
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
    numbers = stored.numbers() if fold.kernel == "count" and serde == int64 else None
    if numbers is not None and numbers.values.max(initial=0) < _SAFE_COUNT:
        times = groups.greatest(rows.times, numbers.times)
        counts = numbers.values + np.bincount(groups.codes, minlength=groups.count)
        stored.put_numbers(counts, times)
        before = Column(int64, array=pa.array(numbers.values, mask=numbers.absent))
        after = Column(int64, array=pa.array(counts))
    else:
        before, after, encoded, times = last_folded(fold, groups, rows.times, values, stored, serde)
        stored.put(encoded, times)
    drop_all(operator, dropped, task)
    return changes(fold, rows, groups, before, after, times)


def changes(
    fold: Fold,
    rows: RecordColumns,
    groups: Groups,
    before: Column,
    after: Column,
    times: Numbers,
    key: Column | None = None,
) -> ChangeColumns:
    """Return the last update of each group."""
    return ChangeColumns(
        rows.key.take(groups.lasts) if key is None else key,
        results(fold, after),
        results(fold, before),
        times,
        headers_at(rows.headers, groups.lasts),
        rows.rows[groups.lasts],
    )


def kept(operator: TableSource, columns: RecordColumns, task: TaskRows) -> ChangeColumns | None:
    """Replace the row of each key by its last one; give on the last change of each."""
    store = task.store(operator.store)
    check_keeps(store)
    no_key = columns.key.absent()
    rows = columns.take(places_of(~no_key)) if no_key.any() else columns
    specification = store.specification
    keys = rows.key.encoded(key_serde(specification))
    values = rows.value.encoded(value_serde(specification))
    groups = Groups.of(keys)
    lasts = pa.array(groups.lasts)
    below: Any = store_of_bytes(store)
    stored = StampedRows(below, keys.take(lasts))
    before = Column.decoded(stored.values, value_serde(specification))
    stored.put(values.take(lasts), rows.times[groups.lasts])
    if no_key.any():
        task.drop_rows(operator.name, "null-key", columns.rows[no_key])
    return ChangeColumns(
        rows.key.take(groups.lasts),
        rows.value.take(groups.lasts),
        before,
        rows.times[groups.lasts],
        headers_at(rows.headers, groups.lasts),
        rows.rows[groups.lasts],
    )


def versions_kept(operator: VersionedTableSource, columns: RecordColumns, task: TaskRows) -> None:
    """Put every version; of a table whose changes nobody is given."""
    if not operator.is_leaf:
        raise NotOnColumnsError("each version is a change")
    store = task.store(operator.store)
    specification = store.specification
    no_key = columns.key.absent()
    rows = columns.take(places_of(~no_key)) if no_key.any() else columns
    keys = rows.key.encoded(key_serde(specification)).to_pylist()
    values = rows.value.encoded(value_serde(specification)).to_pylist()
    below: Any = store_of_bytes(store)
    put = below.put
    refused = [
        place
        for place, (key, value, time_ms) in enumerate(
            zip(keys, values, rows.times.tolist(), strict=True)
        )
        if not put(key, value, time_ms).accepted
    ]
    if no_key.any():
        task.drop_rows(operator.name, "null-key", columns.rows[no_key])
    if refused:
        task.drop_rows(operator.name, "expired", rows.rows[np.array(refused)])
