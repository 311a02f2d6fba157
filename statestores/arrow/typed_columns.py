"""Rows with the types of a store's serdes, and columns of such types back into bytes (SNP-9)."""

from typing import Any

import pyarrow as pa

from statestores.arrow.schemas import row_schema
from statestores.errors import InvalidArgumentError
from statestores.serdes.raw_serde import serde_or_raw
from statestores.serdes.rows import RowSerde, SortedRowSerde
from statestores.serdes.rows.completing import completed
from statestores.spi.kinds import DERIVED_COLUMNS, TIME_COLUMNS
from statestores.spi.specification import StoreSpecification

_MILLISECONDS = pa.timestamp("ms")

TIMESTAMP = pa.timestamp("ms", "UTC")
"""The type of a time in typed rows. It holds every time that a store takes."""


def typed_schema(specification: StoreSpecification[Any, Any]) -> pa.Schema:
    """Return the row schema of a store's kind with its serdes' types, and times as timestamps."""
    types = {
        **dict.fromkeys(TIME_COLUMNS, TIMESTAMP),
        "key": serde_or_raw(specification.key).arrow_type(),
        "value": serde_or_raw(specification.value).arrow_type(),
    }
    return pa.schema(
        [
            field.with_type(types.get(field.name, field.type))
            for field in row_schema(specification.kind)
        ]
    )


def decode_rows(
    rows: pa.RecordBatch, specification: StoreSpecification[Any, Any]
) -> pa.RecordBatch:
    """Return *rows* with keys and values decoded by the serdes of *specification*.

    Their schema is `typed_schema`: times are timestamps.

    Raises:
        SerializationError: A key or value is not the serde's.
    """
    schema = typed_schema(specification)
    columns = [
        serde_or_raw(specification.key).decode_array(rows.column("key")),
        serde_or_raw(specification.value).decode_array(rows.column("value")),
        *(rows.column(field.name).cast(field.type) for field in list(schema)[2:]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def encode_rows(
    rows: pa.RecordBatch, specification: StoreSpecification[Any, Any], *, typed: bool
) -> pa.RecordBatch:
    """Return the columns ``key``, ``value`` and the times of the kind as a store takes them.

    *typed* says whether keys and values are those of the serdes, or already bytes. Columns may
    come in any order; ``valid_to`` and ``sequence`` are ignored, because they follow from the
    others and their order. Of rows, fields that may be null may be missing.

    Raises:
        InvalidArgumentError: A column is missing, unknown, or of a type that cannot be taken.
        SerializationError: A key or value is not of the serde's type.
    """
    needed = check_columns(rows.schema.names, specification)
    wanted = row_schema(specification.kind)
    columns = {name: rows.column(name) for name in needed}
    if typed:
        for name, serde in (("key", specification.key), ("value", specification.value)):
            if isinstance(serde, RowSerde | SortedRowSerde):
                columns[name] = completed(serde.schema, columns[name])
            columns[name] = serde_or_raw(serde).encode_array(columns[name])
    schema = pa.schema([wanted.field(name) for name in needed])
    for name in needed:
        if name not in {"key", "value"}:
            columns[name] = time_column(columns[name], wanted.field(name))
    try:
        arrays = [columns[field.name].cast(field.type) for field in schema]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(
            f"a column cannot be taken as it is: {error}; expected "
            f"{', '.join(f'{field.name} {field.type}' for field in schema)}"
        ) from error
    if arrays[0].null_count:
        raise InvalidArgumentError("the column 'key' has nulls, and every row needs a key")
    nullable = pa.schema([field.with_nullable(True) for field in schema])  # noqa: FBT003  # Arrow's signature
    return pa.RecordBatch.from_arrays(arrays, schema=nullable)


def check_columns(names: list[str], specification: StoreSpecification[Any, Any]) -> list[str]:
    """Return the columns that a store takes, once *names* are these and perhaps `DERIVED_COLUMNS`.

    Raises:
        InvalidArgumentError: A column is missing, unknown, or there twice.
    """
    wanted = row_schema(specification.kind).names
    needed = [name for name in wanted if name not in DERIVED_COLUMNS]
    if not set(needed) <= set(names) <= set(wanted) or len(set(names)) < len(names):
        raise InvalidArgumentError(
            f"the columns {names!r} are not those of a {specification.kind} store; "
            f"expected {', '.join(needed)}"
        )
    return needed


def time_column(column: pa.Array, field: pa.Field) -> pa.Array:
    """Return a column of times as int64 milliseconds; a timestamp may become that exactly.

    Raises:
        InvalidArgumentError: It is of another type, finer than milliseconds, or has nulls that
            *field* does not allow.
    """
    name = field.name
    if pa.types.is_null(column.type):
        column = column.cast(pa.int64())
    if not (pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type)):
        raise InvalidArgumentError(
            f"the column {name!r} must be int64 milliseconds or a timestamp, got {column.type}"
        )
    try:
        if pa.types.is_timestamp(column.type):
            column = column.cast(_MILLISECONDS)
        column = column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(
            f"the column {name!r} has times that are no int64 milliseconds: {error}"
        ) from error
    if column.null_count and not field.nullable:
        raise InvalidArgumentError(f"the column {name!r} has nulls, and every row needs a time")
    return column
