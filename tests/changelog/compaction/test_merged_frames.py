"""The frames that a compaction writes: how large, of when, and with which offsets."""

from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from statestores.changelog import FileChangelog, FrameKind, compact, merged_frames
from statestores.changelog.frame import HAS_OFFSETS, FrameHeader
from statestores.changelog.segments.segment import Segment
from statestores.spi import Changes


def one(key: bytes, value: bytes = b"v") -> Changes:
    """Return one change."""
    return Changes([key], [value])


def headers(log: FileChangelog) -> list[FrameHeader]:
    """Return those of the frames of the first segment, as they are stored."""
    found = []
    with Segment.open(log.segments()[0].path) as segment:
        start = segment.frames_at
        while (stored := segment.frame_at(start)) is not None:
            found.append(stored.header)
            start = stored.stop
    return found


@pytest.mark.spec("LOG-18")
@pytest.mark.parametrize(("most_bytes", "frames"), [(1, 10), (1_000, 4), (1 << 20, 1)])
def test_large_rows_are_merged_into_frames_of_bounded_size(
    directory: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int, frames: int
) -> None:
    """A bound of rows alone would let a compaction take the memory of all of them."""
    monkeypatch.setattr(merged_frames, "_FRAME_BYTES", most_bytes)
    with FileChangelog.create(directory, "key-value") as log:
        for number in range(10):
            log.append(one(b"%d" % number, b"v" * 350))
        log.seal()
        compact(log)

        assert len(headers(log)) == frames
        assert [offset for frame in log.read() for offset in frame.offsets] == list(range(10))


@pytest.mark.spec("LOG-18")
@pytest.mark.parametrize(("spare", "each"), [(0, 2), (1, 3)])
def test_a_merged_frame_ends_with_the_change_that_fills_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch, spare: int, each: int
) -> None:
    """By its bytes as by its rows, and the first frame as those after it."""
    with FileChangelog.create(directory, "key-value") as log:
        for number in range(6):
            log.append(one(b"%d" % number))
        change_bytes = next(log.read()).batch.filter(pa.array([True])).nbytes
        log.seal()
        monkeypatch.setattr(merged_frames, "_FRAME_BYTES", 2 * change_bytes + spare)
        compact(log)

        assert [header.num_changes for header in headers(log)] == [each] * (6 // each)


@pytest.mark.spec("LOG-18")
def test_a_merged_frame_has_as_many_rows_as_fit(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one more: whoever reads a frame has all of it in memory."""
    monkeypatch.setattr(merged_frames, "_FRAME_ROWS", 2)
    with FileChangelog.create(directory, "key-value") as log:
        for number in range(6):
            log.append(one(b"%d" % number))
        log.seal()
        compact(log)

        assert [header.num_changes for header in headers(log)] == [2, 2, 2]


@pytest.mark.spec("LOG-18")
def test_a_merged_frame_was_appended_when_the_last_one_was_that_it_stands_for(
    directory: Path,
) -> None:
    """Also where nothing of it remains, and of a clear: retention by time goes by that."""
    ticks = count(100, 100)
    with FileChangelog.create(directory, "key-value", clock_ms=lambda: next(ticks)) as log:
        log.append(one(b"a"))
        log.append(one(b"b"))
        log.append_clear()
        log.append(one(b"a"))
        log.append(one(b"b"))
        log.seal()
        compact(log)
        found = headers(log)

    assert [(FrameKind(each.kind), each.appended_at_ms) for each in found] == [
        (FrameKind.CHANGES, 200),
        (FrameKind.CLEAR, 300),
        (FrameKind.CHANGES, 500),
    ]
    assert [(each.num_changes, each.flags) for each in found] == [(0, 0), (0, 0), (2, 0)]


@pytest.mark.spec("LOG-18", "LOG-23")
def test_offsets_are_stored_only_where_some_are_missing(directory: Path) -> None:
    """Eight bytes for each change are saved where they follow one another."""
    with FileChangelog.create(directory, "key-value") as log:
        log.append(Changes([b"a", b"b"], [b"1", b"2"]))
        log.seal()
        (before,) = headers(log)
        compact(log)
        (dense,) = headers(log)
        log.append(one(b"a", b"3"))
        log.seal()
        compact(log)
        (sparse,) = headers(log)

    assert (dense.flags, dense.body_bytes) == (0, before.body_bytes)
    assert (sparse.flags, sparse.num_changes) == (HAS_OFFSETS, 2)
    assert (sparse.base_offset, sparse.last_offset) == (0, 2)
    assert sparse.body_bytes > dense.body_bytes
