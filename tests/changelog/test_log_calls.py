"""What a changelog answers when it is closed, sealed while it is empty, paused or created twice."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_log import ROWS, frames_in

from statestores.changelog import (
    ChangelogOptions,
    ChangelogReader,
    Compression,
    FileChangelog,
    changelog_partition,
    file_log,
    log_appender,
)
from statestores.changelog.segments.active_segment import ActiveSegment
from statestores.changelog.segments.segment import Segment
from statestores.errors import (
    InvalidTypeError,
    OffsetOutOfRangeError,
    StorageError,
    StoreClosedError,
    StoreMismatchError,
    UnsupportedFormatError,
)
from statestores.spi import Changes
from statestores_conformance.many_cases import for_each


def one(value: bytes) -> Changes:
    """Return one change of the only key."""
    return Changes([b"k"], [value])


def values_in(directory: Path) -> list[bytes | None]:
    """Return the values of all changes, through a handle of its own."""
    with ChangelogReader.open(directory) as reader:
        return [value for frame in reader.read() for value in frame.changes.values]


CALLS: dict[str, Callable[[FileChangelog], Any]] = {
    "append": lambda log: log.append(one(b"v")),
    "delete_before": lambda log: log.delete_before(0),
    "end_offset": lambda log: log.end_offset,
    "first_offset": lambda log: log.first_offset,
    "pause": lambda log: log.pause(),
    "position": lambda log: log.position,
    "read": lambda log: list(log.read()),
    "resume": lambda log: log.resume(),
    "seal": lambda log: log.seal(),
    "segments": lambda log: log.segments(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_log_says_so(directory: Path, segment: Path, call: str) -> None:
    """And what to do. Pausing and resuming it said nothing, in mutants, and took its lock again."""
    log = FileChangelog.open(directory, "key-value")
    is_open = [log.is_open]
    log.close()
    is_open.append(log.is_open)
    assert is_open == [True, False]
    with pytest.raises(StoreClosedError, match=f"'{directory}' is closed; open it again"):
        CALLS[call](log)
    with FileChangelog.open(directory, "key-value") as other:
        assert frames_in(other) == ROWS


def test_a_log_of_the_parent_says_so(directory: Path, segment: Path) -> None:
    """In a forked child it is closed, and opening it again there would not help."""
    log = FileChangelog.open(directory, "key-value")
    log.disown()
    with pytest.raises(StoreClosedError, match="belongs to the process that process"):
        log.seal()


def test_a_log_that_was_closed_before_a_fork_is_just_closed(directory: Path, segment: Path) -> None:
    """It is nobody's, and can be opened."""
    log = FileChangelog.open(directory, "key-value")
    log.close()
    log.disown()
    with pytest.raises(StoreClosedError, match="is closed; open it again"):
        log.seal()


def test_a_log_that_is_not_paused_needs_no_resuming(directory: Path, segment: Path) -> None:
    """It has its lock, which it would refuse to itself."""
    with FileChangelog.open(directory, "key-value") as log:
        log.resume()
        log.append(one(b"v"))

    assert values_in(directory)[-1] == b"v"


@pytest.mark.parametrize("frames", [0, 1])
def test_a_log_that_nobody_touched_is_resumed_without_a_read(
    directory: Path, monkeypatch: pytest.MonkeyPatch, frames: int
) -> None:
    """A writer pauses between any two commits: it would read its last segment each time."""

    def unasked(*given: object) -> object:
        raise AssertionError("nobody else has appended")

    with FileChangelog.create(directory, "key-value") as log:
        for _ in range(frames):
            log.append(one(b"v"))
        log.pause()
        monkeypatch.setattr(file_log, "read_on", unasked)
        log.resume()
        log.append(one(b"last"))

    assert values_in(directory) == [b"v"] * frames + [b"last"]


@pytest.mark.spec("LOG-13", "LOG-19")
def test_a_segment_that_others_began_and_left_empty_is_gone_on_with(directory: Path) -> None:
    """What went into the one before it would stand at offsets that the empty one has, too."""
    with FileChangelog.create(directory, "key-value") as log:
        log.append(one(b"1"))
        log.pause()
        with FileChangelog.open(directory, "key-value") as other:
            other.seal()
        log.resume()
        log.append(one(b"2"))
    with FileChangelog.open(directory, "key-value") as log:
        log.append(one(b"3"))

    assert values_in(directory) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("appended", [[], [b"1"]])
def test_an_empty_segment_is_not_sealed(directory: Path, appended: list[bytes]) -> None:
    """Its successor would have its name, and say that it follows itself.

    A mutant began it, and the next opening refused the log, of which a segment was missing.
    """
    with FileChangelog.create(directory, "key-value") as log:
        for value in appended:
            log.append(one(value))
            log.seal()
        for _ in range(2):
            log.seal()
        assert len(log.segments()) == len(appended) + 1
        log.append(one(b"2"))
    with FileChangelog.open(directory, "key-value") as log:
        assert log.end_offset == len(appended) + 1

    assert values_in(directory) == [*appended, b"2"]


