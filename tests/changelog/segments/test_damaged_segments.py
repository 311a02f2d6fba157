"""Segments that are none, of another release, or that contradict themselves: errors by name."""

import random
import tracemalloc
from pathlib import Path

import google_crc32c
import pytest
from small_log import FIRST, ROWS, frames_in

from statestores.changelog import (
    ChangelogReader,
    FileChangelog,
)
from statestores.changelog.segments import tail
from statestores.errors import (
    ChangelogCorruptedError,
    StorageError,
    UnsupportedFormatError,
)
from statestores.spi import Changes, Durability


def seal(data: bytearray, start: int, checked_from: int, stop: int) -> bytes:
    """Return *data* with the checksum at *start* made right again."""
    checksum = google_crc32c.value(bytes(data[checked_from:stop]))
    data[start : start + 4] = checksum.to_bytes(4, "big")
    return bytes(data)


@pytest.mark.spec("LOG-20")
@pytest.mark.parametrize("name", ["1.log", "garbage.log", "0000000000000000000x.log", ".log"])
def test_files_that_are_named_like_segments_are_errors(
    directory: Path, segment: Path, name: str
) -> None:
    """It may be a segment that somebody renamed."""
    segment.with_name(name).write_bytes(b"")
    for opener in (FileChangelog.open, ChangelogReader.open):
        with pytest.raises(ChangelogCorruptedError, match="not the name of a changelog segment"):
            opener(directory, "key-value")


def test_an_opening_that_is_refused_holds_no_lock(directory: Path, segment: Path) -> None:
    """Whoever keeps the error, to log it, and puts the file right can open the log again.

    A mutant left the lock to the collector, which waits for as long as the error has a traceback.
    """
    data = segment.read_bytes()
    segment.write_bytes(b"x" + data[1:])
    with pytest.raises(ChangelogCorruptedError) as caught:
        FileChangelog.open(directory, "key-value")
    segment.write_bytes(data)
    with FileChangelog.open(directory, "key-value") as log:
        assert frames_in(log) == ROWS

    assert caught.value.__traceback__ is not None


@pytest.mark.spec("LOG-20")
def test_other_files_are_ignored(directory: Path, segment: Path) -> None:
    """Notes, and what a file manager leaves."""
    for name in ("notes.txt", ".DS_Store", "00000000000000000000.log.bak", "log"):
        segment.with_name(name).write_bytes(b"x")
    with FileChangelog.open(directory, "key-value") as log:
        assert frames_in(log) == ROWS

    assert (directory / "notes.txt").exists()


@pytest.mark.spec("LOG-20")
def test_a_renamed_segment_is_an_error(directory: Path, segment: Path) -> None:
    """The head says which one it is."""
    segment.rename(segment.with_name("00000000000000000007.log"))
    for opener in (FileChangelog.open, ChangelogReader.open):
        with pytest.raises(ChangelogCorruptedError, match="begins at offset 0"):
            opener(directory, "key-value")


@pytest.mark.parametrize(
    "content",
    [b"", b"statelog", b"PAR1" * 100, random.Random(7).randbytes(500)],
    ids=["empty", "half a head", "Parquet", "noise"],
)
def test_a_file_that_is_no_segment_is_an_error(directory: Path, content: bytes) -> None:
    """An empty file as well: a segment gets its name when its head is on disk."""
    directory.mkdir()
    (directory / FIRST).write_bytes(content)
    for opener in (FileChangelog.open, ChangelogReader.open):
        with pytest.raises(ChangelogCorruptedError, match=r"0000\.log.* at byte 0"):
            opener(directory, "key-value")

    assert (directory / FIRST).read_bytes() == content


def test_a_directory_that_is_named_like_a_segment_is_an_error(directory: Path) -> None:
    """The operating system's refusal is told in our words."""
    (directory / FIRST).mkdir(parents=True)
    with pytest.raises(StorageError, match="cannot read"):
        ChangelogReader.open(directory)


@pytest.mark.spec("LOG-26", "LOG-27")
@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (17, 2, "format version 2"),
        (18, 9, "checksum 9"),
        (19, 99, "kind 99"),
        (20, 9, "compression 9"),
        (21, 6, "segment flags 0x06"),
    ],
)
def test_a_head_of_a_newer_release_is_refused_by_name(
    directory: Path, segment: Path, ends: list[int], at: int, value: int, message: str
) -> None:
    """The checksum is right, so it is no damage, and nothing is touched."""
    data = bytearray(segment.read_bytes())
    data[at] = value
    newer = seal(data, 8, 12, ends[0])
    segment.write_bytes(newer)
    for opener in (FileChangelog.open, ChangelogReader.open):
        with pytest.raises(UnsupportedFormatError, match=f"'{segment}': .*{message}"):
            opener(directory, "key-value")

    assert segment.read_bytes() == newer


@pytest.mark.spec("LOG-26")
def test_a_segment_of_other_columns_is_refused(directory: Path, segment: Path) -> None:
    """The head of a versioned log that says key-value."""
    directory.rename(directory.with_name("moved"))
    with FileChangelog.create(directory, "versioned") as log:
        end = log._end.active.end
    data = bytearray(segment.read_bytes())
    data[19] = 1
    segment.write_bytes(seal(data, 8, 12, end))
    with pytest.raises(UnsupportedFormatError, match="timestamp"):
        ChangelogReader.open(directory)


