"""The end of a changelog that nobody writes to is not looked for again by each reader."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from statestores.changelog import ChangelogReader, FileChangelog, log_reader
from statestores.changelog.segments import segment
from statestores.changelog.segments.tail import Tail
from statestores.spi import Changes

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the bytes that looking for an end has read, a file counting as settled at once."""
    monkeypatch.setattr(segment, "_SETTLED_NS", -1)
    found: list[int] = []
    advance = Tail.advance

    def counted(tail: Tail, of: segment.Segment) -> None:
        start = tail.start
        advance(tail, of)
        found.append(tail.start - start)

    monkeypatch.setattr(Tail, "advance", counted)
    return found


def ends(directory: Path) -> tuple[int, int]:
    """Return first and end offset, as a new reader sees them."""
    with ChangelogReader.open(directory) as reader:
        return reader.first_offset, reader.end_offset


def append(log: FileChangelog, *keys: bytes) -> None:
    log.append(Changes(list(keys), [b"v"] * len(keys)))


def test_the_second_reader_does_not_read_the_segment_again(
    tmp_path: Path, scans: list[int]
) -> None:
    """And has the same end, from which it reads on when the log has grown."""
    with FileChangelog.create(tmp_path / "log", "key-value") as log:
        append(log, b"a", b"b")
        scans.clear()
        assert ends(tmp_path / "log") == (0, 2)
        assert sum(scans) > 0
        scans.clear()
        assert ends(tmp_path / "log") == (0, 2)
        assert sum(scans) == 0

        append(log, b"c")

        assert ends(tmp_path / "log") == (0, 3)


def test_another_log_in_its_place_is_read(tmp_path: Path, scans: list[int]) -> None:
    """A store may be removed and made again, with the same name and the same offsets."""
    for count in (3, 2, 3):
        directory = tmp_path / "log"
        with FileChangelog.create(directory, "key-value") as log:
            append(log, *(b"%d" % number for number in range(count)))
        assert ends(directory) == (0, count)
        for path in directory.iterdir():
            path.unlink()
    assert scans


def test_a_file_that_has_just_changed_is_read_again(tmp_path: Path) -> None:
    """The clock of a file system is coarse: equal times do not say that nothing has changed."""
    with FileChangelog.create(tmp_path / "log", "key-value") as log:
        append(log, b"a")
        (path,) = (tmp_path / "log").glob("*.log")
        with segment.Segment.open(path) as opened:
            assert opened.stamp is None


def test_a_file_that_says_to_be_old_has_just_changed(tmp_path: Path) -> None:
    """A copy may keep the time of the original; the time of its status is its own."""
    with FileChangelog.create(tmp_path / "log", "key-value") as log:
        append(log, b"a")
    (path,) = (tmp_path / "log").glob("*.log")
    os.utime(path, (0, 0))
    with segment.Segment.open(path) as opened:
        assert opened.stamp is None


def test_the_ends_that_are_longest_ago_are_forgotten(
    tmp_path: Path, scans: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that reads one log after the other keeps the ends of so many, and no more.

    A mutant that forgot none passed every test: its memory grew with each log that it met.
    """
    monkeypatch.setattr(log_reader, "_SETTLED", 2)
    directories = [tmp_path / name for name in "abc"]
    for directory in directories:
        with FileChangelog.create(directory, "key-value") as log:
            append(log, b"k")
        ends(directory)
    scans.clear()
    ends(directories[2])
    ends(directories[1])
    newest = sum(scans)
    ends(directories[0])

    assert newest == 0
    assert sum(scans) > 0


@pytest.mark.spec("ENG-43")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_waits_for_no_thread_of_its_parent(tmp_path: Path) -> None:
    """A thread of the parent was just asking for an end; the child would have waited for ever."""
    program = """
import os, signal, sys
from statestores.changelog import ChangelogReader, FileChangelog, log_reader
from statestores.changelog.segments import segment

segment._SETTLED_NS = -1
FileChangelog.create(sys.argv[1], "key-value").close()
log_reader._settled_tails._lock.acquire()
if not (child := os.fork()):
    signal.alarm(30)
    with ChangelogReader.open(sys.argv[1]) as reader:
        os._exit(reader.end_offset)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    command = [sys.executable, "-c", program, str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.split() == ["0"]
