"""A changelog in files: a directory of segments, written by one process, read by any (LOG-20).

Invariant: the active segment ends with a whole frame, or with what a crash left of one, and every
segment before it is complete and on disk.
"""

import time
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Self

import pyarrow as pa

from statestores.changelog.contract import NO_POSITION, OffsetRange
from statestores.changelog.encoded_rows import EncodedRows
from statestores.changelog.frame import Frame, FrameKind
from statestores.changelog.log_appender import LogAppender
from statestores.changelog.next_frame import FrameAppends
from statestores.changelog.opening import check_chain, open_last_segment, read_on
from statestores.changelog.options import ChangelogOptions, check_changelog_options
from statestores.changelog.range_reading import check_range, read_range
from statestores.changelog.rows import change_schema, check_batch
from statestores.changelog.segments.active_segment import ActiveSegment
from statestores.changelog.segments.segment_directory import (
    SegmentInfo,
    has_segments,
    leftovers,
    list_segments,
    remove_files,
)
from statestores.changelog.segments.segment_head import SegmentHead
from statestores.changelog.segments.tail import TornTail
from statestores.errors import (
    InvalidArgumentError,
    OffsetOutOfRangeError,
    StoreClosedError,
    StoreMismatchError,
    StoreNotFoundError,
)
from statestores.files.directory_lock import DirectoryLock
from statestores.files.local_path import local_path
from statestores.spi.durability import Durability
from statestores.spi.forking import disown_after_fork, of_parent
from statestores.spi.offsets import Position, TopicPartition

_DEFAULTS = ChangelogOptions()


def wall_clock_ms() -> int:
    """Return the time of day; for people, see LOG-8."""
    return time.time_ns() // 1_000_000


