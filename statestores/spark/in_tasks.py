"""Pieces of work that need nothing of each other, each in a task of its own."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from statestores.errors import InvalidTypeError

T = TypeVar("T")

_RESULTS = pa.schema([pa.field("number", pa.int64()), pa.field("result", pa.binary())])


def check_session(spark: object) -> None:
    """Accept a session, classic or Connect.

    Raises:
        InvalidTypeError: It is none.
    """
    if not callable(getattr(spark, "range", None)):
        raise InvalidTypeError(f"spark must be a SparkSession, got {spark!r}")


def in_tasks(spark: SparkSession, work: Sequence[Callable[[], T]]) -> list[T]:
    """Do each piece of *work* in a task of its own; return what they give, in order.

    Requires: each can be pickled, and done again when its task has failed.
    """
    if not work:
        return []

    def do(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = pickle.dumps(work[number]())
                yield pa.RecordBatch.from_pylist([{"number": number, "result": result}], _RESULTS)

    numbers = spark.range(0, len(work), 1, len(work))
    rows = numbers.mapInArrow(do, "number long, result binary").collect()
    results = {row["number"]: row["result"] for row in rows}
    return [pickle.loads(results[number]) for number in range(len(work))]  # noqa: S301  # our own tasks'
