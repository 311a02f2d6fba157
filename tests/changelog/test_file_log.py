"""Appending to a changelog in files, and reading it back through another handle."""

import random
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores import failpoints
from statestores.changelog import (
    KEY_VALUE_CHANGES,
    VERSIONED_CHANGES,
    Changelog,
    ChangelogOptions,
    ChangelogReader,
    Compression,
    FileChangelog,
    Frame,
    FrameKind,
    OffsetRange,
    ReadOnlyChangelog,
    changelog_partition,
)
from statestores.changelog.log_appender import LogAppender
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    OffsetOutOfRangeError,
    StoreLockedError,
)
from statestores.spi import Changes, Durability, Position, TopicPartition

CLICKS = TopicPartition("clicks", 0)
VIEWS = TopicPartition("views", 7)
NOSYNC = Durability.PROCESS_CRASH

Row = tuple[int, bytes, bytes | None]


def changes(*rows: tuple[bytes, bytes | None]) -> Changes:
    """Return rows of a key-value store as columns."""
    return Changes([key for key, _ in rows], [value for _, value in rows])


def rows_of(
    log: ReadOnlyChangelog, from_offset: int | None = None, to_offset: int | None = None
) -> list[Row]:
    """Return offset, key and value of each change that *log* gives."""
    return rows_in(log.read(from_offset, to_offset))


def rows_in(frames: Iterable[Frame]) -> list[Row]:
    """Return offset, key and value of each change of *frames*."""
    rows: list[Row] = []
    for frame in frames:
        columns = frame.changes
        rows += zip(frame.offsets, columns.keys, columns.values, strict=True)
    return rows


@pytest.mark.spec("LOG-1", "LOG-2", "LOG-3")
def test_what_was_appended_is_read_with_its_offsets(directory: Path) -> None:
    """Offsets are consecutive across appends, and a reader finds every change at its own."""
    with FileChangelog.create(directory, "key-value") as log:
        assert (log.first_offset, log.end_offset) == (0, 0)
        assert log.append(changes((b"a", b"1"), (b"b", None))) == OffsetRange(0, 1)
        assert log.append(changes((b"a", b""))) == OffsetRange(2, 2)
        assert log.end_offset == 3

    with ChangelogReader.open(directory) as reader:
        assert (reader.first_offset, reader.end_offset) == (0, 3)
        assert rows_of(reader) == [(0, b"a", b"1"), (1, b"b", None), (2, b"a", b"")]


@pytest.mark.spec("LOG-24")
@pytest.mark.parametrize("compression", list(Compression))
def test_versioned_changes_have_their_times(directory: Path, compression: Compression) -> None:
    """Times come back as they were, under every compression."""
    written = Changes([b"a", b"", b"a"], [b"1", b"x" * 10_000, None], [5, 0, 2**63 - 1])
    options = ChangelogOptions(compression=compression)
    with FileChangelog.create(directory, "versioned", options) as log:
        log.append(written)

        (frame,) = log.read()

        assert frame.changes == written
        assert frame.batch.schema == VERSIONED_CHANGES
        assert frame.offset_column().to_pylist() == [0, 1, 2]


@pytest.mark.spec("LOG-2")
def test_an_append_without_changes_takes_one_offset(directory: Path) -> None:
    """A commit that only read input has a place for its position."""
    with FileChangelog.create(directory, "key-value") as log:
        assert log.append(changes(), position=Position({CLICKS: 8})) == OffsetRange(0, 0)
        assert log.append(changes((b"a", b"1"))) == OffsetRange(1, 1)

    with ChangelogReader.open(directory) as reader:
        assert rows_of(reader) == [(1, b"a", b"1")]
        assert [(f.base_offset, f.last_offset, f.position) for f in reader.read()] == [
            (0, 0, Position({CLICKS: 8})),
            (1, 1, Position()),
        ]


@pytest.mark.spec("LOG-6")
def test_positions_are_merged_across_frames_and_segments(directory: Path) -> None:
    """The log's position is the highest offset of each input partition, also after reopening."""
    with FileChangelog.create(directory, "key-value", ChangelogOptions(segment_bytes=1)) as log:
        log.append(changes((b"a", b"1")), position=Position({CLICKS: 5, VIEWS: 1}))
        log.append(changes((b"a", b"2")), position=Position({CLICKS: 4}))
        log.append(changes((b"a", b"3")), position=Position({VIEWS: 2**63 - 1}))
        assert len(log.segments()) == 3
        assert log.position == {CLICKS: 5, VIEWS: 2**63 - 1}

    with FileChangelog.open(directory, "key-value") as log:
        assert log.position == {CLICKS: 5, VIEWS: 2**63 - 1}
        log.delete_before(log.end_offset)
        assert log.first_offset == 2
    with ChangelogReader.open(directory) as reader:
        assert reader.position == {CLICKS: 5, VIEWS: 2**63 - 1}


