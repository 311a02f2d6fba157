"""How far a versioned store has come: stream time, and where its vacuum stands (LAY-8)."""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct, error

from statestores.errors import StoreCorruptedError
from statestores.semantics.rows.layout import HISTORY, PROGRESS_ROW
from statestores.spi.engine import EngineReader

NEVER = (1 << 63) - 1
"""A time that no version ends before: the history holds nothing that can expire."""

NO_STREAM_TIME = -1
"""Stream time before the first put."""

_FIXED = Struct(">qqq")


def known_time(stream_time: int) -> int | None:
    """Return *stream_time* as callers see it: ``None`` before the first put."""
    return None if stream_time == NO_STREAM_TIME else stream_time


@dataclass(slots=True)
class Progress:
    """The row that each commit of a versioned store brings up to date."""

    stream_time_ms: int = NO_STREAM_TIME
    """The highest timestamp of an accepted put."""

    floor_ms: int = NEVER
    """No history row ends before this; if it is below the horizon, there is work."""

    pass_floor_ms: int = NEVER
    """The same for the rows that the running pass has left behind it, or that were written since
    it began."""

    cursor: bytes = HISTORY
    """The history row at which the running pass goes on."""

    def pack(self) -> bytes:
        """Return the stored form."""
        return _FIXED.pack(self.stream_time_ms, self.floor_ms, self.pass_floor_ms) + self.cursor

    def lower(self, valid_to_ms: int) -> None:
        """Note a history row that ends at *valid_to_ms*."""
        self.floor_ms = min(self.floor_ms, valid_to_ms)
        self.pass_floor_ms = min(self.pass_floor_ms, valid_to_ms)

    def walk(
        self, reader: EngineReader, start: bytes, stop: bytes, budget: int
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield *budget* rows from the cursor on, and leave it at the next, or at *start*."""
        for pair in reader.scan(self.cursor, stop):
            if budget == 0:
                self.cursor = pair[0]
                return
            budget -= 1
            yield pair
        self.cursor = start

    def end_walk(self, start: bytes, pass_floor_ms: int) -> bool:
        """Note the floor of what was passed; return whether the pass from *start* is over."""
        is_over = self.cursor == start
        if is_over:  # what the pass has left behind is the new floor
            self.floor_ms, self.pass_floor_ms = pass_floor_ms, NEVER
        else:
            self.pass_floor_ms = pass_floor_ms
        return is_over


def read_progress(reader: EngineReader) -> Progress:
    """Return the progress as it is stored.

    Raises:
        StoreCorruptedError: The row cannot hold a progress.
    """
    row = reader.get(PROGRESS_ROW)
    if row is None:
        return Progress()
    try:
        stream_time, floor, pass_floor = _FIXED.unpack_from(row)
    except error as failure:
        raise StoreCorruptedError(f"the stored progress {row!r} is malformed") from failure
    return Progress(stream_time, floor, pass_floor, row[_FIXED.size :])
