"""What a segment reads of its file: whole heads, no more than it needs, and what is there now."""

import errno
import os
from pathlib import Path

import pytest
from small_log import FIRST, ROWS, frames_in

from statestores.changelog import ChangelogOptions, ChangelogReader, Compression, FileChangelog
from statestores.changelog.frame import FRAME_HEADER_BYTES
from statestores.changelog.segments import segment as segment_module
from statestores.changelog.segments.segment import Segment
from statestores.errors import StorageError
from statestores.spi import Changes, Durability, Position, TopicPartition

NOSYNC = Durability.PROCESS_CRASH
PLAIN = ChangelogOptions(compression=Compression.NONE)
CHUNK_BYTES = segment_module._CHUNK_BYTES


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many bytes each read asks for."""
    found: list[int] = []
    pread = os.pread

    def noted(descriptor: int, length: int, start: int) -> bytes:
        found.append(length)
        return pread(descriptor, length, start)

    monkeypatch.setattr(os, "pread", noted)
    return found


@pytest.mark.spec("LOG-2", "LOG-6")
def test_the_head_of_a_log_may_be_long(directory: Path) -> None:
    """A log that goes on elsewhere begins with a position, here of a thousand partitions.

    Mutants that read 4,096 bytes of it, and no more, passed: such a log was damaged for everybody.
    """
    position = Position({TopicPartition("clicks", each): each for each in range(1_000)})
    with FileChangelog.create(directory, "key-value", first_offset=7, position=position) as log:
        log.append(Changes([b"k"], [b"v"]))
    with FileChangelog.open(directory, "key-value") as log:
        assert log.position == position
    with ChangelogReader.open(directory) as reader:
        assert [frame.position for frame in reader.read()] == [Position()]

        assert reader.position == position


def test_a_frame_costs_a_chunk_wherever_it_is(directory: Path, reads: list[int]) -> None:
    """And neither what lies before it, nor what a damaged length says: memory, and time."""
    with FileChangelog.create(directory, "key-value", PLAIN) as log:
        for _ in range(4):
            log.append(Changes([b"k"], [b"v" * (CHUNK_BYTES // 2)]), durability=NOSYNC)
        start = log._end.tail.start
        log.append(Changes([b"k"], [b"last"]), durability=NOSYNC)
    path = directory / FIRST
    reads.clear()
    with Segment.open(path) as segment:
        assert segment.frame_at(start) is not None
    assert max(reads) == CHUNK_BYTES

    data = bytearray(path.read_bytes())
    data[start + 16 : start + 20] = (0xFFFF_FFF8).to_bytes(4, "big")
    path.write_bytes(data)
    reads.clear()
    with Segment.open(path) as segment:
        assert segment.frame_at(start) is None

    assert max(reads) == CHUNK_BYTES


def test_a_later_frame_is_looked_for_in_what_is_there_now(segment: Path, ends: list[int]) -> None:
    """What was read of the file before may be older than it: damage was taken for a torn tail."""
    data = segment.read_bytes()
    segment.write_bytes(data[: ends[2]] + bytes(len(data) - ends[2]))
    with Segment.open(segment) as opened:
        assert opened.frame_at(ends[1]) is not None
        segment.write_bytes(data)
        found = opened.later_frame(ends[1], 3)

    assert found is not None
    assert found.start == ends[2]


def test_a_file_that_was_given_an_old_time_has_not_settled(segment: Path) -> None:
    """A copy keeps the time of what it is copied from; its status has changed just now."""
    os.utime(segment, ns=(1, 1))
    with Segment.open(segment) as opened:
        assert opened.stamp is None


def test_a_segment_is_closed_once(segment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often that is asked for: a mutant closed the standard input of the process."""
    opened, closed = Segment.open(segment), list[int]()
    close = os.close

    def noted(descriptor: int) -> None:
        closed.append(descriptor)
        if len(closed) == 1:
            close(descriptor)

    monkeypatch.setattr(os, "close", noted)
    opened.close()
    opened.close()

    assert len(closed) == 1


@pytest.mark.parametrize(
    ("call", "message"), [("fstat", "cannot look at"), ("pread", "cannot read")]
)
def test_what_the_disk_refuses_is_told_by_the_name_of_the_file(
    segment: Path, monkeypatch: pytest.MonkeyPatch, call: str, message: str
) -> None:
    """By which the file is found, and the word says what was being done."""

    def fail(*given: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Segment.open(segment) as opened:
        with monkeypatch.context() as patched:
            patched.setattr(os, call, fail)
            with pytest.raises(StorageError, match=f"{message} '{segment}': "):
                opened.frame_at(opened.frames_at)

        assert opened.frame_at(opened.frames_at) is not None


def test_a_pipe_in_the_place_of_a_segment_keeps_nobody_waiting(directory: Path) -> None:
    """Opening one waits for whoever writes to it, which nobody does; it is called by its name."""
    directory.mkdir()
    os.mkfifo(directory / FIRST)
    with pytest.raises(StorageError, match=f"cannot read '{directory / FIRST}'"):
        ChangelogReader.open(directory)


def test_a_frame_says_when_it_was_appended(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In milliseconds since the epoch, rounded down: retention by time is measured by it."""
    with FileChangelog.create(directory, "key-value") as log:
        monkeypatch.setattr("time.time_ns", lambda: 1_800_000_000_000_999_999)
        log.append(Changes([b"k"], [b"v"]))
        [frame] = log.read()

    assert frame.appended_at_ms == 1_800_000_000_000


def test_what_is_read_of_a_small_log_is_all_of_it(directory: Path, segment: Path) -> None:
    """In as many reads as the file system likes: here one byte at a time."""
    pread = os.pread

    def read_a_byte(descriptor: int, length: int, start: int) -> bytes:
        return pread(descriptor, min(length, 1 + start % 2), start)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "pread", read_a_byte)
        with ChangelogReader.open(directory) as reader:
            assert frames_in(reader) == ROWS

    assert segment.stat().st_size > FRAME_HEADER_BYTES
