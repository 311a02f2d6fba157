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

EncodeChanges: TypeAlias = Callable[[pa.RecordBatch, bool, int | None], SortedRows]
"""Encodes changes in log order, those of one commit or several; the flag says that the store is
empty, so that deletions need not be written. Then comes the store's stream time, if it has one."""

FoldChanges: TypeAlias = Callable[[pa.RecordBatch, bool], tuple[pa.RecordBatch, int]]
"""Returns those of changes in log order that have an effect, to be encoded in their place, and the
highest time of all of them. The flag is that of `EncodeChanges`."""

LARGE = pa.large_binary()
"""The type of encoded columns: many changes together may exceed the 2 GiB of 32-bit offsets."""

_SEPARATOR = pa.scalar(b"", LARGE)

_PIECE_ROWS = 65_536
"""Rows that are Python objects at a time."""


def changes_encoder(specification: StoreSpecification[Any, Any]) -> EncodeChanges | None:
    """Return what encodes the changes of a store key by key; ``None`` for other kinds."""
    if isinstance(specification, TimestampedKeyValue):
        return _encode_timestamped
    if isinstance(specification, KeyValue):
        return _encode_key_values
    return None


def changes_folder(specification: StoreSpecification[Any, Any]) -> FoldChanges | None:
    """Return what drops changes that others overwrite; ``None`` where each of them counts."""
    if isinstance(specification, TimestampedKeyValue):
        return lambda changes, is_empty: (
            _last_of_each_key(changes, is_empty=is_empty),
            _bound(pc.max, changes, NO_STREAM_TIME),
        )
    if isinstance(specification, KeyValue):
        return lambda changes, is_empty: (
            _last_of_each_key(changes, is_empty=is_empty),
            NO_STREAM_TIME,
        )
    return None


def _encode_key_values(
    changes: pa.RecordBatch,
    is_empty: bool,  # noqa: FBT001
    _: int | None,
) -> SortedRows:
    last = _last_of_each_key(changes, is_empty=is_empty)
    values = last.column("value")
    return SortedRows(
        rows=pairs(last.column("key"), values, namespace=DATA),
        has_deletions=bool(values.null_count),
    )


def _encode_timestamped(
    changes: pa.RecordBatch,
    is_empty: bool,  # noqa: FBT001
    _: int | None,
) -> SortedRows:
    highest = _bound(pc.max, changes, NO_STREAM_TIME)
    last = _last_of_each_key(changes, is_empty=is_empty)
    values = last.column("value")
    headers = big_endian(pc.fill_null(last.column("timestamp"), NO_TIMESTAMP))
    rows = joined(b"", headers, values.cast(LARGE))
    return SortedRows(
        rows=pairs(last.column("key"), rows, namespace=DATA),
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
    if not order.is_last.all() or (order.rows[1:] < order.rows[:-1]).any():
        changes = changes.take(pa.array(order.rows[order.is_last]))
    if is_empty and changes.column("value").null_count:
        changes = changes.filter(pc.is_valid(changes.column("value")))
    return changes


def pairs(keys: pa.Array, values: pa.Array, *, namespace: bytes = b"") -> Pairs:
    """Return *keys* behind *namespace* with their *values*, made a piece at a time."""
    return chain.from_iterable(
        zip(
            joined(namespace, keys.slice(start, _PIECE_ROWS).cast(LARGE)).to_pylist(),
            values.slice(start, _PIECE_ROWS).to_pylist(),
            strict=True,
        )
        for start in range(0, len(keys), _PIECE_ROWS)
    )


def joined(prefix: bytes, *columns: pa.Array | pa.Scalar) -> pa.Array:
    """Return the bytes of *columns*, row by row, behind *prefix*; null where one of them is."""
    return pc.binary_join_element_wise(pa.scalar(prefix, LARGE), *columns, _SEPARATOR)


def big_endian(numbers: pa.Array) -> pa.Array:
    """Return *numbers* of eight bytes, without nulls, as bytes."""
    stored = numbers.to_numpy(zero_copy_only=False)
    stored = stored.astype(stored.dtype.newbyteorder(">"))
    offsets = np.arange(len(numbers) + 1, dtype=np.int64) * stored.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(stored)]
    return pa.Array.from_buffers(LARGE, len(numbers), buffers)
