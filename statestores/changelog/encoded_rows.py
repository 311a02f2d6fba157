"""Rows whose body is made already: for who writes the same rows twice, and encodes them once.

A task records its commit before the changelogs have it, and a topic gets what was recorded. What is
recorded is the body that is appended later: no row is looked at, or compressed, a second time.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Self

import pyarrow as pa

from statestores.changelog.frame_bodies import BodyWriter
from statestores.changelog.options import Compression
from statestores.changelog.rows import batch_from_changes, change_schema, check_batch
from statestores.spi.records import Changes


class EncodedRows(NamedTuple):
    """Rows and their body. The rows are checked: a log takes them as they are."""

    batch: pa.RecordBatch
    """The rows, in the schema of their kind."""

    body: pa.Buffer | bytes
    """What a frame of them holds; of no rows, nothing."""

    compression: Compression
    """How the body is compressed. A log that is written otherwise makes its own."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        count: int = self.batch.num_rows
        return count


@dataclass(frozen=True, slots=True)
class EncodedChanges(Changes):
    """Changes that `rows` holds encoded; the columns are Arrow's."""

    rows: EncodedRows = field(kw_only=True)
    """The same once more, encoded."""

    @classmethod
    def of(cls, rows: EncodedRows) -> Self:
        """Return *rows* as what a commit appends."""
        return cls(rows.batch.column(0), rows.batch.column(1), rows=rows)


def encoded_changes(kind: str, changes: Changes, compression: Compression) -> EncodedRows:
    """Return *changes* of a store of *kind*, encoded.

    Raises:
        InvalidArgumentError, InvalidTypeError: They are no changes of such a store.
    """
    return _encoded(kind, batch_from_changes(change_schema(kind), changes), compression)


def encoded_rows(kind: str, batch: pa.RecordBatch, compression: Compression) -> EncodedRows:
    """Return the rows of *batch*, which has the columns of *kind*, encoded.

    Raises:
        InvalidArgumentError, InvalidTypeError: They are no rows of that kind.
    """
    return _encoded(kind, check_batch(change_schema(kind), batch), compression)


def _encoded(kind: str, batch: pa.RecordBatch, compression: Compression) -> EncodedRows:
    body: pa.Buffer | bytes = b""
    if batch.num_rows:
        body = _bodies(kind, compression).write(batch)
    return EncodedRows(batch, body, compression)


@lru_cache
def _bodies(kind: str, compression: Compression) -> BodyWriter:
    """Return the writer of bodies of *kind*, for every thread: to begin one takes time."""
    return BodyWriter(change_schema(kind), compression)