@pytest.mark.spec("LOG-7")
def test_a_clear_takes_one_offset_and_the_position_begins_anew(directory: Path) -> None:
    """What the dropped content reflected says nothing about the content that follows."""
    with FileChangelog.create(directory, "key-value") as log:
        log.append(changes((b"a", b"1")), position=Position({CLICKS: 5, VIEWS: 1}))
        assert log.append_clear(position=Position({CLICKS: 2})) == 1
        assert log.position == {CLICKS: 2}
        log.append(changes((b"b", b"2")), position=Position({CLICKS: 3}))

    with ChangelogReader.open(directory) as reader:
        assert [frame.kind for frame in reader.read()] == [
            FrameKind.CHANGES,
            FrameKind.CLEAR,
            FrameKind.CHANGES,
        ]
        assert reader.position == {CLICKS: 3}
        assert reader.end_offset == 3


@pytest.mark.spec("LOG-4")
@pytest.mark.parametrize("segment_bytes", [1, 900, 1 << 20])
def test_every_range_is_cut_where_it_says(directory: Path, segment_bytes: int) -> None:
    """All bounds, within frames and at their ends, across segments; positions stay at the ends."""
    options = ChangelogOptions(segment_bytes=segment_bytes)
    with FileChangelog.create(directory, "key-value", options) as log:
        for number in range(6):
            rows = [(b"%d" % number, b"%d" % row) for row in range(number)]
            log.append(changes(*rows), position=Position({CLICKS: number}), durability=NOSYNC)
        whole = list(log.read())
        everything = rows_in(whole)
        ends = {frame.last_offset: frame.position for frame in whole}
        for start in range(log.end_offset + 1):
            for stop in range(start, log.end_offset + 1):
                frames = list(log.read(start, stop))

                assert rows_in(frames) == [r for r in everything if start <= r[0] < stop]
                assert [offset for f in frames for offset in (f.base_offset, f.last_offset)] == [
                    bound
                    for frame in whole
                    if start < stop and frame.last_offset >= start and frame.base_offset < stop
                    for bound in (max(frame.base_offset, start), min(frame.last_offset, stop - 1))
                ]
                for frame in frames:
                    assert frame.position == ends.get(frame.last_offset, {})


@pytest.mark.spec("LOG-4")
def test_a_read_ends_where_the_log_ended_at_the_call(directory: Path) -> None:
    """Appends that follow the call do not show up, whether the read has begun or not."""
    with FileChangelog.create(directory, "key-value", ChangelogOptions(segment_bytes=1)) as log:
        log.append(changes((b"a", b"1")))
        log.append(changes((b"a", b"2")))
        frames = log.read()
        next(frames)
        log.append(changes((b"a", b"3")))

        assert [frame.base_offset for frame in frames] == [1]


@pytest.mark.spec("LOG-4", "LOG-9")
@pytest.mark.parametrize(
    ("bounds", "error"),
    [
        ((0, None), OffsetOutOfRangeError),
        ((None, 11), OffsetOutOfRangeError),
        ((11, None), OffsetOutOfRangeError),
        ((9, 8), InvalidArgumentError),
        ((-1, None), InvalidArgumentError),
        (("7", None), InvalidTypeError),
        ((None, True), InvalidTypeError),
    ],
)
def test_bounds_outside_of_the_log_are_refused_at_the_call(
    directory: Path, bounds: tuple[Any, Any], error: type[Exception]
) -> None:
    """A log from 7 to 10 neither has older offsets nor later ones."""
    with FileChangelog.create(directory, "key-value", first_offset=7) as log:
        log.append(changes((b"a", b"1"), (b"b", b"2"), (b"c", b"3")))
        with ChangelogReader.open(directory) as reader:
            for opened in (log, reader):
                with pytest.raises(error):
                    opened.read(*bounds)


batches = st.lists(
    st.lists(
        st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=20)),
        max_size=8,
    ),
    max_size=8,
)


