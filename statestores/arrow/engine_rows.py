"""Whole columns of changes or content as the rows of an engine, in the order of their keys (LAY).

What `statestores.semantics` does for one put is done here for columns. A store that takes the rows
by `EngineStore.commit_rows` holds what it would hold after putting them one by one.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.key_order import key_order
from statestores.semantics.arguments import MAX_TIME_MS
from statestores.semantics.layout import DATA
from statestores.semantics.progress import NO_STREAM_TIME
from statestores.semantics.sorted_rows import SortedRows
from statestores.semantics.timestamped_rows import NO_TIMESTAMP
from statestores.spi.specification import KeyValue, StoreSpecification, TimestampedKeyValue

Pairs: TypeAlias = Iterator[tuple[bytes, bytes | None]]

EncodeChanges: TypeAlias = Callable[[pa.RecordBatch, bool], SortedRows]
"""Encodes changes in log order, those of one commit or several; the flag says that the store is
empty, so that deletions need not be written."""

_LARGE = pa.large_binary()  # many changes together may exceed the 2 GiB of 32-bit offsets
_NAMESPACE = pa.scalar(DATA, _LARGE)
_NOTHING = pa.scalar(b"", _LARGE)

_PIECE_ROWS = 65_536
"""Rows that are Python objects at a time."""


def changes_encoder(specification: StoreSpecification[Any, Any]) -> EncodeChanges | None:
    """Return what encodes the changes of a store; ``None`` when they depend on what it holds."""
    if isinstance(specification, TimestampedKeyValue):
        return _encode_timestamped
    if isinstance(specification, KeyValue):
        return _encode_key_values
    return None


def _encode_key_values(changes: pa.RecordBatch, is_empty: bool) -> SortedRows:  # noqa: FBT001
    last = _last_of_each_key(changes, is_empty=is_empty)
    values = last.column("value")
    return SortedRows(
        rows=_pairs(last.column("key"), lambda start: values.slice(start, _PIECE_ROWS)),
        has_deletions=bool(values.null_count),
    )


def _encode_timestamped(changes: pa.RecordBatch, is_empty: bool) -> SortedRows:  # noqa: FBT001
    highest = _bound(pc.max, changes, NO_STREAM_TIME)
    last = _last_of_each_key(changes, is_empty=is_empty)
    values, stamps = last.column("value"), last.column("timestamp")

    def rows(start: int) -> pa.Array:
        piece = values.slice(start, _PIECE_ROWS)
        headers = pc.fill_null(stamps.slice(start, _PIECE_ROWS), NO_TIMESTAMP)
        return pc.binary_join_element_wise(_big_endian(headers), piece.cast(_LARGE), _NOTHING)

    return SortedRows(
        rows=_pairs(last.column("key"), rows),
        has_deletions=bool(values.null_count),
        highest_ms=highest,
        lowest_ms=_bound(pc.min, last, MAX_TIME_MS),
    )


def _bound(bound: Callable[[pa.Array], pa.Scalar], changes: pa.RecordBatch, default: int) -> int:
    """Return a bound of the timestamps that *changes* put."""
    put = changes.column("timestamp").filter(pc.is_valid(changes.column("value")))
    found = bound(put).as_py()
    return default if found is None else int(found)


def _last_of_each_key(changes: pa.RecordBatch, *, is_empty: bool) -> pa.RecordBatch:
    """Return the last of *changes* of each key, in the order of keys."""
    order = key_order(changes.column("key"))
    last = changes.take(pa.array(order.rows[order.is_last]))
    return last.filter(pc.is_valid(last.column("value"))) if is_empty else last


def _pairs(keys: pa.Array, values_from: Callable[[int], pa.Array]) -> Pairs:
    """Return *keys* in their namespace with their values, made a piece at a time."""
    return chain.from_iterable(
        zip(
            pc.binary_join_element_wise(
                _NAMESPACE, keys.slice(start, _PIECE_ROWS).cast(_LARGE), _NOTHING
            ).to_pylist(),
            values_from(start).to_pylist(),
            strict=True,
        )
        for start in range(0, len(keys), _PIECE_ROWS)
    )


def _big_endian(numbers: pa.Array) -> pa.Array:
    """Return *numbers*, int64 without nulls, in eight bytes each."""
    stored = numbers.to_numpy(zero_copy_only=False).astype(">i8")
    offsets = np.arange(len(numbers) + 1, dtype=np.int64) * stored.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(stored)]
    return pa.Array.from_buffers(_LARGE, len(numbers), buffers)
