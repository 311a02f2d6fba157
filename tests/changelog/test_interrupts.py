"""An interrupt between any two steps of a changelog costs the call, and nothing that was there."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_log import frames_in

from statestores import failpoints
from statestores.changelog import (
    ChangelogOptions,
    ChangelogReader,
    FileChangelog,
    OffsetRange,
    compact,
)
from statestores.changelog.merged_frames import MergedFrames
from statestores.errors import StorageError
from statestores.spi import Changes

SMALL = ChangelogOptions(segment_bytes=1)


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    """Leave nothing armed for the next test."""
    yield
    failpoints.disarm()


def interrupt() -> None:
    """Do what Ctrl-C does."""
    raise KeyboardInterrupt


def one(number: int) -> Changes:
    """Return one change of the only key."""
    return Changes([b"k"], [b"%d" % number])


def read_anew(directory: Path) -> list[tuple[int, bytes | None]]:
    """Return offset and value of every change, as whoever comes later finds them."""
    with ChangelogReader.open(directory) as reader:
        return [(offset, value) for rows in frames_in(reader) for offset, _, value in rows]


@pytest.mark.spec("LOG-18", "LOG-20")
@pytest.mark.parametrize(
    ("name", "is_compacted"),
    [
        ("compaction.chosen", False),
        ("compaction.written", False),
        ("changelog.segment.durable", False),
        ("changelog.segment.renamed", True),
        ("changelog.segment.published", True),
        ("compaction.published", True),
        ("changelog.removed", True),
    ],
)
def test_an_interrupted_compaction_has_happened_or_not(
    directory: Path, name: str, *, is_compacted: bool
) -> None:
    """From the name of the new segment on it counts; no half of it is left, and another completes.

    An interrupt between the last frame and the wait for the disk left the new file open, and on
    the disk, until somebody opened the log again.
    """
    before, after = [(0, b"0"), (1, b"1"), (2, b"2"), (3, b"3")], [(2, b"2"), (3, b"3")]
    with FileChangelog.create(directory, "key-value", SMALL) as log:
        for number in range(4):
            log.append(one(number))
        failpoints.arm(name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            compact(log)
        failpoints.disarm()

        assert read_anew(directory) == (after if is_compacted else before)
        assert list(directory.glob("*.tmp")) == []
        log.append(one(4))
        compact(log)
    assert read_anew(directory) == [(3, b"3"), (4, b"4")]


@pytest.mark.spec("LOG-18", "LOG-20")
@pytest.mark.parametrize("error", [KeyboardInterrupt, StorageError])
def test_a_compaction_that_breaks_off_while_it_writes_leaves_no_file(
    directory: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Neither open nor on the disk; whoever called learns of it."""

    def break_off(*_: object) -> None:
        raise error

    with FileChangelog.create(directory, "key-value", SMALL) as log:
        for number in range(3):
            log.append(one(number))
        monkeypatch.setattr(MergedFrames, "merge", break_off)
        with pytest.raises(error):
            compact(log)

        assert list(directory.glob("*.tmp")) == []
    assert read_anew(directory) == [(0, b"0"), (1, b"1"), (2, b"2")]


@pytest.mark.spec("LOG-14")
@pytest.mark.parametrize(
    "name",
    ["changelog.append.before", "changelog.append.written", "changelog.append.durable"],
)
def test_an_interrupted_append_leaves_no_frame(directory: Path, name: str) -> None:
    """The next one takes its offset, and its place."""
    with FileChangelog.create(directory, "key-value") as log:
        log.append(one(0))
        failpoints.arm(name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            log.append(Changes([b"k"], [b"longer than the one that follows"]))
        failpoints.disarm()

        assert log.end_offset == 1
        assert log.append(one(1)) == OffsetRange(1, 1)
        assert read_anew(directory) == [(0, b"0"), (1, b"1")]
        with ChangelogReader.open(directory) as reader:
            assert reader.torn_tail is None


@pytest.mark.spec("LOG-15", "LOG-20")
@pytest.mark.parametrize(
    ("name", "goes_on"),
    [
        ("changelog.roll.before", True),
        ("changelog.segment.durable", True),
        ("changelog.segment.renamed", False),
        ("changelog.segment.published", False),
    ],
)
def test_an_interrupted_seal_goes_on_or_stops_the_log(
    directory: Path, name: str, *, goes_on: bool
) -> None:
    """With a new segment that is there, or may be, appends to the old one would overlap it."""

    def append(log: FileChangelog) -> bool:
        try:
            log.append(one(1))
        except StorageError:
            return False
        return True

    with FileChangelog.create(directory, "key-value") as log:
        log.append(one(0))
        failpoints.arm(name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            log.seal()
        failpoints.disarm()

        assert list(directory.glob("*.tmp")) == []
        assert append(log) == goes_on
    with FileChangelog.open(directory, "key-value") as log:
        log.append(one(2))
    values = [b"0", b"1", b"2"] if goes_on else [b"0", b"2"]
    assert read_anew(directory) == list(enumerate(values))


@pytest.mark.spec("LOG-10")
def test_an_interrupted_cut_of_a_torn_tail_is_made_by_the_next_opening(segment: Path) -> None:
    """It holds neither the lock nor the file."""
    whole = read_anew(segment.parent)
    with segment.open("ab") as file:
        file.write(b"torn")
    failpoints.arm("changelog.open.cut", interrupt)
    with pytest.raises(KeyboardInterrupt):
        FileChangelog.open(segment.parent, "key-value")
    failpoints.disarm()

    with FileChangelog.open(segment.parent, "key-value") as log:
        log.append(one(9))
    assert read_anew(segment.parent) == [*whole, (6, b"9")]
