"""How far a versioned store has come: stream time, and where its vacuum stands (LAY-8)."""

from dataclasses import dataclass
from struct import Struct, error

from statestores.errors import StoreCorruptedError
from statestores.semantics.layout import HISTORY, PROGRESS_ROW
from statestores.spi.engine import EngineReader

NEVER = (1 << 63) - 1
"""A time that no version ends before: the history holds nothing that can expire."""

NO_STREAM_TIME = -1
"""Stream time before the first put."""

_FIXED = Struct(">qqq")


@dataclass(slots=True)
class Progress:
    """The row that each commit of a versioned store brings up to date."""

    stream_time_ms: int = NO_STREAM_TIME
    """The highest timestamp of an accepted put."""

    floor_ms: int = NEVER
    """No history row ends before this; below the horizon means that there is work."""

    pass_floor_ms: int = NEVER
    """The same for the rows that the running pass has left behind it, or that were written since
    it began."""

    cursor: bytes = HISTORY
    """The history row at which the running pass goes on."""

    def pack(self) -> bytes:
        """Return the stored form."""
        return _FIXED.pack(self.stream_time_ms, self.floor_ms, self.pass_floor_ms) + self.cursor

    def lower(self, valid_to_ms: int) -> None:
        """Take note of a history row that ends at *valid_to_ms*."""
        self.floor_ms = min(self.floor_ms, valid_to_ms)
        self.pass_floor_ms = min(self.pass_floor_ms, valid_to_ms)


def read_progress(reader: EngineReader) -> Progress:
    """Return the progress as it is stored.

    Raises:
        StoreCorruptedError: The row cannot be one of a progress.
    """
    row = reader.get(PROGRESS_ROW)
    if row is None:
        return Progress()
    try:
        stream_time, floor, pass_floor = _FIXED.unpack_from(row)
    except error as failure:
        raise StoreCorruptedError(f"the stored progress {row!r} is malformed") from failure
    return Progress(stream_time, floor, pass_floor, row[_FIXED.size :])
