"""The rows of a changelog as Arrow columns: their schemas, and `Changes` into them and back.

A null value deletes. What else a row has depends on the kind: the time from which a version is
valid, the start of a window, the start and the end of a session. The offset is a column only where
offsets are missing (LOG-24).
"""

from collections.abc import Sequence
from numbers import Integral
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from statestores.errors import InvalidArgumentError, InvalidTypeError, UnsupportedFormatError
from statestores.spi import kinds
from statestores.spi.kinds import KINDS, Kind, NumberColumn
from statestores.spi.records import Changes

_BINARY: Final = pa.binary()

_INTEGERS: Final = frozenset({int, type(None)})

_KEY_AND_VALUE = (pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary()))

_CHANGES = {
    name: pa.schema(
        [
            *_KEY_AND_VALUE,
            *(pa.field(each.name, pa.int64(), nullable=not each.required) for each in kind.numbers),
        ]
    )
    for name, kind in KINDS.items()
}

RECORDS = "records"
"""The kind of a log of records: a partition of a topic, and no store's changes."""

RECORD_ROWS = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("headers", pa.binary()),
    ]
)
"""A record: key and value may be missing, the timestamp is whatever it came with, and the headers
are bytes that only who writes and reads records understands (PRC-48)."""

_CHANGES[RECORDS] = RECORD_ROWS

_KIND_OF_COLUMNS = {
    tuple((each.name, not each.required) for each in kind.numbers): kind for kind in KINDS.values()
}

_NUMBERS_OF = {id(_CHANGES[name]): kind.numbers for name, kind in KINDS.items()}
"""By the schemas above, which live for ever: to look at the fields of one takes longer."""

KEY_VALUE_CHANGES = _CHANGES[kinds.KEY_VALUE]
"""A key and its new value."""

VERSIONED_CHANGES = _CHANGES[kinds.VERSIONED]
"""A key, its new value, and the time in milliseconds from which it is valid."""

OFFSET_FIELD = pa.field("offset", pa.int64(), nullable=False)
"""The last column, in frames whose offsets are not all there."""


def change_schema(kind: str) -> pa.Schema:
    """Return the schema of the changes of the stores of *kind*.

    Raises:
        UnsupportedFormatError: This release knows no changes of that kind.
    """
    try:
        return _CHANGES[kind]
    except KeyError:
        raise UnsupportedFormatError(
            f"no changelog is known for stores of the kind {kind!r}; "
            f"known: {', '.join(sorted(_CHANGES))}; upgrade statestores"
        ) from None


def number_columns(schema: pa.Schema) -> tuple[NumberColumn, ...]:
    """Return the columns of a change schema that come after key and value."""
    known = _NUMBERS_OF.get(id(schema))
    return _kind_of(schema).numbers if known is None else known


def order_column(schema: pa.Schema) -> str | None:
    """Return the column by which changes are ordered so that none makes a later one too late.

    ``None`` for the kinds whose last change counts, whatever its time.
    """
    column = _kind_of(schema).put_by
    return None if column is None else column.name


def _kind_of(schema: pa.Schema) -> Kind:
    """Return the kind that has the columns of *schema*."""
    _, _, *numbers = schema
    return _KIND_OF_COLUMNS[tuple((field.name, field.nullable) for field in numbers)]


def batch_from_changes(schema: pa.Schema, changes: Changes) -> pa.RecordBatch:
    """Return *changes* as columns of *schema*.

    Raises:
        InvalidArgumentError, InvalidTypeError: They cannot be.
    """
    numbers = number_columns(schema)
    columns = [
        _column("key", _BINARY, changes.keys),
        _column("value", _BINARY, changes.values),
        *numbers_of(changes, numbers),
    ]
    if len({len(column) for column in columns}) > 1:
        raise InvalidArgumentError(
            "the columns of changes must have equal lengths, got "
            f"{[len(column) for column in columns]!r}"
        )
    _check_columns(columns, numbers)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def numbers_of(changes: Changes, columns: Sequence[NumberColumn]) -> list[pa.Array]:
    """Return the numbers of *changes* as Arrow *columns*.

    Raises:
        InvalidArgumentError: *changes* are those of another kind of store.
        InvalidTypeError: A number is not an integer.
    """
    carried = {name for name in kinds.NUMBER_ATTRIBUTES if getattr(changes, name) is not None}
    if not carried and not columns:
        return []
    needed = {each.attribute for each in columns if each.required}
    known = {each.attribute for each in columns}
    if not needed <= carried <= known:
        raise InvalidArgumentError(
            f"the changes carry {', '.join(sorted(carried)) or 'no times'}, and this kind of store "
            f"has {', '.join(sorted(known)) or 'none'}: they are those of another kind"
        )
    arrays = []
    for each in columns:
        numbers = getattr(changes, each.attribute)
        arrays.append(
            pa.nulls(len(changes), pa.int64())
            if numbers is None
            else _column(each.name, pa.int64(), _integers(each.name, numbers))
        )
    return arrays


