"""Rows with the types of a store's serdes, and columns of such types back into bytes (SNP-9)."""

from typing import Any

import pyarrow as pa

from statestores.arrow.schemas import row_schema
from statestores.errors import InvalidArgumentError
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spi.specification import StoreSpecification

_MILLISECONDS = pa.timestamp("ms")


def typed_schema(specification: StoreSpecification[Any, Any]) -> pa.Schema:
    """Return the row schema of a store's kind with its serdes' types for key and value."""
    return _with_types(
        row_schema(specification.kind),
        serde_or_raw(specification.key).arrow_type(),
        serde_or_raw(specification.value).arrow_type(),
    )


def decode_rows(
    rows: pa.RecordBatch, specification: StoreSpecification[Any, Any]
) -> pa.RecordBatch:
    """Return *rows* with keys and values decoded by the serdes of *specification*.

    Raises:
        SerializationError: A key or value is not the serde's.
    """
    columns = list(rows.columns)
    columns[0] = serde_or_raw(specification.key).decode_array(columns[0])
    columns[1] = serde_or_raw(specification.value).decode_array(columns[1])
    return pa.RecordBatch.from_arrays(columns, schema=typed_schema(specification))


def encode_rows(
    rows: pa.RecordBatch, specification: StoreSpecification[Any, Any], *, typed: bool
) -> pa.RecordBatch:
    """Return columns ``key``, ``value`` and, of versions, ``valid_from`` as a store takes them.

    *typed* says whether keys and values are those of the serdes, or already bytes. Columns may
    come in any order; ``valid_to`` is ignored, because it follows from the others.

    Raises:
        InvalidArgumentError: A column is missing, unknown, or of a type that cannot be taken.
        SerializationError: A key or value is not of the serde's type.
    """
    wanted = row_schema(specification.kind)
    unknown = sorted(set(rows.schema.names) - set(wanted.names))
    needed = [name for name in wanted.names if name != "valid_to"]
    missing = [name for name in needed if name not in rows.schema.names]
    if unknown or missing:
        raise InvalidArgumentError(
            f"the columns {rows.schema.names!r} are not those of a {specification.kind} store; "
            f"expected {', '.join(needed)}"
        )
    columns = {name: rows.column(name) for name in needed}
    if typed:
        columns["key"] = serde_or_raw(specification.key).encode_array(columns["key"])
        columns["value"] = serde_or_raw(specification.value).encode_array(columns["value"])
    schema = pa.schema([wanted.field(name) for name in needed])
    try:
        if pa.types.is_timestamp(columns.get("valid_from", pa.nulls(0)).type):
            columns["valid_from"] = columns["valid_from"].cast(_MILLISECONDS)  # exactly, or not
        arrays = [columns[field.name].cast(field.type) for field in schema]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(
            f"a column cannot be taken as it is: {error}; expected "
            f"{', '.join(f'{field.name} {field.type}' for field in schema)}"
        ) from error
    for field, array in zip(schema, arrays, strict=True):
        if array.null_count and not (field.nullable or field.name == "value"):
            raise InvalidArgumentError(
                f"the column {field.name!r} has nulls, and every row needs one"
            )
    nullable = pa.schema([field.with_nullable(True) for field in schema])  # noqa: FBT003  # Arrow's signature
    return pa.RecordBatch.from_arrays(arrays, schema=nullable)


def _with_types(schema: pa.Schema, key: pa.DataType, value: pa.DataType) -> pa.Schema:
    return schema.set(0, schema.field("key").with_type(key)).set(
        1, schema.field("value").with_type(value)
    )
