"""Which timestamped values have expired, and the sweep that deletes their rows (TTL).

An expired value is hidden by its timestamp alone. The sweep only frees its space: it turns expired
rows into deletions among the pending writes, so that they go through the changelog like the owner's
own. For rows that this opening knows, it remembers when they expire. For others it looks along a
cursor that walks the keys round and round. How many rows it looks at is bounded by what the commit
has written, so no commit pays for a backlog (TTL-8), and within that bound follows from what it
finds: where keys are put again before they expire, there is little to find. Its place is stored, so
a crash or a reopening only pauses it.
"""

from collections.abc import Mapping
from dataclasses import replace

from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.expiry.due_rows import (
    DELETIONS_PER_COMMIT,
    DELETIONS_PER_WRITE,
    Dated,
    DueRows,
)
from statestores.semantics.expiry.sweep_rate import SweepRate
from statestores.semantics.expiry.wall_clock import Clock, wall_clock_ms
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.rows.progress import Progress
from statestores.semantics.timestamped.rows import unpack_timestamp
from statestores.spi.engine import EngineReader
from statestores.spi.specification import TimestampedKeyValue, TtlClock

LEAST_FACTOR = 1
"""Rows to look at for each row written when none of them expires, to find out when they do."""

MOST_FACTOR = 3
"""Rows to look at for each row written when each of them is to expire: keys that come once."""

_CONSTANT_ROWS = 32
"""Rows to look at in addition for each commit, so that a store that is hardly written to is swept
too."""

NOTHING_EXPIRES_MS = -1
"""A horizon below every timestamp."""


_UNDATED = b"\x80"
"""Below the rows without a timestamp, as bytes, and above all others."""


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
    """The sweep of one open store: what it remembers, and how much it may do with a commit."""

    __slots__ = ("_dated", "_due", "_is_granted", "_rows_counted", "_undated", "rate")

    def __init__(self, ttl_ms: int | None, capacity_bytes: int) -> None:
        """Remember rows in up to *capacity_bytes* of memory."""
        self.rate = SweepRate(least=LEAST_FACTOR, most=MOST_FACTOR)
        self._due = DueRows(ttl_ms or 0, capacity_bytes)
        self._dated: Dated | None = None
        self._undated: list[bytes] = []
        self.begin_commit()

    def begin_commit(self) -> None:
        """Forget what has been granted to the last commit, done or rolled back."""
        self._rows_counted = 0
        self._is_granted = False

    def forget(self) -> None:
        """Forget when rows expire: the engine may have changed by other means."""
        self._due.forget()
        self._dated, self._undated = None, []

    def read_times(self, rows: Mapping[bytes, bytes | None]) -> int:
        """Read when the *rows* of a commit expire; return the lowest timestamp."""
        keys = [key for key, row in rows.items() if row is not None]
        # As bytes, timestamps compare like numbers, and that of rows without one is above all
        # others.
        stored = [row for row in rows.values() if row is not None]
        self._dated, self._undated = None, []
        if stored and max(stored) >= _UNDATED:
            self._undated = [key for key in keys if rows[key] >= _UNDATED]  # type: ignore[operator]  # not None
            keys = [key for key in keys if rows[key] < _UNDATED]  # type: ignore[operator]  # likewise
            stored = [row for row in stored if row < _UNDATED]
        if not stored:
            return MAX_TIME_MS
        lowest_ms: int = unpack_timestamp(min(stored))[0]
        highest_ms: int = unpack_timestamp(max(stored))[0]
        self._dated = Dated(
            keys, lowest_ms, highest_ms, lambda: [unpack_timestamp(row)[0] for row in stored]
        )
        return lowest_ms

    def end_commit(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Note that the engine has *rows*."""
        if self._due.has_begun:
            deleted = [key for key, row in rows.items() if row is None]
            self._due.commit(rows, self._dated, deleted + self._undated)
        self._dated, self._undated = None, []

    def run(
        self,
        reader: EngineReader,
        rows: dict[bytes, bytes | None],
        progress: Progress,
        horizon_ms: int,
    ) -> None:
        """Add the deletion of some expired rows to the pending *rows*.

        A row that is among *rows* already, because its key was put since the last commit, is left
        as it is. It may be called more than once before a commit: only new writes count again.
        """
        if progress.floor_ms > horizon_ms:
            return
        written = len(rows) - self._rows_counted
        most = DELETIONS_PER_WRITE * written
        if self._is_granted:
            self.rate.grant(written)
        else:
            most += DELETIONS_PER_COMMIT
            self.rate.grant(written, besides=_CONSTANT_ROWS)
            self._is_granted = True
        self._due.take(rows, horizon_ms, most)
        if budget := self.rate.spend(rests=self._due.is_complete):
            self._walk(reader, rows, progress, horizon_ms, budget)
        self._rows_counted = len(rows)

    def _walk(
        self,
        reader: EngineReader,
        rows: dict[bytes, bytes | None],
        progress: Progress,
        horizon_ms: int,
        budget: int,
    ) -> None:
        """Look at *budget* rows, from where the last walk ended.

        *progress* changes at the end, at once: its floors must not lack rows that its cursor has
        passed.
        """
        stands, progress = progress, replace(progress)
        found, pass_floor = 0, progress.pass_floor_ms
        learned: dict[bytes, int] = {}
        if progress.cursor == DATA:
            self._due.begin_pass()
        learns = self._due.learns
        for row_key, row in progress.walk(reader, DATA, HISTORY, budget):
            timestamp: int = unpack_timestamp(row)[0]
            if timestamp > horizon_ms:
                pass_floor = min(pass_floor, timestamp)
                if learns and row_key not in rows:
                    learned[row_key] = timestamp
            elif timestamp >= 0 and row_key not in rows:
                rows[row_key] = None
                found += 1
        is_pass_over = progress.end_walk(DATA, pass_floor)
        self.rate.learn(found, is_pass_over=is_pass_over)
        self._due.learn(learned)
        if is_pass_over:
            self._due.end_pass()
        stands.cursor, stands.floor_ms, stands.pass_floor_ms = (
            progress.cursor,
            progress.floor_ms,
            progress.pass_floor_ms,
        )
