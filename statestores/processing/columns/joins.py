"""As-of joins on columns: the versions of all rows are looked up at once."""

from typing import Any

import pyarrow as pa

from statestores.arrow.as_of.reads import find_as_of
from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.processing.columns.column import Column, NotOnColumnsError
from statestores.processing.columns.expressions import OfPair
from statestores.processing.columns.rows import RecordColumns, places_of
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.operators.stream_table import AsOfJoin
from statestores.processing.stores import key_serde, value_serde


def joined_as_of(operator: AsOfJoin, columns: RecordColumns, task: TaskRows) -> RecordColumns:
    """Join each record with the version of its key at its time.

    The joiner is an expression, or a function that is called for each row.
    """
    if operator.waiting is not None or operator.key is not None:
        raise NotOnColumnsError("a record waits, or its key is a function's")
    no_value = columns.value.absent()
    no_key = columns.key.absent() & ~no_value
    is_left = operator.is_left_join
    left_out = no_value if is_left else no_value | no_key
    rows = columns.take(places_of(~left_out)) if left_out.any() else columns
    store = task.store(operator.store)
    specification = store.specification
    keys = rows.key.encoded(key_serde(specification))
    below: Any = store_of_bytes(store)
    found = find_as_of(below, keys, pa.array(rows.times, pa.int64()))
    if not is_left and found.values.null_count:
        has_row = places_of(found.values.is_valid().to_numpy(zero_copy_only=False))
        rows = rows.take(has_row)
        other = found.values.take(pa.array(has_row))
    else:
        other = found.values
    matched = Column.decoded(other, value_serde(specification))
    result = _joined(operator.joiner, rows.value, matched)
    if no_value.any():
        task.drop_rows(operator.name, "null-value", columns.rows[no_value])
    if not is_left and no_key.any():
        task.drop_rows(operator.name, "null-key", columns.rows[no_key])
    return rows.with_value(result)


def _joined(joiner: Any, value: Column, other: Column) -> Column:
    if isinstance(joiner, OfPair):
        return Column(None, array=joiner.on_pairs(value, other))
    return Column(None, objects=list(map(joiner, value.objects(), other.objects())))
