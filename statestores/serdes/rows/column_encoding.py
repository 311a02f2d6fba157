"""Columns of structs as the bytes of rows: what `row_bytes` gives for each, at once (SRD-6).

A column is taken in slices, so that the places of bytes, eight times as large as these, stay small.
"""

from dataclasses import dataclass
from typing import Any, Final

from statestores.serdes.arrow_columns import numpy, pyarrow
from statestores.serdes.rows.cells import END
from statestores.serdes.rows.column_leaves import LeafError, leaf_rows, leaf_texts
from statestores.serdes.rows.column_pieces import (
    Pieces,
    as_rows,
    binary_array,
    null_mask,
    pieces_of,
    put_pieces,
    put_rows,
)
from statestores.serdes.rows.row_bytes import COUNT, LENGTH, VERSION, cell_of
from statestores.serdes.rows.schema import Field, ListType, MapType, RowType, StructType

_SLICE: Final = 16_384
"""Rows that are encoded at once."""


@dataclass(frozen=True, slots=True)
class _Cells:
    """One cell of each row, or each value of all lists."""

    nulls: Any
    """Where it is null."""

    slots: Any
    """The bytes of a fixed width, a row each; ``None`` if the type has no such width."""

    pieces: Pieces | None
    """The bytes of any length; ``None`` if the type has a fixed width."""


def encode_structs(schema: StructType, array: Any) -> Any:
    """Return the rows of a struct *array* as a ``pyarrow.binary()`` array; nulls stay null.

    Raises:
        LeafError: A value is no row of *schema*, or the column has other types.
        pyarrow.ArrowInvalid, pyarrow.ArrowCapacityError: The array is not in order, or its rows
            have 2 GiB or more.
    """
    pa = pyarrow()
    array.validate(full=True)
    if len(array) == 0:
        return pa.array([], pa.binary())
    slices = []
    for start in range(0, len(array), _SLICE):
        part = array.slice(start, _SLICE)
        nulls = null_mask(part)
        rows = _structs(schema, part.drop_null() if nulls.any() else part, version=VERSION)
        slices.append(binary_array(spread(rows, nulls), nulls))
    return slices[0] if len(slices) == 1 else pa.concat_arrays(slices)


def spread(pieces: Pieces, nulls: Any) -> Pieces:
    """Return *pieces*, of what is not null, with empty ones for the nulls."""
    if not nulls.any():
        return pieces
    np = numpy()
    starts, ends = np.zeros(len(nulls), np.int64), np.zeros(len(nulls), np.int64)
    starts[~nulls], ends[~nulls] = pieces.starts, pieces.ends
    return Pieces(pieces.data, starts, ends)


def _structs(kind: StructType, array: Any, *, version: int | None = None) -> Pieces:
    """Return the bytes of each struct of *array*, which has no nulls."""
    np = numpy()
    size = len(array)
    children = children_of(kind, array)
    cells = [_cells(field, child) for field, child in zip(kind.fields, children, strict=True)]
    nulls = np.stack([each.nulls for each in cells], axis=1)
    head = [
        *([] if version is None else [np.full((size, 1), version, np.uint8)]),
        np.broadcast_to(np.frombuffer(COUNT.pack(len(cells)), np.uint8), (size, COUNT.size)),
        np.packbits(nulls, axis=1, bitorder="little"),
    ]
    end = np.zeros(size, np.int64)
    for each in cells:
        if each.pieces is None:
            head.append(each.slots)
        else:
            end = end + each.pieces.lengths
            head.append(_end_rows(end))
    fixed = np.concatenate(head, axis=1)
    width = fixed.shape[1]
    ends = np.cumsum(end + width)
    starts = ends - end - width
    out = np.empty(int(ends[-1]) if size else 0, np.uint8)
    put_rows(out, starts, fixed)
    tail = starts + width
    for each in cells:
        if each.pieces is not None:
            put_pieces(out, tail, each.pieces)
            tail = tail + each.pieces.lengths
    return Pieces(out, starts, ends)


def _end_rows(ends: Any) -> Any:
    """Return where cells of any length end, as slots."""
    if len(ends) and ends.max() >= 1 << 32:
        raise LeafError("a row has more than 4 GiB")
    return as_rows(ends.astype("<u4"))


def children_of(kind: StructType, array: Any) -> list[Any]:
    """Return the columns of a struct *array* in the order of the schema's fields."""
    pa = pyarrow()
    if not pa.types.is_struct(array.type):
        raise LeafError(f"a column of structs is expected, got {array.type}")
    names = [array.type.field(place).name for place in range(array.type.num_fields)]
    if len(names) != len(kind.fields) or set(names) != {field.name for field in kind.fields}:
        raise LeafError(f"the column has the fields {names!r}, and not those of {kind}")
    return [array.field(names.index(field.name)) for field in kind.fields]


