"""Columns of structs as keys that sort, and back: what `sorted_bytes` gives for each (SRD-6)."""

from typing import Any, Final

from statestores.serdes.arrow_columns import numpy, pyarrow
from statestores.serdes.rows.arrow_schema import arrow_type
from statestores.serdes.rows.cells import DECIMAL_BYTES, NAN, CellError
from statestores.serdes.rows.column_encoding import children_of, spread
from statestores.serdes.rows.column_leaves import LeafError, leaf_array, leaf_rows, leaf_texts
from statestores.serdes.rows.column_pieces import (
    Pieces,
    as_rows,
    binary_array,
    expanded,
    null_mask,
    pieces_of,
    put_pieces,
    put_rows,
    rows_at,
)
from statestores.serdes.rows.schema import DecimalType, Field, PlainType, RowType, StructType
from statestores.serdes.rows.sorted_bytes import (
    END_OF_TEXT,
    FLOAT_BYTES,
    escaped,
    unescaped,
    width_of,
)

_SLICE: Final = 16_384
"""Keys that are encoded or decoded at once."""

_SIGN: Final = 0x80


def encode_sorted(schema: StructType, array: Any) -> Any:
    """Return the keys of a struct *array* as a ``pyarrow.binary()`` array; nulls stay null.

    Raises:
        LeafError: A value is no key of *schema*, or the column has other types.
        pyarrow.ArrowInvalid, pyarrow.ArrowCapacityError: As `encode_structs`.
    """
    pa = pyarrow()
    array.validate(full=True)
    slices = []
    for start in range(0, len(array), _SLICE):
        part = array.slice(start, _SLICE)
        nulls = null_mask(part)
        keys = _structs(schema, part.drop_null() if nulls.any() else part)
        slices.append(binary_array(spread(keys, nulls), nulls))
    if not slices:
        return pa.array([], pa.binary())
    return slices[0] if len(slices) == 1 else pa.concat_arrays(slices)


def _structs(kind: StructType, array: Any) -> Pieces:
    """Return the bytes of each struct of *array*, which has no nulls."""
    np = numpy()
    children = children_of(kind, array)
    fields = [_field(field, child) for field, child in zip(kind.fields, children, strict=True)]
    total = np.zeros(len(array), np.int64)
    for each in fields:
        total = total + each.lengths
    ends = np.cumsum(total)
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    at = starts = ends - total
    for each in fields:
        put_pieces(out, at, each)
        at = at + each.lengths
    return Pieces(out, starts, ends)


def _field(field: Field, array: Any) -> Pieces:
    """Return the bytes of a field of each row, with what stands before it."""
    np = numpy()
    nulls = null_mask(array)
    if not field.nullable and nulls.any():
        raise LeafError(f"the field {field.name!r} has nulls, which it cannot have")
    if pyarrow().types.is_null(array.type) or nulls.all():
        ends = np.arange(1, len(array) + 1)
        return Pieces(np.zeros(len(array), np.uint8), ends - 1, ends)
    there = array.drop_null() if nulls.any() else array
    found = spread(_values(field.type, there), nulls)
    if not field.nullable:
        return found
    ends = np.cumsum(found.lengths + 1)
    starts = ends - found.lengths - 1
    out = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    out[starts[~nulls]] = 1
    put_pieces(out, starts + 1, found)
    return Pieces(out, starts, ends)


def _values(kind: RowType, array: Any) -> Pieces:
    """Return the bytes of each value of *array*, which has no nulls."""
    np = numpy()
    if isinstance(kind, StructType):
        return _structs(kind, array)
    width = width_of(kind)
    if width is None:
        return _texts(kind, array)
    rows = _turned(kind, leaf_rows(kind, array, np.zeros(len(array), bool)), width)
    ends = np.arange(1, len(rows) + 1) * width
    return Pieces(np.ascontiguousarray(rows).reshape(-1), ends - width, ends)


def _turned(kind: RowType, rows: Any, width: int) -> Any:
    """Return cells of rows, little-endian, as the bytes of keys."""
    np = numpy()
    if kind == PlainType("bool"):
        return rows
    if isinstance(kind, PlainType) and kind.text in FLOAT_BYTES:
        numbers = np.ascontiguousarray(rows).view("<f8")[:, 0] + 0.0  # -0 becomes 0
        rows = as_rows(numbers.astype(f"<f{width}"))
    big = rows[:, :width][:, ::-1].copy()
    if isinstance(kind, PlainType) and kind.text in FLOAT_BYTES:
        negative = big[:, 0] >= _SIGN
        big[negative] ^= 0xFF
        big[~negative, 0] ^= _SIGN
    else:
        big[:, 0] ^= _SIGN
    return big


def _texts(kind: RowType, array: Any) -> Pieces:
    """Return text or bytes with their end behind them."""
    np, pa = numpy(), pyarrow()
    plain = leaf_texts(kind, array)
    found = pieces_of(plain)
    if (found.joined() == 0).any():
        found = pieces_of(pa.array([escaped(each) for each in plain.to_pylist()], pa.binary()))
    ends = np.cumsum(found.lengths + len(END_OF_TEXT))
    starts = ends - found.lengths - len(END_OF_TEXT)
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    put_pieces(out, starts, found)
    mark = np.frombuffer(END_OF_TEXT, np.uint8)
    put_rows(out, ends - len(mark), np.broadcast_to(mark, (len(ends), len(mark))))
    return Pieces(out, starts, ends)


