"""A full or failing disk costs the append, and never what was there before."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from statestores.changelog import (
    ChangelogOptions,
    ChangelogReader,
    Compression,
    FileChangelog,
    OffsetRange,
    compact,
)
from statestores.changelog.segments.segment_directory import remove_files
from statestores.errors import CommitInDoubtError, InvalidArgumentError, StorageError
from statestores.spi import Changes, Durability

NOSYNC = Durability.PROCESS_CRASH
PLAIN = ChangelogOptions(compression=Compression.NONE)


def one(value: bytes) -> Changes:
    """Return one change."""
    return Changes([b"k"], [value])


def values_in(directory: Path) -> list[bytes | None]:
    """Return the values of all changes, through a handle of its own."""
    with ChangelogReader.open(directory) as reader:
        return [value for frame in reader.read() for value in frame.changes.values]


def failing(
    function: Callable[..., object], number: int, *, times: int = 1
) -> Callable[..., object]:
    """Return *function*, which fails at its first *times* calls with the error *number*."""
    left = [times]

    def fail(*arguments: object, **named: object) -> object:
        if left[0]:
            left[0] -= 1
            raise OSError(number, os.strerror(number))
        return function(*arguments, **named)

    return fail


@pytest.mark.spec("LOG-14")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("written", [0, 1, 47, 48, 200])
def test_a_failed_append_is_cut_back_and_the_next_one_succeeds(
    directory: Path, monkeypatch: pytest.MonkeyPatch, number: int, written: int
) -> None:
    """Also when a part of the frame had been written, and the next frame is shorter than it."""
    pwritev = os.pwritev

    def write_a_part(descriptor: int, parts: list[bytes], at: int) -> int:
        monkeypatch.setattr(os, "pwritev", failing(pwritev, number))
        return pwritev(descriptor, [b"".join(parts)[:written]], at)

    with FileChangelog.create(directory, "key-value", PLAIN) as log:
        log.append(one(b"1"))
        size = log._end.active.end
        monkeypatch.setattr(os, "pwritev", write_a_part)
        with pytest.raises(StorageError, match=r"append to .*check .* space") as caught:
            log.append(one(b"x" * 10_000))

        assert not isinstance(caught.value, CommitInDoubtError)
        assert isinstance(caught.value.__cause__, OSError)
        assert caught.value.__cause__.errno == number
        assert log.segments()[0].path.stat().st_size == size
        assert log.append(one(b"2")) == OffsetRange(1, 1)
    assert values_in(directory) == [b"1", b"2"]


@pytest.mark.spec("LOG-14")
@pytest.mark.parametrize("at_once", [5, 7, 11, 13])
def test_a_write_in_several_parts_is_whole(
    directory: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """An operating system may write less than it was asked to; the rest follows.

    With seven bytes alone none of them had a part of the head and one of the body, and a mutant
    that lost a byte there passed.
    """
    pwritev = os.pwritev

    def write_a_few_bytes(descriptor: int, parts: list[bytes], at: int) -> int:
        return pwritev(descriptor, [b"".join(parts)[:at_once]], at)

    monkeypatch.setattr(os, "pwritev", write_a_few_bytes)
    with FileChangelog.create(directory, "key-value", PLAIN) as log:
        log.append(one(b"1" * 100))
        log.append(one(b"2" * 100))

    assert values_in(directory) == [b"1" * 100, b"2" * 100]


@pytest.mark.spec("LOG-15")
def test_when_the_rest_cannot_be_cut_no_more_is_appended(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shorter frame would leave a rest behind it. Opening again cuts the torn tail.

    Both errors say that only opening can tell what is there: a mutant said at the first one that
    the append had failed.
    """
    pwritev = os.pwritev

    def write_a_part(descriptor: int, parts: list[bytes], at: int) -> int:
        monkeypatch.setattr(os, "pwritev", failing(pwritev, errno.EIO))
        return pwritev(descriptor, [b"".join(parts)[:60]], at)

    with FileChangelog.create(directory, "key-value", PLAIN) as log:
        log.append(one(b"1"))
        monkeypatch.setattr(os, "pwritev", write_a_part)
        monkeypatch.setattr(os, "ftruncate", failing(os.ftruncate, errno.EIO))
        with pytest.raises(CommitInDoubtError, match="append to"):
            log.append(one(b"x"))
        with pytest.raises(CommitInDoubtError, match=r"no more appends.*open it again"):
            log.append(one(b"2"))
        assert [frame.base_offset for frame in log.read()] == [0]

    with FileChangelog.open(directory, "key-value", PLAIN) as log:
        assert log.torn_tail is not None
        assert log.append(one(b"2")) == OffsetRange(1, 1)
    assert values_in(directory) == [b"1", b"2"]