def _cells(field: Field, array: Any) -> _Cells:
    nulls = null_mask(array)
    if not field.nullable and nulls.any():
        raise LeafError(f"the field {field.name!r} has nulls, which it cannot have")
    if pyarrow().types.is_null(array.type):
        nulls = numpy().ones(len(array), bool)
    cell = cell_of(field.type)
    if nulls.all():
        nothing = numpy().zeros(len(array), numpy().int64)
        empty = Pieces(numpy().zeros(0, numpy().uint8), nothing, nothing)
        zeros = numpy().zeros((len(array), cell.slot), numpy().uint8)
        return _Cells(nulls, *((None, empty) if cell.width is None else (zeros, None)))
    if cell.width is not None:
        return _Cells(nulls, leaf_rows(field.type, array, nulls), None)
    return _Cells(nulls, None, _values(field.type, array, nulls))


def _values(kind: RowType, array: Any, nulls: Any) -> Pieces:
    """Return the bytes of each value of a type of any length; a null has none."""
    if not isinstance(kind, StructType | ListType | MapType):
        return pieces_of(leaf_texts(kind, array))
    there = array.drop_null() if nulls.any() else array
    found = _structs(kind, there) if isinstance(kind, StructType) else _lists(kind, there)
    return spread(found, nulls)


def _lists(kind: ListType | MapType, array: Any) -> Pieces:
    """Return the bytes of each list or map of *array*, which has no nulls."""
    np = numpy()
    values, lengths = _listed(kind, array)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    before = np.cumsum(lengths) - lengths
    local = np.arange(len(owners)) - before[owners]
    if isinstance(kind, ListType):
        field = Field("element", kind.values, kind.nullable)
    else:
        field = Field("entry", kind.entries, nullable=False)
    cells = _cells(field, values)
    width = cell_of(field.type).slot
    bits = (lengths + 7) // 8
    sizes = np.zeros(len(owners), np.int64) if cells.pieces is None else cells.pieces.lengths
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    tails = upto[before + lengths] - upto[before]
    ends = np.cumsum(LENGTH.size + bits + lengths * width + tails)
    starts = ends - (LENGTH.size + bits + lengths * width + tails)
    out = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    put_rows(out, starts, as_rows(lengths.astype("<u4")))
    if cells.nulls.any():
        where = starts[owners] + LENGTH.size + (local >> 3)
        marks = (np.uint8(1) << (local & 7)).astype(np.uint8)
        np.bitwise_or.at(out, where[cells.nulls], marks[cells.nulls])
    slots = starts + LENGTH.size + bits
    tail = slots + lengths * width
    if cells.pieces is None:
        put_rows(out, slots[owners] + local * width, cells.slots)
    else:
        inside = upto[1:] - upto[before][owners]
        put_rows(out, slots[owners] + local * END.size, _end_rows(inside))
        put_pieces(out, tail[owners] + inside - sizes, cells.pieces)
    return Pieces(out, starts, ends)


def _listed(kind: ListType | MapType, array: Any) -> tuple[Any, Any]:
    """Return the values of all lists of *array*, one after the other, and the length of each."""
    np, pa = numpy(), pyarrow()
    types = pa.types
    if isinstance(kind, MapType):
        if not types.is_map(array.type):
            raise LeafError(f"a column of maps is expected, got {array.type}")
        offsets = array.offsets.to_numpy().astype(np.int64)
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        entries = pa.StructArray.from_arrays(
            [array.keys.slice(first, count), array.items.slice(first, count)], ["key", "value"]
        )
        lengths = np.diff(offsets)
        check_keys(entries.field(0), np.repeat(np.arange(len(lengths)), lengths))
        return entries, lengths
    if not (
        types.is_list(array.type)
        or types.is_large_list(array.type)
        or types.is_fixed_size_list(array.type)
    ):
        raise LeafError(f"a column of lists is expected, got {array.type}")
    return array.flatten(), array.value_lengths().to_numpy().astype(np.int64)


def check_keys(keys: Any, owners: Any) -> None:
    """Accept the *keys* of maps, of which *owners* says whose each is.

    Raises:
        LeafError: A map has a key twice.
    """
    pa = pyarrow()
    table = pa.table({"owner": owners, "key": keys})
    if table.group_by(["owner", "key"]).aggregate([]).num_rows != len(owners):
        raise LeafError("a map has a key twice")
