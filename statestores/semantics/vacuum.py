"""Superseded versions that have expired are deleted, a bounded number of rows with each commit.

A cursor walks the history round and round; its place is stored, so a crash or a reopening only
pauses it (VRS-15). A pass is skipped while no row can have expired: `Progress.floor_ms` is below
every end. The deletions are part of the commit's own batch, so no reader waits for them.
"""

from statestores.failpoints import reach
from statestores.semantics.layout import END, HISTORY
from statestores.semantics.progress import Progress
from statestores.semantics.sweep_rate import SweepRate
from statestores.semantics.versioned_rows import (
    DELETED,
    data_key,
    key_of,
    read_latest,
    start_of,
    unpack_header,
)
from statestores.spi.engine import EngineReader

LEAST_FACTOR = 0.5
"""History rows to visit for each row written when none of them expires. A put of a version writes
two rows: the version, and the one that it supersedes."""

MOST_FACTOR = 3
"""The same when many expire. Measured without learning how many: 1 keeps 1.4 to 2.2 times the ideal
number of rows, 2 keeps 1.1 to 1.3 times, and 4 no fewer at half again the cost."""

_LEAST_ROWS = 64
"""Fewer are not worth a new iterator: the allowance of small commits adds up to this first."""


class Vacuum:
    """The vacuum of one open store."""

    __slots__ = ("_allowance", "rate")

    def __init__(self) -> None:
        self.rate = SweepRate(least=LEAST_FACTOR, most=MOST_FACTOR)
        self._allowance = 0.0

    def sweep(
        self,
        reader: EngineReader,
        rows: dict[bytes, bytes | None],
        progress: Progress,
        horizon_ms: int,
    ) -> None:
        """Add to *rows*, the batch of a commit, the deletion of rows that have expired."""
        if progress.floor_ms > horizon_ms:
            return
        self._allowance += self.rate.grant(len(rows))
        if self._allowance < _LEAST_ROWS:
            return
        budget, self._allowance = int(self._allowance), 0
        expired, pass_floor = 0, progress.pass_floor_ms
        for row_key, row in progress.walk(reader, HISTORY, END, budget):
            if row_key in rows:
                continue  # written just now, and counted by the floor
            header: int = unpack_header(row)[0]
            end = header & ~DELETED
            if end > horizon_ms:
                pass_floor = min(pass_floor, end)
            elif header != DELETED | start_of(row_key):
                rows[row_key] = None
                expired += 1
            elif _expire_deletion(reader, rows, row_key, end, horizon_ms):
                expired += 1
            else:
                pass_floor = min(pass_floor, end)
        self.rate.learn(expired, is_pass_over=progress.end_walk(HISTORY, pass_floor))
        reach("vacuum.swept")


def _expire_deletion(
    reader: EngineReader,
    rows: dict[bytes, bytes | None],
    marker: bytes,
    start_ms: int,
    horizon_ms: int,
) -> bool:
    """Delete a latest deletion by its marker, unless a put can still be older than it."""
    if start_ms >= horizon_ms:
        return False
    latest = data_key(key_of(marker))
    if latest in rows:
        return False  # superseded in this very commit, which rewrites the marker
    stored = reader.get(latest)
    if stored is not None and read_latest(stored).valid_from_ms == start_ms:
        rows[latest] = None
    rows[marker] = None
    return True
