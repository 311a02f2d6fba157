"""What a commit of a versioned store writes: pending versions among stored ones, and the vacuum.

Each commit makes its batch anew: one that has failed leaves nothing in the pending versions, and
what the vacuum has spent for it comes back (`Vacuum.forget`).
"""

from dataclasses import replace
from itertools import islice

from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.every_kind.timed_store import TimedStore
from statestores.semantics.rows.closed_rows import ClosedRows
from statestores.semantics.rows.commit_batch import CommitBatch
from statestores.semantics.rows.layout import DATA, PROGRESS_ROW
from statestores.semantics.rows.progress import NO_STREAM_TIME, Progress, read_progress
from statestores.semantics.versioned.commit import COLUMNS_FROM, resolve
from statestores.semantics.versioned.latest_cache import LatestCache
from statestores.semantics.versioned.remembered_seeks import RememberedSeeks
from statestores.semantics.versioned.rows import Latest, Waiting
from statestores.semantics.versioned.vacuum import Vacuum
from statestores.spi.milliseconds import warn_of_another_unit


class VacuumedCommits(TimedStore):
    """The commits of a versioned store."""

    _retention_ms: int
    _vacuum: Vacuum
    _seeks: RememberedSeeks
    _cache: LatestCache
    _cached: dict[bytes, Latest | None]
    """What is in the cache: the latest versions, by key."""

    _pending: dict[bytes, Waiting]
    """The values that were put, by key and time."""

    _committing: dict[bytes, Latest | None]
    """The latest versions that a commit under way changes, by key."""

    _progress: Progress
    """What is stored."""

    _next_progress: Progress
    """What a commit under way will have stored."""

    _left: int
    """How many rows it leaves to be removed."""

    def _has_pending_writes(self) -> bool:
        return bool(self._pending)

    def _read_committed(self) -> None:
        super()._read_committed()
        self._progress = self._next_progress = read_progress(self._engine)

    def _catch_up(self) -> None:
        self._stream_time = max(self._stream_time, self._progress.stream_time_ms)

    def _note_commit(self) -> None:
        self._vacuum.note_commit()
        self._owe_removals()

    def _owe_removals(self) -> None:
        """Owe what a commit of encoded rows has left to be removed, which is there now."""
        self._vacuum.owed += self._left
        self._left = 0

    def _forget_progress(self) -> None:
        self._progress = self._next_progress = Progress()

    def _pending_rows(self) -> CommitBatch:
        self._left = 0
        progress: Progress = replace(self._progress, stream_time_ms=self._stream_time)
        horizon = self._stream_time - self._retention_ms
        pending = self._pending
        in_columns = len(pending) >= COLUMNS_FROM and self._vacuum.rests(progress, horizon)
        resolved = resolve(
            self._seeks, self._cached, pending, progress, horizon, in_columns=in_columns
        )
        latest = resolved.latest
        batch: CommitBatch
        if resolved.columns is not None:
            self._vacuum.rest()
            batch = resolved.columns
        else:
            batch = rows = resolved.rows
            resolved_rows = len(rows)
            self._vacuum.sweep(self._engine, rows, progress, horizon)
            for row_key in islice(reversed(rows), len(rows) - resolved_rows):  # swept just now
                if row_key.startswith(DATA):
                    latest[row_key[len(DATA) :]] = None
        self._committing = latest
        if progress != self._progress:
            batch[PROGRESS_ROW] = progress.pack()
            if self._progress.stream_time_ms == NO_STREAM_TIME:
                warn_of_another_unit(self.name, self._stream_time)
        self._next_progress = progress
        return batch

    @property
    def owes_removals(self) -> bool:
        return self._vacuum.owed > 0

    def _progress_rows(self, rows: SortedRows) -> dict[bytes, bytes | None]:
        self._left = rows.removals
        highest = max(self._stream_time, rows.highest_ms)
        self._next_progress = progress = replace(self._progress, stream_time_ms=highest)
        progress.lower(rows.lowest_ms)
        return {} if progress == self._progress else {PROGRESS_ROW: progress.pack()}

    def _forget_pending(self, *, committed: bool) -> None:
        if committed:
            self._progress = self._next_progress
            self._vacuum.end_commit()
            self._owe_removals()
            self._cache.take(self._committing, self._uncommitted_bytes)
            self._committing = {}
        self._stream_time = self._progress.stream_time_ms
        self._pending = {}
        self._seeks.forget()

    def _forget_cached(self) -> None:
        self._cache.forget()
        self._seeks.forget()
        self._vacuum.forget()

    def _close_pending(self, closed: ClosedRows) -> None:
        self._pending = closed
        self._forget_cached()
