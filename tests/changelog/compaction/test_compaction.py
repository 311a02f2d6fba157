"""What remains of a log that was compacted, and that it is never half compacted."""

import shutil
from pathlib import Path

import pytest
from small_log import CLICKS, NOSYNC

from statestores import failpoints
from statestores.changelog import (
    ChangelogOptions,
    ChangelogReader,
    CompactionReport,
    FileChangelog,
    FrameKind,
    ReadOnlyChangelog,
    compact,
)
from statestores.errors import (
    ChangelogCorruptedError,
    InvalidArgumentError,
    StorageError,
    StoreClosedError,
)
from statestores.spi import (
    Changes,
    Position,
)

SMALL = ChangelogOptions(segment_bytes=1)


def one(key: bytes, value: bytes | None, time_ms: int | None = None) -> Changes:
    """Return one change."""
    return Changes([key], [value], None if time_ms is None else [time_ms])


def rows_of(log: ReadOnlyChangelog) -> list[tuple[int, bytes, bytes | None]]:
    """Return offset, key and value of each change."""
    return [
        row
        for frame in log.read()
        for row in zip(frame.offsets, frame.changes.keys, frame.changes.values, strict=True)
    ]


@pytest.mark.spec("LOG-18")
def test_the_last_change_of_each_key_remains(directory: Path) -> None:
    """With its offset, in its order; a deletion is a change; the frames stand for all offsets."""
    with FileChangelog.create(directory, "key-value") as log:
        log.append(one(b"a", b"1"), position=Position({CLICKS: 1}))
        log.append(Changes([b"b", b"c"], [b"2", b"3"]), position=Position({CLICKS: 2}))
        log.append(Changes([b"a", b"b"], [b"4", None]))
        log.seal()
        log.append(one(b"c", b"5"))
        before = log.segments()[0].path.stat().st_size

        assert compact(log) == CompactionReport(
            first_offset=0,
            end_offset=5,
            changes_before=5,
            changes_after=3,
            bytes_before=before,
            bytes_after=log.segments()[0].path.stat().st_size,
        )
        first, second = log.read()
        assert (first.base_offset, first.last_offset) == (0, 4)
        assert first.position == {CLICKS: 2}
        assert rows_of(log) == [(2, b"c", b"3"), (3, b"a", b"4"), (4, b"b", None), (5, b"c", b"5")]
        assert second.base_offset == 5
        assert log.position == {CLICKS: 2}
        assert [segment.compacted for segment in log.segments()] == [True, False]


@pytest.mark.spec("LOG-18")
def test_versions_within_the_retention_and_the_latest_remain(directory: Path) -> None:
    """Versions that ended at or before the horizon go; the latest stays, however old."""
    puts: list[tuple[bytes, bytes | None, int]] = [
        (b"b", b"at 5, first", 5),
        (b"b", b"at 5", 5),
        (b"c", b"at 7", 7),
        (b"c", None, 8),
        (b"a", b"at 10", 10),
        (b"a", None, 20),
        (b"a", b"at 30", 30),
        (b"a", b"at 31", 31),
        (b"d", b"now", 50),
    ]
    with FileChangelog.create(directory, "versioned") as log:
        for put in puts:
            log.append(one(*put))
        log.seal()
        compact(log, history_retention_ms=20)

        assert [
            (offset, frame.changes.keys[at], (frame.changes.times_ms or [])[at])
            for frame in log.read()
            for at, offset in enumerate(frame.offsets)
        ] == [(1, b"b", 5), (3, b"c", 8), (6, b"a", 30), (7, b"a", 31), (8, b"d", 50)]


@pytest.mark.spec("LOG-18")
def test_what_came_too_late_does_not_come_back(directory: Path) -> None:
    """A refused change became visible when the one that had made it late was dropped.

    Staged writes append rows unjudged: the first put moves stream time on, so the second is
    refused. The third replaces the first, and with that gone, replay accepted the second.
    """
    with FileChangelog.create(directory, "versioned") as log:
        for key, time_ms in ((b"a", 100), (b"late", 5), (b"a", 100)):
            log.append(one(key, b"x", time_ms))
        log.seal()
        compact(log, history_retention_ms=10)

        assert [offset for offset, _, _ in rows_of(log)] == [2]


