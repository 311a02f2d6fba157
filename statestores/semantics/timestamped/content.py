"""The rows of a timestamped key-value store as changes (COM-17, COM-20)."""

from collections.abc import Iterator, Mapping
from itertools import islice

from statestores.semantics.rows.content_chunks import FIRST_CHUNK_ROWS, next_chunk_rows
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.timestamped.rows import living_pairs, stamped_value
from statestores.spi.engine import EngineReader
from statestores.spi.records import Changes


def pending_columns(
    rows: Mapping[bytes, bytes | None], highest: tuple[bytes, bytes] | None
) -> Changes:
    """Return pending *rows* as changes.

    *highest* is the row that has moved stream time the furthest. When another put of its key has
    taken its place, it comes first, so that a replay sees its timestamp as well.
    """
    changes = list(rows.items())
    if highest is not None and rows[highest[0]] is not highest[1]:
        changes.insert(0, highest)
    keys: list[bytes] = []
    values: list[bytes | None] = []
    timestamps: list[int | None] = []
    for row_key, row in changes:
        value, timestamp_ms = (None, None) if row is None else stamped_value(row)
        keys.append(row_key[1:])
        values.append(value)
        timestamps.append(timestamp_ms)
    return Changes(keys, values, timestamps_ms=timestamps)


def stamped_chunks(reader: EngineReader, horizon_ms: int) -> Iterator[Changes]:
    """Yield the rows of *reader* that have not expired, in chunks."""
    pairs = living_pairs(reader.scan(DATA, HISTORY), horizon_ms)
    count = FIRST_CHUNK_ROWS
    while chunk := list(islice(pairs, count)):
        values = [stamped.value for _, stamped in chunk]
        count = next_chunk_rows(len(chunk), sum(map(len, values)))
        yield Changes(
            [key for key, _ in chunk],
            values,
            timestamps_ms=[stamped.timestamp_ms for _, stamped in chunk],
        )
