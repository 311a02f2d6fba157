"""Schemas of rows as Arrow has them, and back."""

from typing import Any

from statestores.errors import InvalidArgumentError
from statestores.serdes.arrow_columns import is_binary, is_text, pyarrow
from statestores.serdes.rows.schema import (
    PLAIN,
    DecimalType,
    Field,
    ListType,
    MapType,
    PlainType,
    RowType,
    StructType,
    TimestampType,
)


def arrow_type(kind: RowType) -> Any:
    """Return the ``pyarrow.DataType`` of values of *kind*."""
    pa = pyarrow()
    match kind:
        case PlainType():
            names = {"bool": "bool_", "float": "float32", "double": "float64"}
            return getattr(pa, names.get(kind.text, kind.text))()
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case TimestampType():
            return pa.timestamp("us", tz=kind.zone)
        case ListType():
            return pa.list_(pa.field("element", arrow_type(kind.values), kind.nullable))
        case MapType():
            values = pa.field("value", arrow_type(kind.values), kind.nullable)
            return pa.map_(pa.field("key", arrow_type(kind.keys), nullable=False), values)
        case StructType():
            return pa.struct(
                [pa.field(each.name, arrow_type(each.type), each.nullable) for each in kind.fields]
            )


def is_schema(schema: object) -> bool:
    """Whether *schema* is one of Arrow's, or a struct of its types."""
    # Without pyarrow nobody has one, and nobody waits for its import here.
    modules = type(schema).__module__.partition(".")[0]
    return modules == "pyarrow"


def schema_from_arrow(schema: Any) -> StructType:
    """Return a ``pyarrow.Schema``, or a struct of Arrow's types, as a schema of rows.

    Raises:
        InvalidArgumentError: A type has no values in rows; the message names its field.
    """
    pa = pyarrow()
    if isinstance(schema, pa.Schema):
        fields = list(schema)
    elif isinstance(schema, pa.DataType) and pa.types.is_struct(schema):
        fields = [schema.field(place) for place in range(schema.num_fields)]
    else:
        raise InvalidArgumentError(f"rows have a schema or a struct of fields, got {schema!r}")
    return _struct(fields, "")


def _struct(fields: list[Any], path: str) -> StructType:
    return StructType(
        tuple(
            Field(field.name, _type(field.type, f"{path}{field.name}"), field.nullable)
            for field in fields
        )
    )


def _type(kind: Any, path: str) -> RowType:
    pa = pyarrow()
    types = pa.types
    if types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return _struct(fields, f"{path}.")
    if types.is_list(kind) or types.is_large_list(kind):
        values = kind.value_field
        return ListType(_type(values.type, f"{path}.element"), values.nullable)
    if types.is_map(kind):
        values = kind.item_field
        return MapType(
            _type(kind.key_type, f"{path}.key"),
            _type(values.type, f"{path}.value"),
            values.nullable,
        )
    if types.is_dictionary(kind):
        return _type(kind.value_type, path)
    if types.is_decimal(kind) and kind.bit_width <= 128:  # noqa: PLR2004  # what DecimalType has
        return DecimalType(kind.precision, kind.scale)
    if types.is_timestamp(kind) and kind.unit == "us":
        return TimestampType(kind.tz)
    if is_text(kind):
        return PlainType("string")
    if is_binary(kind):
        return PlainType("binary")
    text = str(kind).partition("[")[0]
    if text in PLAIN:
        return PlainType(text)
    raise InvalidArgumentError(
        f"the field {path!r} is of the type {kind}, which rows do not have; cast it first: "
        "unsigned numbers to a wider signed one, half floats to float, times of day and durations "
        "to int64, timestamps to microseconds"
    )