@pytest.mark.spec("LOG-18")
def test_what_came_too_late_replaces_nothing(directory: Path) -> None:
    """The version that was accepted stays, and not the later one of the same time."""
    with FileChangelog.create(directory, "versioned") as log:
        for key, time_ms in ((b"a", 5), (b"b", 100), (b"a", 5)):
            log.append(one(key, b"x", time_ms))
        log.seal()
        compact(log, history_retention_ms=10)

        assert [offset for offset, _, _ in rows_of(log)] == [0, 1]


@pytest.mark.spec("LOG-7", "LOG-18")
def test_everything_before_the_last_clear_goes_and_the_clear_stays(directory: Path) -> None:
    """The stream time begins anew as well: what was dropped expires nothing."""
    with FileChangelog.create(directory, "versioned", SMALL) as log:
        log.append(one(b"a", b"1", 1_000), position=Position({CLICKS: 9}))
        log.append_clear()
        log.append(one(b"a", b"2", 2_000))
        log.append_clear(position=Position({CLICKS: 3}))
        log.append(one(b"a", b"3", 5))
        log.append(one(b"a", b"4", 6))
        log.seal()
        compact(log, history_retention_ms=1)

        frames = list(log.read())

        assert [(f.kind, f.base_offset, f.last_offset, list(f.offsets)) for f in frames] == [
            (FrameKind.CHANGES, 0, 2, []),
            (FrameKind.CLEAR, 3, 3, []),
            (FrameKind.CHANGES, 4, 5, [4, 5]),
        ]
        assert [frame.position for frame in frames] == [
            Position(),
            Position({CLICKS: 3}),
            Position(),
        ]
    with FileChangelog.open(directory, "versioned") as log:
        assert log.position == {CLICKS: 3}


@pytest.mark.spec("LOG-7", "LOG-18")
def test_after_a_clear_that_comes_last_there_is_no_frame_of_nothing(directory: Path) -> None:
    """A log of a clear alone is as long as it was. A mutant wrote a frame of no offset after it."""
    with FileChangelog.create(directory, "key-value") as log:
        log.append_clear()
        log.seal()
        report = compact(log)

        assert report.bytes_after == report.bytes_before


@pytest.mark.spec("LOG-18")
def test_many_rows_are_merged_into_frames_of_bounded_size(directory: Path) -> None:
    """Neither a frame for each append, nor one for the whole segment."""
    with FileChangelog.create(directory, "key-value") as log:
        for number in range(60):
            keys = [b"%d %d" % (number, row) for row in range(700)]
            log.append(Changes(keys, [b"v"] * 700), durability=NOSYNC)
        log.seal()
        compact(log)

        frames = list(log.read())

        assert len(frames) == 3
        assert sum(frame.batch.num_rows for frame in frames) == 42_000
        assert all(frame.explicit_offsets is None for frame in frames)


@pytest.mark.parametrize("sealed", [0, 1])
def test_nothing_to_compact_is_no_error(directory: Path, sealed: int) -> None:
    """Neither without a sealed segment, nor when it has been compacted already."""
    with FileChangelog.create(directory, "key-value") as log:
        log.append(one(b"a", b"1"))
        if sealed:
            log.seal()
            compact(log)
        before = [path.read_bytes() for path in sorted(directory.glob("*.log"))]
        report = compact(log)

        assert report == CompactionReport(
            first_offset=0,
            end_offset=0,
            changes_before=0,
            changes_after=0,
            bytes_before=0,
            bytes_after=0,
        )
        assert [path.read_bytes() for path in sorted(directory.glob("*.log"))] == before


