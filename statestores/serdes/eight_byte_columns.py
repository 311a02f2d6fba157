"""Columns of 64-bit numbers to and from columns of eight big-endian bytes, by numpy."""

from collections.abc import Callable
from typing import Any

from statestores.serdes.arrow_columns import (
    as_binary,
    binary_data,
    binary_offsets,
    cast_to_binary,
    map_values,
    numpy,
    pyarrow,
)

_WIDTH_BYTES = 8


def to_bytes(array: Any, serde: str, big_endian: Callable[[Any], Any]) -> Any:
    """Return a binary array of the 64-bit numbers of *array*; nulls stay null.

    *big_endian* turns a numpy array of the numbers into one of a big-endian type.

    Raises:
        SerializationError: There are more than fit into one chunk. The message names *serde*.
    """
    np, pa = numpy(), pyarrow()
    validity = None
    if array.null_count:
        present = array.is_valid().to_numpy(zero_copy_only=False)
        validity = pa.py_buffer(np.packbits(present, bitorder="little"))
        array = array.fill_null(0)
    data = np.ascontiguousarray(big_endian(array.to_numpy(zero_copy_only=False)))
    fixed = pa.Array.from_buffers(
        pa.binary(_WIDTH_BYTES), len(array), [validity, pa.py_buffer(data)]
    )
    return cast_to_binary(fixed, serde)


def from_bytes(
    array: Any, serde: str, dtype: str, native: Callable[[Any], Any], decode: Callable[[bytes], Any]
) -> Any:
    """Return an array of the numbers that the binary *array* holds; nulls stay null.

    *dtype* is how numpy reads the bytes, and *native* turns the result into the numbers. *decode*
    reads one value: when a length is not 8, it is called for the error that it raises.

    Raises:
        SerializationError: The values are not bytes, or not 8 bytes.
    """
    np, pa = numpy(), pyarrow()
    array = as_binary(array, serde)
    dense = array.drop_null() if array.null_count else array
    if not len(dense):
        return pa.nulls(len(array), pa.from_numpy_dtype(native(np.empty(0, dtype)).dtype))
    offsets = binary_offsets(dense)
    if (np.diff(offsets) != _WIDTH_BYTES).any():
        return map_values(decode, dense, None)
    numbers = native(binary_data(dense)[offsets[0] : offsets[-1]].view(dtype))
    if dense is array:
        return pa.array(numbers)
    absent = array.is_null().to_numpy(zero_copy_only=False)
    spread = np.zeros(len(array), numbers.dtype)
    spread[~absent] = numbers
    return pa.array(spread, mask=absent)