@pytest.mark.spec("LOG-5", "LOG-15")
def test_after_a_failed_wait_for_the_disk_no_more_is_appended(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel reports a lost page once: a second wait that succeeds proves nothing."""
    with FileChangelog.create(directory, "key-value", PLAIN) as log:
        log.append(one(b"1"))
        monkeypatch.setattr(os, "fdatasync", failing(os.fdatasync, errno.EIO))
        with pytest.raises(StorageError, match="make durable"):
            log.append(one(b"x"))
        for durability in Durability:
            with pytest.raises(StorageError, match="the disk failed"):
                log.append(one(b"2"), durability=durability)
        assert log.end_offset == 1

    with FileChangelog.open(directory, "key-value", PLAIN) as log:
        assert log.append(one(b"2")) == OffsetRange(1, 1)
    assert values_in(directory) == [b"1", b"2"]


@pytest.mark.spec("LOG-5", "LOG-12", "LOG-20")
def test_what_waits_for_the_disk(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """POWER_LOSS appends do, PROCESS_CRASH appends do not; sealing and opening always do."""
    waits: list[str] = []
    fdatasync, fsync = os.fdatasync, os.fsync

    def note(name: str, wait: Callable[[int], None]) -> Callable[[int], None]:
        def waiting(descriptor: int) -> None:
            waits.append(f"{name} {Path(f'/proc/self/fd/{descriptor}').resolve().name}")
            wait(descriptor)

        return waiting

    monkeypatch.setattr(os, "fdatasync", note("data", fdatasync))
    monkeypatch.setattr(os, "fsync", note("all", fsync))
    first = "00000000000000000000.log"
    with FileChangelog.create(directory, "key-value", PLAIN) as log:
        assert waits == [f"all {directory.parent.name}", f"data {first}.tmp", "all changelog"]
        waits.clear()
        log.append(one(b"1"), durability=NOSYNC)
        assert waits == []
        log.append(one(b"2"))
        assert waits == [f"data {first}"]
        waits.clear()
        log.seal()
        assert waits == [f"data {first}", "data 00000000000000000002.log.tmp", "all changelog"]
    waits.clear()
    with FileChangelog.open(directory, "key-value", PLAIN):
        assert waits == ["all 00000000000000000002.log"]


@pytest.mark.spec("LOG-14")
@pytest.mark.parametrize("call", ["pwritev", "fdatasync"])
def test_a_segment_that_cannot_be_begun_leaves_the_log_as_it_was(
    directory: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The disk is full when the log wants to roll: no file is left, and later it rolls."""
    options = ChangelogOptions(segment_bytes=1, compression=Compression.NONE)
    with FileChangelog.create(directory, "key-value", options) as log:
        log.append(one(b"1"))
        genuine = getattr(os, call)
        calls = []

        def fail_for_the_new_one(descriptor: int, *arguments: object) -> object:
            calls.append(Path(f"/proc/self/fd/{descriptor}").resolve().name)
            if calls[-1].endswith(".tmp"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return genuine(descriptor, *arguments)

        monkeypatch.setattr(os, call, fail_for_the_new_one)
        with pytest.raises(StorageError):
            log.append(one(b"2"))
        assert [path.name for path in directory.iterdir() if path.suffix != ".lock"] == [
            "00000000000000000000.log"
        ]
        monkeypatch.undo()
        assert log.append(one(b"2")) == OffsetRange(1, 1)
        assert len(log.segments()) == 2
    assert values_in(directory) == [b"1", b"2"]


@pytest.mark.spec("LOG-15", "LOG-20")
def test_a_new_segment_whose_name_may_be_lost_stops_the_log(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends to the old one would overlap with it, if its name came back after a power failure."""
    with FileChangelog.create(directory, "key-value", PLAIN) as log:
        log.append(one(b"1"))
        monkeypatch.setattr(os, "fsync", failing(os.fsync, errno.EIO))
        with pytest.raises(StorageError, match="make durable"):
            log.seal()
        with pytest.raises(StorageError, match="no more appends"):
            log.append(one(b"2"))

    with FileChangelog.open(directory, "key-value", PLAIN) as log:
        assert log.append(one(b"2")) == OffsetRange(1, 1)
    assert values_in(directory) == [b"1", b"2"]


@pytest.mark.spec("LOG-18", "LOG-20")
@pytest.mark.parametrize("call", ["pwritev", "fdatasync", "replace", "unlink"])
def test_a_compaction_that_fails_changes_nothing_that_is_read(
    directory: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Nothing of the old segments is touched before the new one is there; afterwards it counts."""
    with FileChangelog.create(directory, "key-value", PLAIN) as log:
        for number in range(4):
            log.append(one(b"%d" % number))
            log.seal()
        where = Path if call in {"replace", "unlink"} else os
        genuine = getattr(where, call)
        monkeypatch.setattr(where, call, failing(genuine, errno.EIO))
        with pytest.raises(StorageError):
            compact(log)
        monkeypatch.undo()
        expected = [b"3"] if call == "unlink" else [b"0", b"1", b"2", b"3"]
        assert values_in(directory) == expected
        assert list(directory.glob("*.tmp")) == []
        log.append(one(b"4"))
        log.seal()
        compact(log)
        assert values_in(directory) == [b"4"]


_LIMITED = """
import resource, sys
from statestores.changelog import ChangelogOptions, Compression, FileChangelog
from statestores.errors import StorageError
from statestores.spi import Changes

resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
options = ChangelogOptions(compression=Compression.NONE)
with FileChangelog.create(sys.argv[1], "key-value", options) as log:
    appended = refused = 0
    for number in range(100):
        try:
            log.append(Changes([b"%d" % number], [b"v" * 700]))
            appended += 1
        except StorageError:
            refused += 1
    log.append(Changes([b"s"], [b""]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    log.append(Changes([b"after"], [b"v" * 700]))
    print(appended, refused, log.end_offset)
"""


@pytest.mark.spec("LOG-14")
@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="files cannot be limited here")
def test_a_file_that_may_not_grow(directory: Path) -> None:
    """The operating system itself refuses, after a part of the frame: the log goes on."""
    result = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(directory)], check=True, capture_output=True, text=True
    )
    appended, refused, end = map(int, result.stdout.split())

    assert appended + refused == 100
    assert refused > 0
    assert end == appended + 2
    with FileChangelog.open(directory, "key-value") as log:
        assert log.torn_tail is None
        keys = [key for frame in log.read() for key in frame.changes.keys]
    assert keys == [*(b"%d" % number for number in range(appended)), b"s", b"after"]


