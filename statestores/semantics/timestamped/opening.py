"""What an opening changes in a key-value store: its time to live, or that it gets timestamps."""

import json
from itertools import islice

from statestores.semantics.every_kind.self_description import differences, read_description
from statestores.semantics.rows.layout import (
    DATA,
    HISTORY,
    METADATA,
    PROGRESS_ROW,
    SPECIFICATION_ROW,
)
from statestores.semantics.rows.progress import Progress, read_progress
from statestores.semantics.timestamped.rows import stamped_row
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine, EngineReader
from statestores.spi.specification import KeyValue, TimestampedKeyValue

UNSTAMPED_ROW = METADATA + b"unstamped"
"""It exists while rows of a plain key-value store lack their headers: the key of the first of
them."""

_STAMPED_ROWS = 10_000
"""Rows that get a header in one batch: bounds its memory."""

_UNKNOWN_FLOOR_MS = 0


def read_sweep_progress(reader: EngineReader) -> Progress:
    """Return how far stream time and the sweep have come.

    Raises:
        StoreCorruptedError: The row cannot hold a progress.
    """
    if reader.get(PROGRESS_ROW) is None:
        return Progress(cursor=DATA)
    return read_progress(reader)


def prepare(
    engine: Engine, specification: TimestampedKeyValue[bytes, bytes], durability: Durability
) -> None:
    """Write down a new time to live, or give the rows of a plain key-value store their headers.

    What differs in other fields is left for the check that follows. After a new time to live the
    next sweep looks at every row, since it cannot know which of them it has overtaken.

    Raises:
        StoreMismatchError, UnsupportedFormatError, StoreCorruptedError: See `read_description`.
    """
    stored, wanted = read_description(engine), specification.describe()
    if stored is None:
        return
    changed = differences(stored, specification)
    text = json.dumps(wanted, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    batch: dict[bytes, bytes | None] = {SPECIFICATION_ROW: text.encode()}
    if changed and not differences(stored, specification, besides=specification.changeable):
        progress = read_sweep_progress(engine)
        progress.floor_ms = progress.pass_floor_ms = _UNKNOWN_FLOOR_MS
        engine.apply({**batch, PROGRESS_ROW: progress.pack()}, durability)
    elif stored["kind"] == KeyValue.kind and not differences(
        stored, specification, besides=specification.changeable | {"kind"}
    ):
        engine.apply({**batch, UNSTAMPED_ROW: DATA}, durability)
    _stamp_rows(engine, durability)


def _stamp_rows(engine: Engine, durability: Durability) -> None:
    """Put the header of no timestamp in front of the values that have none yet (TTL-13).

    Each batch moves the mark on, so no row gets two, whenever the process dies.
    """
    while (start := engine.get(UNSTAMPED_ROW)) is not None:
        rows = list(islice(engine.scan(start, HISTORY), _STAMPED_ROWS + 1))
        batch: dict[bytes, bytes | None] = {
            key: stamped_row(value, None) for key, value in rows[:_STAMPED_ROWS]
        }
        batch[UNSTAMPED_ROW] = rows[_STAMPED_ROWS][0] if len(rows) > _STAMPED_ROWS else None
        engine.apply(batch, durability)