@pytest.mark.spec("LOG-20")
@pytest.mark.parametrize("removed", [(), (1,), (2,), (1, 2)])
def test_a_crash_within_a_compaction_is_completed_or_forgotten(
    directory: Path, tmp_path: Path, removed: tuple[int, ...]
) -> None:
    """The new segment has its name, and some of the old ones are still there."""
    with FileChangelog.create(directory, "key-value", SMALL) as log:
        for number in range(4):
            log.append(one(b"a", b"%d" % number))
        shutil.copytree(directory, tmp_path / "before")
        compact(log)
        expected = rows_of(log)
    for number in {1, 2} - set(removed):
        name = f"{number:020d}.log"
        shutil.copy(tmp_path / "before" / name, directory / name)
    unfinished = directory / "00000000000000000000.log.tmp"
    unfinished.write_bytes(b"half a segment")
    with ChangelogReader.open(directory) as reader:
        assert rows_of(reader) == expected == [(2, b"a", b"2"), (3, b"a", b"3")]
        assert rows_of(reader)[-1:] == [(3, b"a", b"3")]
        assert unfinished.exists()
    with FileChangelog.open(directory, "key-value") as log:
        assert rows_of(log) == expected

    assert sorted(path.name for path in directory.glob("*.log*")) == [
        "00000000000000000000.log",
        "00000000000000000003.log",
    ]


@pytest.mark.spec("LOG-9", "LOG-20")
def test_deleting_a_compacted_segment_deletes_what_it_covers_first(
    directory: Path, tmp_path: Path
) -> None:
    """Otherwise old segments would count again when it is gone."""
    with FileChangelog.create(directory, "key-value", SMALL) as log:
        for number in range(4):
            log.append(one(b"a", b"%d" % number))
        shutil.copytree(directory, tmp_path / "before")
        compact(log)
        name = "00000000000000000001.log"
        shutil.copy(tmp_path / "before" / name, directory / name)
        assert log.delete_before(2) == 0
        assert log.delete_before(3) == 3
        assert [path.name for path in directory.glob("*.log")] == ["00000000000000000003.log"]


@pytest.mark.spec("LOG-17", "LOG-20")
def test_a_segment_that_is_missing_after_a_compacted_one_is_noticed(directory: Path) -> None:
    """Its head says where the next one begins."""
    with FileChangelog.create(directory, "key-value", SMALL) as log:
        for number in range(3):
            log.append(one(b"a", b"%d" % number))
        compact(log)
    (directory / "00000000000000000002.log").unlink()
    for opener in (FileChangelog.open, ChangelogReader.open):
        with pytest.raises(ChangelogCorruptedError, match=r"00002\.log' is missing"):
            opener(directory, "key-value")


@pytest.mark.spec("LOG-11")
def test_a_damaged_log_is_not_compacted(directory: Path) -> None:
    """The error says where; nothing is changed and nothing is left behind."""
    with FileChangelog.create(directory, "key-value", SMALL) as log:
        for number in range(3):
            log.append(one(b"a", b"%d" % number))
        path = log.segments()[1].path
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        before = {path.name: path.read_bytes() for path in directory.glob("*.log*")}
        with pytest.raises(ChangelogCorruptedError, match=r"0001\.log"):
            compact(log)

        assert {path.name: path.read_bytes() for path in directory.glob("*.log*")} == before


@pytest.mark.parametrize(
    ("kind", "retention_ms", "message"),
    [
        ("versioned", -1, "from 0 is needed"),
        ("versioned", None, "from 0 is needed"),
        ("key-value", 5, "no history_retention_ms"),
    ],
)
def test_impossible_retentions_are_refused(
    directory: Path, kind: str, retention_ms: int | None, message: str
) -> None:
    """Before anything is read."""
    with (
        FileChangelog.create(directory, kind) as log,
        pytest.raises(InvalidArgumentError, match=message),
    ):
        compact(log, history_retention_ms=retention_ms)


def test_a_segment_that_goes_during_a_compaction_is_our_error(directory: Path) -> None:
    """Somebody cleans up: the log is not compacted, and the report is not of half of it."""
    with FileChangelog.create(directory, "key-value", SMALL) as log:
        for number in range(3):
            log.append(one(b"a", b"%d" % number))
        lost = log.segments()[0].path
        failpoints.arm("compaction.chosen", lost.unlink)
        with pytest.raises(StorageError, match="cannot look at") as caught:
            compact(log)
        failpoints.disarm()

        assert str(lost) in str(caught.value)


def test_a_closed_log_is_not_compacted(directory: Path) -> None:
    """The lock is gone, and somebody else may have it: that comes before a wrong argument."""
    log = FileChangelog.create(directory, "key-value")
    log.close()
    for retention_ms in (None, -1):
        with pytest.raises(StoreClosedError):
            compact(log, history_retention_ms=retention_ms)