@pytest.mark.spec("LOG-2", "LOG-4", "LOG-22", "LOG-23")
@given(
    batches=batches,
    segment_bytes=st.sampled_from([1, 600, 1 << 20]),
    compression=st.sampled_from(list(Compression)),
    reopen=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_what_is_appended_is_read_in_any_splitting(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[tuple[bytes, bytes | None]]],
    segment_bytes: int,
    compression: Compression,
    seed: int,
    *,
    reopen: bool,
) -> None:
    """The list of all changes, read in random consecutive ranges, is the list that was written."""
    directory = tmp_path_factory.mktemp("log") / "changelog"
    options = ChangelogOptions(segment_bytes=segment_bytes, compression=compression)
    expected: list[Row] = []
    log = FileChangelog.create(directory, "key-value", options)
    try:
        for batch in batches:
            first, _ = log.append(changes(*batch), durability=NOSYNC)
            expected += [(first + at, *row) for at, row in enumerate(batch)]
            if reopen:
                log.close()
                log = FileChangelog.open(directory, "key-value", options)
        bounds = sorted(random.Random(seed).choices(range(log.end_offset + 1), k=3))
        bounds = [0, *bounds, log.end_offset]
        read = [row for start, stop in pairwise(bounds) for row in rows_of(log, start, stop)]
    finally:
        log.close()

    assert read == expected


@pytest.mark.spec("LOG-24")
def test_a_record_batch_is_appended_as_it_is(directory: Path) -> None:
    """Arrow columns go in without lists; slices and other nullability do not matter."""
    table = pa.table({"key": [b"x", b"a", b"b"], "value": [b"x", None, b"2"]})
    (batch,) = table.to_batches()
    with FileChangelog.create(directory, "key-value") as log:
        assert log.append_batch(batch.slice(1)) == OffsetRange(0, 1)

        (frame,) = log.read()

        assert frame.batch.schema.equals(KEY_VALUE_CHANGES)
        assert rows_of(log) == [(0, b"a", None), (1, b"b", b"2")]


def test_the_contract_appends_batches_through_append(directory: Path) -> None:
    """A log that does not store Arrow need not implement `append_batch`."""
    batch = pa.RecordBatch.from_pydict(
        {"key": [b"a"], "value": [None], "timestamp": [3]}, schema=VERSIONED_CHANGES
    )
    with FileChangelog.create(directory, "versioned") as log:
        Changelog.append_batch(log, batch, position=Position({CLICKS: 1}))

        (frame,) = log.read()

        assert frame.changes == Changes([b"a"], [None], [3])
        assert frame.position == {CLICKS: 1}


@pytest.mark.spec("LOG-20")
def test_segments_are_named_for_their_base_and_roll_by_size(directory: Path) -> None:
    """A segment does not grow beyond its size, unless by one frame that is larger."""
    options = ChangelogOptions(segment_bytes=4_000, compression=Compression.NONE)
    with FileChangelog.create(directory, "key-value", options) as log:
        for _ in range(20):
            log.append(changes((b"k", b"v" * 500)), durability=NOSYNC)
        log.append(changes((b"k", b"v" * 10_000)), durability=NOSYNC)
        segments = log.segments()
        sizes = [segment.path.stat().st_size for segment in segments]

        assert len(segments) > 3
        assert all(size <= 4_000 for size in sizes[:-1])
        assert [segment.path.name for segment in segments] == [
            f"{segment.first_offset:020d}.log" for segment in segments
        ]
        assert [segment.end_offset for segment in segments] == [
            *(segment.first_offset for segment in segments[1:]),
            None,
        ]


def test_sealing_an_empty_segment_does_nothing(directory: Path) -> None:
    """There would be two segments of one name."""
    with FileChangelog.create(directory, "key-value") as log:
        log.seal()
        log.append(changes((b"a", b"1")))
        log.seal()
        log.seal()

        assert [segment.first_offset for segment in log.segments()] == [0, 1]


@pytest.mark.spec("LOG-9")
def test_deleting_keeps_segments_that_are_needed(directory: Path) -> None:
    """Whole segments below the offset go; the active one stays, and older reads are refused."""
    with FileChangelog.create(directory, "key-value") as log:
        for number in range(3):
            log.append(changes((b"a", b"%d" % number), (b"b", b"")))
            log.seal()
        assert log.delete_before(3) == 2
        assert log.delete_before(0) == 2
        with pytest.raises(OffsetOutOfRangeError, match="deleted"):
            log.read(1)
        with pytest.raises(OffsetOutOfRangeError, match="not written"):
            log.delete_before(7)
        assert [offset for offset, _, _ in rows_of(log)] == [2, 3, 4, 5]
        assert log.delete_before(6) == 6
        assert rows_of(log) == []

    with FileChangelog.open(directory, "key-value") as log:
        assert (log.first_offset, log.end_offset) == (6, 6)
        assert log.append(changes((b"a", b"9"))) == OffsetRange(6, 6)


