"""Reading a changelog without its writer's lock, while the writer goes on (LOG-13).

What the writer is just writing is not there yet. Every call looks at the directory anew.
"""

from collections import OrderedDict
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Self

from statestores.changelog.contract import ReadOnlyChangelog
from statestores.changelog.frame import Frame
from statestores.changelog.range_reading import check_range, read_range
from statestores.changelog.segments.segment import Segment
from statestores.changelog.segments.segment_directory import (
    SegmentInfo,
    SegmentListing,
    check_name,
    list_segments,
    read_head,
)
from statestores.changelog.segments.tail import Tail, TornTail
from statestores.errors import (
    ChangelogCorruptedError,
    StorageError,
    StoreClosedError,
    StoreMismatchError,
    StoreNotFoundError,
)
from statestores.files.local_path import local_path
from statestores.spi.forking import renew_after_fork
from statestores.spi.offsets import Position, TopicPartition

_ATTEMPTS = 100
_SETTLED = 1024  # tails of a few hundred bytes


class _SettledTails:
    """The tails of last segments that nobody has written to for a while, for the next reader.

    A reader opens a changelog for each thing it wants to know, and to find its end it must read
    the last segment. A segment is still the same one while its file and its stamp are.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._tails: OrderedDict[tuple[Path, tuple[int, ...]], Tail] = OrderedDict()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        """Have a free lock, in a forked child, which opens changelogs of its own."""
        self._lock = Lock()

    def get(self, segment: Segment, stamp: tuple[int, ...] | None) -> Tail | None:
        """Return a copy of the tail of *segment*, if it is known."""
        if stamp is None:
            return None
        with self._lock:
            tail = self._tails.get((segment.path, stamp))
            if tail is None or tail.identity != segment.identity:
                return None
            return tail.copy()

    def keep(self, segment: Segment, stamp: tuple[int, ...], tail: Tail) -> None:
        """Take a copy of the *tail* of *segment*, and forget the oldest ones."""
        with self._lock:
            self._tails[segment.path, stamp] = tail.copy()
            while len(self._tails) > _SETTLED:
                self._tails.popitem(last=False)


_settled_tails = _SettledTails()


class ChangelogReader(ReadOnlyChangelog):
    """A changelog of another process, or of a writer in this one. One thread at a time uses it."""

    def __init__(
        self,
        directory: Path,
        store_kind: str,
        tail: Tail,
        partition: TopicPartition | None = None,
    ) -> None:
        self._directory = directory
        self._store_kind = store_kind
        self._tail = tail
        self._partition = partition
        self._open = True

    @classmethod
    def open(
        cls,
        directory: str | PathLike[str],
        store_kind: str | None = None,
        *,
        partition: TopicPartition | None = None,
    ) -> Self:
        """Open the changelog in *directory* for reading. Nothing is changed, ever.

        *partition*, as `changelog_partition` gives it, says whose changelog it has to be, where
        its segments say that at all (LAY-33).

        Raises:
            StoreNotFoundError: There is no changelog.
            StoreMismatchError: It is not one of a store of *store_kind*.
            ChangelogCorruptedError: It is damaged in the last segment, or that is one of another
                partition; so may be what `read` comes to.
            UnsupportedFormatError: It is of a format version that is not known here.
            StorageError: It cannot be read.
        """
        path = local_path(directory, "directory")
        tail, found = _read_tail(path, None, partition)
        _check_kind(path, found, store_kind)
        return cls(path, found, tail, partition)

    def another(self) -> Self:
        """Return a reader for another thread, which need not read again what this one has."""
        self._check_open()
        return type(self)(self._directory, self._store_kind, self._tail.copy(), self._partition)

    @property
    def directory(self) -> Path:
        """Where the segments are."""
        return self._directory

    @property
    def store_kind(self) -> str:
        return self._store_kind

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def first_offset(self) -> int:
        return self._listed().bases[0]

    @property
    def end_offset(self) -> int:
        return self._refresh().end_offset

    @property
    def position(self) -> Position:
        return self._refresh().position

    @property
    def known_end(self) -> tuple[int, Position]:
        """The end offset and the position there when the reader has last looked: at its opening."""
        return self._tail.end_offset, self._tail.position

    @property
    def torn_tail(self) -> TornTail | None:
        """What is after the last whole frame now: an append that is running, or that died."""
        return self._refresh().torn

    def segments(self) -> tuple[SegmentInfo, ...]:
        """Return the segments that count now, in order; the last one still grows.

        Raises:
            StoreClosedError: The reader is closed.
            StoreNotFoundError: The changelog has been removed.
            ChangelogCorruptedError, StorageError: The directory is damaged, or cannot be read.
        """
        return self._listed().segments

    def read(self, from_offset: int | None = None, to_offset: int | None = None) -> Iterator[Frame]:
        end = self._refresh().end_offset
        start, stop = check_range(self._directory, from_offset, to_offset, self.first_offset, end)
        return read_range(
            self._directory, start, stop, self._tail.before, lambda: self._open, self._partition
        )

    def close(self) -> None:
        self._open = False

    def _listed(self) -> SegmentListing:
        self._check_open()
        listing = list_segments(self._directory)
        if not listing.bases:
            raise _not_found(self._directory)
        return listing

    def _check_open(self) -> None:
        if not self._open:
            raise StoreClosedError(
                f"the reader of the changelog {str(self._directory)!r} is closed; open another one"
            )

    def _refresh(self) -> Tail:
        """Return the tail as it is now."""
        self._check_open()
        self._tail, _ = _read_tail(self._directory, self._tail, self._partition)
        return self._tail


def first_segment(
    directory: Path, store_kind: str, *, partition: TopicPartition | None = None
) -> SegmentInfo:
    """Return the first segment of the changelog in *directory*, without a look at its changes.

    Opening the changelog reads the last segment, to find the end.

    Raises:
        StateStoreError: As `ChangelogReader.open`, of the first segment instead of the last.
    """
    for _ in range(_ATTEMPTS):
        listing = list_segments(directory)
        first = listing.holding(listing.bases[0]) if listing.bases else None
        if first is None:
            raise _not_found(directory)
        try:
            head = read_head(first.path, partition)
        except FileNotFoundError:
            continue  # compacted and removed since the directory was read
        _check_kind(directory, head.store_kind, store_kind)
        return first
    raise _changing(directory)


def _check_kind(directory: Path, found: str, wanted: str | None) -> None:
    """Accept a changelog of the kind that is *wanted*, if one is.

    Raises:
        StoreMismatchError: It is of another one.
    """
    if wanted is not None and wanted != found:
        raise StoreMismatchError(
            f"the changelog {str(directory)!r} is that of a {found} store, and was opened for a "
            f"{wanted} store"
        )


def _read_tail(
    directory: Path, known: Tail | None, partition: TopicPartition | None
) -> tuple[Tail, str]:
    """Return the tail of the log in *directory*, read on from *known*, and the kind of store."""
    for _ in range(_ATTEMPTS):
        last = list_segments(directory).last
        if last is None:
            raise _not_found(directory)
        try:
            segment = Segment.open(last)
        except FileNotFoundError:
            continue  # sealed, compacted and removed since the directory was read
        with segment:
            check_name(segment, partition)
            if segment.head.compacted_to is not None:
                continue  # no longer the last one
            return _tail_of(segment, known), segment.head.store_kind
    raise _changing(directory)


def _tail_of(segment: Segment, known: Tail | None) -> Tail:
    """Return the tail of the last *segment*, read on from *known*."""
    stamp = segment.stamp
    if known is None:
        known = _settled_tails.get(segment, stamp)
    tail = known
    if tail is None or tail.identity != segment.identity or tail.start > segment.size():
        tail = Tail.at_beginning(segment)
    try:
        tail.advance(segment)
    except ChangelogCorruptedError:
        if tail is not known:
            raise
        # The writer may have cut a frame that was read here before its disk failed.
        tail = Tail.at_beginning(segment)
        tail.advance(segment)
    if stamp is not None and segment.stamp == stamp:
        _settled_tails.keep(segment, stamp, tail)
    return tail


def _changing(directory: Path) -> StorageError:
    """Return the error for a directory that is never the same for long enough."""
    return StorageError(
        f"the segments of {str(directory)!r} change faster than they can be read; try again"
    )


def _not_found(directory: Path) -> StoreNotFoundError:
    """Return the error for a directory without segments."""
    return StoreNotFoundError(f"there is no changelog in {str(directory)!r}; check the path")
