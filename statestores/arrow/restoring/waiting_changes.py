"""Changes that wait for the next commit of a restore, in little memory.

Where only the last change of a key counts, the others are dropped when what waits has reached its
limit. If much of it was overwritten, the restore reads on, and makes one commit of what would have
been several: the rows of a key are written once, and the disk is waited for once.
"""

from dataclasses import replace
from typing import Final

import pyarrow as pa

from statestores.arrow.rows.encoder import LARGE, RowEncoder
from statestores.arrow.rows.tail import cast, concat
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.rows.progress import NO_STREAM_TIME

_SMALL_BYTES: Final = (1 << 31) - 1
"""What a column with 32-bit offsets can hold."""


class WaitingChanges:
    """The changes since the last commit, in log order but for those that were folded."""

    def __init__(self, schema: pa.Schema, limit: int, encoder: RowEncoder) -> None:
        """Hold about *limit* bytes of changes of *schema*, for *encoder* to make rows of them."""
        self._schema = schema
        self._limit = limit
        self._encoder = encoder
        self.clear()

    def clear(self) -> None:
        """Forget everything that waits."""
        self._batches: list[pa.RecordBatch] = []
        self._highest_ms = NO_STREAM_TIME
        self.rows = 0
        """How many changes there were, including those folded since."""
        self.bytes = 0
        """The bytes of their columns."""
        self.deletes = False
        """Whether one of them deletes what may be in the store."""

    def add(self, changes: pa.RecordBatch, *, deletes: bool) -> None:
        """Take the next *changes*; *deletes* says whether they delete what may be in the store."""
        self._batches.append(changes.select(self._schema.names))
        self.rows += changes.num_rows
        self.bytes += changes.nbytes
        self.deletes = self.deletes or deletes

    def is_full(self, rows: int, *, is_empty: bool) -> bool:
        """Return whether it is time for a commit, because of the bytes or of *rows* changes.

        *is_empty* says that the store holds nothing.
        """
        if self.rows >= rows:
            return True
        if self.bytes < self._limit:
            return False
        if not self._encoder.folds or self.deletes:
            return True
        folded, highest_ms = self._encoder.fold(self._joined(), is_empty=is_empty)
        self._batches = [folded]
        self.bytes = folded.nbytes
        self._highest_ms = max(self._highest_ms, highest_ms)
        # Otherwise each commit saved would cost more foldings than it is worth.
        return self.bytes > self._limit // 2

    def take(self, *, is_empty: bool) -> SortedRows:
        """Return what waits as rows, and forget it.

        *is_empty* says that the store holds nothing.
        """
        changes, highest_ms = self._joined(), self._highest_ms
        self.clear()
        rows = self._encoder.changes(changes, is_empty=is_empty)
        return replace(rows, highest_ms=max(rows.highest_ms, highest_ms))

    def _joined(self) -> pa.RecordBatch:
        """Return what waits as one batch."""
        batches, schema = self._batches, self._schema
        self._batches = []
        if self.bytes > _SMALL_BYTES:
            schema = pa.schema(
                [
                    field.with_type(LARGE) if pa.types.is_binary(field.type) else field
                    for field in schema
                ]
            )
            batches = [cast(batch, schema) for batch in batches]
        return concat(batches, schema)
