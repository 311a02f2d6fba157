"""The columns that a reader of a partition asks for, decoded by the store's serdes or as bytes."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from statestores.errors import InvalidArgumentError
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spi.serde import Serde
from statestores.spi.specification import StoreSpecification

BEFORE = "before"
"""The column of the values that changes have replaced."""


def serdes_of(specification: StoreSpecification[Any, Any]) -> Mapping[str, Serde[Any]]:
    """Return the serde of each column that has one."""
    value = serde_or_raw(specification.value)
    return {"key": serde_or_raw(specification.key), "value": value, BEFORE: value}


def with_types(schema: pa.Schema, serdes: Mapping[str, Serde[Any]]) -> pa.Schema:
    """Return *schema* of bytes with the types that *serdes* decode them to."""
    return pa.schema(
        [
            field.with_type(serdes[field.name].arrow_type()) if field.name in serdes else field
            for field in schema
        ]
    )


def decoded(
    rows: pa.RecordBatch, schema: pa.Schema, serdes: Mapping[str, Serde[Any]]
) -> pa.RecordBatch:
    """Return the columns of *schema*, decoded by *serdes*; no other column is touched.

    Raises:
        SerializationError: A key or value is not the serde's.
    """
    columns = [
        serdes[name].decode_array(rows.column(name)) if name in serdes else rows.column(name)
        for name in schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def selected_fields(schema: pa.Schema, columns: Iterable[str] | None) -> pa.Schema:
    """Return the fields of *schema* that are wanted, in the order in which they are named.

    Raises:
        InvalidArgumentError: One is unknown.
    """
    if columns is None:
        return schema
    names = list(columns)
    if unknown := [name for name in names if name not in schema.names]:
        raise InvalidArgumentError(
            f"there is no column {unknown[0]!r}; there are: {', '.join(schema.names)}"
        )
    return pa.schema([schema.field(name) for name in names])
