"""One row as bytes and back (SRD-36).

A row is a byte 1, the version of this form, and a struct: the number of its fields, 2 bytes, and
its cells. A list is the number of its values, 4 bytes, and its cells; a map is the list of its
entries, each a struct of a key and a value. All numbers are little-endian, as Arrow's are.

Cells are a bit for each, lowest first, that is set for a null; then of each cell, in order, its
value if the type has a fixed width, or where its bytes end behind all of this; then those bytes. A
null has zeros, or no bytes.
"""

from collections.abc import Sequence
from functools import cache
from itertools import repeat
from struct import Struct
from typing import Any, Final

from statestores.serdes.rows.cells import END, Cell, CellError, expected, scalar_cell
from statestores.serdes.rows.schema import (
    Field,
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
    names = {field.name for field in kind.fields}
    head = COUNT.pack(len(cells))

    def encode(value: Any) -> bytes:
        if type(value) is not dict or value.keys() != names:
            raise _not_the_fields(kind, value)
        values = []
        for field, cell in zip(kind.fields, cells, strict=True):
            try:
                values.append(_encoded(field, cell, value[field.name]))
            except CellError as error:
                raise CellError(f"in {field.name!r}: {error}") from error
        return head + _join(cells, values)

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
        row = {}
        for place, (field, cell) in enumerate(zip(kind.fields, cells, strict=True)):
            part = found[place] if place < count else None
            if part is None and not field.nullable:
                raise CellError(f"the field {field.name!r} is null, which it cannot be")
            row[field.name] = None if part is None else cell.decode(part)
        return row

    return Cell(None, encode, decode)


def _encoded(field: Field, cell: Cell, value: Any) -> bytes | None:
    if value is not None:
        return cell.encode(value)
    if not field.nullable:
        raise CellError("it is None, which the field cannot be")
    return None


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
        if value is None:
            nulls[place >> 3] |= 1 << (place & 7)
        if cell.width is not None:
            slots.append(bytes(cell.width) if value is None else value)
            continue
        if value is not None:
            end += len(value)
            tail.append(value)
        if end >= 1 << 32:
            raise CellError("it has more than 4 GiB")
        slots.append(END.pack(end))
    return b"".join((nulls, *slots, *tail))


def _split(data: bytes, at: int, cells: Sequence[Cell]) -> list[bytes | None]:
    """Return the bytes of each of *cells*, which begin at *at* and go to the end of *data*."""
    nulls = data[at : at + null_bytes(len(cells))]
    slot = at + len(nulls)
    start = tail = slot + sum(cell.slot for cell in cells)
    if len(nulls) < null_bytes(len(cells)) or tail > len(data):
        raise CellError("cells have been cut")
    found: list[bytes | None] = []
    for place, cell in enumerate(cells):
        is_null = nulls[place >> 3] >> (place & 7) & 1
        part = data[slot : slot + cell.slot]
        slot += cell.slot
        if cell.width is None:
            end = tail + END.unpack(part)[0]
            if not start <= end <= len(data):
                raise CellError("a cell ends before it begins, or has been cut")
            part, start = data[start:end], end
        if is_null and any(part):
            raise CellError("a null has bytes")
        if is_null and cell.width is None and part:
            raise CellError("a null has bytes")
        found.append(None if is_null else part)
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