def decode_sorted(schema: StructType, array: Any) -> Any:
    """Return the keys of a ``pyarrow.binary()`` *array* as structs; nulls stay null.

    Raises:
        LeafError: A value is no key of *schema*.
        pyarrow.ArrowInvalid: The same, as Arrow finds it.
    """
    pa = pyarrow()
    slices = [_keys(schema, array.slice(at, _SLICE)) for at in range(0, len(array), _SLICE)]
    if not slices:
        return pa.array([], arrow_type(schema))
    return slices[0] if len(slices) == 1 else pa.concat_arrays(slices)


def _keys(schema: StructType, array: Any) -> Any:
    np = numpy()
    nulls = null_mask(array)
    keys = pieces_of(array).taken(~nulls)
    data = np.ascontiguousarray(keys.joined())  # so that no end is looked for elsewhere
    ends = np.cumsum(keys.lengths)
    found, at = _Reader(data).structs(schema, ends - keys.lengths, ends)
    if (at != ends).any():
        raise LeafError("they go on behind their end")
    return expanded(found, nulls)


class _Reader:
    """Reads fields of many keys, each from where the one before it has ended."""

    def __init__(self, data: Any) -> None:
        np = numpy()
        self._data = data
        if len(data) < len(END_OF_TEXT):
            self._ends_of_text = np.zeros(0, np.int64)
        else:
            marked = (data[:-1] == END_OF_TEXT[0]) & (data[1:] == END_OF_TEXT[1])
            self._ends_of_text = np.flatnonzero(marked)

    def structs(self, kind: StructType, at: Any, ends: Any) -> tuple[Any, Any]:
        """Return the structs that begin at *at*, and where they end, before *ends*."""
        pa = pyarrow()
        columns = []
        for field in kind.fields:
            column, at = self._field(field, at, ends)
            columns.append(column)
        kinds = arrow_type(kind)
        return pa.Array.from_buffers(kinds, len(ends), [None], children=columns), at

    def _field(self, field: Field, at: Any, ends: Any) -> tuple[Any, Any]:
        np = numpy()
        nulls = np.zeros(len(ends), bool)
        if field.nullable:
            if (at >= ends).any():
                raise LeafError("a field has been cut")
            marks = self._data[at]
            if (marks > 1).any():
                raise LeafError(f"before {field.name!r} is neither a byte 0 nor 1")
            nulls = marks == 0
            at = at + 1
        if not nulls.any():
            return self._values(field.type, at, ends)
        column, after = self._values(field.type, at[~nulls], ends[~nulls])
        at = at.copy()
        at[~nulls] = after
        return expanded(column, nulls), at

    def _values(self, kind: RowType, at: Any, ends: Any) -> tuple[Any, Any]:
        np = numpy()
        if isinstance(kind, StructType):
            return self.structs(kind, at, ends)
        width = width_of(kind)
        if width is None:
            return self._texts(kind, at, ends)
        if (at + width > ends).any():
            raise LeafError("a field has been cut")
        rows = _turned_back(kind, rows_at(self._data, at, width), width)
        return leaf_array(kind, rows, np.zeros(len(ends), bool)), at + width

    def _texts(self, kind: RowType, at: Any, ends: Any) -> tuple[Any, Any]:
        np, pa = numpy(), pyarrow()
        places = np.searchsorted(self._ends_of_text, at)
        if (places >= len(self._ends_of_text)).any():
            raise LeafError("a text or bytes have no end")
        stops = self._ends_of_text[places] if len(places) else at
        after = stops + len(END_OF_TEXT)
        if (after > ends).any():
            raise LeafError("a text or bytes have no end")
        pieces = Pieces(self._data, at, stops)
        found = binary_array(pieces, np.zeros(len(at), bool))
        if (pieces.joined() == 0).any():
            try:
                found = pa.array([unescaped(each) for each in found.to_pylist()], pa.binary())
            except CellError as error:
                raise LeafError(str(error)) from error
        return found.cast(arrow_type(kind)), after


def _turned_back(kind: RowType, rows: Any, width: int) -> Any:
    """Return the bytes of keys as cells of rows."""
    np = numpy()
    if kind == PlainType("bool"):
        return rows
    rows = rows.copy()
    if isinstance(kind, PlainType) and kind.text in FLOAT_BYTES:
        positive = rows[:, 0] >= _SIGN
        rows[~positive] ^= 0xFF
        rows[positive, 0] ^= _SIGN
        numbers = np.ascontiguousarray(rows[:, ::-1]).view(f"<f{width}")[:, 0].astype("<f8")
        numbers = np.where(np.isnan(numbers), NAN, numbers)
        again = _turned(kind, as_rows(numbers), width)
        rows[positive, 0] ^= _SIGN
        rows[~positive] ^= 0xFF
        if (again != rows).any():
            raise LeafError("a float is written as another than -0, or another NaN")
        return as_rows(numbers)
    rows[:, 0] ^= _SIGN
    little = np.ascontiguousarray(rows[:, ::-1])
    if isinstance(kind, DecimalType) or width == 8:  # noqa: PLR2004  # cells have that, too
        return little
    cell = 4 if kind == PlainType("date32") else 8
    assert width < DECIMAL_BYTES  # noqa: S101  # only decimals are that wide
    return as_rows(little.view(f"<i{width}")[:, 0].astype(f"<i{cell}"))
