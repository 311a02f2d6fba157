"""What a commit of a timestamped store writes: its pending rows, and the sweep's deletions.

Invariants:

* rows are deleted for their age only in a commit of the owner's own writes, never in one of
  replayed changes, whose deletions are in the changelog (TTL-7);
* what the sweep has found is among the pending rows, and `_next_progress` is where it has come to
  with them: both stay until the pending writes are committed or rolled back, however often a commit
  fails. Else each repetition would begin where the one before it has begun, and never get on.
"""

from dataclasses import replace

from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.rows.closed_rows import ClosedRows
from statestores.semantics.rows.layout import DATA, PROGRESS_ROW
from statestores.semantics.rows.progress import NO_STREAM_TIME, Progress
from statestores.semantics.rows.row_cache import RowCache
from statestores.semantics.rows.write_buffer import WriteBuffer
from statestores.semantics.timestamped.expiry import Expiry, Sweep
from statestores.semantics.timestamped.opening import read_sweep_progress
from statestores.semantics.timestamped.whole_rows import WholeRows
from statestores.spi.milliseconds import warn_of_another_unit


class SweptCommits(WholeRows):
    """The commits of a timestamped store."""

    _expiry: Expiry
    _expires: bool
    _sweep: Sweep
    _cache: RowCache
    _gets_before: int
    """How often the engine had been asked by the last commit."""

    _buffer: WriteBuffer
    """That of the pending rows."""

    _is_replayed: bool
    """Whether some of the pending rows are replayed or loaded."""

    _progress = Progress(cursor=DATA)
    """What is stored."""

    _next_progress: Progress
    """The same with the sweep into the pending rows, and without the rows themselves."""

    _committing: Progress
    """What a commit under way will have stored."""

    @property
    def sweep_cursor(self) -> bytes:
        """Where the sweep of expired rows has come to, with the pending writes."""
        return self._next_progress.cursor

    def sweep_from(self, cursor: bytes) -> None:
        """Have the next sweep go on at *cursor*, a `sweep_cursor` of this store.

        For a copy whose pending writes are committed elsewhere and come back through its changelog:
        only the sweep's deletions do, so it would look at the same rows each time.
        """
        self.check_open()
        self._next_progress.cursor = cursor
        self._sweep.forget()  # what the cursor leaps over has not been looked at

    def _has_pending_writes(self) -> bool:
        return bool(self._rows)

    def _sweep_into_pending(self) -> None:
        """Add the deletion of some expired rows to the pending rows."""
        if self._expires and not self._is_replayed:
            horizon = self._expiry.horizon_ms(self._stream_time)
            try:
                self._sweep.run(self._engine, self._rows, self._next_progress, horizon)
            except BaseException:  # it may have been cut short anywhere
                self._sweep.forget()
                raise

    def _has_something_to_journal(self) -> bool:
        self._sweep_into_pending()
        return super()._has_something_to_journal()

    def _read_committed(self) -> None:
        super()._read_committed()
        stored = read_sweep_progress(self._engine)
        if stored != self._progress:  # another commit is there than the sweep has begun from
            self._next_progress = replace(stored)
        self._progress = stored

    def _catch_up(self) -> None:
        self._stream_time = max(self._stream_time, self._progress.stream_time_ms)

    def _note_commit(self) -> None:
        self._sweep.rate.commit()

    def _forget_progress(self) -> None:
        self._progress = Progress(cursor=DATA)

    def _pending_rows(self) -> dict[bytes, bytes | None]:
        if self._rows:  # else the owner commits nothing of its own: it may be following a changelog
            self._sweep_into_pending()
        batch = self._rows.copy()
        progress: Progress = replace(self._next_progress, stream_time_ms=self._stream_time)
        if self._expires:
            progress.lower(self._sweep.read_times(batch))
        if progress != self._progress:
            batch[PROGRESS_ROW] = progress.pack()
            if self._progress.stream_time_ms == NO_STREAM_TIME:
                warn_of_another_unit(self.name, self._stream_time)
        self._committing = progress
        return batch

    def _progress_rows(self, rows: SortedRows) -> dict[bytes, bytes | None]:
        highest = max(self._stream_time, rows.highest_ms)
        self._committing = progress = replace(self._next_progress, stream_time_ms=highest)
        if self._expires:
            progress.lower(rows.lowest_ms)
        return {} if progress == self._progress else {PROGRESS_ROW: progress.pack()}

    def _forget_pending(self, *, committed: bool) -> None:
        if committed:
            self._progress = self._committing
            self._sweep.rate.commit()
            if self._expires:
                self._sweep.end_commit(self._rows)
            is_read = self._engine_gets != self._gets_before
            self._cache.refresh(self._rows, self._uncommitted_bytes, is_read=is_read)
            self._gets_before = self._engine_gets
        else:
            self._sweep.rate.rollback()
        self._next_progress = replace(self._progress)
        self._stream_time = self._progress.stream_time_ms
        self._highest = self._columns = None
        self._is_replayed = False
        self._sweep.begin_commit()
        buffer = WriteBuffer()
        self._buffer, self._rows = buffer, buffer.rows  # one line: no interrupt comes in between

    def _forget_cached(self) -> None:
        self._sweep.forget()
        self._cache.forget()

    def _close_pending(self, closed: ClosedRows) -> None:
        self._rows = closed
        self._sweep.forget()
        self._cache.forget()
