"""Rows that were read from another program's files, as batches that are small whatever is in them.

A column of bytes holds less than 2 GiB, and few rows can have more than that.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from statestores.arrow.row_batches import BATCH_BYTES

BATCH_ROWS = 16_384
"""Rows of a batch, at most."""


def as_batches(
    rows: Iterable[Sequence[Any]], schema: pa.Schema
) -> Generator[pa.RecordBatch, None, None]:
    """Yield *rows* as batches with the columns of *schema*.

    A batch ends with the row with which it has `BATCH_BYTES` of bytes.
    """
    left = iter(rows)
    sized = [number for number, field in enumerate(schema) if pa.types.is_binary(field.type)]
    while chunk := list(_next_rows(left, sized)):
        columns = zip(*chunk, strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)],
            schema=schema,
        )


def _next_rows(rows: Iterator[Sequence[Any]], sized: Sequence[int]) -> Iterator[Sequence[Any]]:
    """Yield those of *rows* that the next batch has, by the sizes of the columns *sized*."""
    size = 0
    for row in islice(rows, BATCH_ROWS):
        yield row
        for number in sized:
            if row[number] is not None:
                size += len(row[number])
        if size >= BATCH_BYTES:
            return


def in_large_columns(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return all rows of *batches*, which have *schema*, in one chunk, however many bytes it has.

    Of columns of less than 2 GiB, `take` cannot choose where all chunks together have more.
    """
    fields = [
        field.with_type(pa.large_binary()) if pa.types.is_binary(field.type) else field
        for field in schema
    ]
    return pa.Table.from_batches(list(batches), schema).cast(pa.schema(fields)).combine_chunks()


def chosen(rows: pa.Table, order: pa.Array, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the *rows* of `in_large_columns` at *order*, in tables of about `BATCH_BYTES` each."""
    taken = rows.take(order)
    if taken.nbytes <= BATCH_BYTES or len(order) == 1:
        yield taken.cast(schema)
        return
    middle = len(order) // 2
    yield from chosen(rows, order.slice(0, middle), schema)
    yield from chosen(rows, order.slice(middle), schema)
