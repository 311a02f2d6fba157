"""Types of columns: Arrow's, and the names that Spark has for them in a schema's JSON."""

import json
from typing import Final

import pyarrow as pa

from statestores.errors import InvalidArgumentError

SPARK_TIME: Final = pa.timestamp("us", tz="UTC")
"""Spark's timestamp: microseconds since the epoch."""

_NAMES: Final[dict[pa.DataType, str]] = {
    pa.binary(): "binary",
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    SPARK_TIME: "timestamp",
}
"""The types that an `UnsafeRow` holds in eight bytes, or as bytes of any length."""


def spark_type(arrow_type: pa.DataType) -> str | None:
    """Return Spark's name of *arrow_type*; ``None`` for one that is not written.

    >>> spark_type(pa.int64()), spark_type(pa.list_(pa.int64()))
    ('long', None)
    """
    return _NAMES.get(arrow_type)


def struct_json(schema: pa.Schema) -> str:
    """Return *schema* as the JSON of a Spark ``StructType``; every column may hold nulls.

    Raises:
        InvalidArgumentError: A column has a type that is not written.
    """
    fields = []
    for field in schema:
        name = spark_type(field.type)
        if name is None:
            raise InvalidArgumentError(
                f"the column {field.name!r} has the type {field.type}, which cannot be written for "
                f"Spark; known: {', '.join(sorted(_NAMES.values()))}"
            )
        fields.append({"name": field.name, "type": name, "nullable": True, "metadata": {}})
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))
