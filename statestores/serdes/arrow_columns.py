"""Arrow columns as serdes and partitioners see them: one plain array at a time, or its buffers.

A column is an array or a chunked array. What is done to it is done to each chunk, and the result
has the same shape: no chunk is copied to be joined with its neighbours, and none outgrows Arrow's
2 GiB of 32-bit offsets.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from statestores.errors import InvalidTypeError, SerializationError
from statestores.serdes.optional_packages import require
from statestores.serdes.refusals import refused_column

# By name, because the views are newer than the oldest supported pyarrow.
_BINARY = frozenset({"binary", "large_binary", "binary_view"})
_TEXT = frozenset({"string", "large_string", "string_view"})


def pyarrow() -> Any:
    """Return pyarrow, with its compute functions.

    Raises:
        MissingDriverError: It is not installed.
    """
    pa = require("pyarrow", purpose="an Arrow column", extra="arrow")
    require("pyarrow.compute", purpose="an Arrow column", extra="arrow")
    return pa


def numpy() -> Any:
    """Return numpy.

    Raises:
        MissingDriverError: It is not installed.
    """
    return require("numpy", purpose="an Arrow column of numbers or keys", extra="arrow")


def is_arrow(values: object) -> bool:
    """Return whether *values* is an Arrow column, without importing pyarrow to find out."""
    loaded = sys.modules.get("pyarrow")
    return loaded is not None and isinstance(values, loaded.Array | loaded.ChunkedArray)


def map_chunks(function: Callable[[Any], Any], column: Any, arrow_type: Any) -> Any:
    """Return *column* with *function* applied to its array, or to each of its chunks.

    Dictionary and run-end encodings are undone first.

    Raises:
        InvalidTypeError: It is not an Arrow column.
    """
    pa = pyarrow()
    if isinstance(column, pa.ChunkedArray):
        chunks = [function(_plain(pa, chunk)) for chunk in column.chunks]
        return pa.chunked_array(chunks, type=arrow_type)
    if isinstance(column, pa.Array):
        return function(_plain(pa, column))
    raise InvalidTypeError(
        f"expected a pyarrow.Array or pyarrow.ChunkedArray, got {type(column).__name__}; "
        "make one with pyarrow.array(...)"
    )


def cut_at(array: Any, size: int) -> tuple[Any, Any]:
    """Return the first *size* bytes of each value of a binary array, and the rest; null stays."""
    rows = array.to_pylist()
    heads = [None if row is None else row[:size] for row in rows]
    rests = [None if row is None else row[size:] for row in rows]
    return pyarrow().array(heads, pyarrow().binary()), pyarrow().array(rests, pyarrow().binary())


def joined_fields(
    array: Any, fields: Mapping[str, Callable[[Any], Any]], serde: str, order: Sequence[int]
) -> Any:
    """Return structs as bytes: those of their fields, joined in *order*; a null struct stays null.

    *fields* has, for each field by its name, what makes a column of bytes of its column.

    Raises:
        SerializationError: It has not these fields, or one of them is null. The message names
            *serde*.
    """
    pa = pyarrow()
    if pa.types.is_null(array.type):
        return array.cast(pa.binary())
    is_struct = pa.types.is_struct(array.type)
    if not is_struct or [each.name for each in array.type] != [*fields]:
        raise refused_column(serde, array.type, f"structs of {', '.join(fields)}")
    encoded = [each(part) for each, part in zip(fields.values(), array.flatten(), strict=True)]
    parts = zip(*(encoded[at].to_pylist() for at in order), strict=True)
    rows: list[bytes | None] = []
    for is_there, row in zip(array.is_valid().to_pylist(), parts, strict=True):
        if is_there and None in row:
            raise SerializationError(f"the serde {serde!r} takes no null within a struct")
        rows.append(b"".join(row) if is_there else None)
    return pa.array(rows, pa.binary())


def _plain(pa: Any, array: Any) -> Any:
    """Return *array* without an encoding that only saves memory."""
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    if pa.types.is_run_end_encoded(array.type):
        return pa.compute.run_end_decode(array)
    return array


def is_binary(arrow_type: Any) -> bool:
    """Return whether values of *arrow_type* are bytes, in any of Arrow's layouts."""
    return str(arrow_type) in _BINARY or pyarrow().types.is_fixed_size_binary(arrow_type)


def is_text(arrow_type: Any) -> bool:
    """Return whether values of *arrow_type* are text, in any of Arrow's layouts."""
    return str(arrow_type) in _TEXT


def as_binary(array: Any, serde: str) -> Any:
    """Return *array*, of bytes in any layout, in that of ``pyarrow.binary()``.

    Raises:
        SerializationError: Its values are not bytes, or are too large for one chunk. The message
            names *serde*.
    """
    pa = pyarrow()
    if pa.types.is_binary(array.type):
        return array
    if is_binary(array.type) or pa.types.is_null(array.type):
        return cast_to_binary(array, serde)
    raise refused_column(serde, array.type, "binary")


def cast_to_binary(array: Any, serde: str) -> Any:
    """Return *array*, of bytes or text, as ``pyarrow.binary()``.

    Raises:
        SerializationError: It is too large for one chunk of it. The message names *serde*.
    """
    pa = pyarrow()
    try:
        return array.cast(pa.binary())
    except pa.ArrowInvalid as error:
        raise SerializationError(
            f"the serde {serde!r} takes at most 2 GiB in one chunk, got {len(array)} values of "
            f"{array.nbytes} bytes; split the column into smaller chunks"
        ) from error


def map_values(function: Callable[[Any], Any], array: Any, arrow_type: Any) -> Any:
    """Return an array of *function* of each value, one by one; nulls stay null."""
    values = [None if value is None else function(value) for value in array.to_pylist()]
    return pyarrow().array(values, arrow_type)


def binary_offsets(array: Any) -> Any:
    """Return where each value of a non-empty ``pyarrow.binary()`` array begins, and the end."""
    np = numpy()
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)


def binary_data(array: Any) -> Any:
    """Return the bytes that `binary_offsets` points into, as numpy ``uint8``."""
    np = numpy()
    data = array.buffers()[2]
    return np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def plain_value(value: Any, kind: Any) -> Any:
    """Return the Python *value* of a column of *kind* with dicts where Arrow has pairs of a map."""
    types = pyarrow().types
    if value is None:
        return None
    if types.is_map(kind):
        return {key: plain_value(item, kind.item_type) for key, item in value}
    if types.is_struct(kind):
        return {each.name: plain_value(value[each.name], each.type) for each in kind}
    if types.is_list(kind) or types.is_large_list(kind):
        return [plain_value(item, kind.value_type) for item in value]
    return value