@pytest.mark.spec("LOG-26", "LOG-27")
@pytest.mark.parametrize(
    ("at", "value", "message"),
    [(8, 2, "format version 2"), (9, 2, "kind 2"), (10, 2, "flags 0x02")],
)
@pytest.mark.parametrize("frame", [1, 2])
def test_a_frame_of_a_newer_release_is_refused_by_name(
    directory: Path,
    segment: Path,
    ends: list[int],
    frame: int,
    at: int,
    value: int,
    message: str,
) -> None:
    """Also the last one, which must not be taken for a torn tail and cut."""
    data = bytearray(segment.read_bytes())
    start, stop = ends[frame], ends[frame + 1]
    data[start + at] = value
    newer = seal(data, start + 4, start + 8, stop)
    segment.write_bytes(newer)
    for opener in (FileChangelog.open, ChangelogReader.open):
        with pytest.raises(UnsupportedFormatError, match=message):
            opener(directory, "key-value")

    assert segment.read_bytes() == newer


@pytest.mark.spec("LOG-23")
@pytest.mark.parametrize(
    ("at", "content", "message"),
    [
        (9, b"\x01", "clears"),
        (20, bytes(4), "changes in"),
        (20, b"\x00\x00\x00\x09", "changes in"),
        (24, b"\xff" * 16, "offsets are"),
        (32, b"\x00" * 8, "offsets are"),
        (39, b"\x06", "lacks the offsets"),
    ],
    ids=["clear", "none", "too many", "beyond int64", "inverted", "sparse"],
)
def test_intact_frames_that_contradict_themselves_are_errors(
    directory: Path, segment: Path, ends: list[int], at: int, content: bytes, message: str
) -> None:
    """No writer of ours wrote them, and nothing is guessed."""
    data = bytearray(segment.read_bytes())
    start, stop = ends[2], ends[3]
    data[start + at : start + at + len(content)] = content
    segment.write_bytes(seal(data, start + 4, start + 8, stop))
    with pytest.raises(ChangelogCorruptedError, match=message):
        ChangelogReader.open(directory)


@pytest.mark.parametrize("damage", ["body", "position", "count"])
def test_intact_frames_with_senseless_content_are_errors(
    directory: Path, segment: Path, ends: list[int], damage: str
) -> None:
    """The checksum is right, and Arrow or the position makes no sense of the bytes."""
    data = bytearray(segment.read_bytes())
    start, stop = ends[2], ends[3]
    if damage == "position":
        data[start + 48 : start + 50] = b"\xff\xff"
    elif damage == "count":
        data[start + 20 : start + 24] = b"\x00\x00\x00\x02"
        data[start + 10] = 0
        data[start + 32 : start + 40] = (4).to_bytes(8, "big")
    else:
        body = start + 48 + int.from_bytes(data[start + 12 : start + 16], "big")
        data[body : body + 64] = bytes(64)
    segment.write_bytes(seal(data, start + 4, start + 8, stop))
    with (
        pytest.raises(ChangelogCorruptedError, match=r"at byte \d+, offset 3"),
        ChangelogReader.open(directory) as reader,
    ):
        frames_in(reader)


def test_a_senseless_position_is_no_position(
    directory: Path, segment: Path, ends: list[int]
) -> None:
    """Whoever opens the log to ask how far the input was read is told, and not the one before."""
    data = bytearray(segment.read_bytes())
    start, stop = ends[2], ends[3]
    data[start + 48 : start + 50] = b"\xff\xff"
    segment.write_bytes(seal(data, start + 4, start + 8, stop))
    for opener in (FileChangelog.open, ChangelogReader.open):
        with pytest.raises(ChangelogCorruptedError, match=r"at byte \d+, offset 3"):
            opener(directory, "key-value")


def test_the_places_of_frames_take_little_memory(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of small frames keeps one in so many bytes, whatever its length."""
    monkeypatch.setattr(tail, "_INDEX_BYTES", 10_000)
    with FileChangelog.create(directory, "key-value") as log:
        for _ in range(100):
            log.append(Changes([b"k"], [b"v"]), durability=Durability.PROCESS_CRASH)
        size = log.segments()[0].path.stat().st_size

        assert 2 <= len(log._end.tail.index.starts) <= 1 + size // 10_000
        assert [frame.base_offset for frame in log.read(57, 60)] == [57, 58, 59]


@pytest.mark.parametrize("field", [12, 16], ids=["of the position", "of the body"])
def test_a_damaged_length_costs_no_memory(
    directory: Path, segment: Path, ends: list[int], field: int
) -> None:
    """A frame that says that it has two GiB is not read, and not allocated either.

    A mutant without the look at the file's size before the read passed every test.
    """
    with segment.open("r+b") as file:
        file.seek(ends[-2] + field)
        file.write((0x7F00_0000).to_bytes(4, "big"))
    tracemalloc.start()
    try:
        with ChangelogReader.open(directory) as reader:
            read = frames_in(reader)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert read == ROWS[:-1]
    assert most < 64 * 1024 * 1024
