"""Several rows of a timestamped store as Arrow columns: read at once, and replaced at once.

What `get` and `put` do to one row is done here to whole columns: no object is made of a row but the
two that the store's engine takes, its key and itself. Many rows are put in the order of their keys,
which is what engines of sorted rows take best.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from statestores.semantics.every_kind.arguments import check_time
from statestores.semantics.rows.layout import DATA
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.semantics.timestamped.rows import HEADER_BYTES, NO_TIMESTAMP
from statestores.semantics.timestamped.store import EngineTimestampedKeyValueStore
from statestores.serdes.arrow_columns import binary_data, binary_offsets
from statestores.spi.write_order import ORDERED_FROM

Times: TypeAlias = npt.NDArray[np.int64]
"""A timestamp for each row; `NO_TIMESTAMP` where there is none."""

_Bytes: TypeAlias = npt.NDArray[np.uint8]

_BINARY = pa.binary()
_NOTHING = pa.array([b""], _BINARY)[0]
_NAMESPACE = pa.array([DATA], _BINARY)[0]


class Numbers(NamedTuple):
    """Whole numbers in a store, in the order in which keys were given."""

    values: Times
    """The numbers; 0 where there is none."""

    times: Times
    """Since when they are there."""

    absent: npt.NDArray[np.bool_]
    """Where there is none."""


class StampedRows:
    """The rows of several keys, each of which is there once, in one store.

    Requires: rows of the store do not expire.
    """

    __slots__ = ("_keys", "_order", "_parts", "_row_keys", "_rows", "_store")

    def __init__(self, store: EngineTimestampedKeyValueStore, keys: pa.Array) -> None:
        """Read the rows of *keys*, a binary array without nulls, as they are in *store* now."""
        self._store = store
        self._order: pa.Array | None = None
        if len(keys) >= ORDERED_FROM:  # by Arrow that takes half as long as by the engine
            self._order = pc.sort_indices(keys)
            keys = keys.take(self._order)
        self._keys = keys
        self._row_keys: list[bytes] = pc.binary_join_element_wise(
            _NAMESPACE, keys, _NOTHING
        ).to_pylist()
        self._rows = store.read_rows(self._row_keys)
        self._parts: tuple[pa.Array, Times] | None = None

    @property
    def values(self) -> pa.Array:
        """What the store had for each key, null where it had nothing."""
        return self._parted()[0]

    @property
    def times(self) -> Times:
        """Since when it had that."""
        return self._parted()[1]

    def numbers(self) -> Numbers | None:
        """Return the values as whole numbers, if all of them are of eight bytes."""
        rows = pa.array(self._rows, _BINARY)
        offsets = binary_offsets(rows)
        widths = np.diff(offsets)
        present = widths == 2 * HEADER_BYTES
        if int(present.sum()) != len(rows) - rows.null_count:
            return None
        data = binary_data(rows)[offsets[0] : offsets[-1]].view(">i8").reshape(-1, 2)
        table = np.empty((len(rows), 2), np.int64)
        table[:] = NO_TIMESTAMP, 0
        table[present] = data
        if self._order is not None:
            places = _inverse(self._order)
            table, present = table[places], present[places]
        return Numbers(table[:, 1], table[:, 0], ~present)

    def put_numbers(self, values: Times, times: Times) -> None:
        """Put whole numbers: `put` of what `statestores.serdes.int64` makes of them.

        Raises:
            InvalidArgumentError, StoreClosedError: See `put`.
        """
        check_time("timestamp_ms", int(times.min(initial=0)))
        if self._order is not None:
            order = self._order.to_numpy()
            values, times = values[order], times[order]
        stored = np.empty((len(times), 2), ">i8")
        stored[:, 0], stored[:, 1] = times, values
        rows = stored.view(f"V{2 * HEADER_BYTES}").reshape(-1).tolist()
        lengths = np.full(len(rows), HEADER_BYTES, np.int32)
        data = values.astype(">i8").view(np.uint8)
        self._put(rows, _binary(lengths, data, None), times)

    def _parted(self) -> tuple[pa.Array, Times]:
        """Return values and times, in the order in which keys were given."""
        if self._parts is None:
            values, times = _parted(pa.array(self._rows, _BINARY))
            if self._order is not None:
                places = _inverse(self._order)
                values, times = values.take(pa.array(places)), times[places]
            self._parts = values, times
        return self._parts

    def put(self, values: pa.Array, times: Times) -> None:
        """Put *values*, a binary array with nulls for what is deleted, each at its time.

        Raises:
            InvalidArgumentError: A time is before the epoch; nothing is put.
            StoreClosedError: The store is closed.
        """
        check_time("timestamp_ms", int(times.min(initial=0)))
        if self._order is not None:
            values, times = values.take(self._order), times[self._order.to_numpy()]
        self._put(_joined(values, times), values, times)

    def _put(self, rows: list[bytes | None], values: pa.Array, times: Times) -> None:
        """Put *rows*, which have *values* and *times*, all in the order of the engine's keys."""
        stamps = pa.array(times)
        present = len(values) - values.null_count
        if present < len(values):
            absent = values.is_null().to_numpy(zero_copy_only=False)
            times = np.where(absent, NO_STREAM_TIME, times)  # a deletion moves no time
            stamps = pa.array(times, mask=absent)
        self._store.put_rows(
            self._row_keys,
            rows,
            highest=int(times.argmax()) if len(times) else 0,
            highest_ms=int(times.max(initial=NO_STREAM_TIME)),
            size_bytes=_size(self._keys) + _size(values) + HEADER_BYTES * present,
            columns=(self._keys, values, stamps),
        )


