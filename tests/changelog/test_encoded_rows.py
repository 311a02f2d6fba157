"""Rows that are encoded once: appended to a log, or made a segment in memory."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from small_log import CLICKS, NOSYNC

from statestores.changelog import (
    Changelog,
    ChangelogOptions,
    Compression,
    FileChangelog,
    Frame,
    OffsetRange,
)
from statestores.changelog.contract import NO_POSITION
from statestores.changelog.encoded_rows import (
    EncodedChanges,
    EncodedRows,
    encoded_changes,
    encoded_rows,
)
from statestores.changelog.frame_bodies import BodyWriter
from statestores.changelog.next_frame import append_encoded
from statestores.changelog.rows import change_schema, order_column
from statestores.changelog.segments.memory_segment import (
    FrameContent,
    MemorySegment,
    segment_in_memory,
)
from statestores.changelog.segments.segment import Segment
from statestores.errors import (
    ChangelogCorruptedError,
    InvalidArgumentError,
    InvalidTypeError,
    StoreClosedError,
)
from statestores.spi import Changes, Durability, Position
from statestores_conformance.many_cases import for_each

HERE = Position({CLICKS: 4})


def rows(*keys: bytes, compression: Compression = Compression.LZ4) -> EncodedRows:
    """Return a put of each of *keys*, encoded."""
    changes = Changes(list(keys), [b"value of %b" % key for key in keys])
    return encoded_changes("key-value", changes, compression)


@pytest.mark.spec("LOG-1", "LOG-23")
@pytest.mark.parametrize("written", Compression)
@pytest.mark.parametrize("encoded", Compression)
def test_encoded_rows_are_appended_as_the_log_is_written(
    directory: Path, written: Compression, encoded: Compression
) -> None:
    """Their body is taken as it is where it is compressed alike, and else made anew."""
    options = ChangelogOptions(compression=written)
    twice = b"k" * 500, b"k" * 501
    with FileChangelog.create(directory, "key-value", options) as log:
        given = rows(*twice, compression=encoded)
        appended = append_encoded(log, given, position=HERE, durability=NOSYNC)
        log.append_batch(given.batch, position=HERE, durability=NOSYNC)
        log.append(Changes([], []))
        append_encoded(log, rows(compression=encoded), position=HERE, durability=NOSYNC)
        frames = list(log.read())
        with Segment.open(log.segments()[0].path) as segment:
            first = segment.frame_at(segment.frames_at)
            second = segment.frame_at(first.stop) if first else None

    assert appended == OffsetRange(0, 1)
    assert [frame.changes.keys for frame in frames] == [list(twice), list(twice), [], []]
    assert [frame.position for frame in frames] == [HERE, HERE, Position(), HERE]
    assert first is not None
    assert second is not None
    assert first.header.body_bytes == second.header.body_bytes


def test_encoded_rows_are_not_encoded_once_more(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take most of the time of an append again, to write the same bytes."""
    with FileChangelog.create(directory, "key-value") as log:
        given = rows(b"k", compression=ChangelogOptions().compression)
        with monkeypatch.context() as patched:
            patched.delattr(BodyWriter, "write")
            append_encoded(log, given, position=HERE, durability=NOSYNC)

        assert [frame.changes.keys for frame in log.read()] == [[b"k"]]


class _StrangersLog(Changelog):
    """A changelog of somebody else, which knows nothing of frames: it passes on what it is told."""

    def __init__(self, log: FileChangelog) -> None:
        self._log = log

    @property
    def store_kind(self) -> str:
        return self._log.store_kind

    @property
    def is_open(self) -> bool:
        return self._log.is_open

    @property
    def first_offset(self) -> int:
        return self._log.first_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def position(self) -> Position:
        return self._log.position

    def read(self, from_offset: int | None = None, to_offset: int | None = None) -> Iterator[Frame]:
        return self._log.read(from_offset, to_offset)

    def append(
        self,
        changes: Changes,
        *,
        position: Position = NO_POSITION,
        durability: Durability = Durability.POWER_LOSS,
    ) -> OffsetRange:
        return self._log.append(changes, position=position, durability=durability)

    def append_clear(
        self,
        *,
        position: Position = NO_POSITION,
        durability: Durability = Durability.POWER_LOSS,
    ) -> int:
        return self._log.append_clear(position=position, durability=durability)

    def close(self) -> None:
        self._log.close()


@pytest.mark.spec("LOG-2")
def test_encoded_rows_are_appended_to_a_changelog_of_somebody_else(directory: Path) -> None:
    """It need know nothing of frames: it gets the rows, and says which offsets they have."""
    with _StrangersLog(FileChangelog.create(directory, "key-value")) as log:
        log.append_clear()
        appended = append_encoded(log, rows(b"a", b"b"), position=HERE, durability=NOSYNC)
        (_, frame) = log.read()

    assert appended == OffsetRange(1, 2)
    assert (frame.changes.keys, frame.position) == ([b"a", b"b"], HERE)


@pytest.mark.parametrize("compression", Compression)
def test_no_rows_have_no_body(compression: Compression) -> None:
    """A frame of no rows has none, and Arrow's message of an empty batch is not nothing."""
    assert bytes(rows(compression=compression).body) == b""


