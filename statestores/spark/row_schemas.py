"""Schemas of rows by the columns of a DataFrame: of a new store, or as one that is there takes it.

What is found here is found on the driver, before any task runs.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructType

from statestores.errors import InvalidArgumentError, InvalidOptionError
from statestores.serdes.rows.merging import merged
from statestores.serdes.rows.row_serde import RowSerde, row
from statestores.serdes.rows.schema import (
    UTC,
    Field,
    ListType,
    PlainType,
    RowType,
    TimestampType,
)
from statestores.serdes.rows.schema import DecimalType as RowDecimal
from statestores.serdes.rows.schema import MapType as RowMap
from statestores.serdes.rows.schema import StructType as RowSchema
from statestores.serdes.rows.sorted_row_serde import SortedRowSerde, row_sorted
from statestores.spi.serde import Serde
from statestores.spi.specification import StoreSpecification

SERDES_OF_COLUMNS: Final[dict[str, Callable[[RowSchema], RowSerde | SortedRowSerde]]] = {
    "row": row,
    "row_sorted": row_sorted,
}
"""The serdes that take their schema from the column, by the name that an option gives."""


def serde_of_column(name: str, column: str, kind: DataType) -> Serde[Any]:
    """Return the serde *name*, one of `SERDES_OF_COLUMNS`, with the schema of a column.

    Raises:
        InvalidOptionError: The column is no struct, or has a type that such rows do not have.
    """
    schema = _schema(column, kind)
    try:
        return SERDES_OF_COLUMNS[name](schema)
    except InvalidArgumentError as error:
        raise InvalidOptionError(f"the column {column!r} cannot be {name!r}: {error}") from error


def with_columns(
    specification: StoreSpecification[Any, Any], schema: StructType, *, merge: bool
) -> StoreSpecification[Any, Any]:
    """Return *specification* as a write of *schema* leaves it: with *merge*, its rows may grow.

    Raises:
        InvalidOptionError: A column does not fit the store's schema, which the message shows by the
            field; or *merge* is asked for where the store has no rows.
    """
    if merge and not isinstance(specification.value, RowSerde):
        described = specification.describe()["value"]
        raise InvalidOptionError(
            f"the option 'mergeSchema' is for stores whose values are rows, and those of "
            f"{specification.name!r} are {described!r}; leave it out"
        )
    for column, serde in (("key", specification.key), ("value", specification.value)):
        if not isinstance(serde, RowSerde | SortedRowSerde) or column not in schema.names:
            continue
        if schema[column].dataType.typeName() == "void":
            continue  # nulls, which fit every schema, or delete
        grown, news = _merged(serde, column, schema[column].dataType)
        if news and not (merge and column == "value"):
            advice = (
                "the option mergeSchema=true adds it to the schema of the store"
                if isinstance(serde, RowSerde) and column == "value"
                else "a schema of keys never changes"
            )
            raise InvalidOptionError(
                f"the column {column!r} has {news[0]}, and the rows of {specification.name!r} are "
                f"{serde.schema}; {advice}"
            )
        if news:
            specification = replace(specification, value=RowSerde(grown))
    return specification


def _merged(
    serde: RowSerde | SortedRowSerde, column: str, kind: DataType
) -> tuple[RowSchema, list[str]]:
    try:
        return merged(serde.schema, _schema(column, kind))
    except InvalidArgumentError as error:
        if isinstance(error, InvalidOptionError):
            raise
        raise InvalidOptionError(f"the column {column!r} does not fit: {error}") from error


def _schema(column: str, kind: DataType) -> RowSchema:
    """Return the type of a column as a schema of rows.

    Raises:
        InvalidOptionError: It is no struct, or has a type that rows do not have.
    """
    if not isinstance(kind, StructType):
        raise InvalidOptionError(
            f"the column {column!r} is {kind.simpleString()}, and rows are structs; write "
            f"struct({column}) AS {column}"
        )
    try:
        found = _row_type(kind, column)
    except InvalidArgumentError as error:
        raise InvalidOptionError(
            f"the column {column!r} has a type that rows do not have: {error}"
        ) from error
    assert isinstance(found, RowSchema)  # noqa: S101  # of a struct
    return found


def _row_type(kind: DataType, path: str) -> RowType:
    """Return a type of Spark's as one of rows. Not by way of Arrow: releases differ there.

    Everything in it may be null, as in files that Spark writes: what Spark takes for certain says
    how a query was written (a literal is never null) rather than what a later one may write.
    """
    match kind:
        case StructType():
            fields = [
                Field(each.name, _row_type(each.dataType, f"{path}.{each.name}"), nullable=True)
                for each in kind.fields
            ]
            return RowSchema(tuple(fields))
        case ArrayType():
            return ListType(_row_type(kind.elementType, f"{path}.element"), nullable=True)
        case MapType():
            keys = _row_type(kind.keyType, f"{path}.key")
            return RowMap(keys, _row_type(kind.valueType, f"{path}.value"), nullable=True)
        case DecimalType():
            return RowDecimal(kind.precision, kind.scale)
    name = kind.typeName()
    if name in {"timestamp", "timestamp_ntz"}:
        return TimestampType(UTC if name == "timestamp" else None)
    if (text := _PLAIN.get(name)) is not None:
        return PlainType(text)
    raise InvalidArgumentError(f"{path} is {kind.simpleString()}; cast it")


_PLAIN: Final = {
    "boolean": "bool",
    "byte": "int8",
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "date": "date32",
    "string": "string",
    "char": "string",
    "varchar": "string",
    "binary": "binary",
}
"""The types without parameters, by what Spark calls them."""
