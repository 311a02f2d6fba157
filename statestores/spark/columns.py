"""Columns of a store as Spark has them, and back.

Spark wants every batch to have exactly the schema that it was told. Times are Spark timestamps;
``raw`` leaves them as milliseconds, and keys and values as bytes.
"""

from typing import Any

import pyarrow as pa

from statestores.arrow.encoded_changes import changes_from_encoded
from statestores.arrow.schemas import row_schema
from statestores.arrow.typed_columns import encode_rows
from statestores.errors import InvalidArgumentError, SerializationError
from statestores.reading.change_details import COMMIT_TIMESTAMP
from statestores.serdes.arrow_columns import plain_value
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spi.kinds import DERIVED_COLUMNS, END_OF_ROW, TIME_COLUMNS
from statestores.spi.specification import StoreSpecification

_SPARK_TIME = pa.timestamp("us", tz="UTC")
_MILLISECONDS = pa.timestamp("ms", tz="UTC")
_TIMES = TIME_COLUMNS | {COMMIT_TIMESTAMP}


def spark_schema(schema: pa.Schema, *, raw: bool) -> pa.Schema:
    """Return *schema* of rows or changes as Spark is told of it."""
    return pa.schema(
        [
            pa.field(
                field.name,
                _SPARK_TIME if field.name in _TIMES and not raw else _as_in_spark(field.type),
            )
            for field in schema
        ]
    )


def _as_in_spark(kind: pa.DataType) -> pa.DataType:
    """Return *kind* with instants as Spark has them, which knows the zone of the session alone."""
    types = pa.types
    if types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, tz="UTC")
    if types.is_struct(kind):
        return pa.struct([each.with_type(_as_in_spark(each.type)) for each in kind])
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_in_spark(kind.value_type)))
    if types.is_map(kind):
        key, item = (
            each.with_type(_as_in_spark(each.type)) for each in (kind.key_field, kind.item_field)
        )
        return pa.map_(key, item)
    return kind


def to_spark(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return *rows* with *schema*, whose types `spark_schema` has made.

    Raises:
        InvalidArgumentError: A time is too far in the future for a Spark timestamp.
    """
    columns = []
    for column, field in zip(rows.columns, schema, strict=True):
        if field.type == _SPARK_TIME:
            try:
                columns.append(column.cast(_MILLISECONDS).cast(_SPARK_TIME))
            except pa.ArrowInvalid as error:
                raise InvalidArgumentError(
                    f"a time in the column {field.name!r} is beyond Spark's timestamps: {error}; "
                    "read it with the option raw=true, as milliseconds"
                ) from error
        elif column.type != field.type:
            columns.append(column.cast(field.type))
        else:
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def from_spark(
    rows: pa.RecordBatch, specification: StoreSpecification[Any, Any], *, raw: bool
) -> pa.RecordBatch:
    """Return *rows* of a DataFrame as changes of the store.

    The columns are ``key``, ``value``, where a null deletes, and the times of the kind; of versions
    ``valid_from``, or ``timestamp``. For JSON, columns of text are JSON text, and any other type is
    turned into it.

    Raises:
        InvalidArgumentError: A column is missing, unknown, of a wrong type, or has nulls; a time is
            finer than a millisecond; or a version says when it ends.
        SerializationError: A key or value is not of the serde's type.
    """
    changed = {column.name: column.row_name for column in specification.kind.numbers}
    names = [changed.get(name, name) for name in rows.schema.names]
    columns = list(rows.columns)
    if END_OF_ROW in names and columns[names.index(END_OF_ROW)].null_count < rows.num_rows:
        raise InvalidArgumentError(
            f"the column {END_OF_ROW!r} says when versions end, which a write does not take: one "
            "ends with the next one of its key, or with a row whose value is null. Leave the "
            f"column out, and where no version begins at {END_OF_ROW!r}, add a row with a null "
            "value and that time in 'valid_from'"
        )
    for place, name in enumerate(names):
        serde = serde_or_raw({"key": specification.key, "value": specification.value}.get(name))
        if pa.types.is_null(columns[place].type):
            columns[place] = pa.nulls(rows.num_rows, pa.binary() if raw else serde.arrow_type())
        elif serde.name == "json" and pa.types.is_nested(columns[place].type) and not raw:
            columns[place] = json_text(columns[place], serde)
    encoded = encode_rows(
        pa.RecordBatch.from_arrays(columns, names=names), specification, typed=not raw
    )
    return changes_from_encoded(encoded, specification)


def check_columns(names: list[str], specification: StoreSpecification[Any, Any]) -> None:
    """Accept the columns of a DataFrame that will be written.

    Raises:
        InvalidArgumentError: One is missing or unknown; the message names those expected.
    """
    fields = row_schema(specification.kind).names
    times = [each for each in specification.kind.numbers if each.is_time]
    expected = " and ".join(["key, value", *(each.row_name for each in times)])
    expected += "".join(f" (or {each.name})" for each in times if each.name != each.row_name)
    required = {
        "key",
        "value",
        *(each.name if each.name in names else each.row_name for each in times),
    }
    if missing := sorted(required - set(names)):
        raise InvalidArgumentError(
            f"the column {missing[0]!r} is missing; a {specification.kind} store takes {expected}"
        )
    if unknown := sorted(set(names) - required - (DERIVED_COLUMNS & set(fields))):
        raise InvalidArgumentError(
            f"the column {unknown[0]!r} is unknown; a {specification.kind} store takes {expected}: "
            "select them first, or put several columns into one value with to_json(struct(...))"
        )


def json_text(column: pa.Array, serde: Any) -> pa.Array:
    """Return structs, maps and lists as JSON text."""
    values = [
        None if value is None else plain_value(value, column.type) for value in column.to_pylist()
    ]
    try:
        texts = [None if value is None else serde.encode(value).decode() for value in values]
    except SerializationError as error:
        raise SerializationError(
            f"a value of the type {column.type} cannot be JSON: {error}; turn it into text with "
            "Spark's to_json(), which knows dates and decimals"
        ) from error
    return pa.array(texts, pa.string())
