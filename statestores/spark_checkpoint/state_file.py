"""One ``.delta`` or ``.snapshot`` file of a partition's state: keys, each with its value.

Before compression: the length of a key in four bytes, big-endian, and the key; the length of its
value and the value, or -1 for a deletion; at the end -1. Keys and values are `UnsafeRows`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.file_access import reporting
from statestores.files.durable_directory import make_durable
from statestores.spark_checkpoint.unsafe_rows import Numbers, UnsafeRows

CODEC: Final = "zstd"
"""The compression: a frame of zstd, which is also a file that the tool `zstd` reads."""

_NONE: Final = b"\xff\xff\xff\xff"
_LENGTH_BYTES: Final = 4
_ENCODED_BYTES: Final = 16 * 1024 * 1024
"""Rows are encoded this many bytes at a time, unless a single one is larger."""

_ENCODED_ROWS: Final = 65_536


class StateFileWriter:
    """Writes one file. `rows` counts what has been written."""

    def __init__(self, stream: pa.NativeFile) -> None:
        """Use `open`."""
        self._stream = stream
        self.rows = 0

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """Give the writer of the new file *path*, which is whole and on disk after the block.

        Raises:
            StorageError: It cannot be written.
        """
        with reporting("write", path):
            with (
                pa.OSFile(str(path), "wb") as file,
                pa.CompressedOutputStream(file, CODEC) as stream,
            ):
                yield cls(stream)
                stream.write(_NONE)
            make_durable(path)

    def add(
        self,
        keys: pa.RecordBatch,
        values: pa.RecordBatch,
        deleted: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Write rows; those that are *deleted* without their values.

        Raises:
            InvalidArgumentError: A row is larger than the JVM can hold.
        """
        weights = np.full(keys.num_rows, 1, np.int64)
        for column in (*keys.columns, *values.columns):
            if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
                lengths = pc.fill_null(pc.binary_length(column), 0)
                weights += lengths.to_numpy(zero_copy_only=False)
        for start, stop in _cuts(weights):
            self._add(
                keys.slice(start, stop - start),
                values.slice(start, stop - start),
                None if deleted is None else deleted[start:stop],
            )
        self.rows += keys.num_rows

    def delete(self, keys: pa.RecordBatch, values: pa.Schema) -> None:
        """Write that *keys* are gone; *values* is the schema of values."""
        nothing = pa.RecordBatch.from_arrays(
            [pa.nulls(keys.num_rows, field.type) for field in values], schema=values
        )
        self.add(keys, nothing, np.ones(keys.num_rows, np.bool_))

    def _add(
        self,
        keys: pa.RecordBatch,
        values: pa.RecordBatch,
        deleted: npt.NDArray[np.bool_] | None,
    ) -> None:
        key_rows, value_rows = UnsafeRows(keys), UnsafeRows(values)
        heads, parts = _heads(value_rows), value_rows.parts
        if deleted is not None and deleted.any():
            gone = pa.array(deleted)
            heads = pc.if_else(gone, pa.scalar(_NONE, pa.binary()), heads)
            parts = [pc.if_else(gone, pa.scalar(b"", pa.binary()), part) for part in parts]
        joined = pc.binary_join_element_wise(
            _heads(key_rows), *key_rows.parts, heads, *parts, pa.scalar(b"", pa.binary())
        )
        offsets = np.frombuffer(joined.buffers()[1], np.int32, len(joined) + 1, joined.offset * 4)
        data = joined.buffers()[2]
        if data is not None:
            self._stream.write(data.slice(int(offsets[0]), int(offsets[-1] - offsets[0])))


def _heads(rows: UnsafeRows) -> pa.Array:
    """Return for each row its length and its part of fixed size, as one binary array."""
    count, words = rows.fixed.shape
    width = _LENGTH_BYTES + words * 8
    heads = np.empty((count, width), np.uint8)
    heads[:, :_LENGTH_BYTES] = rows.sizes.astype(">i4").view(np.uint8).reshape(-1, _LENGTH_BYTES)
    heads[:, _LENGTH_BYTES:] = rows.fixed.view(np.uint8).reshape(count, words * 8)
    offsets = np.arange(count + 1, dtype=np.int32) * width
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(heads)]
    )


def _cuts(weights: Numbers) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that together weigh about `_ENCODED_BYTES`, or of a single row."""
    ends = np.cumsum(weights)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + _ENCODED_BYTES, side="right"))
        stop = min(max(stop, start + 1), start + _ENCODED_ROWS)
        yield start, stop
        start = stop
