"""The content of versioned, window and session stores as rows of an engine (LAY).

Each has two rows in the engine, or one of two: what is read by key lies in one namespace, history
or the index by time in the other. So a chunk gives two runs in the order of their keys.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.engine_rows import LARGE, big_endian, joined, pairs
from statestores.arrow.key_order import key_order
from statestores.semantics.arguments import MAX_TIME_MS
from statestores.semantics.layout import DATA, HISTORY
from statestores.semantics.sorted_rows import SortedRows
from statestores.semantics.versioned_rows import DELETED
from statestores.spi.session_specification import Session
from statestores.spi.specification import StoreSpecification, Versioned
from statestores.spi.window_specification import Window

EncodeContent: TypeAlias = Callable[[pa.RecordBatch], Sequence[SortedRows]]
"""Encodes a chunk of content in its order, as runs of rows."""

_END_OF_KEY = pa.scalar(b"\x00\x00", LARGE)
_NO_VALUE = pa.scalar(b"", LARGE)


def content_encoder(specification: StoreSpecification[Any, Any]) -> EncodeContent | None:
    """Return what encodes content into two runs; ``None`` where each row is one of the engine."""
    if isinstance(specification, Versioned):
        return _encode_versions
    if isinstance(specification, Window):
        number = "sequence" if specification.retain_duplicates else None
        return lambda rows: _encode_retained(rows, "window_start", number)
    if isinstance(specification, Session):
        return lambda rows: _encode_retained(rows, "session_end", "session_start")
    return None


def _encode_versions(rows: pa.RecordBatch) -> Sequence[SortedRows]:
    is_latest = pc.is_null(rows.column("valid_to"))
    latest = rows.filter(is_latest)
    superseded = rows.filter(pc.invert(is_latest))
    # A marker repeats a latest deletion among the superseded versions, its end at its start.
    deleted = latest.filter(pc.is_null(latest.column("value")))
    keys = pa.concat_arrays([superseded.column("key"), deleted.column("key")])
    values = pa.concat_arrays([superseded.column("value"), deleted.column("value")])
    starts = pa.concat_arrays([superseded.column("valid_from"), deleted.column("valid_from")])
    ends = pa.concat_arrays([superseded.column("valid_to"), deleted.column("valid_from")])
    ranks = np.empty(len(keys), np.int64)
    by_key = key_order(keys)
    ranks[by_key.rows] = np.cumsum(by_key.is_last) - by_key.is_last
    order = pa.array(np.lexsort((-starts.to_numpy(), ranks)))
    history_keys = joined(
        HISTORY, _escaped(keys), _END_OF_KEY, big_endian(pc.subtract(MAX_TIME_MS, starts))
    )
    lowest = pc.min(ends).as_py()
    return (
        SortedRows(
            rows=pairs(
                joined(DATA, latest.column("key").cast(LARGE)),
                _versions(latest.column("valid_from"), latest.column("value")),
            )
        ),
        SortedRows(
            rows=pairs(history_keys.take(order), _versions(ends, values).take(order)),
            lowest_ms=MAX_TIME_MS if lowest is None else lowest,
        ),
    )


def _versions(times: pa.Array, values: pa.Array) -> pa.Array:
    """Return *values* behind their headers: a time, and a bit for those that delete."""
    headers: npt.NDArray[np.uint64] = times.to_numpy().astype(np.uint64)
    headers |= np.where(pc.is_null(values).to_numpy(zero_copy_only=False), DELETED, 0).astype(
        np.uint64
    )
    return joined(b"", big_endian(pa.array(headers)), pc.fill_null(values.cast(LARGE), _NO_VALUE))


def _encode_retained(rows: pa.RecordBatch, time: str, number: str | None) -> Sequence[SortedRows]:
    times = rows.column(time)
    keys, stamps = _escaped(rows.column("key")), big_endian(times)
    numbers = [] if number is None else [big_endian(rows.column(number))]
    by_key = joined(DATA, keys, _END_OF_KEY, stamps, *numbers)
    # The rows are in the order of key, time and number: of equal times they stay so.
    order = pa.array(np.argsort(times.to_numpy(), kind="stable"))
    by_time = joined(HISTORY, stamps, keys, _END_OF_KEY, *numbers).take(order)
    # Among changes there are deletions: of both rows, or of none.
    nothing = pc.if_else(pc.is_valid(rows.column("value")), _NO_VALUE, pa.scalar(None, LARGE))
    return (
        SortedRows(
            rows=pairs(by_key, rows.column("value")),
            lowest_ms=pc.min(times).as_py(),
            next_number=pc.max(rows.column("sequence")).as_py() + 1 if number == "sequence" else 0,
        ),
        SortedRows(rows=pairs(by_time, nothing.take(order))),
    )


def _escaped(keys: pa.Array) -> pa.Array:
    """Return *keys* as `statestores.semantics.escaped_keys.escape` does."""
    return pc.replace_substring(keys.cast(LARGE), b"\x00", b"\x00\xff")
