"""Reading a log that a writer is changing, without its lock."""

import errno
import os
import threading
from pathlib import Path

import pytest

from statestores.changelog import (
    ChangelogOptions,
    ChangelogReader,
    Compression,
    FileChangelog,
    Frame,
    compact,
    range_reading,
)
from statestores.changelog.segments.segment import Segment
from statestores.changelog.segments.segment_directory import list_segments
from statestores.errors import (
    ChangelogCorruptedError,
    OffsetOutOfRangeError,
    StorageError,
    StoreNotFoundError,
)
from statestores.spi import Changes, Durability, Position, TopicPartition

NOSYNC = Durability.PROCESS_CRASH
PLAIN = ChangelogOptions(compression=Compression.NONE)
SMALL = ChangelogOptions(segment_bytes=1)
INPUT = TopicPartition("numbers", 0)

FRAMES = 1_500
KEYS = 50


def one(value: int) -> Changes:
    """Return one change of a key that says its own value."""
    return Changes([b"%d" % (value % KEYS)], [b"%d" % value])


def values(frames: list[Frame]) -> list[bytes | None]:
    """Return the values of all changes of *frames*."""
    return [value for frame in frames for value in frame.changes.values]


@pytest.mark.spec("LOG-13", "LOG-19")
@pytest.mark.parametrize("compacting", [False, True])
def test_a_reader_follows_a_writer(directory: Path, *, compacting: bool) -> None:
    """Frames come whole, in order, without a hole, while the writer rolls and compacts.

    A compacted frame may reach over the end that the log had when a read began: its part up to
    there comes last, and has no position, since nobody knows what that would be.
    """
    options = ChangelogOptions(segment_bytes=20_000)
    failures: list[BaseException] = []
    log = FileChangelog.create(directory, "key-value", options)

    def append() -> None:
        try:
            for number in range(FRAMES):
                position = Position({INPUT: number})
                log.append(one(number), position=position, durability=NOSYNC)
                if compacting and number % 100 == 99:
                    compact(log)
        except BaseException as error:  # noqa: BLE001  # for the thread that waits
            failures.append(error)

    writer = threading.Thread(target=append)
    seen: dict[bytes, int] = {}
    cursor = count = 0
    with ChangelogReader.open(directory) as reader:
        writer.start()
        try:
            while cursor < FRAMES and not failures:
                is_cut = False
                for frame in reader.read(cursor):
                    assert not is_cut
                    assert frame.base_offset == cursor
                    cursor = frame.last_offset + 1
                    count += frame.batch.num_rows
                    columns = frame.changes
                    for key, value, offset in zip(
                        columns.keys, columns.values, frame.offsets, strict=True
                    ):
                        assert value == b"%d" % offset
                        seen[key] = offset
                    is_cut = compacting and not frame.position
                    assert is_cut or frame.position == {INPUT: frame.last_offset}
                assert reader.position.get(INPUT, -1) >= cursor - 1
        finally:
            writer.join()
            log.close()

    assert failures == []
    assert seen == {b"%d" % (at % KEYS): at for at in range(FRAMES - KEYS, FRAMES)}
    assert count == FRAMES or (compacting and count >= KEYS)


@pytest.mark.spec("LOG-13")
def test_a_frame_that_is_being_written_is_not_there_yet(directory: Path) -> None:
    """Piece by piece; the reader tells how much stands there, and goes on once it is whole."""
    with FileChangelog.create(directory, "key-value", PLAIN) as log:
        path = log.segments()[0].path
        log.append(one(0), durability=NOSYNC)
        start = path.stat().st_size
        log.append(one(1), durability=NOSYNC)
    whole = path.read_bytes()
    path.write_bytes(whole[:start])
    with ChangelogReader.open(directory) as reader, path.open("r+b", buffering=0) as file:
        assert reader.end_offset == 1
        for length in range(start + 1, len(whole), 5):
            file.seek(start)
            file.write(whole[start:length])
            assert reader.end_offset == 1
            assert reader.torn_tail is not None
            assert reader.torn_tail.length == length - start
        file.seek(start)
        file.write(whole[start:])

        assert values(list(reader.read(1))) == [b"1"]
        assert reader.torn_tail is None


