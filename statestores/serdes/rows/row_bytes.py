"""One row as bytes and back (SRD-36).

A row is a byte 1, the version of this form, and a struct: the number of its fields, 2 bytes, and
its cells. A list is the number of its values, 4 bytes, and its cells; a map is the list of its
entries, each a struct of a key and a value. All numbers are little-endian, as Arrow's are.

Cells are a bit for each, lowest first, that is set for a null; then of each cell, in order, its
value if the type has a fixed width, or where its bytes end behind all of this; then those bytes. A
null has zeros, or no bytes.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import repeat
from struct import Struct
from typing import Any, Final

from statestores.serdes.rows.cells import END, Cell, CellError, expected, scalar_cell
from statestores.serdes.rows.schema import (
    ListType,
    MapType,
    RowType,
    StructType,
    found_by_identity,
)
from statestores.spi.shown import shown

VERSION: Final = 1
"""The first byte of each row; another form would have another, and is refused."""

COUNT = Struct("<H")
"""The number of a struct's fields."""

LENGTH = Struct("<I")
"""The number of a list's values."""


def encode_row(schema: StructType, value: Any) -> bytes:
    """Return the bytes of a row.

    Raises:
        CellError: *value* is no row of *schema*.
    """
    return b"\x01" + _cell_of_row(schema).encode(value)


def decode_row(schema: StructType, data: bytes) -> dict[str, Any]:
    """Return the row of *data*, which *schema* or one before it has written.

    Raises:
        CellError: It is none.
    """
    if data[:1] != b"\x01":
        raise CellError("they do not begin with the version 1 of rows")
    row: dict[str, Any] = _cell_of_row(schema).decode(data[1:])
    return row


@cache
def cell_of(kind: RowType) -> Cell:
    """Return how values of *kind* become bytes."""
    if isinstance(kind, StructType):
        return _struct(kind)
    if isinstance(kind, ListType):
        return _list(kind)
    if isinstance(kind, MapType):
        return _map(kind)
    return scalar_cell(kind)


_cell_of_row = found_by_identity(cell_of)
"""The same of a whole row."""


def null_bytes(count: int) -> int:
    """Return how many bytes the bits of *count* cells have."""
    return (count + 7) // 8


def _struct(kind: StructType) -> Cell:
    cells = [cell_of(field.type) for field in kind.fields]
    return Cell(None, _struct_writer(kind, cells), _struct_reader(kind, cells))


def _struct_writer(kind: StructType, cells: list[Cell]) -> Callable[[Any], bytes]:
    """Return what writes the fields of *kind*, as *cells*."""
    names = {field.name for field in kind.fields}
    head = COUNT.pack(len(cells))
    # Parted here, once, and not at each row. The same of readers.
    writers = [
        (field.name, field.nullable, cell.encode)
        for field, cell in zip(kind.fields, cells, strict=True)
    ]

    def encode(value: Any) -> bytes:
        if type(value) is not dict or value.keys() != names:
            raise _not_the_fields(kind, value)
        values: list[bytes | None] = []
        for name, nullable, encode_cell in writers:
            item = value[name]
            if item is None:
                if not nullable:
                    raise CellError(f"in {name!r}: it is None, which the field cannot be")
                values.append(None)
                continue
            try:
                values.append(encode_cell(item))
            except CellError as error:
                raise CellError(f"in {name!r}: {error}") from error
        return head + _join(cells, values)

    return encode


def _struct_reader(kind: StructType, cells: list[Cell]) -> Callable[[bytes], dict[str, Any]]:
    """Return what reads the fields of *kind*, as *cells*, of which a row may have fewer."""
    readers = [
        (field.name, field.nullable, cell.decode)
        for field, cell in zip(kind.fields, cells, strict=True)
    ]

    def decode(data: bytes) -> dict[str, Any]:
        if len(data) < COUNT.size:
            raise CellError("a struct has been cut")
        (count,) = COUNT.unpack_from(data)
        if not 1 <= count <= len(cells):
            raise CellError(
                f"a struct has {count} fields, and {len(cells)} in the schema; if the schema has "
                "changed since, open the store again"
            )
        found = _split(data, COUNT.size, cells[:count])
        found += repeat(None, len(cells) - count)
        row: dict[str, Any] = {}
        for (name, nullable, decode_cell), part in zip(readers, found, strict=True):
            if part is not None:
                row[name] = decode_cell(part)
            elif nullable:
                row[name] = None
            else:
                raise CellError(f"the field {name!r} is null, which it cannot be")
        return row

    return decode