def test_the_changelog_partition_of_a_store_has_a_name() -> None:
    """The store commits its changelog offset under it."""
    assert changelog_partition("counts", 3) == TopicPartition("counts-changelog", 3)


@pytest.mark.spec("LOG-8")
def test_a_clock_that_goes_backward_does_no_harm(directory: Path) -> None:
    """The times of appends are kept and nothing else comes of them."""
    times = iter([5_000, -1, 0])
    with FileChangelog.create(directory, "key-value", clock_ms=lambda: next(times)) as log:
        for number in range(3):
            log.append(changes((b"a", b"%d" % number)))

        assert [frame.appended_at_ms for frame in log.read()] == [5_000, -1, 0]
        assert [offset for offset, _, _ in rows_of(log)] == [0, 1, 2]


@pytest.mark.spec("LOG-1", "LOG-2")
def test_whoever_asks_for_the_end_in_the_middle_of_an_append_changes_nothing(
    directory: Path,
) -> None:
    """An instance that answered queries wrote two frames at one offset, and lost its changelog.

    A thread asked how far a task was, as any thread may, while its owner appended. It found a frame
    that was being appended, took it for one that had failed, and forgot it. The totals never heard
    of the frame, the next one got its offsets, and nobody could read the log again. Only the
    writer notes or forgets an append now.
    """
    asked: list[tuple[int, Position]] = []
    with FileChangelog.create(directory, "key-value") as log:
        log.append(changes((b"a", b"1")), position=Position({CLICKS: 1}))

        def ask() -> None:
            asker = Thread(target=lambda: asked.append((log.end_offset, log.position)))
            asker.start()
            asker.join()

        for name in ("changelog.append.written", "changelog.append.durable"):
            failpoints.arm(name, ask)
        try:
            for offset in (2, 3):
                log.append(changes((b"a", b"%d" % offset)), position=Position({CLICKS: offset}))
        finally:
            failpoints.disarm()
        assert log.append(changes((b"a", b"4"))) == OffsetRange(3, 3)
        assert [offset for offset, _, _ in rows_of(log)] == [0, 1, 2, 3]

    before = [(1, Position({CLICKS: 1})), (2, Position({CLICKS: 2}))]
    assert asked == [each for each in before for _ in range(2)]
    with ChangelogReader.open(directory, "key-value") as reader:
        assert reader.end_offset == 4
        assert reader.position == Position({CLICKS: 3})


@pytest.mark.spec("LOG-1", "LOG-2")
def test_after_an_interrupt_the_end_and_the_position_are_of_the_same_frame(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frame was appended, and not noted: it counts, with the input that it reflects."""
    note, noted = LogAppender.take_note, []

    def interrupted(appender: LogAppender) -> None:
        noted.append(appender)
        if len(noted) == 2:  # the first is before the append
            raise KeyboardInterrupt
        note(appender)

    with FileChangelog.create(directory, "key-value") as log:
        log.append(changes((b"a", b"1")), position=Position({CLICKS: 1}))
        with monkeypatch.context() as patched:
            patched.setattr(LogAppender, "take_note", interrupted)
            with pytest.raises(KeyboardInterrupt):
                log.append(changes((b"a", b"2")), position=Position({CLICKS: 2}))
        found = (log.end_offset, log.position)
    with ChangelogReader.open(directory, "key-value") as reader:
        assert found == (reader.end_offset, reader.position) == (2, Position({CLICKS: 2}))


def test_a_log_that_was_resumed_is_held_until_it_is_closed(directory: Path) -> None:
    """And no longer: whoever opened it then was told that another process has it."""
    with FileChangelog.create(directory, "key-value") as log:
        log.pause()
        log.resume()
        with pytest.raises(StoreLockedError):
            FileChangelog.open(directory, "key-value")
    with FileChangelog.open(directory, "key-value") as again:
        assert again.end_offset == 0


@pytest.mark.spec("LOG-1")
def test_what_others_appended_meanwhile_comes_before_the_next_append(directory: Path) -> None:
    """A log that was paused knows of it once it is resumed, whoever has left it how."""
    with FileChangelog.create(directory, "key-value") as log:
        log.append(changes((b"a", b"mine")))
        ends = []
        for number in range(3):
            log.pause()
            with FileChangelog.open(directory, "key-value") as other:
                for _ in range(number):
                    other.append(changes((b"a", b"theirs")))
            log.resume()
            ends.append(log.end_offset)
        offsets = log.append(changes((b"a", b"mine again")))

        assert ends == [1, 2, 4]
        assert offsets == OffsetRange(4, 4)
        assert [frame.base_offset for frame in log.read()] == [0, 1, 2, 3, 4]
