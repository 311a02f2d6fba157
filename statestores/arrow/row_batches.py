"""A store's content in batches of even size, whatever the sizes of the chunks that it comes in.

Invariant: a batch is given only when the row after it is known, because that row may end the
validity of the batch's last one.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.schemas import end_validity, rows_from_changes
from statestores.spi.records import Changes

BATCH_ROWS = 65_536
"""Rows of a batch: from here on Arrow's cost for each batch no longer shows."""

BATCH_BYTES = 16 * 1024 * 1024
"""Bytes of a batch before compression, so that large values do not take much memory."""


_LONGEST = (1 << 31) - 1
"""Longer than every key."""


class BatchParts(NamedTuple):
    """The rows of one batch as they came, so that another thread can copy them together."""

    rows: pa.Table
    """The rows."""

    following: pa.RecordBatch | None
    """What begins with the row after the last one; ``None`` at the end."""

    key_starts: int = 0
    """How many bytes precede each key."""

    def of_engine(self) -> Self:
        """Return the same for keys that are behind a namespace."""
        return self._replace(key_starts=1)

    def join(self) -> pa.RecordBatch:
        """Return the batch, `valid_to` filled in."""
        (batch,) = self.rows.combine_chunks().to_batches()
        if self.key_starts:
            keys = pc.binary_slice(batch.column("key"), self.key_starts, _LONGEST)
            batch = batch.set_column(0, batch.schema.field("key"), keys)
        return end_validity(batch, self.following)


def parts_from_changes(
    kind: str,
    chunks: Iterable[Changes],
    *,
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[BatchParts]:
    """Yield what `batches_from_changes` yields, to be joined.

    Raises:
        InvalidArgumentError: The columns do not fit the kind.
    """
    rows = (rows_from_changes(kind, chunk) for chunk in chunks)
    return even_parts(rows, batch_rows=batch_rows, batch_bytes=batch_bytes)


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
    parts = parts_from_changes(kind, chunks, batch_rows=batch_rows, batch_bytes=batch_bytes)
    return (each.join() for each in parts)


def even_batches(
    batches: Iterable[pa.RecordBatch],
    *,
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of *batches*, which are consecutive content, in batches of even size."""
    parts = even_parts(batches, batch_rows=batch_rows, batch_bytes=batch_bytes)
    return (each.join() for each in parts)


def even_parts(
    batches: Iterable[pa.RecordBatch],
    *,
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[BatchParts]:
    """Yield what `even_batches` yields, to be joined."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        while rows > 1 and (rows > batch_rows or size > batch_bytes):
            take = max(1, min(batch_rows, rows * batch_bytes // size))  # fewer than there are
            head, waiting = _split(waiting, take)
            yield BatchParts(head, waiting[0])
            rows -= take
            size = sum(part.nbytes for part in waiting)
    if rows:
        head, _ = _split(waiting, rows)
        yield BatchParts(head, None)


def _split(batches: list[pa.RecordBatch], count: int) -> tuple[pa.Table, list[pa.RecordBatch]]:
    """Return the first *count* rows and the others, none of them copied."""
    table = pa.Table.from_batches(batches)
    return table.slice(0, count), table.slice(count).to_batches()