def test_a_segment_may_have_just_as_many_bytes_as_it_may(directory: Path) -> None:
    """The frame that fills it belongs to it, and the next one does not."""
    with FileChangelog.create(
        directory.with_name("measured"), "key-value", ChangelogOptions(compression=Compression.NONE)
    ) as log:
        for _ in range(40):
            log.append(one(b"v" * 100))
        limit = log._end.active.end
    options = ChangelogOptions(segment_bytes=limit, compression=Compression.NONE)
    with FileChangelog.create(directory, "key-value", options) as log:
        for _ in range(41):
            log.append(one(b"v" * 100))

        assert [each.first_offset for each in log.segments()] == [0, 40]


@pytest.mark.spec("LOG-1", "LOG-2")
def test_a_log_is_sealed_behind_what_an_interrupt_left_in_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frame is there, although its append was interrupted: the next segment begins after it."""
    append = ActiveSegment.append

    def interrupted(active: ActiveSegment, *given: Any, **how: Any) -> None:
        append(active, *given, **how)
        raise KeyboardInterrupt

    with FileChangelog.create(directory, "key-value") as log:
        log.append(one(b"1"))
        with monkeypatch.context() as patched:
            patched.setattr(ActiveSegment, "append", interrupted)
            with pytest.raises(KeyboardInterrupt):
                log.append(one(b"2"))
        log.seal()
        log.append(one(b"3"))

    assert values_in(directory) == [b"1", b"2", b"3"]


def test_a_log_of_no_kind_leaves_nothing(directory: Path) -> None:
    """It is refused before anything is on the disk."""
    with pytest.raises(UnsupportedFormatError):
        FileChangelog.create(directory, "no-kind")

    assert not directory.exists()


def test_a_log_is_created_where_one_was_left_unfinished(directory: Path) -> None:
    """By a process that died meanwhile: what it left would be there for ever."""
    directory.mkdir()
    left = directory / "00000000000000000007.log.tmp"
    left.write_bytes(b"half a head")
    with FileChangelog.create(directory, "key-value") as log:
        assert not left.exists()
        log.append(one(b"v"))

    assert values_in(directory) == [b"v"]


def test_a_creation_that_is_refused_holds_no_lock(directory: Path, segment: Path) -> None:
    """Whoever keeps the error can open the log that is there."""
    with pytest.raises(StoreMismatchError, match=r"a changelog in .* already") as caught:
        FileChangelog.create(directory, "key-value")
    with FileChangelog.open(directory, "key-value") as log:
        assert frames_in(log) == ROWS

    assert caught.value.__traceback__ is not None


def test_a_resumption_that_fails_holds_no_lock(
    directory: Path, segment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever keeps the error can try again, and so can others."""

    def fail(*given: object) -> object:
        raise StorageError("no answer")

    with FileChangelog.open(directory, "key-value") as log:
        log.pause()
        with monkeypatch.context() as patched:
            patched.setattr(log_appender.LogAppender, "is_as_left", fail)
            with pytest.raises(StorageError, match="no answer") as caught:
                log.resume()
        with FileChangelog.open(directory, "key-value") as other:
            assert frames_in(other) == ROWS
        log.resume()

    assert caught.value.__traceback__ is not None


def test_a_segment_that_cannot_be_read_back_leaves_no_file_open(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has just been written is read once; the disk may refuse that, and the error is told."""

    def fail(path: Path) -> object:
        raise StorageError(f"cannot read {str(path)!r}: {os.strerror(errno.EIO)}")

    with monkeypatch.context() as patched:
        patched.setattr(Segment, "open", fail)
        with pytest.raises(StorageError, match="cannot read"):
            FileChangelog.create(directory, "key-value")
    with FileChangelog.open(directory, "key-value") as log:
        assert log.end_offset == 0


@pytest.mark.parametrize("name", ["open", "create"])
def test_a_log_is_opened_or_created(directory: Path, name: str) -> None:
    """Whichever it takes; of the kind that was asked for."""
    if name == "open":
        with FileChangelog.create(directory, "versioned"):
            pass
    with FileChangelog.open_or_create(directory, "versioned") as log:
        assert log.store_kind == "versioned"
        assert log.end_offset == 0


def test_nothing_is_deleted_before_what_is_not_written(directory: Path, segment: Path) -> None:
    """The end itself is a limit that may be given, and one more is not."""
    with FileChangelog.open(directory, "key-value") as log:
        assert log.delete_before(6) == 0
        with pytest.raises(OffsetOutOfRangeError, match="ends before 6"):
            log.delete_before(7)


@for_each("name", [None, 7, b"counts"])
def test_a_changelog_is_that_of_a_store_with_a_name(name: object) -> None:
    """Any other was taken for a part of a topic's name, and an offset committed under it."""
    with pytest.raises(InvalidTypeError, match="a store is named by a str, got"):
        changelog_partition(name, 0)  # type: ignore[arg-type]  # what is refused