def _list(kind: ListType) -> Cell:
    cell = cell_of(kind.values)

    def encode(value: Any) -> bytes:
        if type(value) is not list:
            raise expected("a list", value)
        if not kind.nullable and None in value:
            raise CellError("a value of a list is None, which it cannot be")
        values = [None if each is None else cell.encode(each) for each in value]
        return LENGTH.pack(len(value)) + _join(repeat_cell(cell, len(value)), values)

    def decode(data: bytes) -> list[Any]:
        parts = _listed(cell, data)
        if not kind.nullable and None in parts:
            raise CellError("a value of a list is null, which it cannot be")
        return [None if part is None else cell.decode(part) for part in parts]

    return Cell(None, encode, decode)


def _map(kind: MapType) -> Cell:
    cell = cell_of(kind.entries)

    def encode(value: Any) -> bytes:
        if type(value) is not dict:
            raise expected("a dict", value)
        entries = [cell.encode({"key": key, "value": item}) for key, item in value.items()]
        return LENGTH.pack(len(entries)) + _join(repeat_cell(cell, len(entries)), entries)

    def decode(data: bytes) -> dict[Any, Any]:
        found = {}
        parts = _listed(cell, data)
        for part in parts:
            if part is None:
                raise CellError("an entry of a map is null")
            entry = cell.decode(part)
            found[entry["key"]] = entry["value"]
        if len(found) != len(parts):
            raise CellError("a map has a key twice")
        return found

    return Cell(None, encode, decode)


def repeat_cell(cell: Cell, count: int) -> Sequence[Cell]:
    """Return *cell* as that of each of *count* values."""
    return list(repeat(cell, count))


def _listed(cell: Cell, data: bytes) -> list[bytes | None]:
    """Return the bytes of each value of a list."""
    if len(data) < LENGTH.size:
        raise CellError("a list has been cut")
    (count,) = LENGTH.unpack_from(data)
    if count > len(data):  # each has a byte or more: nothing is made for a count that is a lie
        raise CellError("a list has been cut")
    return _split(data, LENGTH.size, repeat_cell(cell, count))


def _join(cells: Sequence[Cell], values: Sequence[bytes | None]) -> bytes:
    """Return *values*, the bytes of *cells*, in the form of cells."""
    nulls = bytearray(null_bytes(len(cells)))
    slots: list[bytes] = []
    tail: list[bytes] = []
    end = 0
    for place, (cell, value) in enumerate(zip(cells, values, strict=True)):
        width = cell.width
        if value is None:
            nulls[place >> 3] |= 1 << (place & 7)
            slots.append(END.pack(end) if width is None else bytes(width))
        elif width is not None:
            slots.append(value)
        else:
            end += len(value)
            if end >= 1 << 32:
                raise CellError("it has more than 4 GiB")
            tail.append(value)
            slots.append(END.pack(end))
    return b"".join((nulls, *slots, *tail))


def _split(data: bytes, at: int, cells: Sequence[Cell]) -> list[bytes | None]:
    """Return the bytes of each of *cells*, which begin at *at* and go to the end of *data*."""
    nulls = data[at : at + null_bytes(len(cells))]
    slot = at + len(nulls)
    start = tail = slot + sum([cell.slot for cell in cells])
    if len(nulls) < null_bytes(len(cells)) or tail > len(data):
        raise CellError("cells have been cut")
    has_nulls = any(nulls)
    found: list[bytes | None] = []
    for place, cell in enumerate(cells):
        width = cell.slot
        part = data[slot : slot + width]
        slot += width
        if cell.width is None:
            end = tail + END.unpack(part)[0]
            if not start <= end <= len(data):
                raise CellError("a cell ends before it begins, or has been cut")
            part, start = data[start:end], end
        if has_nulls and nulls[place >> 3] >> (place & 7) & 1:
            if any(part) or (cell.width is None and part):
                raise CellError("a null has bytes")
            found.append(None)
        else:
            found.append(part)
    if len(cells) & 7 and nulls[-1] >> (len(cells) & 7):
        raise CellError("there are bits for more cells than there are")
    if start != len(data):
        raise CellError("they go on behind their end")
    return found


def _not_the_fields(kind: StructType, value: Any) -> CellError:
    """Return the error for a *value* that is no dict with exactly the fields of *kind*."""
    if type(value) is not dict:
        return expected("a dict", value)
    names = [field.name for field in kind.fields]
    missing = [name for name in names if name not in value]
    if missing:
        return CellError(f"the field {missing[0]!r} is missing; None stands for a null")
    unknown = [name for name in value if name not in names]
    return CellError(f"there is no field {shown(unknown[0])}; there are {', '.join(names[:20])}")
