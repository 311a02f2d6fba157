"""As-of joins on columns: the versions of all rows are looked up at once.

Records that wait are looked up when their wait is over, those of the batch too; only what still
waits when it ends, and what did before it began, is in the store.
"""

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from statestores.arrow.as_of.reads import find_as_of
from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.processing.columns.column import Column, Flags, NotOnColumnsError, is_exact
from statestores.processing.columns.expressions import OfPair
from statestores.processing.columns.rows import RecordColumns, columns_of, places_of
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.operators.stream_table import AsOfJoin
from statestores.processing.serdes import encoded, time_bytes
from statestores.processing.stores import key_serde, value_serde

if TYPE_CHECKING:
    from statestores.processing.record import Record


def joined_as_of(
    operator: AsOfJoin, columns: RecordColumns, task: TaskRows
) -> RecordColumns | None:
    """Join each record with the version of its key at its time.

    The joiner is an expression, or a function that is called for each row.
    """
    if operator.key is not None:
        raise NotOnColumnsError("a record's key is a function's")
    if operator.is_derived:
        raise NotOnColumnsError("the table's rows are a function's")
    no_value = columns.value.absent()
    no_key = columns.key.absent() & ~no_value
    is_left = operator.is_left_join
    left_out = no_value if is_left else no_value | no_key
    rows = columns.take(places_of(~left_out)) if left_out.any() else columns
    result: RecordColumns | None
    if operator.waiting is None:
        result = _looked_up(operator, rows, task)
    else:
        result = _after_waiting(operator, operator.waiting, rows, task)
    _drop(operator, columns, "null-value", no_value, task)
    if not is_left:
        _drop(operator, columns, "null-key", no_key, task)
    return result


def _drop(
    operator: AsOfJoin, columns: RecordColumns, reason: str, flags: Flags, task: TaskRows
) -> None:
    if flags.any():
        task.drop_rows(operator.name, reason, columns.rows[flags])


def _looked_up(operator: AsOfJoin, rows: RecordColumns, task: TaskRows) -> RecordColumns:
    """Return the joined records; those without version too, if it is a left join."""
    store = task.store(operator.store)
    specification = store.specification
    keys = rows.key.encoded(key_serde(specification))
    below: Any = store_of_bytes(store)
    serde = value_serde(specification)
    times = pa.array(rows.times, pa.int64())
    found = find_as_of(below, keys, times, as_bytes=not is_exact(serde))
    if not operator.is_left_join and found.values.null_count:
        has_row = places_of(found.values.is_valid().to_numpy(zero_copy_only=False))
        rows = rows.take(has_row)
        other = found.values.take(pa.array(has_row))
    else:
        other = found.values
    is_decoded = is_exact(serde)
    matched = Column(serde, array=other) if is_decoded else Column.decoded(other, serde)
    return rows.with_value(_joined(operator.joiner, rows.value, matched))


def _joined(joiner: Any, value: Column, other: Column) -> Column:
    if isinstance(joiner, OfPair):
        return Column(None, array=joiner.on_pairs(value, other))
    return Column(None, objects=list(map(joiner, value.objects(), other.objects())))


def _after_waiting(
    operator: AsOfJoin, waiting: str, rows: RecordColumns, task: TaskRows
) -> RecordColumns | None:
    """Return what is joined, in the order in which it is; and have the rest wait.

    Nothing is changed before everything that is joined has been.
    """
    queue, observed = task.time_queue(waiting), task.observed_time(operator.name)
    numbers, codec = task.store(waiting), operator.codec
    kept = numbers.get(b"n")
    number = first_number = 0 if kept is None else int.from_bytes(kept, "big") + 1
    now_ms = observed.now_ms
    stored = queue.rows()
    following = next(stored, None)
    ahead: list[tuple[int, bytes, bytes]] = []
    over: list[Record[Any, Any]] = []
    at: list[int] = []
    for row, item in rows.items():
        if item[0] is None or item[2] < now_ms - operator.wait_ms:
            over.append(item)
            at.append(row)
            continue
        now_ms = max(now_ms, item[2])
        name = (encoded(codec.key, item[0]) or b"") + time_bytes(number)
        number += 1
        heappush(ahead, (item[2], name, codec.encode(item)))
        until_ms = now_ms - operator.wait_ms
        while following is not None and following[0] <= until_ms:
            heappush(ahead, following)
            following = next(stored, None)
        while ahead and ahead[0][0] <= until_ms:
            over.append(codec.decode(heappop(ahead)[2])[0])
            at.append(row)
    joined = _looked_up(operator, columns_of(over, np.array(at)), task) if over else None
    if number > first_number:
        observed.now_ms = now_ms
        queue.pop_until(now_ms - operator.wait_ms)
        for row_of_queue in ahead:
            queue.put(*row_of_queue)
        numbers.put(b"n", time_bytes(number - 1))
    return joined
