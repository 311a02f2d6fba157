"""The rows of a store as the key and the value of a Spark state store, two structs of columns.

The times that tell the rows of a key apart, and the sequence of retained duplicates, belong to the
key; a timestamp that does not belongs to the value.
"""

from typing import Any, Final

import pyarrow as pa

from statestores.arrow.schemas import row_schema
from statestores.errors import InvalidArgumentError, SerializationError
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spark_checkpoint import spark_type
from statestores.spark_checkpoint.column_types import SPARK_TIME
from statestores.spi.kinds import TIME_COLUMNS
from statestores.spi.specification import StoreSpecification
from statestores.spi.window_specification import Window

_MILLISECONDS: Final = pa.timestamp("ms", tz="UTC")


class SparkColumns:
    """How the rows of a store are given to Spark."""

    def __init__(self, specification: StoreSpecification[Any, Any], *, raw: bool) -> None:
        """Decode by the serdes of *specification*; *raw* leaves bytes, and milliseconds.

        Raises:
            UnsupportedFormatError: This release knows no such kind.
        """
        self._serdes = {
            "key": serde_or_raw(specification.key),
            "value": serde_or_raw(specification.value),
        }
        self._raw = raw
        rows = row_schema(specification.kind)
        is_numbered = isinstance(specification, Window) and specification.retain_duplicates
        in_key, in_value = ["key"], ["value"]
        for column in specification.kind.numbers:
            if column not in specification.kind.order:
                in_value.append(column.row_name)
            elif column.is_time or is_numbered:
                in_key.append(column.row_name)
        self.keys = pa.schema([self._field(rows.field(name)) for name in in_key])
        """The columns of the key."""
        self.values = pa.schema([self._field(rows.field(name)) for name in in_value])
        """The columns of the value."""

    def keys_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the keys of *rows*, which are rows or changes of the store, as bytes.

        Raises:
            SerializationError: A key is not the serde's.
            InvalidArgumentError: A time is beyond Spark's timestamps.
        """
        return self._columns(rows, self.keys)

    def values_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the values of *rows*; raises what `keys_of` does."""
        return self._columns(rows, self.values)

    def _field(self, field: pa.Field) -> pa.Field:
        """Return a column of rows as Spark is told of it."""
        kind = field.type
        if not self._raw and field.name in self._serdes:
            kind = self._serdes[field.name].arrow_type()
            if spark_type(kind) is None:
                kind = field.type  # bytes
        elif not self._raw and field.name in TIME_COLUMNS:
            kind = SPARK_TIME
        return pa.field(field.name, kind)

    def _columns(self, rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        columns = [self._column(rows.column(field.name), field) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _column(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if field.type == column.type:
            return column
        if field.name not in self._serdes:
            try:
                return column.cast(_MILLISECONDS).cast(field.type)
            except pa.ArrowInvalid as error:
                raise InvalidArgumentError(
                    f"a time in the column {field.name!r} is beyond Spark's timestamps: {error}; "
                    "export it raw, as milliseconds"
                ) from error
        serde = self._serdes[field.name]
        if serde.name != "json":
            return serde.decode_array(column)
        try:
            return column.cast(pa.string())  # JSON is text; nobody needs it parsed here
        except pa.ArrowInvalid as error:
            raise SerializationError(
                f"a {field.name} is not JSON, for it is no UTF-8: {error}; export it raw, as bytes"
            ) from error