def _integers(name: str, numbers: Sequence[int | None]) -> Sequence[int | None]:
    """Return *numbers*: Arrow would take of a float in a list what comes before its point.

    Raises:
        InvalidTypeError: One is something else.
    """
    if isinstance(numbers, list | tuple) and not set(map(type, numbers)) <= _INTEGERS:
        for number in numbers:
            if number is not None and not isinstance(number, Integral):
                raise InvalidTypeError(f"the {name} column of changes has int, got {number!r}")
    return numbers


def check_batch(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return *batch* with exactly *schema*: metadata and nullability are the changelog's own.

    Raises:
        InvalidTypeError: It is not a record batch, or its columns are different.
        InvalidArgumentError: A key or a time is null, or a time negative.
    """
    if not isinstance(batch, pa.RecordBatch):
        raise InvalidTypeError(f"expected a pyarrow.RecordBatch, got {type(batch).__name__}")
    if not batch.schema.equals(schema, check_metadata=True):
        if batch.schema.names != schema.names or batch.schema.types != schema.types:
            raise InvalidTypeError(
                f"the changelog takes the columns {describe(schema)}, got "
                f"{describe(batch.schema)}; select and cast them first"
            )
        batch = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    check_values(batch)
    return batch


def check_values(batch: pa.RecordBatch) -> None:
    """Accept columns of the right types if their values are legal.

    Raises:
        InvalidArgumentError: A key or a time is null, or a time negative.
    """
    if batch.schema.equals(RECORD_ROWS):
        if batch.column("timestamp").null_count:
            raise InvalidArgumentError("a timestamp of a record is None; every record has one")
        return  # the rest is the reader's affair: a topic holds what is sent to it
    _check_columns(batch.columns, number_columns(batch.schema))


def _check_columns(columns: Sequence[pa.Array], numbers: Sequence[NumberColumn]) -> None:
    """Accept *columns*, of which those after key and value are *numbers*, as `check_values`."""
    if columns[0].null_count:
        raise InvalidArgumentError("a key of a change is None; every change has a key")
    if not numbers or not len(columns[0]):
        return
    for each, column in zip(numbers, columns[2:], strict=True):
        if each.required and column.null_count:
            raise InvalidArgumentError(
                f"a {each.name} of a change is None; every change of this kind has one"
            )
        lowest = pc.min(column).as_py()
        if lowest is not None and lowest < 0:
            raise InvalidArgumentError(f"a {each.name} is from 0 to 2**63 - 1, got {lowest!r}")
    names = [each.name for each in numbers]
    if "session_end" in names:
        start, end = (columns[2 + names.index(name)] for name in ("session_start", "session_end"))
        if pc.any(pc.less(end, start)).as_py():
            raise InvalidArgumentError("a session of a change ends before it starts")


def changes_from_batch(batch: pa.RecordBatch) -> Changes:
    """Return the rows of *batch* as lists."""
    numbers = {}
    for place, each in enumerate(number_columns(batch.schema), start=2):
        column = batch.column(place)
        if each.attribute == "sequences" and column.null_count == len(column):
            continue  # a window store that retains no duplicates, or no rows at all
        numbers[each.attribute] = column.to_pylist()
    return Changes(batch.column(0).to_pylist(), batch.column(1).to_pylist(), **numbers)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return an empty batch of *schema*."""
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)


def describe(schema: pa.Schema) -> str:
    """Return how a message names the columns of *schema*."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _column(name: str, kind: pa.DataType, values: Sequence[object]) -> pa.Array:
    """Return *values* as one Arrow column."""
    try:
        column = pa.array(values, kind)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise InvalidTypeError(f"the {name} column of changes must be {kind}: {error}") from error
    if isinstance(column, pa.ChunkedArray):
        raise InvalidArgumentError(
            f"the {name} column of one append exceeds 2 GiB; commit more often"
        )
    return column
