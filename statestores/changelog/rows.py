"""The rows of a changelog as Arrow columns: their schemas, and `Changes` into them and back.

A null value deletes. A versioned store's row has the time at which the version starts; when it ends
follows from the other rows. The offset is a column only where offsets are missing (LOG-24).
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from statestores.errors import InvalidArgumentError, InvalidTypeError, UnsupportedFormatError
from statestores.spi.records import Changes
from statestores.spi.specification import KeyValue, Versioned

KEY_VALUE_CHANGES = pa.schema(
    [pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())]
)
"""A key and its new value."""

VERSIONED_CHANGES = KEY_VALUE_CHANGES.append(pa.field("timestamp", pa.int64(), nullable=False))
"""A key, its new value, and the time in milliseconds from which on it is valid."""

OFFSET_FIELD = pa.field("offset", pa.int64(), nullable=False)
"""The last column, in frames whose offsets are not all there."""

_CHANGES = {KeyValue.kind: KEY_VALUE_CHANGES, Versioned.kind: VERSIONED_CHANGES}


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


def batch_from_changes(schema: pa.Schema, changes: Changes) -> pa.RecordBatch:
    """Return *changes* as columns of *schema*.

    Raises:
        InvalidArgumentError, InvalidTypeError: They cannot be.
    """
    if (changes.times_ms is not None) != (schema is VERSIONED_CHANGES):
        carried, takes = ("no times", "takes") if changes.times_ms is None else ("times", "has no")
        raise InvalidArgumentError(
            f"the changes carry {carried}, and the changelog {takes} times; it is one of "
            "another kind of store"
        )
    columns = [_column("key", changes.keys), _column("value", changes.values)]
    if changes.times_ms is not None:
        columns.append(_column("timestamp", changes.times_ms))
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise InvalidArgumentError(
            f"the columns of changes must have equal lengths, got {lengths!r}"
        )
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    check_values(batch)
    return batch


def check_batch(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return *batch* with exactly *schema*: metadata and nullability are the changelog's own.

    Raises:
        InvalidTypeError: It is no record batch, or its columns are others.
        InvalidArgumentError: A key or time is null, or a time negative.
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
        InvalidArgumentError: A key or time is null, or a time negative.
    """
    if batch.column(0).null_count:
        raise InvalidArgumentError("a key of a change is None; every change has a key")
    if batch.num_columns > 2 and batch.num_rows:  # noqa: PLR2004  # key, value, timestamp
        times = batch.column(2)
        if times.null_count:
            raise InvalidArgumentError("a time of a change is None; every version has a start")
        lowest = pc.min(times).as_py()
        if lowest < 0:
            raise InvalidArgumentError(f"a time is from 0 to 2**63 - 1, got {lowest!r}")


def changes_from_batch(batch: pa.RecordBatch) -> Changes:
    """Return the rows of *batch* as lists."""
    keys, values = batch.column(0).to_pylist(), batch.column(1).to_pylist()
    if batch.num_columns > 2:  # noqa: PLR2004  # key, value, timestamp
        return Changes(keys, values, batch.column(2).to_pylist())
    return Changes(keys, values)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return no rows of *schema*."""
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)


def describe(schema: pa.Schema) -> str:
    """Return how a message names the columns of *schema*."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _column(name: str, values: Sequence[bytes | None] | Sequence[int]) -> pa.Array:
    """Return *values* as one Arrow column."""
    kind = pa.int64() if name == "timestamp" else pa.binary()
    try:
        column = pa.array(values, kind)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise InvalidTypeError(f"the {name} column of changes must be {kind}: {error}") from error
    if isinstance(column, pa.ChunkedArray):
        raise InvalidArgumentError(
            f"the {name} column of one append exceeds 2 GiB; commit more often"
        )
    return column