class FileChangelog(FrameAppends):
    """The writer of a changelog in a directory; it holds the directory's lock."""

    def __init__(
        self,
        directory: Path,
        lock: DirectoryLock,
        store_kind: str,
        options: ChangelogOptions,
        end: LogAppender,
    ) -> None:
        self._directory = directory
        self._lock = lock
        self._store_kind = store_kind
        self._schema = change_schema(store_kind)
        self._options = options
        self._end = end
        self._open = True
        self._is_of_parent = False
        self._is_paused = False
        disown_after_fork(self)

    @classmethod
    def exists(cls, directory: str | PathLike[str]) -> bool:
        """Return whether there is a changelog in *directory*, damaged or not."""
        return has_segments(local_path(directory, "directory"))

    @classmethod
    def create(
        cls,
        directory: str | PathLike[str],
        store_kind: str,
        options: ChangelogOptions = _DEFAULTS,
        *,
        first_offset: int = 0,
        position: Position = NO_POSITION,
        clock_ms: Callable[[], int] = wall_clock_ms,
        partition: TopicPartition | None = None,
    ) -> Self:
        """Create an empty changelog in *directory*, which may be missing, and open it.

        With a *first_offset* above 0 it continues a log that is kept elsewhere, as in a snapshot,
        whose changes reflect the input up to *position*. *partition*, as `changelog_partition`
        gives it, is noted in every segment, so that whoever knows it takes no other (LAY-33).

        Raises:
            InvalidArgumentError: *first_offset* cannot be an offset.
            UnsupportedFormatError: There are no changelogs for stores of *store_kind*.
            StoreMismatchError: There is a changelog already.
            StoreLockedError: It is open elsewhere; the message names the owner.
            StorageError: The directory cannot be written.
        """
        if type(first_offset) is not int or not 0 <= first_offset < 1 << 63:
            raise InvalidArgumentError(
                f"first_offset must be from 0 to 2**63 - 1, got {first_offset!r}"
            )
        check_changelog_options(options)
        change_schema(store_kind)
        path = local_path(directory, "directory")
        lock = DirectoryLock.acquire(path)
        try:
            _check_vacant(path)
            remove_files(leftovers(path), path)
            head = SegmentHead(
                store_kind=store_kind,
                compression=options.compression,
                base_offset=first_offset,
                previous_base=None,
                compacted_to=None,
                position=position,
                partition=partition,
            )
            end = LogAppender.begin(path, options, head, clock_ms)
        except BaseException:
            lock.release()
            raise
        return cls(path, lock, store_kind, options, end)

    @classmethod
    def open_or_create(
        cls,
        directory: str | PathLike[str],
        store_kind: str,
        *,
        partition: TopicPartition | None = None,
    ) -> Self:
        """Open the changelog in *directory*, or create it where there is none.

        Raises:
            StateStoreError: See `open` and `create`.
        """
        make = cls.open if cls.exists(directory) else cls.create
        return make(directory, store_kind, partition=partition)

    @classmethod
    def open(
        cls,
        directory: str | PathLike[str],
        store_kind: str,
        options: ChangelogOptions = _DEFAULTS,
        *,
        committed_offset: int | None = None,
        clock_ms: Callable[[], int] = wall_clock_ms,
        partition: TopicPartition | None = None,
    ) -> Self:
        """Open the changelog in *directory* to append to it, and cut a torn tail (LOG-10).

        *committed_offset* is the last offset that the store has committed. A torn tail that
        begins at or before it is damage and not cut: the append there had returned (LOG-16).
        No segment may say that it is of another than *partition*, if it is given (LAY-33).
        When it raises, nothing stored has changed.

        Raises:
            StoreNotFoundError: There is no changelog; `create` makes one.
            StoreLockedError: It is open elsewhere; the message names the owner.
            ChangelogCorruptedError: It is damaged, a segment is missing or of another partition, or
                it ends before the committed offset.
            UnsupportedFormatError: It is of a format version that is not known here.
            StoreMismatchError: It is one of another kind of store.
            StorageError: It cannot be read or written.
        """
        check_changelog_options(options)
        path = local_path(directory, "directory")
        if not has_segments(path):
            raise StoreNotFoundError(
                f"there is no changelog in {str(path)!r}; create it, or check the path"
            )
        lock = DirectoryLock.acquire(path)
        try:
            listing = list_segments(path)
            check_chain(listing, store_kind, partition)
            tail, frames_at, named = open_last_segment(listing, committed_offset)
            remove_files((*leftovers(path), *listing.covered), path)
            active = ActiveSegment.open(listing.segments[-1].path, frames_at, tail.start)
        except BaseException:
            lock.release()
            raise
        end = LogAppender(path, store_kind, options, active, tail, clock_ms, partition or named)
        return cls(path, lock, store_kind, options, end)

    @property
    def directory(self) -> Path:
        """Where the segments are."""
        return self._directory

    @property
    def options(self) -> ChangelogOptions:
        """How the log is written."""
        return self._options

    @property
    def store_kind(self) -> str:
        return self._store_kind

    @property
    def partition(self) -> TopicPartition | None:
        """Whose changes these are, as new segments note it; ``None`` if nobody has said."""
        return self._end.partition

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def first_offset(self) -> int:
        self.check_open()
        return list_segments(self._directory).bases[0]

    @property
    def end_offset(self) -> int:
        self.check_open()
        return self._end.offset

    @property
    def position(self) -> Position:
        self.check_open()
        return self._end.position

    @property
    def torn_tail(self) -> TornTail | None:
        """What opening has cut off; ``None`` when the log ended with a whole frame."""
        return self._end.tail.torn

    def segments(self) -> tuple[SegmentInfo, ...]:
        """Return the segments that count, in order; the last one is active."""
        self.check_open()
        return list_segments(self._directory).segments

    def read(self, from_offset: int | None = None, to_offset: int | None = None) -> Iterator[Frame]:
        start, stop = check_range(
            self._directory, from_offset, to_offset, self.first_offset, self.end_offset
        )
        return read_range(
            self._directory,
            start,
            stop,
            self._end.tail.before,
            lambda: self._open,
            self.partition,
        )

    def seal(self) -> None:
        """Begin a new segment, so that what is there can be compacted or deleted.

        Without a frame in the active segment, nothing happens.

        Raises:
            StoreClosedError: The changelog is closed.
            StorageError: The disk is full or failed.
        """
        self.check_open()
        self._end.seal()

    def delete_before(self, offset: int) -> int:
        """Delete the sealed segments that end at or before *offset*; return `first_offset`.

        For offsets that a snapshot covers. Whole segments only, the lowest first, so that a crash
        leaves no gap. A reader of older offsets gets `OffsetOutOfRangeError` (LOG-9).

        Raises:
            StoreClosedError: The changelog is closed.
            OffsetOutOfRangeError: *offset* is not written yet.
            StorageError: A segment cannot be removed.
        """
        self.check_open()
        if offset > self.end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} is not written yet: the changelog ends before {self.end_offset}"
            )
        listing = list_segments(self._directory)
        old = tuple(
            segment.path
            for segment in listing.segments
            if segment.end_offset is not None and segment.end_offset <= offset
        )
        # The segments that a compacted one covers go first: without it, they would count again.
        remove_files((*listing.covered, *old) if old else (), self._directory)
        return self.first_offset

    def pause(self) -> None:
        """Let others append, until `resume`. Idempotent.

        Raises:
            StoreClosedError: The changelog is closed.
        """
        self.check_open()
        self._end.take_note()
        self._is_paused = True
        self._lock.release()

    def resume(self) -> None:
        """Take the lock again, and note what others have appended meanwhile.

        That reads what they have appended, and cuts a torn tail; nothing if there is neither.

        Raises:
            StoreClosedError: The changelog is closed.
            StoreLockedError: Another process appends.
            StateStoreError: See `open`. The changelog stays paused.
        """
        self.check_open()
        if not self._is_paused:
            return
        lock = DirectoryLock.acquire(self._directory)
        try:
            if not self._end.is_as_left():
                news = read_on(list_segments(self._directory), self._end.tail, self.partition)
                if news is not None:
                    self._end.move(*news)
        except BaseException:
            lock.release()
            raise
        self._lock = lock
        self._is_paused = False

    def close(self) -> None:
        # Each step may be repeated, so that an interrupted close can be.
        self._open = False
        self._end.close()
        self._lock.release()

    def disown(self) -> None:
        """Be closed in a forked child; the parent's log goes on (COM-44)."""
        self._is_of_parent = self._open
        self.close()

    def check_open(self) -> None:
        if not self._open:
            what = f"the changelog in {str(self._directory)!r}"
            closed = f"{what} is closed; open it again"
            raise StoreClosedError(of_parent(what) if self._is_of_parent else closed)

    def _append(
        self,
        kind: FrameKind,
        batch: pa.RecordBatch | EncodedRows | None,
        position: Position,
        durability: Durability,
        *,
        appended_at_ms: int | None = None,
    ) -> OffsetRange:
        if self._is_paused:
            raise StoreClosedError(
                f"the changelog in {str(self._directory)!r} is paused; resume it first"
            )
        durable = durability is Durability.POWER_LOSS
        return self._end.append(
            kind, batch, position, durable=durable, appended_at_ms=appended_at_ms
        )


def append_frame(log: FileChangelog, frame: Frame, *, durability: Durability) -> OffsetRange:
    """Append what *frame* says to *log*, with the time of *frame* instead of now.

    Raises:
        StoreClosedError, InvalidArgumentError, StorageError: See `Changelog.append`.
    """
    log.check_open()
    rows = None if frame.kind is FrameKind.CLEAR else check_batch(log._schema, frame.batch)  # noqa: SLF001  # of this module
    return log._append(  # noqa: SLF001  # of this module
        frame.kind, rows, frame.position, durability, appended_at_ms=frame.appended_at_ms
    )


def _check_vacant(directory: Path) -> None:
    """Accept a directory in which a changelog can be created.

    Raises:
        StoreMismatchError: There is one.
    """
    if has_segments(directory):
        raise StoreMismatchError(
            f"there is a changelog in {str(directory)!r} already; open it, or choose another "
            "directory"
        )