def test_rows_are_those_of_their_kind_whatever_their_schema_says_besides() -> None:
    """What Spark or pandas notes in a schema is not the changelog's, and would be kept with it."""
    schema = change_schema("key-value")
    batch = pa.record_batch([pa.array([b"k"]), pa.array([b"v"])], schema=schema)
    noted = batch.replace_schema_metadata({"pandas": "notes"})
    found = encoded_rows("key-value", noted, Compression.NONE)

    assert found.batch.schema.equals(schema, check_metadata=True)
    assert pa.array(EncodedChanges.of(found).keys).to_pylist() == [b"k"]
    assert pa.array(EncodedChanges.of(found).values).to_pylist() == [b"v"]
    with pytest.raises(InvalidTypeError, match="the changelog takes the columns"):
        encoded_rows("versioned", batch, Compression.NONE)


@for_each(
    ("kind", "column"),
    [("key-value", None), ("versioned", "timestamp"), ("timestamped-key-value", None)],
)
def test_rows_are_ordered_by_the_time_that_makes_one_too_late(
    kind: str, column: str | None
) -> None:
    """Others keep their order: the last change counts."""
    assert order_column(change_schema(kind)) == column


def test_encoded_rows_are_not_appended_to_a_closed_log(directory: Path) -> None:
    """The lock is gone."""
    log = FileChangelog.create(directory, "key-value")
    log.close()
    with pytest.raises(StoreClosedError):
        append_encoded(log, rows(b"k"), position=HERE, durability=NOSYNC)


@pytest.mark.spec("LOG-22", "LOG-23")
def test_a_segment_in_memory_has_the_frames_that_it_was_made_of() -> None:
    """With their offsets, positions and time; each goes on from the one before."""
    contents = [FrameContent(rows(b"a", b"b"), HERE), FrameContent(rows(b"c"), Position())]
    data = segment_in_memory("key-value", 7, contents, 900)
    frames = list(MemorySegment.of("here", data).frames())

    assert [list(frame.offsets) for frame in frames] == [[7, 8], [9]]
    assert [frame.changes.keys for frame in frames] == [[b"a", b"b"], [b"c"]]
    assert [(frame.position, frame.appended_at_ms) for frame in frames] == [
        (HERE, 900),
        (Position(), 900),
    ]


@pytest.mark.spec("LOG-11")
def test_a_segment_in_memory_that_is_damaged_says_where() -> None:
    """What came before the damage is there; a cut is damage as well."""
    contents = [FrameContent(rows(b"a"), HERE), FrameContent(rows(b"b"), HERE)]
    data = segment_in_memory("key-value", 0, contents, 0)
    for damaged in (data[:-1], data[:-100] + bytes(100)):
        frames = MemorySegment.of("here", damaged).frames()
        assert next(frames).changes.keys == [b"a"]
        with pytest.raises(ChangelogCorruptedError, match="offset 1: there is no intact frame"):
            next(frames)
    with pytest.raises(ChangelogCorruptedError, match="here is no segment of a changelog"):
        MemorySegment.of("here", data[:20])


@pytest.mark.spec("LOG-23")
def test_a_segment_in_memory_that_lacks_a_frame_says_where(segment: Path, ends: list[int]) -> None:
    """Each frame is whole, and one between them is missing: half a commit is none."""
    data = segment.read_bytes()
    frames = MemorySegment.of("here", data[: ends[1]] + data[ends[2] :]).frames()
    assert next(frames).last_offset == 1
    with pytest.raises(ChangelogCorruptedError, match="offset 2"):
        next(frames)


def test_a_segment_in_memory_closes_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has none, and the number of one that it might have is that of the standard input."""
    segment = MemorySegment.of("here", segment_in_memory("key-value", 0, [], 0))
    closed: list[int] = []
    with monkeypatch.context() as patched:
        patched.setattr(os, "close", closed.append)
        segment.close()

    assert closed == []


def test_windows_without_duplicates_have_no_numbers(directory: Path) -> None:
    """A replay into a store that retains none takes no numbers of duplicates."""
    with FileChangelog.create(directory, "window") as log:
        log.append(Changes([b"a"], [b"1"], [5]))
        log.append(Changes([b"a", b"b"], [b"1", b"2"], [5, 5], sequences=[3, 4]))
        first, second = log.read()

    assert first.changes.sequences is None
    assert second.changes.sequences == [3, 4]


def test_columns_that_are_too_much_for_one_append_are_refused(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow makes two arrays of more than 2 GiB; a record batch takes one."""
    with FileChangelog.create(directory, "key-value") as log, monkeypatch.context() as patched:
        patched.setattr(pa, "array", lambda values, kind: pa.chunked_array([[]], kind))
        with pytest.raises(InvalidArgumentError, match="key column of one append exceeds 2 GiB"):
            log.append(Changes([b"k"], [b"v"]))


def test_a_segment_may_be_closed_twice(segment: Path) -> None:
    """The second time closes nothing: the number may be that of another file by then."""
    opened = Segment.open(segment)
    opened.close()
    opened.close()

    assert opened.path == segment
