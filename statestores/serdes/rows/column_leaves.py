"""Columns of scalar types as the cells of rows, and back.

A column is taken where each of its values would be (SRD-6): an int as a float if one holds it, but
no float as an int.
"""

from typing import Any

from statestores.serdes.arrow_columns import is_binary, is_text, numpy, pyarrow
from statestores.serdes.rows.arrow_schema import arrow_type
from statestores.serdes.rows.cells import (
    DECIMAL_BYTES,
    FIRST_DAY,
    FIRST_US,
    LAST_DAY,
    LAST_US,
    NAN,
)
from statestores.serdes.rows.column_pieces import as_rows, validity
from statestores.serdes.rows.schema import (
    INTEGER_BITS,
    DecimalType,
    PlainType,
    RowType,
    TimestampType,
)


class LeafError(ValueError):
    """A column that is refused, or has a value that is."""


def leaf_rows(kind: RowType, array: Any, nulls: Any) -> Any:
    """Return the cells of a fixed width of *array*, a row of bytes each; zeros for nulls."""
    np, pa = numpy(), pyarrow()
    if isinstance(kind, DecimalType):
        return _decimal_rows(kind, array, nulls)
    numbers = _numbers(kind, array)
    if numbers.null_count:
        numbers = pa.compute.fill_null(numbers, pa.scalar(0, numbers.type))
    found = numbers.to_numpy(zero_copy_only=False)
    if isinstance(kind, TimestampType):
        _within(found, FIRST_US, LAST_US)
    elif kind == PlainType("date32"):
        _within(found, FIRST_DAY, LAST_DAY)
    elif found.dtype.kind == "f":
        found = np.where(np.isnan(found), NAN, found)
    return as_rows(found.astype(found.dtype.newbyteorder("<")))


def leaf_texts(kind: RowType, array: Any) -> Any:
    """Return a column of text or bytes as ``pyarrow.binary()``."""
    pa = pyarrow()
    if kind == PlainType("string") and is_text(array.type):
        return array.cast(pa.string()).cast(pa.binary())
    if kind == PlainType("binary") and is_binary(array.type):
        return array.cast(pa.binary())
    raise _refused(kind, array)


def _numbers(kind: RowType, array: Any) -> Any:
    """Return *array* as the numbers that cells have."""
    pa = pyarrow()
    types = pa.types
    given = array.type
    if isinstance(kind, TimestampType):
        if types.is_timestamp(given) and (given.tz is None) == (kind.zone is None):
            return array.cast(pa.timestamp("us", tz=given.tz)).cast(pa.int64())
        raise _refused(kind, array)
    assert isinstance(kind, PlainType)  # noqa: S101  # the others have no fixed width
    if kind.text == "bool" and types.is_boolean(given):
        return array.cast(pa.uint8())
    if kind.text == "date32" and types.is_date(given):
        return array.cast(pa.date32()).cast(pa.int32())
    if kind.text in INTEGER_BITS and types.is_integer(given):
        return array.cast(arrow_type(kind)).cast(pa.int64())
    if kind.text in {"float", "double"} and types.is_integer(given):
        numbers = array.cast(pa.float64(), safe=False)
        if not numbers.cast(given).equals(array):  # also where that cast fails
            raise LeafError("an int is no float exactly")
        array = numbers
    elif kind.text not in {"float", "double"} or not (
        types.is_float32(given) or types.is_float64(given)
    ):
        raise _refused(kind, array)
    if kind.text == "float":
        check_float32(array.cast(pa.float64()).drop_null().to_numpy(zero_copy_only=False))
    return array.cast(pa.float64())


def check_float32(numbers: Any) -> Any:
    """Return doubles as floats of 32 bits.

    Raises:
        LeafError: 32 bits do not hold one of them exactly.
    """
    np = numpy()
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = numbers.astype(np.float32)
    if not np.array_equal(narrow.astype(np.float64), numbers, equal_nan=True):
        raise LeafError("a float is not exactly one of 32 bits")
    return narrow


def _decimal_rows(kind: DecimalType, array: Any, nulls: Any) -> Any:
    np, pa = numpy(), pyarrow()
    if not pa.types.is_decimal(array.type):
        raise _refused(kind, array)
    numbers = array.cast(arrow_type(kind))
    buffer = numbers.buffers()[1]
    whole = np.frombuffer(buffer, np.uint8).reshape(-1, DECIMAL_BYTES)
    rows = whole[numbers.offset : numbers.offset + len(numbers)].copy()
    rows[nulls] = 0
    return rows


def _refused(kind: RowType, array: Any) -> LeafError:
    return LeafError(f"a column of {kind} is expected, got {array.type}")


def _within(numbers: Any, first: int, last: int) -> None:
    if len(numbers) and not first <= numbers.min() <= numbers.max() <= last:
        raise LeafError("a time is outside of the years 1 to 9999")


def leaf_array(kind: RowType, rows: Any, nulls: Any) -> Any:
    """Return cells of a fixed width, a row of bytes each, as a column.

    Raises:
        LeafError: A cell holds no value of the type, or is null and has bytes.
    """
    np, pa = numpy(), pyarrow()
    if nulls.any() and rows[nulls].any():
        raise LeafError("a null has bytes")
    rows = np.ascontiguousarray(rows)
    if isinstance(kind, DecimalType):
        buffers = [validity(nulls), pa.py_buffer(rows)]
        decimals = pa.Array.from_buffers(arrow_type(kind), len(rows), buffers)
        decimals.validate(full=True)  # refuses digits beyond the precision
        return decimals
    if isinstance(kind, TimestampType):
        numbers = rows.view("<i8")[:, 0]
        _within(numbers, FIRST_US, LAST_US)
        return pa.array(numbers, pa.int64(), mask=nulls).view(arrow_type(kind))
    assert isinstance(kind, PlainType)  # noqa: S101  # the others have no fixed width
    match kind.text:
        case "bool":
            if (rows > 1).any():
                raise LeafError("a bool is a byte 0 or 1")
            return pa.array(rows[:, 0].astype(bool), mask=nulls)
        case "date32":
            days = rows.view("<i4")[:, 0]
            _within(days, FIRST_DAY, LAST_DAY)
            return pa.array(days, pa.int32(), mask=nulls).view(pa.date32())
        case "double":
            return pa.array(rows.view("<f8")[:, 0], pa.float64(), mask=nulls)
        case "float":
            return pa.array(check_float32(rows.view("<f8")[:, 0]), pa.float32(), mask=nulls)
    # A cast that does not fit raises ArrowInvalid.
    return pa.array(rows.view("<i8")[:, 0], pa.int64(), mask=nulls).cast(arrow_type(kind))
