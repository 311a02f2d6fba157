"""Where a log ends, and where its frames begin, for whoever reads on from there."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from small_log import NOSYNC, frames_in

from statestores.changelog import (
    ChangelogOptions,
    ChangelogReader,
    Compression,
    FileChangelog,
    compact,
    log_reader,
    range_reading,
)
from statestores.changelog.segments import tail as tail_module
from statestores.changelog.segments.active_segment import ActiveSegment
from statestores.changelog.segments.segment import Segment, StoredFrame
from statestores.changelog.segments.segment_directory import SegmentListing, list_segments
from statestores.changelog.segments.segment_head import SegmentHead
from statestores.changelog.segments.tail import FrameIndex, Tail
from statestores.errors import (
    ChangelogCorruptedError,
    OffsetOutOfRangeError,
    StorageError,
    StoreClosedError,
)
from statestores.spi import Changes, Position, TopicPartition

MEBIBYTE = 1024 * 1024
SMALL = ChangelogOptions(segment_bytes=1)


def append(log: FileChangelog, count: int) -> None:
    """Append *count* frames of one change, each of a key of its own."""
    for _ in range(count):
        log.append(Changes([b"%d" % log.end_offset], [b"v" * 50]), durability=NOSYNC)


def test_an_index_tells_the_last_place_up_to_an_offset() -> None:
    """And none for what comes before its first place: that would be read from too far on."""
    index = FrameIndex()
    for offset, start in ((5, 100), (6, 200), (7, 100 + MEBIBYTE), (9, 99 + 2 * MEBIBYTE)):
        index.add(offset, start)

    assert (index.offsets, index.starts) == ([5, 7], [100, 100 + MEBIBYTE])
    assert index.before(4) is None
    assert index.before(5) == index.before(6) == (5, 100)
    assert index.before(7) == index.before(9) == (7, 100 + MEBIBYTE)


def test_an_index_forgets_half_an_entry() -> None:
    """An interrupt came between its two lists; from then on, they would not belong together."""
    index = FrameIndex([5], [100, 100 + MEBIBYTE])
    index.add(8, 7 + 2 * MEBIBYTE)

    assert (index.offsets, index.starts) == ([5, 8], [100, 7 + 2 * MEBIBYTE])


def test_a_copy_of_a_tail_goes_on_by_itself(segment: Path) -> None:
    """It is equal, places included, and what is added to it is not added to the other."""
    with Segment.open(segment) as opened:
        tail = Tail.at_beginning(opened)
        tail.advance(opened)
    copy = tail.copy()

    assert copy == tail
    assert copy.index.before(0) == tail.index.before(0)
    copy.index.add(6, MEBIBYTE * 5)
    assert len(tail.index.offsets) == 1


@pytest.mark.spec("LOG-10", "LOG-13")
def test_a_frame_that_was_half_there_when_it_was_read_ahead_is_read_again(
    segment: Path, ends: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer has completed it since: it is neither missing nor a torn tail."""
    frame_at = Segment.frame_at

    def half(opened: Segment, start: int, *, fresh: bool = False) -> StoredFrame | None:
        is_half_there = start == ends[2] and not fresh
        return None if is_half_there else frame_at(opened, start, fresh=fresh)

    monkeypatch.setattr(Segment, "frame_at", half)
    with Segment.open(segment) as opened:
        tail = Tail.at_beginning(opened)
        tail.advance(opened)

    assert (tail.start, tail.end_offset, tail.torn) == (ends[3], 6, None)


