"""Giving the batches of a DataFrame to a function, whatever its columns are called.

PySpark's `mapInArrow` looks each column up by its name. In a name a dot is taken for a field of a
struct, a backtick for a quotation mark, an asterisk for all columns, and a NUL for the end of the
name; and of two columns with one name, which to Spark ``Id`` and ``id`` are as well, neither is
found. A DataFrame with such columns cannot be mapped as it is.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

BatchFunction: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What a task does with its batches."""

_MARKS = frozenset(".`*\0")


def map_batches(frame: "DataFrame", function: BatchFunction, schema: "StructType") -> "DataFrame":
    """Return what *function* makes of the batches of *frame*, with the columns *schema*.

    It gets the columns by their own names, and gives those of *schema* in their order.
    """
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415  # see the package

    names = frame.columns
    if _are_found(names):
        return frame.mapInArrow(function, schema)
    # Neither can Java read a result with two columns of one name.
    plain = StructType(
        [
            StructField(number_name(place), field.dataType, field.nullable, field.metadata)
            for place, field in enumerate(schema.fields)
        ]
    )

    def named(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in function(batch.rename_columns(names) for batch in batches):
            yield batch.rename_columns(plain.names)

    return numbered(frame).mapInArrow(named, plain).toDF(*schema.names)


def numbered(frame: "DataFrame") -> "DataFrame":
    """Return *frame* with the columns `number_name` of 0, 1 and so on, which Spark always finds."""
    return frame.toDF(*map(number_name, range(len(frame.columns))))


def number_name(place: int) -> str:
    """Return the name of the column at *place* of a frame that is `numbered`."""
    return f"_{place}"


def _are_found(names: list[str]) -> bool:
    """Return whether Spark finds each of these columns by its name, however it minds case."""
    distinct = len({name.lower() for name in names}) == len(names)
    return distinct and not any(_MARKS.intersection(name) for name in names)
