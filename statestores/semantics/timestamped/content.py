"""The rows of a timestamped key-value store as changes (COM-17, COM-20)."""

from collections.abc import Iterator, Mapping
from itertools import islice

from statestores.semantics.rows.content_chunks import FIRST_CHUNK_ROWS, next_chunk_rows
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.timestamped.rows import HEADER_BYTES, living_pairs, timestamps_of
from statestores.spi.engine import EngineReader
from statestores.spi.records import Changes


def pending_columns(
    rows: Mapping[bytes, bytes | None], highest: tuple[bytes, bytes] | None
) -> Changes:
    """Return pending *rows* as changes.

    *highest* is the row that has moved stream time the furthest. When another put of its key has
    taken its place, it comes first, so that a replay sees its timestamp as well.
    """
    keys, several = [row_key[1:] for row_key in rows], list(rows.values())
    if highest is not None and rows[highest[0]] is not highest[1]:
        keys.insert(0, highest[0][1:])
        several.insert(0, highest[1])
    present = [row for row in several if row is not None]
    values: list[bytes | None] = [row[HEADER_BYTES:] for row in present]
    timestamps = timestamps_of(present)
    if len(present) < len(several):
        following = iter(zip(values, timestamps, strict=True))
        nothing = None, None
        pairs = [nothing if row is None else next(following) for row in several]
        values, timestamps = [value for value, _ in pairs], [stamp for _, stamp in pairs]
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
