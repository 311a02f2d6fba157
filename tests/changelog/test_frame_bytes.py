"""The bytes of a log: chapter 6 shows them, and a log of the first release keeps opening."""

import doctest
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores.changelog import ChangelogReader, Compression, FileChangelog, FrameKind
from statestores.changelog.frame_bodies import BodyWriter, read_body
from statestores.changelog.next_frame import frame_of
from statestores.changelog.rows import KEY_VALUE_CHANGES
from statestores.changelog.stored_position import (
    MalformedPositionError,
    pack_position,
    unpack_position,
)
from statestores.errors import InvalidArgumentError
from statestores.spi import Changes, Position, TopicPartition
from statestores_conformance.many_cases import for_each

CHAPTER = Path(__file__).parents[2] / "spec" / "06-changelog.md"
GOLDEN = Path(__file__).parent / "golden"


def block_of(language: str) -> str:
    """Return the fenced block of the chapter in *language*."""
    (block,) = re.findall(
        rf"^```{language}\n(.*?)^```$", CHAPTER.read_text(), re.MULTILINE | re.DOTALL
    )
    return str(block)


def shown_bytes() -> bytes:
    """Return the bytes that the chapter shows."""
    lines = [line.split("  ") for line in block_of("hexdump").splitlines()]
    assert [int(line[0], 16) for line in lines] == [16 * at for at in range(len(lines))]
    return b"".join(bytes.fromhex(line[1]) for line in lines)


@pytest.mark.spec("LOG-20", "LOG-21", "LOG-22", "LOG-23", "LOG-24", "LOG-25")
def test_the_worked_example_is_what_the_code_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte; a new release of Arrow may order the inside of its messages differently."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    test = doctest.DocTestParser().get_doctest(block_of("python"), names, "06", str(CHAPTER), 0)
    results = doctest.DocTestRunner().run(test, clear_globs=False)

    assert results.failed == 0
    assert test.globs["written"] == shown_bytes()


@pytest.mark.spec("LOG-20", "LOG-21", "LOG-22", "LOG-23", "LOG-24", "LOG-25")
def test_the_worked_example_is_read_as_it_is_meant(directory: Path) -> None:
    """The bytes that the chapter shows, whoever wrote them, are this log."""
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(shown_bytes())
    with ChangelogReader.open(directory) as reader:
        first, second = reader.read()

        assert reader.torn_tail is None
        assert first.changes == Changes([b"a", b"b"], [b"41", None])
        assert first.position == {TopicPartition("clicks", 3): 1000}
        assert first.appended_at_ms == 1_356_998_400_000
        assert (second.kind, second.base_offset) == (FrameKind.CLEAR, 2)


@pytest.mark.spec("LOG-31")
@pytest.mark.parametrize("kind", ["key-value", "versioned"])
def test_golden_logs_keep_opening(directory: Path, kind: str) -> None:
    """Written by version 0.1: a compacted segment, one with a clear, and the active one."""
    shutil.copytree(GOLDEN / kind, directory)
    times = kind == "versioned"
    clicks, views = TopicPartition("clicks", 3), TopicPartition("views", 0)
    with FileChangelog.open(directory, kind, committed_offset=13) as log:
        frames = list(log.read())

        assert log.torn_tail is None
        assert log.position == {views: 9, clicks: 4}
        assert [segment.compacted for segment in log.segments()] == [True, False, False]
        assert [(frame.kind, list(frame.offsets), frame.position) for frame in frames] == [
            (FrameKind.CHANGES, [1, 3, 4, 5] if times else [3, 4, 5], Position({clicks: 2})),
            (FrameKind.CHANGES, [6, 7], Position({clicks: 3})),
            (FrameKind.CLEAR, [], Position({views: 9})),
            (FrameKind.CHANGES, [], Position({clicks: 4})),
            (FrameKind.CHANGES, [10, 11, 12, 13], Position()),
        ]
        assert [frame.changes for frame in frames if frame.batch.num_rows] == [
            Changes([b"b", b"a", b"b", b"c"], [b"2", b"4", None, b""], [20, 10, 30, 5])
            if times
            else Changes([b"a", b"b", b"c"], [b"4", None, b""]),
            Changes([b"a", b"z"], [b"5", b"6"], [10, 9] if times else None),
            Changes(
                [b"", b"\x00", b"d", b"e"],
                [b"x" * 200, b"y", None, bytes(range(256))],
                [0, 1, 2, 2**63 - 1] if times else None,
            ),
        ]
        assert frames[0].appended_at_ms == 1_356_998_400_002


@pytest.mark.spec("LOG-25")
@given(
    st.dictionaries(
        st.builds(TopicPartition, st.text(min_size=1, max_size=9), st.integers(0, 2**32 - 1)),
        st.integers(0, 2**63 - 1),
        max_size=6,
    )
)
def test_positions_come_back_from_their_bytes(offsets: dict[TopicPartition, int]) -> None:
    """Any topics and partitions; the bytes do not depend on the order of the mapping."""
    packed = pack_position(Position(offsets))

    assert unpack_position(packed) == Position(offsets)
    assert len(packed) % 8 == 0
    assert pack_position(Position(dict(reversed(offsets.items())))) == packed


@for_each(
    "packed",
    [
        b"\x00\x06clicks",
        b"\x00\x01\xff\x00\x00\x00\x00",
        b"\x00\x01a\x00\x00\x00\x01\x00",
        b"\x00\x00\x01\x00\x00\x00\x00\x00",
        b"\x00\x01a\x00\x00\x00\x01\x00\x00\x00\x00" + b"\xff" * 8,
    ],
)
def test_malformed_positions_are_told(packed: bytes) -> None:
    """Whoever reads the bytes knows where they stood, and reports it."""
    with pytest.raises(MalformedPositionError):
        unpack_position(packed)