def _inverse(order: pa.Array) -> Times:
    """Return for each row the place at which *order* has it."""
    places = np.empty(len(order), np.int64)
    places[order.to_numpy()] = np.arange(len(order))
    return places


def _parted(rows: pa.Array) -> tuple[pa.Array, Times]:
    """Return the values of *rows*, and their timestamps."""
    dense = rows.drop_null() if rows.null_count else rows
    if not len(dense):
        return pa.nulls(len(rows), _BINARY), np.full(len(rows), NO_TIMESTAMP, np.int64)
    offsets = binary_offsets(dense)
    data = binary_data(dense)[offsets[0] : offsets[-1]]
    starts = offsets[:-1] - offsets[0]
    width = _common_width(offsets)
    if width:
        table = data.reshape(len(dense), width)
        heads, rest = table[:, :HEADER_BYTES], table[:, HEADER_BYTES:]
    else:
        places = starts[:, None] + np.arange(HEADER_BYTES, dtype=np.int32)
        is_rest = np.ones(len(data), np.bool_)
        is_rest[places] = False
        heads, rest = data[places], data[is_rest]
    times = np.ascontiguousarray(heads).view(">i8").reshape(-1).astype(np.int64)
    lengths = np.diff(offsets) - HEADER_BYTES
    if dense is rows:
        return _binary(lengths, rest, None), times
    is_there = rows.is_valid().to_numpy(zero_copy_only=False)
    spread, several = np.full(len(rows), NO_TIMESTAMP, np.int64), np.zeros(len(rows), np.int32)
    spread[is_there], several[is_there] = times, lengths
    return _binary(several, rest, is_there), spread


def _joined(values: pa.Array, times: Times) -> list[bytes | None]:
    """Return the rows of *values* with their timestamps; ``None`` where there is no value."""
    heads = times.astype(">i8")
    count = len(values)
    if count and not values.null_count:
        offsets = binary_offsets(values)
        width = _common_width(offsets)
        if width is not None:
            table = np.empty((count, HEADER_BYTES + width), np.uint8)
            table[:, :HEADER_BYTES] = heads.view(np.uint8).reshape(count, HEADER_BYTES)
            data = binary_data(values)[offsets[0] : offsets[-1]]
            table[:, HEADER_BYTES:] = data.reshape(count, width)
            fixed: list[bytes | None] = table.view(f"V{HEADER_BYTES + width}").reshape(-1).tolist()
            return fixed
    stamps = pa.Array.from_buffers(pa.binary(HEADER_BYTES), count, [None, pa.py_buffer(heads)])
    rows: list[bytes | None] = pc.binary_join_element_wise(
        stamps.cast(_BINARY), values, _NOTHING
    ).to_pylist()
    return rows


def _common_width(offsets: Any) -> int | None:
    """Return the length of all values between *offsets*; ``None`` if they differ."""
    widths = np.diff(offsets)
    return int(widths[0]) if (widths == widths[0]).all() else None


def _binary(lengths: Any, data: _Bytes, is_there: Any) -> pa.Array:
    """Return the binary array of *data*, cut into *lengths*; null where nothing *is_there*."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    validity = None
    if is_there is not None:
        validity = pa.py_buffer(np.packbits(is_there, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(_BINARY, len(lengths), buffers)


def _size(array: pa.Array) -> int:
    """Return how many bytes the values of a binary *array* have."""
    if not len(array):
        return 0
    offsets = binary_offsets(array)
    return int(offsets[-1]) - int(offsets[0])
