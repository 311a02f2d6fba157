"""What window and session stores over an engine have in common: rows with a retention.

Puts are blind: they go into the write buffer as the rows that they become. Invariant: every
pending row was visible when it was put, so its time is above the cursor of the removal.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import ClassVar

from statestores.semantics.every_kind.arguments import (
    check_changes,
    check_time,
)
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.retained.column_rows import RetainedBatch
from statestores.semantics.retained.named_spans import NamedSpans
from statestores.semantics.retained.naming import Naming
from statestores.semantics.retained.owner_reads import OwnerReads
from statestores.semantics.retained.progress import RetainedProgress, read_retained_progress
from statestores.semantics.retained.reads import PendingRows
from statestores.semantics.retained.rows import RetainedRows
from statestores.semantics.retained.rows_of_keys import RowsOfKeys
from statestores.semantics.rows.closed_rows import ClosedRows
from statestores.semantics.rows.commit_batch import CommitBatch
from statestores.semantics.rows.content_chunks import (
    FIRST_CHUNK_ROWS,
    frozen_content,
    next_chunk_rows,
)
from statestores.semantics.rows.layout import (
    DATA,
    FORMAT_ROW,
    GROUPED_FORMAT_VERSION,
    HISTORY,
    PROGRESS_ROW,
    pack_format_version,
)
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.semantics.rows.write_buffer import WriteBuffer, total_bytes
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine, EngineReader
from statestores.spi.milliseconds import warn_of_another_unit
from statestores.spi.records import Changes
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import CommittedContent


class EngineRetainedStore(OwnerReads):
    """A store of rows with a retention, over any engine."""

    _times_bytes: ClassVar[int]
    """What the times of one write count as uncommitted bytes (COM-16)."""

    _progress = _next_progress = RetainedProgress()
    """Until it is read: what is stored, and what a commit under way will have stored."""

    def __init__(
        self,
        engine: Engine,
        specification: StoreSpecification[bytes, bytes],
        durability: Durability,
        rows: RetainedRows,
        retention_ms: int,
        name_bytes: int | None,
        row_bytes: int = 0,
    ) -> None:
        """Remember names of rows in *name_bytes* of memory, and values of them in *row_bytes*."""
        super().__init__(engine, specification, durability)
        self._rows = rows
        self._retention_ms = retention_ms
        self._spans = NamedSpans(retention_ms, name_bytes, row_bytes)
        self._naming = Naming(rows, self._spans)
        self._buffer = WriteBuffer()
        self._pending: dict[bytes, bytes | None] = self._buffer.rows
        self._of_keys = RowsOfKeys(self._pending, rows.suffix_bytes)
        self._bounded_rows = 0
        """Of so many pending rows the times are from `_lowest` to `_highest`. If there are more, it
        is not known; there are never fewer."""
        self._lowest = self._highest = 0
        self._stream_time = self._progress.stream_time_ms
        self._horizon = self._stream_time - retention_ms
        self._next_sequence = self._progress.next_sequence

    # What a kind defines.

    @abstractmethod
    def _changes(
        self,
        keys: list[bytes],
        values: Sequence[bytes | None],
        times_ms: list[int],
        numbers: list[int],
    ) -> Changes:
        """Return rows as changes; *numbers* is empty when the rows have none."""

    @abstractmethod
    def _checked_columns(
        self, changes: Changes
    ) -> tuple[list[bytes], list[bytes | None], list[int], list[int]]:
        """Return the same columns of *changes*, checked."""

    @abstractmethod
    def _take_note_of(self, numbers: list[int]) -> None:
        """Note the numbers of rows that were replayed or loaded."""

    # Writes.

    def _put(self, data_key: bytes, value: bytes | None, time_ms: int, size: int) -> bool:
        """Put a row with a key of *size* bytes, unless it has expired."""
        if time_ms <= self._horizon:
            self.check_open()
            self._dropped += self._put_step
            return False
        self._pending[data_key] = value
        if time_ms > self._stream_time:
            self._advance_stream_time(time_ms)
        self._uncommitted_bytes += size if value is None else size + len(value)
        self._puts += self._put_step
        return True

    def _are_accepted(self, bounds_ms: tuple[int, int]) -> bool:
        """Return whether rows with times within *bounds_ms* are accepted in whatever order."""
        lowest, highest = bounds_ms
        return lowest > max(self._stream_time, highest) - self._retention_ms

    def _put_rows(
        self,
        data_keys: list[bytes],
        values: list[bytes | None],
        bounds: tuple[int, int],
        key_bytes: int,
    ) -> int:
        """Put rows, all of which are accepted; return how many. Their keys have *key_bytes*."""
        self._take_rows(zip(data_keys, values, strict=True), bounds)
        return self._count_puts(len(data_keys), values, bounds[1], key_bytes)

    def _take_rows(
        self, rows: Iterable[tuple[bytes, bytes | None]], bounds: tuple[int, int]
    ) -> None:
        """Add *rows* to the pending ones; *bounds* are those of their times."""
        pending, (lowest, highest) = self._pending, bounds
        bounded = self._bounded_rows
        is_bounded = len(pending) == bounded
        pending.update(rows)
        if is_bounded:
            if bounded:
                lowest, highest = min(lowest, self._lowest), max(highest, self._highest)
            self._lowest, self._highest, self._bounded_rows = lowest, highest, len(pending)

    def _count_puts(
        self, count: int, values: list[bytes | None], reached_ms: int, key_bytes: int
    ) -> int:
        """Note that *count* rows up to the time *reached_ms* are pending; return their number."""
        if reached_ms > self._stream_time:
            self._advance_stream_time(reached_ms)
        self._uncommitted_bytes += key_bytes + count * self._times_bytes
        self._uncommitted_bytes += total_bytes(values)
        self._puts += count * self._put_step
        return count

    def _advance_stream_time(self, time_ms: int) -> None:
        self._stream_time = time_ms
        self._horizon = time_ms - self._retention_ms

    # Changes.

    def uncommitted_rows(self) -> tuple[PendingRows, int]:
        """Return the pending rows, live, and their stream time: for facades."""
        return self._pending, self._stream_time

    def pending_changes(self) -> Changes:
        self.check_open()
        self._gather()
        # In time order none of them has expired when it is replayed, whatever comes in between.
        rows = sorted(self._pending.items(), key=lambda row: self._rows.time_of(row[0]))
        return self._changes(*self._columns(rows))

    def replay(self, changes: Changes) -> None:
        self.check_open()
        check_changes(changes, self.specification)
        keys, values, times, numbers = self._checked_columns(changes)
        self._gather()
        with self.replaying():
            for row in zip(*self._keyed(keys, times, numbers), values, times, strict=True):
                data_key, size, value, time_ms = row
                self._put(data_key, value, time_ms, size)
        self._take_note_of(numbers)

    def load(self, changes: Changes, *, stream_time_ms: int | None = None) -> None:
        self.check_open()
        check_changes(changes, self.specification)
        keys, values, times, numbers = self._checked_columns(changes)
        if stream_time_ms is not None:
            check_time("stream_time_ms", stream_time_ms)
        self._gather()
        data_keys, sizes = self._keyed(keys, times, numbers)
        self._pending.update(zip(data_keys, values, strict=True))
        self._uncommitted_bytes += sum(sizes) + sum(map(len, filter(None, values)))
        reached = max([self._stream_time, stream_time_ms or 0, *times])
        if stream_time_ms is not None or times:
            self._advance_stream_time(reached)
        self._take_note_of(numbers)

    def committed_content(self) -> CommittedContent:
        self.check_open()
        snapshot = self._engine.snapshot()
        stream_time = read_retained_progress(snapshot).stream_time_ms
        chunks = self._chunks(snapshot, max(0, stream_time - self._retention_ms + 1))
        return frozen_content(snapshot, chunks, stream_time)

    def _chunks(self, reader: EngineReader, first_ms: int) -> Iterator[Changes]:
        """Yield the rows of *reader* with times from *first_ms*."""
        rows = self._rows.within(reader.scan(DATA, HISTORY), first_ms, (1 << 63) - 1)
        count = FIRST_CHUNK_ROWS
        while chunk := list(islice(rows, count)):
            count = next_chunk_rows(len(chunk), sum(len(value) for _, value in chunk))
            yield self._changes(*self._columns(chunk))

    def _columns(
        self, rows: Sequence[tuple[bytes, bytes | None]]
    ) -> tuple[list[bytes], list[bytes | None], list[int], list[int]]:
        """Return keys, values, times and, if the rows have them, numbers."""
        of = self._rows
        data_keys = [data_key for data_key, _ in rows]
        return (
            [of.key_of(data_key) for data_key in data_keys],
            [value for _, value in rows],
            [of.time_of(data_key) for data_key in data_keys],
            [of.number_of(data_key) for data_key in data_keys] if of.has_number else [],
        )

    def _keyed(
        self, keys: list[bytes], times_ms: list[int], numbers: list[int]
    ) -> tuple[list[bytes], list[int]]:
        """Return the rows' keys, and what each counts as uncommitted bytes without its value."""
        data_key = self._rows.data_key
        sizes = [len(key) + self._times_bytes for key in keys]
        if numbers:
            return list(map(data_key, keys, times_ms, numbers)), sizes
        return list(map(data_key, keys, times_ms)), sizes

    # What the common part asks for.

    def _has_pending_writes(self) -> bool:
        return bool(self._pending)

    @property
    def owes_removals(self) -> bool:
        return self._progress.owed > 0

    def _read_committed(self) -> None:
        super()._read_committed()
        stored = read_retained_progress(self._engine)
        known = (self._progress, self._next_progress)
        # Not stored: as many as before a commit that has failed, or after one that is there.
        stored.owed = max((each.owed for each in known if each == stored), default=0)
        self._progress = self._next_progress = stored

    def _catch_up(self) -> None:
        stored = self._progress
        if stored.stream_time_ms > self._stream_time:
            self._advance_stream_time(stored.stream_time_ms)

    def _forget_progress(self) -> None:
        self._progress = self._next_progress = RetainedProgress()

    def _forget_cached(self) -> None:
        self._naming.forget()

    def _pending_rows(self) -> CommitBatch:
        progress = replace(
            self._progress,
            stream_time_ms=self._stream_time,
            next_sequence=self._next_sequence,
        )
        horizon = self._horizon
        batch, progress.next_group, floor = self._named_rows(horizon)
        if progress.next_group and not self._progress.next_group:
            batch[FORMAT_ROW] = pack_format_version(GROUPED_FORMAT_VERSION)
        progress.remove_expired(self._engine, self._rows, batch, horizon)
        progress.floor_ms = min(progress.floor_ms, floor)
        if progress != self._progress:
            batch[PROGRESS_ROW] = progress.pack()
            if self._progress.stream_time_ms == NO_STREAM_TIME:
                warn_of_another_unit(self.name, self._stream_time)
        self._next_progress = progress
        return batch

    def _named_rows(self, horizon_ms: int) -> tuple[RetainedBatch, int, int]:
        """Return what is pending and visible, and what names it, as `Naming.batch_of` does."""
        self._gather()
        return self._naming.batch_of(
            self._pending,
            (self._lowest, self._highest) if self._bounded_rows == len(self._pending) else None,
            horizon_ms,
            self._progress.stream_time_ms,
            self._progress.next_group,
        )

    def _progress_rows(self, rows: SortedRows) -> dict[bytes, bytes | None]:
        # Now: whether the engine has them may be known only after the next put.
        self._next_sequence = max(self._next_sequence, rows.next_number)
        self._next_progress = progress = replace(
            self._progress,
            stream_time_ms=max(self._stream_time, rows.highest_ms),
            next_sequence=self._next_sequence,
            floor_ms=min(self._progress.floor_ms, rows.lowest_ms),
            owed=self._progress.owed + rows.removals,
        )
        return {} if progress == self._progress else {PROGRESS_ROW: progress.pack()}

    def _forget_pending(self, *, committed: bool) -> None:
        if committed:
            self._progress = self._next_progress
            self._naming.committed()
        self._advance_stream_time(self._progress.stream_time_ms)
        self._next_sequence = self._progress.next_sequence
        buffer = WriteBuffer()
        of_keys = RowsOfKeys(buffer.rows, self._rows.suffix_bytes)
        # One statement: no interrupt in between.
        self._buffer, self._pending, self._of_keys, self._bounded_rows = (
            buffer,
            buffer.rows,
            of_keys,
            0,
        )

    def _close_pending(self, closed: ClosedRows) -> None:
        self._pending = closed