@pytest.mark.spec("LOG-22")
@for_each("compression", list(Compression))
def test_a_body_is_an_arrow_message(compression: Compression) -> None:
    """Any Arrow reads it, with the schema in front of it, and uncompressed columns in place."""
    batch = pa.RecordBatch.from_pydict(
        {"key": [b"a", b"b"], "value": [b"1" * 500, None]}, schema=KEY_VALUE_CHANGES
    )
    writer = BodyWriter(KEY_VALUE_CHANGES, compression)
    for _ in range(2):  # the first one finds out how long Arrow's preamble is
        body = writer.write(batch)
        stream = b"".join([KEY_VALUE_CHANGES.serialize().to_pybytes(), body.to_pybytes()])

        assert len(body) % 8 == 0
        assert pa.ipc.open_stream(stream).read_all().to_batches() == [batch]
        assert read_body(body, KEY_VALUE_CHANGES, has_offsets=False) == (batch, None)
    lies_within = body.address <= batch_address(body) < body.address + body.size
    assert lies_within == (compression is Compression.NONE)


@pytest.mark.spec("LOG-22")
@for_each("compression", list(Compression))
def test_a_body_does_not_depend_on_those_before(compression: Compression) -> None:
    """Of any length, in any order, with offsets or without, and after one that failed."""
    writer = BodyWriter(KEY_VALUE_CHANGES, compression)
    other = pa.RecordBatch.from_pydict({"other": [1]})
    for rows in (1, 2_000, 0, 7):
        batch = pa.RecordBatch.from_pydict(
            {
                "key": [b"k" * 9] * rows,
                "value": [None, b"v" * 50] * (rows // 2) + [b""] * (rows % 2),
            },
            schema=KEY_VALUE_CHANGES,
        )
        offsets = pa.array(range(5, 5 + rows), pa.int64())
        if compression is not Compression.NONE:
            with pytest.raises(pa.ArrowInvalid):
                writer.write(other)
        fresh = BodyWriter(KEY_VALUE_CHANGES, compression)

        assert writer.write(batch).equals(fresh.write(batch))
        assert writer.write(batch, offsets).equals(fresh.write(batch, offsets))
        body = writer.write(batch, offsets)
        for expected in (False, True):  # small ones are read otherwise if they may be compressed
            assert read_body(body, KEY_VALUE_CHANGES, has_offsets=True, compressed=expected) == (
                batch,
                offsets,
            )


@pytest.mark.spec("LOG-22")
def test_what_is_no_body_is_an_error_wherever_it_is_read() -> None:
    """Also the end of a stream, which Arrow says by ending an iteration."""
    whole = BodyWriter(KEY_VALUE_CHANGES, Compression.LZ4).write(
        pa.RecordBatch.from_pydict({"key": [b"k"], "value": [None]}, schema=KEY_VALUE_CHANGES)
    )
    end = b"\xff\xff\xff\xff\0\0\0\0"
    schema = KEY_VALUE_CHANGES.serialize().to_pybytes()
    for wrong in (b"", end, whole.to_pybytes()[:-8], schema, schema + whole.to_pybytes()):
        for compressed in (False, True):
            with pytest.raises((pa.ArrowException, OSError, EOFError)):
                read_body(
                    pa.py_buffer(wrong),
                    KEY_VALUE_CHANGES,
                    has_offsets=False,
                    compressed=compressed,
                )


@pytest.mark.spec("LOG-22")
def test_threads_that_share_a_writer_get_their_own_bodies() -> None:
    """The records of all tasks of a process are written by one."""
    writer = BodyWriter(KEY_VALUE_CHANGES, Compression.LZ4)
    batches = [
        pa.RecordBatch.from_pydict(
            {"key": [b"%d" % number] * 300, "value": [b"v" * number] * 300},
            schema=KEY_VALUE_CHANGES,
        )
        for number in range(60)
    ]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(writer.write, batches * 5))

    alone = [BodyWriter(KEY_VALUE_CHANGES, Compression.LZ4).write(batch) for batch in batches]
    assert found == alone * 5


def batch_address(body: pa.Buffer) -> int:
    """Return where the bytes of the keys of *body* are in memory once it has been read."""
    batch, _ = read_body(body, KEY_VALUE_CHANGES, has_offsets=False)
    return int(batch.column(0).buffers()[2].address)


def test_a_body_may_be_as_long_as_its_field_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not a byte longer."""
    monkeypatch.setattr("statestores.changelog.next_frame.MAX_BODY_BYTES", 10)

    assert frame_of(FrameKind.CHANGES, 1, bytes(10), Position(), 0, 0).header.body_bytes == 10
    with pytest.raises(InvalidArgumentError, match="at most 10 bytes, got 11"):
        frame_of(FrameKind.CHANGES, 1, bytes(11), Position(), 0, 0)


@pytest.mark.spec("LOG-1")
@for_each(("count", "last"), [(0, 7), (1, 7), (2, 8), (5, 11)])
def test_a_frame_takes_an_offset_for_each_change_and_at_least_one(count: int, last: int) -> None:
    """Also the one of no change; and all of its pieces together are what it says of its size."""
    frame = frame_of(FrameKind.CHANGES, count, b"body", Position(), 7, 0)

    assert (frame.header.base_offset, frame.header.last_offset) == (7, last)
    assert frame.stored() == b"".join(bytes(piece) for piece in frame.pieces())
    assert len(frame.stored()) == frame.header.frame_bytes
