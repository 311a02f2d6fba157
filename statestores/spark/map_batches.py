"""Giving the batches of a DataFrame to a function, whatever its columns are called.

PySpark's `mapInArrow` looks each column up by its name. In a name a dot is taken for a field of a
struct, and a backtick for a quotation mark: such a DataFrame cannot be mapped as it is.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

BatchFunction: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What a task does with its batches."""

_MARKS = frozenset(".`")


def quoted(name: str) -> str:
    """Return how an expression of Spark's names the column *name*, and no field within one."""
    return f"`{name.replace('`', '``')}`"


def map_batches(
    frame: "DataFrame", function: BatchFunction, schema: "StructType | str"
) -> "DataFrame":
    """Return what *function* makes of the batches of *frame*, with the columns *schema*.

    It gets the columns by their own names.
    """
    names = frame.columns
    if not any(_MARKS.intersection(name) for name in names):
        return frame.mapInArrow(function, schema)

    def named(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return function(batch.rename_columns(names) for batch in batches)

    return frame.toDF(*(f"_{place}" for place in range(len(names)))).mapInArrow(named, schema)
