"""What an opening changes in a timestamped key-value store: its time to live (TTL-9)."""

import json

from statestores.semantics.layout import DATA, PROGRESS_ROW, SPECIFICATION_ROW
from statestores.semantics.progress import Progress, read_progress
from statestores.semantics.self_description import differences, read_description
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine, EngineReader
from statestores.spi.specification import TimestampedKeyValue

_UNKNOWN_FLOOR_MS = 0


def read_sweep_progress(reader: EngineReader) -> Progress:
    """Return how far stream time and the sweep have come.

    Raises:
        StoreCorruptedError: The row cannot be one of a progress.
    """
    if reader.get(PROGRESS_ROW) is None:
        return Progress(cursor=DATA)
    return read_progress(reader)


def prepare(
    engine: Engine, specification: TimestampedKeyValue[bytes, bytes], durability: Durability
) -> None:
    """Write down another time to live, if nothing else has changed.

    What differs in other fields is left for the check that follows. The next sweep looks at every
    row, since it cannot know which of them a new time to live has overtaken.

    Raises:
        StoreMismatchError, UnsupportedFormatError, StoreCorruptedError: See `read_description`.
    """
    stored, wanted = read_description(engine), specification.describe()
    if stored is None or not differences(stored, wanted):
        return
    if differences(stored, wanted, besides=specification.changeable):
        return
    progress = read_sweep_progress(engine)
    progress.floor_ms = progress.pass_floor_ms = _UNKNOWN_FLOOR_MS
    text = json.dumps(wanted, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    engine.apply({SPECIFICATION_ROW: text.encode(), PROGRESS_ROW: progress.pack()}, durability)