@pytest.mark.spec("LOG-11", "LOG-13")
def test_a_frame_that_was_completed_during_the_search_is_read_from_the_file(
    segment: Path, ends: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An intact one follows it: what was read ahead would make it damage."""
    frame_at, looks = Segment.frame_at, []

    def late(opened: Segment, start: int, *, fresh: bool = False) -> StoredFrame | None:
        if start == ends[1]:
            looks.append(fresh)
            if len(looks) < 3 or not fresh:
                return None
        return frame_at(opened, start, fresh=fresh)

    monkeypatch.setattr(Segment, "frame_at", late)
    with Segment.open(segment) as opened:
        tail = Tail.at_beginning(opened)
        tail.advance(opened)

    assert (tail.start, tail.end_offset, tail.torn) == (ends[3], 6, None)
    assert len(looks) == 3


@pytest.mark.spec("LOG-13")
def test_a_frame_is_read_again_when_that_is_asked_for(segment: Path, ends: list[int]) -> None:
    """What was read before is kept, and may have been written only in part."""
    whole = segment.read_bytes()
    with segment.open("r+b") as file, Segment.open(segment) as opened:
        file.seek(ends[3] - 100)
        file.write(bytes(100))
        file.flush()
        before = opened.frame_at(ends[2])
        file.seek(ends[3] - 100)
        file.write(whole[ends[3] - 100 :])
        file.flush()
        kept, fresh = opened.frame_at(ends[2]), opened.frame_at(ends[2], fresh=True)

    assert (before, kept) == (None, None)
    assert fresh is not None
    assert (fresh.start, fresh.stop) == (ends[2], ends[3])


@pytest.mark.spec("LOG-7")
def test_a_clear_without_a_position_forgets_the_one_before(directory: Path) -> None:
    """Whoever reads the log from its beginning has none then, as its writer has."""
    with FileChangelog.create(directory, "key-value") as log:
        log.append(Changes([b"k"], [b"v"]), position=Position({TopicPartition("clicks", 0): 7}))
        log.append_clear()
        with ChangelogReader.open(directory) as reader:
            assert reader.position == log.position == Position()
    with FileChangelog.open(directory, "key-value") as log:
        assert log.position == Position()


@pytest.mark.spec("LOG-19")
@pytest.mark.parametrize("open_it", [None, ChangelogReader.open], ids=["writer", "reader"])
def test_a_place_in_a_segment_that_was_replaced_is_not_looked_at(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    open_it: Callable[[Path], ChangelogReader] | None,
) -> None:
    """The compacted one has the same name and offsets, and its frames are elsewhere."""
    monkeypatch.setattr(tail_module, "_INDEX_BYTES", 1)
    with FileChangelog.create(directory, "key-value") as log:
        append(log, 6)
        reader = log if open_it is None else open_it(directory)
        frames = reader.read(4)
        log.seal()
        compact(log)

        assert [list(frame.offsets) for frame in frames] == [[4, 5]]
        reader.close()


@pytest.mark.spec("LOG-13", "LOG-19")
@pytest.mark.parametrize("sealed", [0, 1], ids=["replaced", "removed"])
def test_a_reader_that_finds_the_last_segment_compacted_looks_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch, sealed: int
) -> None:
    """It was the last one when the directory was listed; the end is where the log ends now."""
    with FileChangelog.create(directory, "key-value") as log:
        for _ in range(sealed):
            append(log, 1)
            log.seal()
        append(log, 1)
        stale = [list_segments(directory)]
        log.seal()
        compact(log)
        append(log, 2)

        def listing(path: Path) -> SegmentListing:
            return stale.pop() if stale else list_segments(path)

        monkeypatch.setattr(log_reader, "list_segments", listing)
        with ChangelogReader.open(directory) as reader:
            assert stale == []
            assert reader.end_offset == log.end_offset == sealed + 3


@pytest.mark.spec("LOG-13")
def test_a_reader_of_a_log_that_never_holds_still_says_so(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with an error, and not never."""
    with FileChangelog.create(directory, "key-value") as log:
        append(log, 1)
        stale = list_segments(directory)
        log.seal()
        compact(log)
        monkeypatch.setattr(log_reader, "list_segments", lambda _: stale)
        with pytest.raises(StorageError, match="change faster than they can be read; try again"):
            ChangelogReader.open(directory)


def test_another_reader_is_open_when_the_first_is_closed(segment: Path) -> None:
    """It is for another thread, of the same directory and kind; a closed one makes none."""
    reader = ChangelogReader.open(segment.parent)
    with reader.another() as other:
        whole = frames_in(reader)
        reader.close()

        assert (reader.is_open, other.is_open) == (False, True)
        assert (other.directory, other.store_kind) == (segment.parent, "key-value")
        assert (frames_in(other), other.end_offset) == (whole, 6)
    with pytest.raises(StoreClosedError, match="open another one"):
        reader.another()


@pytest.mark.spec("LOG-20")
def test_a_last_segment_under_another_name_is_no_end(directory: Path) -> None:
    """The directory reads as if offsets came before it that are not there."""
    with FileChangelog.create(directory, "key-value") as log:
        for _ in range(3):
            append(log, 1)
            log.seal()
        append(log, 1)
        last = log.segments()[-1].path
    last.rename(last.with_name("00000000000000000007.log"))
    for opener in (ChangelogReader.open, FileChangelog.open):
        with pytest.raises(ChangelogCorruptedError, match="another segment under this name"):
            opener(directory, "key-value")


@pytest.mark.spec("LOG-14")
def test_a_segment_that_may_not_be_made_is_our_error(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log goes on in the one that it has."""
    genuine = os.open

    def refuse(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT and str(path).endswith(".tmp"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return genuine(path, flags, mode)

    with FileChangelog.create(directory, "key-value") as log:
        append(log, 1)
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refuse)
            with pytest.raises(StorageError, match="cannot create"):
                log.seal()
        append(log, 1)

        assert (len(log.segments()), log.end_offset) == (1, 2)


def test_a_segment_that_is_discarded_may_be_gone(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has cleaned up; where it cannot be removed, the error is ours."""
    head = SegmentHead(
        store_kind="key-value",
        compression=Compression.NONE,
        base_offset=0,
        previous_base=None,
        compacted_to=None,
        position=Position(),
    )
    directory.mkdir()
    gone, stuck = (ActiveSegment.create(directory, replace(head, base_offset=at)) for at in (1, 2))
    gone.path.unlink()
    gone.discard()

    def refuse(_: Path, *, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(StorageError, match="cannot remove"):
        stuck.discard()


@pytest.mark.spec("LOG-4", "LOG-9")
def test_an_offset_outside_is_said_to_be_deleted_or_not_written(directory: Path) -> None:
    """Who reads one that comes later waits; who reads one that has gone needs a snapshot."""
    with FileChangelog.create(directory, "key-value") as log:
        append(log, 2)
        log.seal()
        log.delete_before(2)
        append(log, 1)
        with pytest.raises(OffsetOutOfRangeError, match="offset 1 has been deleted"):
            log.read(1)
        with pytest.raises(OffsetOutOfRangeError, match="offset 4 is not written yet"):
            log.read(2, 4)
        assert [list(frame.offsets) for frame in log.read(2, 3)] == [[2]]


@pytest.mark.spec("LOG-19")
def test_a_segment_that_was_replaced_after_the_listing_ends_where_it_says(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name was listed as that of a shorter one."""
    with FileChangelog.create(directory, "key-value", SMALL) as log:
        append(log, 4)
        stale = [list_segments(directory)]
        frames = log.read(0)
        compact(log)

        def listing(path: Path) -> SegmentListing:
            return stale.pop() if stale else list_segments(path)

        monkeypatch.setattr(range_reading, "list_segments", listing)
        assert [list(frame.offsets) for frame in frames] == [[0, 1, 2], [3]]
        assert stale == []


@pytest.mark.spec("LOG-11")
def test_a_sealed_segment_under_another_name_is_not_left_open(directory: Path) -> None:
    """The error says so; the fixture of this folder sees the file that a mutant left open."""
    with FileChangelog.create(directory, "key-value", SMALL) as log:
        append(log, 3)
        first, second, _ = (segment.path for segment in log.segments())
        second.write_bytes(first.read_bytes())
        with pytest.raises(ChangelogCorruptedError, match="another segment under this name"):
            list(log.read(1))
