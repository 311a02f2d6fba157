"""Which timestamped values have expired, and the sweep that deletes their rows (TTL).

An expired value is hidden by its timestamp alone. The sweep only frees its space: it looks for
expired rows along a cursor that walks the keys round and round, and turns them into deletions
among the pending writes, so that they go through the changelog like the owner's own. How many rows
it looks at is bounded by what the commit has written, so no commit pays for a backlog (TTL-8), and
within that bound follows what it finds: where keys are put again before they expire, there is
little to find. Its place is stored, so a crash or a reopening only pauses it.
"""

from statestores.semantics.layout import DATA, HISTORY
from statestores.semantics.progress import NEVER, Progress
from statestores.semantics.timestamped_rows import unpack_timestamp
from statestores.semantics.wall_clock import Clock, wall_clock_ms
from statestores.spi.engine import EngineReader
from statestores.spi.specification import TimestampedKeyValue, TtlClock

ROWS_PER_EXPIRED = 3
"""Rows to look at for each row that expires. One in six of the rows has expired then, on average
(docs/decisions/0035)."""

LEAST_FACTOR = 1
"""Rows to look at for each row written when none of them expires, to find out when they do."""

MOST_FACTOR = 3
"""Rows to look at for each row written when each of them is to expire: keys that come once."""

_REMEMBERED_ROWS = 4096
"""Of how many rows written last it goes by the share that expires, when that rises."""

_LEAST_LEFT = 7 / 8
"""How much of that share is left after a pass that found little, at the least."""

_CONSTANT_ROWS = 32
"""Rows to look at for each commit besides, so that a store that is hardly written is swept too."""

_LEAST_ROWS = 64
"""Fewer are not worth a new iterator: the allowance of small commits adds up to this first."""

NOTHING_EXPIRES_MS = -1
"""A horizon below every timestamp."""


class Expiry:
    """The time to live of the values of one open store."""

    __slots__ = ("_clock", "_now_ms", "clock", "ttl_ms")

    def __init__(
        self, specification: TimestampedKeyValue[bytes, bytes], clock: Clock | None
    ) -> None:
        self.ttl_ms = specification.ttl_ms
        self.clock = specification.ttl_clock
        self._clock = clock or wall_clock_ms
        self._now_ms = 0

    @property
    def follows_stream_time(self) -> bool:
        """Whether what has expired depends on the stream time of what is read."""
        return self.ttl_ms is not None and self.clock is TtlClock.EVENT

    def now_ms(self) -> int:
        """Return the wall clock; within one opening it does not go back (TTL-4)."""
        self._now_ms = max(self._now_ms, self._clock())
        return self._now_ms

    def horizon_ms(self, stream_time_ms: int) -> int:
        """Return the highest timestamp that has expired at *stream_time_ms*, or now."""
        if self.ttl_ms is None:
            return NOTHING_EXPIRES_MS
        now_ms = stream_time_ms if self.clock is TtlClock.EVENT else self.now_ms()
        return now_ms - self.ttl_ms


class Sweep:
    """The sweep of one open store: how much it may do before the next commit."""

    __slots__ = ("_allowance", "_is_granted", "_pass", "_rows_counted", "_share", "_unseen_rows")

    def __init__(self) -> None:
        self._allowance = 0
        self._unseen_rows = 0  # written since rows were last looked at
        self._share = 1.0  # of the rows written, how many expire; at first the worst case
        self._pass = [0, 0]  # rows written during this pass, and expired ones that it has found
        self.begin_commit()

    @property
    def factor(self) -> float:
        """The number of rows to look at for each row written."""
        return min(max(ROWS_PER_EXPIRED * self._share, LEAST_FACTOR), MOST_FACTOR)

    def begin_commit(self) -> None:
        """Forget what has been granted to the last commit, done or rolled back."""
        self._rows_counted = 0
        self._is_granted = False

    def run(
        self,
        reader: EngineReader,
        rows: dict[bytes, bytes | None],
        progress: Progress,
        horizon_ms: int,
    ) -> None:
        """Add to the pending *rows* the deletion of some that have expired.

        A row that is among *rows* already, because its key was put since the last commit, is left
        as it is. It may be called more than once before a commit: only new writes count again.
        """
        if progress.floor_ms > horizon_ms:
            return
        written = len(rows) - self._rows_counted
        self._unseen_rows += written
        self._allowance += int(self.factor * written)
        if not self._is_granted:
            self._allowance += _CONSTANT_ROWS
            self._is_granted = True
        if self._allowance >= _LEAST_ROWS:
            budget, self._allowance = self._allowance, 0
            found = _walk(reader, rows, progress, horizon_ms, budget)
            self._learn(found, is_pass_over=progress.cursor == DATA)
        self._rows_counted = len(rows)

    def _learn(self, found: int, *, is_pass_over: bool) -> None:
        """Take note of how many expired rows were *found*.

        Within a pass the share only grows, since a pass may meet the expired ones anywhere. The
        next pass goes by this one, and falls slowly: the first pass meets few rows that have
        expired, and would else let the next ones wait.
        """
        written, self._unseen_rows = self._unseen_rows, 0
        self._share += min(1.0, written / _REMEMBERED_ROWS) * max(
            0.0, found / max(1, written) - self._share
        )
        self._pass[0] += written
        self._pass[1] += found
        if is_pass_over:
            self._share = max(self._pass[1] / max(1, self._pass[0]), self._share * _LEAST_LEFT)
            self._pass = [0, 0]


def _walk(
    reader: EngineReader,
    rows: dict[bytes, bytes | None],
    progress: Progress,
    horizon_ms: int,
    budget: int,
) -> int:
    """Look at *budget* rows from the cursor on; return how many have expired."""
    expired = 0
    pass_floor = progress.pass_floor_ms
    for row_key, row in reader.scan(progress.cursor, HISTORY):
        if budget == 0:
            progress.cursor = row_key
            progress.pass_floor_ms = pass_floor
            return expired
        budget -= 1
        timestamp: int = unpack_timestamp(row)[0]
        if timestamp > horizon_ms:
            pass_floor = min(pass_floor, timestamp)
        elif timestamp >= 0 and row_key not in rows:
            rows[row_key] = None
            expired += 1
    # The pass is over, and what it left behind is the new floor.
    progress.cursor = DATA
    progress.floor_ms, progress.pass_floor_ms = pass_floor, NEVER
    return expired
