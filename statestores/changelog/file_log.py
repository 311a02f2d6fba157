"""A changelog in files: a directory of segments, written by one process, read by any (LOG-20).

Invariant: the active segment ends with a whole frame, or with what a crash left of one, and every
segment before it is complete and on disk.
"""

import time
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Self

import pyarrow as pa

from statestores.changelog.active_segment import ActiveSegment
from statestores.changelog.contract import NO_POSITION, Changelog, OffsetRange
from statestores.changelog.frame import (
    FRAME_FORMAT_VERSION,
    MAX_BODY_BYTES,
    Frame,
    FrameHeader,
    FrameKind,
    pack_frame,
)
from statestores.changelog.frame_bodies import BodyWriter
from statestores.changelog.opening import check_chain, open_last_segment
from statestores.changelog.options import ChangelogOptions, check_changelog_options
from statestores.changelog.range_reading import check_range, read_range
from statestores.changelog.rows import batch_from_changes, change_schema, check_batch
from statestores.changelog.segment import Segment
from statestores.changelog.segment_directory import (
    SegmentInfo,
    has_segments,
    leftovers,
    list_segments,
    may_be_there,
    remove_files,
    segment_name,
)
from statestores.changelog.segment_head import SegmentHead
from statestores.changelog.stored_position import pack_position
from statestores.changelog.tail import Tail, TornTail
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    OffsetOutOfRangeError,
    StoreClosedError,
    StoreMismatchError,
    StoreNotFoundError,
)
from statestores.failpoints import reach
from statestores.files.directory_lock import DirectoryLock
from statestores.files.local_path import local_path
from statestores.spi.durability import Durability
from statestores.spi.forking import disown_after_fork
from statestores.spi.offsets import Position
from statestores.spi.records import Changes

_DEFAULTS = ChangelogOptions()


def wall_clock_ms() -> int:
    """Return the time of day; for people, see LOG-8."""
    return time.time_ns() // 1_000_000


class _Unnoted(NamedTuple):
    """A frame that is being appended, and that its log's totals do not include yet."""

    active: ActiveSegment
    tail: Tail
    start: int
    header: FrameHeader
    position: Position


