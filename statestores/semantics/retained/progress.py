"""How far a window or session store has come, and how far its expired rows are removed.

Each commit removes a bounded number of expired rows, found in the index by time. Its cursor only
moves forward: what is below it is gone, and what is put later is above the horizon, and so above
the cursor. It is stored, so a removal continues where it stopped, and a scan of the index never
walks over the tombstones of rows that are gone.
"""

from dataclasses import dataclass, field
from itertools import chain
from struct import Struct, error

from statestores.errors import StoreCorruptedError
from statestores.failpoints import reach
from statestores.semantics.retained.column_rows import RetainedBatch
from statestores.semantics.retained.name_groups import is_group, unpack_names
from statestores.semantics.retained.rows import RetainedRows, index_above, index_time
from statestores.semantics.rows.layout import HISTORY, PROGRESS_ROW, after_prefix
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.spi.engine import EngineReader

REMOVALS_PER_WRITE = 2
"""Expired rows to remove for each row written. One keeps the number constant, two work off what a
leap of stream time has left."""

REMOVALS_PER_COMMIT = 64
"""Expired rows to remove with each commit in any case."""

_OWED_PER_COMMIT = 65_536
"""How many of the owed rows one commit removes: a batch is in memory."""

_FIXED = Struct(">qQ")

_GROUPED = Struct(">qQQI")
"""The same where there are groups. The third number is never so large that its first byte could be
the one with which a cursor begins."""

_ROWS_AHEAD = 4
"""Groups that are read at the call, of up to `MOST_BYTES` each: more than most commits remove."""
_STOP = after_prefix(HISTORY)


@dataclass(slots=True)
class RetainedProgress:
    """The row that each commit of a window or session store brings up to date (LAY-21)."""

    stream_time_ms: int = NO_STREAM_TIME
    """The highest time of an accepted put."""

    next_sequence: int = 0
    """The number of the next retained duplicate."""

    cursor: bytes = HISTORY
    """No row of the index is below this key."""

    next_group: int = 0
    """The number of the next group of the index; 0 if the store never had one."""

    gone: int = 0
    """How many names of the group at the cursor have been removed with their rows."""

    floor_ms: int = field(default=0, compare=False)
    """No stored row has a lower time, or it has not been looked up yet. Not stored."""

    owed: int = field(default=0, compare=False)
    """Rows that the next commits may remove in addition, for rows that were committed in bulk. Not
    stored."""

    def pack(self) -> bytes:
        """Return the stored form."""
        if self.next_group == 0:
            return _FIXED.pack(self.stream_time_ms, self.next_sequence) + self.cursor
        numbers = _GROUPED.pack(self.stream_time_ms, self.next_sequence, self.next_group, self.gone)
        return numbers + self.cursor

    def remove_expired(
        self,
        reader: EngineReader,
        rows: RetainedRows,
        batch: RetainedBatch,
        horizon_ms: int,
    ) -> None:
        """Add the removal of rows up to *horizon_ms* to *batch*, that of a commit."""
        if horizon_ms < self.floor_ms:
            self.owed = 0
            return
        besides = min(self.owed, _OWED_PER_COMMIT)
        self.owed -= besides
        budget = REMOVALS_PER_COMMIT + REMOVALS_PER_WRITE * len(batch) + besides
        above = index_above(horizon_ms)
        stop = max(self.cursor, above)
        ahead, others = reader.scan_ahead(self.cursor, stop, _ROWS_AHEAD)
        singles: list[bytes] = []
        groups: list[bytes] = []
        named: list[bytes] = []
        for index_key, packed in ahead if others is None else chain(ahead, others):
            if budget <= 0:
                self._move(index_key)
                break
            if not is_group(index_key):
                singles.append(index_key)
                budget -= 1
                continue
            self._move(index_key)
            names = unpack_names(index_key, packed)
            due = names[self.gone : self.gone + budget]
            named += due
            budget -= len(due)
            if self.gone + len(due) < len(names):
                self.gone += len(due)
                break
            groups.append(index_key)
        else:
            self.owed = 0
            self._move(stop)
            following = reader.first(stop, _STOP)
            self.floor_ms = 1 << 63 if following is None else index_time(following[0])
        # All of the index, and then all rows: an engine that sorts has less to do this way.
        batch.update(dict.fromkeys(singles))
        batch.update(dict.fromkeys(groups))
        batch.update(dict.fromkeys(rows.indexed_keys(singles)))
        batch.update(dict.fromkeys(named))
        reach("vacuum.swept")

    def _move(self, cursor: bytes) -> None:
        """Go to *cursor*, unless it is there already; of another group no name is gone yet."""
        if cursor != self.cursor:
            self.cursor, self.gone = cursor, 0


def read_retained_progress(reader: EngineReader) -> RetainedProgress:
    """Return the progress as it is stored.

    Raises:
        StoreCorruptedError: The row cannot hold a progress.
    """
    row = reader.get(PROGRESS_ROW)
    if row is None:
        return RetainedProgress()
    try:
        stream_time_ms, next_sequence = _FIXED.unpack_from(row)
        cursor = row[_FIXED.size :]
        if cursor.startswith(HISTORY):  # format 1, or a store without groups; else a number follows
            return RetainedProgress(stream_time_ms, next_sequence, cursor)
        _, _, next_group, gone = _GROUPED.unpack_from(row)
    except error as failure:
        raise StoreCorruptedError(f"the stored progress {row!r} is malformed") from failure
    cursor = row[_GROUPED.size :]
    return RetainedProgress(stream_time_ms, next_sequence, cursor, next_group, gone)
