"""A store's content in batches of even size, whatever the sizes of the chunks that it comes in.

Invariant: a batch is given only when the row after it is known, because that row may end the
validity of the batch's last one.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from statestores.arrow.schemas import end_validity, rows_from_changes
from statestores.spi.records import Changes

BATCH_ROWS = 65_536
"""Rows of a batch: from here on Arrow's cost for each batch is not seen any more."""

BATCH_BYTES = 16 * 1024 * 1024
"""Bytes of a batch before compression, so that large values do not make large memory."""


def batches_from_changes(
    kind: str,
    chunks: Iterable[Changes],
    *,
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the content *chunks* of a store of *kind* as batches, `valid_to` filled in.

    No batch has more than *batch_rows* rows, nor more bytes than *batch_bytes* on average.

    Raises:
        InvalidArgumentError: The columns do not fit the kind.
    """
    rows = (rows_from_changes(kind, chunk) for chunk in chunks)
    return even_batches(rows, batch_rows=batch_rows, batch_bytes=batch_bytes)


def even_batches(
    batches: Iterable[pa.RecordBatch],
    *,
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of *batches*, which are consecutive content, in batches of even size."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        while rows > 1 and (rows > batch_rows or size > batch_bytes):
            take = max(1, min(rows - 1, batch_rows, rows * batch_bytes // size))
            head, waiting = _split(waiting, take)
            yield end_validity(head, waiting[0])
            rows -= take
            size = sum(part.nbytes for part in waiting)
    if rows:
        head, _ = _split(waiting, rows)
        yield end_validity(head, None)


def _split(
    batches: list[pa.RecordBatch], count: int
) -> tuple[pa.RecordBatch, list[pa.RecordBatch]]:
    """Return the first *count* rows as one batch, and the others without copying them."""
    table = pa.Table.from_batches(batches)
    (head,) = table.slice(0, count).combine_chunks().to_batches()
    return head, table.slice(count).to_batches()
