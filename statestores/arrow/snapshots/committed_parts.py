"""A store's committed content on its way to a file: columns in parts, and what goes with them.

The rows of a key-value store are its content but for one byte of the key. So they become columns
as they are, and the byte is cut off a batch at a time: chunks of `Changes`, with a list of keys
that are copied one by one, take a fifth longer.
"""

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from statestores.arrow.row_batches import BATCH_ROWS, BatchParts, even_parts, parts_from_changes
from statestores.arrow.schemas import KEY_VALUE_ROWS
from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.semantics.key_value.committed_rows import CommittedRows
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.rows.content_chunks import FIRST_CHUNK_ROWS, next_chunk_rows
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.stores.store import StateStore

_key_of, _value_of = itemgetter(0), itemgetter(1)


class CommittedParts(NamedTuple):
    """What one commit left in a store."""

    offsets: Mapping[TopicPartition, int]
    """The committed offset of each partition."""

    position: Position
    """The input offsets that the rows reflect."""

    stream_time_ms: int | None
    """The highest timestamp that the rows reflect, if the kind has a stream time."""

    parts: Iterator[BatchParts]
    """The rows in key order."""

    source: Any
    """What must be closed at the end: it holds the engine's snapshot."""


def committed_parts(store: StateStore, batch_rows: int = BATCH_ROWS) -> CommittedParts:
    """Return the committed content of *store*, in batches of up to *batch_rows* rows.

    Raises:
        StoreClosedError: The store is closed.
    """
    below = store_of_bytes(store)
    if type(below) is EngineKeyValueStore:  # and none that gives other content
        rows = below.committed_rows()
        parts = even_parts(_stored_batches(rows), batch_rows=batch_rows)
        return CommittedParts(
            rows.offsets, rows.position, None, (each.of_engine() for each in parts), rows
        )
    content = store.committed_content()
    changes = content.changes
    parts = parts_from_changes(store.specification.kind, changes, batch_rows=batch_rows)
    return CommittedParts(content.offsets, content.position, content.stream_time_ms, parts, changes)


def _stored_batches(rows: CommittedRows) -> Iterator[pa.RecordBatch]:
    """Yield *rows* as columns, the keys behind their namespace."""
    count = FIRST_CHUNK_ROWS
    while pairs := rows.read(count):
        keys = pa.array(list(map(_key_of, pairs)), pa.binary())
        values = pa.array(list(map(_value_of, pairs)), pa.binary())
        count = next_chunk_rows(len(pairs), values.nbytes)
        yield pa.RecordBatch.from_arrays([keys, values], schema=KEY_VALUE_ROWS)
