"""Rows of Arrow columns as `UnsafeRow`: the bytes of a row, as Spark keeps it in state.

A row is a bit for each column, set where it is null, in words of 64 bits; then eight bytes for each
column, little-endian; then the bytes of texts and binaries, each padded to a multiple of eight. The
eight bytes of such a column are the offset of its bytes in the row, and below it their length.
"""

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from statestores.errors import InvalidArgumentError

Numbers: TypeAlias = npt.NDArray[np.int64]

_WORD_BYTES: Final = 8
_WORD_BITS: Final = 64
_MAX_ROW_BYTES: Final = (1 << 31) - 16  # the JVM has no larger array
_PADDING_ENDS = np.cumsum([0, *range(_WORD_BYTES)], dtype=np.int32)
# No byte, one, two and so on. Of buffers, since `pa.array` of objects imports pandas, if it can.
_PADDING = pa.Array.from_buffers(
    pa.binary(),
    _WORD_BYTES,
    [None, pa.py_buffer(_PADDING_ENDS), pa.py_buffer(bytes(_PADDING_ENDS[-1]))],
)


class UnsafeRows:
    """The rows of a batch: a part of one size for all of them, and what follows it in each.

    A row is the words of `fixed`, then the bytes of each of `parts`, which are arrays.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        """Encode the rows of *batch*.

        Requires: `struct_json` takes its schema.

        Raises:
            InvalidArgumentError: A row is larger than the JVM can hold.
        """
        rows, columns = batch.num_rows, batch.num_columns
        words = -(-columns // _WORD_BITS)
        self.fixed: npt.NDArray[np.uint64] = np.zeros((rows, words + columns), "<u8")
        """The null bits and the eight bytes of each column, a row for each row."""
        self.parts: list[pa.Array] = []
        """What follows in each row: the bytes of its texts and binaries, and their padding."""
        self.sizes: Numbers = np.full(rows, (words + columns) * _WORD_BYTES, np.int64)
        """The bytes of each row."""
        for place, column in enumerate(batch.columns):
            missing = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
            if missing is not None:
                bit = np.uint64(1 << (place % _WORD_BITS))
                self.fixed[missing, place // _WORD_BITS] |= bit
            if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
                slots = self._add_bytes(column, missing)
            else:
                slots = _slots(column, missing)
            self.fixed[:, words + place] = slots
        if rows and int(self.sizes.max()) > _MAX_ROW_BYTES:
            raise InvalidArgumentError(
                f"a key or value takes {int(self.sizes.max())} bytes as a row of Spark's, which "
                f"holds at most {_MAX_ROW_BYTES}; leave it out, or store it in smaller parts"
            )

    def _add_bytes(self, column: pa.Array, missing: Any) -> npt.NDArray[np.uint64]:
        """Add a column of texts or bytes to the parts; return where in its row each one is."""
        data = column.cast(pa.binary())
        if missing is not None:
            data = pc.fill_null(data, b"")
        lengths = pc.binary_length(data).to_numpy(zero_copy_only=False).astype(np.int64)
        slots: npt.NDArray[np.uint64] = (
            self.sizes.astype(np.uint64) << np.uint64(32)
        ) | lengths.astype(np.uint64)
        if missing is not None:
            slots[missing] = 0
        padding = -lengths % _WORD_BYTES
        self.parts += [data, _PADDING.take(pa.array(padding))]
        self.sizes += lengths + padding
        return slots


def _slots(column: pa.Array, missing: Any) -> npt.NDArray[np.uint64]:
    """Return the eight bytes of each value of a column of numbers, times or booleans."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if missing is not None:
        column = pc.fill_null(column, pa.scalar(0).cast(column.type))
    values = column.to_numpy(zero_copy_only=False)
    # The bits as they are: smaller values are not sign-extended.
    return np.asarray(values.view(f"u{values.itemsize}"), np.uint64)
