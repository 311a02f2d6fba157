"""Bytes of rows as columns of structs: what `row_bytes` gives for each, at once (SRD-6)."""

from typing import Any, Final

from statestores.serdes.arrow_columns import numpy, pyarrow
from statestores.serdes.rows.arrow_schema import arrow_type
from statestores.serdes.rows.column_encoding import check_keys
from statestores.serdes.rows.column_leaves import LeafError, leaf_array
from statestores.serdes.rows.column_pieces import (
    Pieces,
    binary_array,
    expanded,
    null_mask,
    numbers_at,
    pieces_of,
    rows_at,
    validity,
)
from statestores.serdes.rows.row_bytes import COUNT, LENGTH, VERSION, cell_of, null_bytes
from statestores.serdes.rows.schema import Field, ListType, MapType, PlainType, StructType

_SLICE: Final = 16_384
"""Rows that are decoded at once."""


def decode_structs(schema: StructType, array: Any) -> Any:
    """Return the rows of a ``pyarrow.binary()`` *array* as structs; nulls stay null.

    Raises:
        LeafError: A value is no row of *schema*.
        pyarrow.ArrowInvalid: The same, as Arrow finds it.
    """
    pa = pyarrow()
    kind = arrow_type(schema)
    slices = [_rows(schema, array.slice(start, _SLICE)) for start in range(0, len(array), _SLICE)]
    if not slices:
        return pa.array([], kind)
    return slices[0] if len(slices) == 1 else pa.concat_arrays(slices)


def _rows(schema: StructType, array: Any) -> Any:
    nulls = null_mask(array)
    rows = pieces_of(array).taken(~nulls)
    if (rows.lengths < 1).any() or (rows.data[rows.starts] != VERSION).any():
        raise LeafError("they do not begin with the version 1 of rows")
    bodies = Pieces(rows.data, rows.starts + 1, rows.ends)
    return expanded(_structs(schema, bodies), nulls)


def _structs(kind: StructType, bodies: Pieces) -> Any:
    """Return structs; where they have been written with several schemas, those of each at once."""
    np, pa = numpy(), pyarrow()
    if (bodies.lengths < COUNT.size).any():
        raise LeafError("a struct has been cut")
    counts = numbers_at(bodies.data, bodies.starts, "<u2")
    known = np.unique(counts)
    if len(known) == 0:
        return pa.array([], arrow_type(kind))
    if known[0] < 1 or known[-1] > len(kind.fields):
        raise LeafError("a struct has fields that the schema has not")
    if len(known) == 1:
        return _alike(kind, bodies, int(known[0]))
    order = np.argsort(counts, kind="stable")
    groups = [_alike(kind, bodies.taken(counts == count), int(count)) for count in known]
    return pa.concat_arrays(groups).take(pa.array(np.argsort(order)))


def _alike(kind: StructType, bodies: Pieces, count: int) -> Any:
    """Return structs that all have the first *count* fields, with nulls for the others."""
    np, pa = numpy(), pyarrow()
    data, size = bodies.data, len(bodies)
    fields = kind.fields[:count]
    widths = [cell_of(field.type).slot for field in fields]
    bits = null_bytes(count)
    tail = bodies.starts + COUNT.size + bits + sum(widths)
    if (tail > bodies.ends).any():
        raise LeafError("cells have been cut")
    marks = np.unpackbits(
        rows_at(data, bodies.starts + COUNT.size, bits), axis=1, bitorder="little"
    ).astype(bool)
    if marks[:, count:].any():
        raise LeafError("there are bits for more cells than there are")
    at = bodies.starts + COUNT.size + bits
    start = tail
    columns = []
    for place, (field, width) in enumerate(zip(fields, widths, strict=True)):
        nulls = np.ascontiguousarray(marks[:, place])
        if cell_of(field.type).width is not None:
            columns.append(_fixed(field, rows_at(data, at, width), nulls))
        else:
            end = tail + numbers_at(data, at, "<u4")
            if (end < start).any() or (end > bodies.ends).any():
                raise LeafError("a cell ends before it begins, or has been cut")
            columns.append(_any_length(field, Pieces(data, start, end), nulls))
            start = end
        at = at + width
    if (start != bodies.ends).any():
        raise LeafError("they go on behind their end")
    for field in kind.fields[count:]:
        if not field.nullable and size:
            raise LeafError(f"the field {field.name!r} is null, which it cannot be")
        columns.append(pa.nulls(size, arrow_type(field.type)))
    return pa.Array.from_buffers(arrow_type(kind), size, [None], children=columns)