class FileChangelog(Changelog):
    """The writer of a changelog in a directory; it holds the directory's lock."""

    def __init__(
        self,
        directory: Path,
        lock: DirectoryLock,
        store_kind: str,
        options: ChangelogOptions,
        active: ActiveSegment,
        tail: Tail,
        clock_ms: Callable[[], int],
    ) -> None:
        self._directory = directory
        self._lock = lock
        self._store_kind = store_kind
        self._schema = change_schema(store_kind)
        self._options = options
        self._bodies = BodyWriter(self._schema, options.compression)
        self._active = active
        self._tail = tail
        self._clock_ms = clock_ms
        self._unnoted: _Unnoted | None = None
        self._open = True
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
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> Self:
        """Create an empty changelog in *directory*, which may be missing, and open it.

        With a *first_offset* above 0 it continues a log that is kept elsewhere, as in a snapshot.

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
                position=NO_POSITION,
            )
            active, tail = _begin_segment(path, head)
        except BaseException:
            lock.release()
            raise
        return cls(path, lock, store_kind, options, active, tail, clock_ms)

    @classmethod
    def open_or_create(cls, directory: str | PathLike[str], store_kind: str) -> Self:
        """Open the changelog in *directory*, or create it where there is none.

        Raises:
            StateStoreError: See `open` and `create`.
        """
        make = cls.open if cls.exists(directory) else cls.create
        return make(directory, store_kind)

    @classmethod
    def open(
        cls,
        directory: str | PathLike[str],
        store_kind: str,
        options: ChangelogOptions = _DEFAULTS,
        *,
        committed_offset: int | None = None,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> Self:
        """Open the changelog in *directory* to append to it, and cut a torn tail (LOG-10).

        *committed_offset* is the last offset that the store has committed. A torn tail that
        begins at or before it is damage and not cut: the append there had returned (LOG-16).
        When it raises, nothing stored has changed.

        Raises:
            StoreNotFoundError: There is no changelog; `create` makes one.
            StoreLockedError: It is open elsewhere; the message names the owner.
            ChangelogCorruptedError: It is damaged, a segment is missing, or it ends before the
                committed offset.
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
            check_chain(listing, store_kind)
            tail, frames_at = open_last_segment(listing, committed_offset)
            remove_files((*leftovers(path), *listing.covered), path)
            active = ActiveSegment.open(listing.segments[-1].path, frames_at, tail.start)
        except BaseException:
            lock.release()
            raise
        return cls(path, lock, store_kind, options, active, tail, clock_ms)

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
    def is_open(self) -> bool:
        return self._open

    @property
    def first_offset(self) -> int:
        self.check_open()
        return list_segments(self._directory).segments[0].first_offset

    @property
    def end_offset(self) -> int:
        self.check_open()
        return self._tail.end_offset

    @property
    def position(self) -> Position:
        self.check_open()
        return self._tail.position

    @property
    def torn_tail(self) -> TornTail | None:
        """What opening has cut off; ``None`` when the log ended with a whole frame."""
        return self._tail.torn

    def segments(self) -> tuple[SegmentInfo, ...]:
        """Return the segments that count, in order; the last one is active."""
        self.check_open()
        return list_segments(self._directory).segments

    def append(
        self,
        changes: Changes,
        *,
        position: Position = NO_POSITION,
        durability: Durability = Durability.POWER_LOSS,
    ) -> OffsetRange:
        self.check_open()
        batch = batch_from_changes(self._schema, changes)
        return self._append(FrameKind.CHANGES, batch, position, durability)

    def append_batch(
        self,
        batch: pa.RecordBatch,
        *,
        position: Position = NO_POSITION,
        durability: Durability = Durability.POWER_LOSS,
    ) -> OffsetRange:
        self.check_open()
        batch = check_batch(self._schema, batch)
        return self._append(FrameKind.CHANGES, batch, position, durability)

    def append_clear(
        self,
        *,
        position: Position = NO_POSITION,
        durability: Durability = Durability.POWER_LOSS,
    ) -> int:
        self.check_open()
        return self._append(FrameKind.CLEAR, None, position, durability).last

    def read(self, from_offset: int | None = None, to_offset: int | None = None) -> Iterator[Frame]:
        start, stop = check_range(
            self._directory, from_offset, to_offset, self.first_offset, self.end_offset
        )
        return read_range(self._directory, start, stop, self._tail.before, lambda: self._open)

    def seal(self) -> None:
        """Begin a new segment, so that what is there can be compacted or deleted.

        Without a frame in the active segment, nothing happens.

        Raises:
            StoreClosedError: The changelog is closed.
            StorageError: The disk is full or failed.
        """
        self.check_open()
        tail, active = self._tail, self._active
        if tail.end_offset == tail.first_offset:
            return
        active.wait_for_disk()
        reach("changelog.roll.before")
        head = SegmentHead(
            store_kind=self._store_kind,
            compression=self._options.compression,
            base_offset=tail.end_offset,
            previous_base=tail.first_offset,
            compacted_to=None,
            position=tail.position,
        )
        try:
            self._active, self._tail = _begin_segment(self._directory, head)
        except BaseException:
            if may_be_there(self._directory / segment_name(tail.end_offset)):
                # Nobody knows which of the two a power failure would leave as the last one.
                active.refuse_appends("the segment after it could not be made durable")
            raise
        active.close()

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
        if offset > self._tail.end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} is not written yet: the changelog ends before "
                f"{self._tail.end_offset}"
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

    def close(self) -> None:
        # Each step may be repeated, so that an interrupted close can be.
        self._open = False
        self._active.close()
        self._lock.release()

    def disown(self) -> None:
        """Be closed in a forked child; the parent's log goes on (COM-44)."""
        self.close()

    def check_open(self) -> None:
        """Accept a changelog that is open.

        Raises:
            StoreClosedError: It is closed.
        """
        if self._unnoted is not None:
            self._take_note()
        if not self._open:
            raise StoreClosedError(
                f"the changelog in {str(self._directory)!r} is closed; open it again"
            )

    def _append(
        self,
        kind: FrameKind,
        batch: pa.RecordBatch | None,
        position: Position,
        durability: Durability,
    ) -> OffsetRange:
        """Append one frame and bring the log's totals up to date with it."""
        if not isinstance(position, Position):
            raise InvalidTypeError(f"position must be a Position, got {position!r}")
        count = 0 if batch is None else batch.num_rows
        body: pa.Buffer | bytes = self._bodies.write(batch) if count else b""
        if len(body) > MAX_BODY_BYTES:
            raise InvalidArgumentError(
                f"one append is stored in at most {MAX_BODY_BYTES} bytes, got {len(body)}; commit "
                "more often"
            )
        packed = pack_position(position)
        base = self._tail.end_offset
        last = base + max(count, 1) - 1
        if last >= 1 << 63:
            raise InvalidArgumentError(f"offsets end at 2**63 - 1, and this append needs {last}")
        header = FrameHeader(
            version=FRAME_FORMAT_VERSION,
            kind=kind,
            flags=0,
            position_bytes=len(packed),
            body_bytes=len(body),
            num_changes=count,
            base_offset=base,
            last_offset=last,
            appended_at_ms=self._clock_ms(),
        )
        if self._active.end + header.frame_bytes > self._options.segment_bytes:
            self.seal()
        active, tail = self._active, self._tail
        durable = durability is Durability.POWER_LOSS
        reach("changelog.append.before")
        self._unnoted = _Unnoted(active, tail, active.end, header, position)
        active.append([pack_frame(header, packed, body), body], durable=durable)
        self._take_note()
        return OffsetRange(base, last)

    def _take_note(self) -> None:
        """Add the frame appended last to the totals, if it is there; again after an interrupt."""
        unnoted = self._unnoted
        if unnoted is None:
            return
        active, tail, start, header, position = unnoted
        if active.end > start and tail.end_offset == header.base_offset:
            tail.index.add(header.base_offset, start)
            if header.kind is FrameKind.CLEAR:
                tail.position = position
            elif position:
                tail.position = tail.position.merge(position)
            # Last, and in one line: until it is done, all of this is done again.
            tail.start, tail.end_offset = active.end, header.last_offset + 1
        self._unnoted = None


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


def _begin_segment(directory: Path, head: SegmentHead) -> tuple[ActiveSegment, Tail]:
    """Create the segment of *head*, durably, and return it with its tail."""
    active = ActiveSegment.create(directory, head)
    active.publish_or_discard()
    try:
        with Segment.open(active.path) as segment:
            return active, Tail.at_beginning(segment)
    except BaseException:
        active.close()
        raise