def test_a_directory_without_rights_is_told(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operating system's refusal at every door, in our words."""
    with FileChangelog.create(directory, "key-value") as log:
        log.append(one(b"1"))
        for door, call in (
            (os, "open"),
            (os, "pread"),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(door, call, failing(getattr(door, call), errno.EACCES, times=9))
                with pytest.raises(StorageError, match=r"cannot (read|open|list)"):
                    list(log.read())
        with monkeypatch.context() as patch:
            patch.setattr(os, "listdir", failing(os.listdir, errno.EACCES))
            with pytest.raises(StorageError, match="cannot list"):
                log.read()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(os.fsync, errno.EIO))
        with pytest.raises(StorageError, match="cannot open"):
            FileChangelog.open(directory, "key-value")


def test_an_append_beyond_a_frames_size_is_refused(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The field for the length has 32 bits; the message says what to do."""
    monkeypatch.setattr("statestores.changelog.next_frame.MAX_BODY_BYTES", 1_000)
    with FileChangelog.create(directory, "key-value", PLAIN) as log:
        with pytest.raises(InvalidArgumentError, match="commit more often"):
            log.append(one(b"x" * 1_000))

        assert log.append(one(b"x")) == OffsetRange(0, 0)


def test_a_removal_that_is_not_on_disk_is_told(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is removed is waited for in its directory; where nothing is, nothing is waited for.

    A mutant that never waited passed every test of changelogs.
    """
    directory.mkdir()
    left = directory / "left"
    left.touch()
    monkeypatch.setattr(os, "fsync", failing(os.fsync, errno.EIO))
    remove_files((), directory)
    with pytest.raises(StorageError, match="make durable"):
        remove_files((left,), directory)

    assert not left.exists()


@pytest.mark.spec("LOG-14")
@pytest.mark.parametrize("written", [0, 20])
def test_an_interrupt_in_the_middle_of_an_append_comes_out_of_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """What it has left of a frame is cut, and the next append is where it would have been."""
    write = os.pwritev

    def interrupt(descriptor: int, parts: list[bytes], at: int) -> int:
        write(descriptor, [b"".join(map(bytes, parts))[:written]], at)
        raise KeyboardInterrupt

    with FileChangelog.create(directory, "key-value", PLAIN) as log:
        log.append(one(b"first"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwritev", interrupt)
            with pytest.raises(KeyboardInterrupt):
                log.append(one(b"interrupted"))
        log.append(one(b"second"))

    assert values_in(directory) == [b"first", b"second"]