def _fixed(field: Field, rows: Any, nulls: Any) -> Any:
    _check_nulls(field, nulls)
    return leaf_array(field.type, rows, nulls)


def _any_length(field: Field, pieces: Pieces, nulls: Any) -> Any:
    _check_nulls(field, nulls)
    if nulls.any() and pieces.lengths[nulls].any():
        raise LeafError("a null has bytes")
    kind = field.type
    if isinstance(kind, PlainType):
        found = binary_array(pieces, nulls)
        return found.cast(arrow_type(kind))  # which refuses what is not UTF-8
    there = pieces.taken(~nulls) if nulls.any() else pieces
    if isinstance(kind, StructType):
        return expanded(_structs(kind, there), nulls)
    assert isinstance(kind, ListType | MapType)  # noqa: S101  # the others have a fixed width
    return _lists(kind, there, nulls)


def _check_nulls(field: Field, nulls: Any) -> None:
    if not field.nullable and nulls.any():
        raise LeafError(f"the field {field.name!r} is null, which it cannot be")


def _lists(kind: ListType | MapType, bodies: Pieces, nulls: Any) -> Any:
    """Return the lists or maps of *bodies*, null where *nulls* says so."""
    np, pa = numpy(), pyarrow()
    data = bodies.data
    if (bodies.lengths < LENGTH.size).any():
        raise LeafError("a list has been cut")
    counts = numbers_at(data, bodies.starts, "<u4").astype(np.int64)
    if isinstance(kind, ListType):
        field = Field("element", kind.values, kind.nullable)
    else:
        field = Field("entry", kind.entries, nullable=False)
    width = cell_of(field.type).slot
    bits = (counts + 7) // 8
    slots = bodies.starts + LENGTH.size + bits
    tails = slots + counts * width
    if (tails > bodies.ends).any():
        raise LeafError("cells have been cut")
    owners = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    local = np.arange(len(owners)) - before[owners]
    marks = data[bodies.starts[owners] + LENGTH.size + (local >> 3)] >> (local & 7) & 1
    _check_last_bits(data, slots[counts % 8 > 0] - 1, counts[counts % 8 > 0] % 8)
    values_nulls = marks.astype(bool)
    at = slots[owners] + local * width
    if cell_of(field.type).width is not None:
        if (tails != bodies.ends).any():
            raise LeafError("they go on behind their end")
        values = _fixed(field, rows_at(data, at, width), values_nulls)
    else:
        ends = tails[owners] + numbers_at(data, at, "<u4")
        starts = np.where(local == 0, tails[owners], np.roll(ends, 1))
        last = np.where(counts > 0, tails, bodies.ends)
        filled = counts > 0
        last[filled] = ends[(before + counts - 1)[filled]]
        if (ends < starts).any() or (last != bodies.ends).any():
            raise LeafError("a cell ends before it begins, or has been cut")
        if (tails[~filled] != bodies.ends[~filled]).any():
            raise LeafError("they go on behind their end")
        values = _any_length(field, Pieces(data, starts, ends), values_nulls)
    if isinstance(kind, MapType):
        check_keys(values.field(0), owners)
    lengths = np.zeros(len(nulls), np.int64)
    lengths[~nulls] = counts
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]).astype(np.int32)
    return pa.Array.from_buffers(
        arrow_type(kind),
        len(nulls),
        [validity(nulls), pa.py_buffer(offsets)],
        children=[values],
    )


def _check_last_bits(data: Any, places: Any, counts: Any) -> None:
    """Accept the last bytes of bits, of which each has *counts* for cells."""
    if len(places) and (data[places] >> counts.astype(numpy().uint8)).any():
        raise LeafError("there are bits for more cells than there are")
