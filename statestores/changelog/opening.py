"""What a writer checks before it takes over a changelog: that nothing is missing (LOG-11, LOG-16).

Nothing is changed here, so an opening that fails leaves everything as it was.
"""

from statestores.changelog.segments.segment import Segment
from statestores.changelog.segments.segment_directory import (
    SegmentListing,
    check_name,
    read_head,
)
from statestores.changelog.segments.tail import Tail
from statestores.errors import ChangelogCorruptedError, StorageError, StoreMismatchError
from statestores.spi.offsets import TopicPartition


def check_chain(
    listing: SegmentListing, store_kind: str, partition: TopicPartition | None = None
) -> None:
    """Accept segments that follow each other, all of *store_kind*, none of another *partition*.

    Raises:
        StoreMismatchError: They are of another kind of store.
        ChangelogCorruptedError: A head is damaged, a segment is missing, or one is another's.
        UnsupportedFormatError: One is of a version that is not known here.
        StorageError: One cannot be read.
    """
    before: int | None = None
    for info in listing.segments:
        try:
            head = read_head(info.path, partition)
        except FileNotFoundError as error:
            raise StorageError(
                f"{str(info.path)!r} was removed while the changelog was opened"
            ) from error
        if head.store_kind != store_kind:
            raise StoreMismatchError(
                f"the changelog {str(info.path.parent)!r} is that of a {head.store_kind} store, "
                f"and was opened for a {store_kind} store"
            )
        if before is not None and head.previous_base != before:
            raise ChangelogCorruptedError(
                f"a changelog segment is missing before {str(info.path)!r}: the one that came "
                f"before it begins at offset {head.previous_base}, and is not there; restore the "
                "file, or the store from a snapshot or a standby"
            )
        # The listing has checked what follows a compacted segment.
        before = None if info.compacted else info.first_offset


def open_last_segment(
    listing: SegmentListing, committed_offset: int | None
) -> tuple[Tail, int, TopicPartition | None]:
    """Return the tail of the last segment of *listing*, where its frames begin, and whose it is.

    Raises:
        ChangelogCorruptedError: A frame is damaged, or the log ends before *committed_offset*.
        UnsupportedFormatError: A frame is of a version that is not known here.
        StorageError: It cannot be read.
    """
    with Segment.open(listing.segments[-1].path) as segment:
        check_name(segment)
        tail = Tail.at_beginning(segment)
        tail.advance(segment)
        if committed_offset is not None and committed_offset >= tail.end_offset:
            reason = (
                f"the store has committed offset {committed_offset}, and the changelog ends "
                f"before {tail.end_offset}"
            )
            raise segment.damage(tail.start, tail.end_offset, reason)
        return tail, segment.frames_at, segment.head.partition


def read_on(
    listing: SegmentListing, known: Tail, partition: TopicPartition | None
) -> tuple[Tail, int] | None:
    """Return the tail of the last segment, read on from *known*, and where its frames begin.

    ``None`` if nothing has come since.

    Raises:
        ChangelogCorruptedError: A frame is damaged, or the segment is not one of *partition*.
        UnsupportedFormatError: A frame is of a version that is not known here.
        StorageError: It cannot be read.
    """
    with Segment.open(listing.segments[-1].path) as segment:
        check_name(segment, partition)
        size = segment.size()
        is_known = known.identity == segment.identity and known.start <= size
        if is_known and known.start == size:
            return None
        tail = known.copy() if is_known else Tail.at_beginning(segment)
        tail.advance(segment)
        return tail, segment.frames_at
