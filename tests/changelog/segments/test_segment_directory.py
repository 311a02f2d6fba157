"""A directory of segments that others change while it is looked at."""

import errno
import os
from pathlib import Path

import pytest
from small_log import FIRST, NOSYNC

from statestores.changelog import (
    ChangelogOptions,
    ChangelogReader,
    FileChangelog,
    compact,
    opening,
    range_reading,
)
from statestores.changelog.segments import segment_directory
from statestores.changelog.segments.segment import Segment
from statestores.changelog.segments.segment_directory import (
    SegmentListing,
    list_segments,
    may_be_there,
    remove_files,
)
from statestores.changelog.segments.segment_head import SegmentHead
from statestores.errors import ChangelogCorruptedError, InvalidOptionError, StorageError
from statestores.spi import Changes

SMALL = ChangelogOptions(segment_bytes=1)


def write(directory: Path, count: int) -> None:
    """Write a log of *count* segments of one change."""
    with FileChangelog.create(directory, "key-value", SMALL) as log:
        for number in range(count):
            log.append(Changes([b"%d" % number], [b"v"]), durability=NOSYNC)


def test_a_first_segment_that_goes_after_it_was_named_is_not_missed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer has deleted it: the log begins at the next one."""
    write(directory, 3)
    genuine = segment_directory.read_head

    def late(path: Path) -> SegmentHead:
        if path.name == FIRST:
            path.unlink()
        return genuine(path)

    monkeypatch.setattr(segment_directory, "read_head", late)

    assert [segment.first_offset for segment in list_segments(directory).segments] == [1, 2]


def test_first_segments_that_go_for_ever_are_an_error(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours, which says that the next attempt may succeed."""
    write(directory, 1)

    def gone(path: Path) -> SegmentHead:
        raise FileNotFoundError(str(path))

    monkeypatch.setattr(segment_directory, "read_head", gone)
    with pytest.raises(StorageError, match="change faster than they can be listed; try again"):
        list_segments(directory)


def test_a_segment_that_goes_while_its_log_is_opened_is_our_error(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The opening has the lock, so no writer has done it; and it lets go of that lock."""
    write(directory, 2)

    def gone(path: Path, partition: object) -> SegmentHead:
        raise FileNotFoundError(str(path), partition)

    with monkeypatch.context() as patch:
        patch.setattr(opening, "read_head", gone)
        with pytest.raises(StorageError, match=f"{FIRST}' was removed while the changelog"):
            FileChangelog.open(directory, "key-value")
    with FileChangelog.open(directory, "key-value") as log:
        assert log.end_offset == 2


def test_a_log_that_goes_while_it_is_read_is_not_taken_for_one_that_begins_later(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can restore from a snapshot what was removed by mistake."""
    write(directory, 3)
    with ChangelogReader.open(directory) as reader:
        frames = reader.read()
        next(frames)
        monkeypatch.setattr(range_reading, "list_segments", lambda place: SegmentListing(place, []))
        with pytest.raises(ChangelogCorruptedError, match="are gone while they are read"):
            next(frames)


def test_a_file_that_is_gone_already_needs_no_removal(directory: Path) -> None:
    """Two who clean up do not disturb each other."""
    write(directory, 2)
    here, gone = directory / FIRST, directory / "gone"
    remove_files((gone, here), directory)

    assert not here.exists()


def test_what_cannot_be_looked_at_may_be_there(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that took it for absent would append beside it."""
    write(directory, 1)

    def fail(path: Path) -> os.stat_result:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    assert (may_be_there(directory / FIRST), may_be_there(directory / "none")) == (True, False)
    monkeypatch.setattr(Path, "lstat", fail)
    assert may_be_there(directory / "none") is True


@pytest.mark.spec("LOG-11")
def test_a_segment_that_was_cut_and_one_that_is_damaged_are_told_apart(directory: Path) -> None:
    """By what is left of it; what is to be restored differs."""
    write(directory, 3)
    path = directory / FIRST
    with ChangelogReader.open(directory) as reader:
        with path.open("r+b") as file:
            file.seek(-3, os.SEEK_END)
            file.write(b"!!!")
        with pytest.raises(ChangelogCorruptedError, match="there is no intact frame;"):
            list(reader.read())
        with path.open("r+b") as file:
            file.truncate(_frames_at(directory))
        with pytest.raises(ChangelogCorruptedError, match="it has been cut, or a segment between"):
            list(reader.read())


def _frames_at(directory: Path) -> int:
    """Return where the frames of the first segment begin."""
    with Segment.open(directory / FIRST) as segment:
        return segment.frames_at


def test_a_log_of_one_compacted_segment_and_an_empty_one_begins_and_ends(directory: Path) -> None:
    """Opened anew by a writer and by a reader."""
    write(directory, 4)
    with FileChangelog.open(directory, "key-value", SMALL) as log:
        log.seal()
        compact(log)
    log, other = FileChangelog.open(directory, "key-value"), ChangelogReader.open(directory)
    with log, other:
        assert (log.first_offset, log.end_offset) == (0, 4)
        assert (other.first_offset, other.end_offset) == (0, 4)
        assert [list(frame.offsets) for frame in other.read()] == [[0, 1, 2, 3]]


def test_a_compression_that_is_none_is_refused_by_name() -> None:
    """A text is not one, though it looks like one."""
    with pytest.raises(InvalidOptionError, match=r"compression must be one of .*, got 'lz4'"):
        ChangelogOptions(compression="lz4")  # type: ignore[arg-type]  # what is refused