@pytest.mark.spec("LOG-13")
def test_frames_that_are_completed_during_the_search_are_no_damage(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader finds half a frame; while it looks further, the writer completes it and another."""
    with FileChangelog.create(directory, "key-value", PLAIN) as log:
        path = log.segments()[0].path
        log.append(one(0), durability=NOSYNC)
        start = path.stat().st_size
        log.append(one(1), durability=NOSYNC)
        log.append(one(2), durability=NOSYNC)
    whole = path.read_bytes()
    path.write_bytes(whole[: start + 60])
    search = Segment.later_frame

    def write_meanwhile(segment: Segment, at: int, expected: int) -> object:
        path.write_bytes(whole)
        return search(segment, at, expected)

    monkeypatch.setattr(Segment, "later_frame", write_meanwhile)
    with ChangelogReader.open(directory) as reader:
        assert values(list(reader.read())) == [b"0", b"1", b"2"]


@pytest.mark.spec("LOG-13", "LOG-15")
def test_a_frame_that_the_writer_took_back_is_forgotten(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader had seen the frame when the disk failed; another one stands in its place now."""
    with FileChangelog.create(directory, "key-value", PLAIN) as log:
        log.append(one(0))
        reader = ChangelogReader.open(directory)

        def look_and_fail(descriptor: int) -> None:
            assert reader.end_offset == 2
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", look_and_fail)
            with pytest.raises(StorageError):
                log.append(one(1))
        assert reader.end_offset == 1
        assert log.end_offset == 1

    with FileChangelog.open(directory, "key-value", PLAIN) as log:
        log.append(one(1))
        assert reader.end_offset == 2

        def look_again_and_fail(descriptor: int) -> None:
            assert reader.end_offset == 3
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", look_again_and_fail)
            with pytest.raises(StorageError):
                log.append(one(2))
    with FileChangelog.open(directory, "key-value", PLAIN) as log:
        log.append(Changes([b"k"], [b"v" * 500]))
        log.append(one(3))

        assert reader.end_offset == 4
        assert values(list(reader.read(2))) == [b"v" * 500, b"3"]
    reader.close()


@pytest.mark.spec("LOG-19")
def test_a_read_goes_on_across_a_compaction(directory: Path) -> None:
    """What has been read stays read; what comes is read from the new segment, without a hole."""
    with FileChangelog.create(directory, "key-value", SMALL) as log:
        for number in range(6):
            log.append(one(number % 3), durability=NOSYNC)
        with ChangelogReader.open(directory) as reader:
            frames = reader.read()
            before = [next(frames), next(frames)]
            compact(log)
            after = list(frames)

            assert values(before) == [b"0", b"1"]
            assert [(frame.base_offset, frame.last_offset) for frame in after] == [(2, 4), (5, 5)]
            assert values(after) == [b"2", b"0", b"1", b"2"]
            assert [offset for frame in after for offset in frame.offsets] == [2, 3, 4, 5]


@pytest.mark.spec("LOG-9")
def test_a_read_that_is_overtaken_by_a_deletion_says_so(directory: Path) -> None:
    """It must not skip what it was asked for."""
    with FileChangelog.create(directory, "key-value", SMALL) as log:
        for number in range(4):
            log.append(one(number), durability=NOSYNC)
        with ChangelogReader.open(directory) as reader:
            frames = reader.read()
            next(frames)
            log.delete_before(3)
            with pytest.raises(OffsetOutOfRangeError, match="offset 1 has been deleted"):
                next(frames)
            assert reader.first_offset == 3


@pytest.mark.spec("LOG-19")
def test_a_listing_that_is_out_of_date_is_made_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the directory and the opening, the segment was compacted away."""
    with FileChangelog.create(directory, "key-value", SMALL) as log:
        for number in range(4):
            log.append(one(number), durability=NOSYNC)
        stale = [list_segments(directory)]
        compact(log)

        def listing(path: Path) -> object:
            return stale.pop() if stale else list_segments(path)

        monkeypatch.setattr(range_reading, "list_segments", listing)
        with ChangelogReader.open(directory) as reader:
            assert values(list(reader.read(2))) == [b"2", b"3"]
        assert len(stale) == 0


def test_a_log_that_is_removed_is_no_longer_found(directory: Path) -> None:
    """A reader that stays open tells it at its next look."""
    with FileChangelog.create(directory, "key-value") as log:
        log.append(one(0))
    with ChangelogReader.open(directory) as reader:
        for path in directory.glob("*.log"):
            path.unlink()
        with pytest.raises(StoreNotFoundError):
            reader.read()
        with pytest.raises(StoreNotFoundError):
            _ = reader.first_offset


@pytest.mark.spec("LOG-11")
def test_damage_that_comes_while_a_reader_follows_is_an_error(directory: Path) -> None:
    """Also in frames that the reader has verified before."""
    with FileChangelog.create(directory, "key-value", PLAIN) as log:
        log.append(one(0))
        log.append(one(1))
        with ChangelogReader.open(directory) as reader:
            path = log.segments()[0].path
            whole = path.read_bytes()
            path.write_bytes(whole[:-3] + b"!!!")
            with pytest.raises(ChangelogCorruptedError, match="no longer intact"):
                list(reader.read())


@pytest.mark.spec("LOG-4")
def test_reading_from_the_middle_begins_near_there(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writer and reader remember a place for each megabyte of the active segment."""
    with FileChangelog.create(directory, "key-value", PLAIN) as log:
        for number in range(40):
            log.append(Changes([b"%d" % number], [b"v" * 100_000]), durability=NOSYNC)
        with ChangelogReader.open(directory) as reader:
            looked_at: list[int] = []
            frame_at = Segment.frame_at

            def look(segment: Segment, start: int, *, fresh: bool = False) -> object:
                looked_at.append(start)
                return frame_at(segment, start, fresh=fresh)

            for opened in (log, reader):
                assert opened.end_offset == 40
                frames = opened.read(35)
                looked_at.clear()
                with monkeypatch.context() as patch:
                    patch.setattr(Segment, "frame_at", look)
                    assert [frame.base_offset for frame in frames] == [35, 36, 37, 38, 39]
                assert len(looked_at) <= 5 + 11


@pytest.mark.spec("LOG-1")
def test_a_read_that_gives_less_than_was_asked_is_gone_on_with(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system over a network may: half of a frame is not a torn one."""
    with FileChangelog.create(directory, "key-value", PLAIN) as log:
        for value in range(3):
            log.append(one(value), durability=NOSYNC)
    read = os.pread

    def halting(descriptor: int, length: int, offset: int) -> bytes:
        return read(descriptor, min(length, 7), offset)

    monkeypatch.setattr(os, "pread", halting)

    with ChangelogReader.open(directory) as reader:
        assert values(list(reader.read())) == [b"0", b"1", b"2"]
