"""Whatever happens to the bytes of a log: what is read is what was written, or an error."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_log import BEGINNINGS, CLICKS, FIRST, NOSYNC, ROWS, frames_in, write

from statestores.changelog import (
    ChangelogOptions,
    ChangelogReader,
    Compression,
    FileChangelog,
    OffsetRange,
)
from statestores.errors import (
    ChangelogCorruptedError,
)
from statestores.spi import Changes

_GOES_ON_AT = 5
"""Of the bytes at which a log is cut, each of this many is one where its writer goes on."""


@pytest.mark.spec("LOG-10", "LOG-11", "LOG-12")
def test_a_log_cut_at_any_byte_is_cut_to_whole_frames(
    directory: Path, segment: Path, ends: list[int]
) -> None:
    """A reader ends before the torn frame; the writer cuts it off, says so, and goes on."""
    whole = segment.read_bytes()
    for length in range(len(whole)):
        segment.write_bytes(whole[:length])
        if length < ends[0]:
            for opener in (FileChangelog.open, ChangelogReader.open):
                with pytest.raises(ChangelogCorruptedError, match="byte 0"):
                    opener(directory, "key-value")
            assert segment.read_bytes() == whole[:length]
            continue
        count = max(at for at in BEGINNINGS if ends[at] <= length)
        with ChangelogReader.open(directory) as reader:
            assert frames_in(reader) == ROWS[:count]
            torn = reader.torn_tail
            assert (torn is None) == (length == ends[count])
            assert segment.stat().st_size == length
        with FileChangelog.open(directory, "key-value") as log:
            assert log.torn_tail == torn
            assert segment.stat().st_size == ends[count]
            if torn is not None:
                assert (torn.path, torn.byte_position) == (segment, ends[count])
                assert (torn.length, torn.offset) == (length - ends[count], log.end_offset)
            assert log.position == ({CLICKS: log.end_offset - 1} if count else {})
            if length % _GOES_ON_AT and length != ends[count]:
                continue  # what is there is what other cuts of this frame leave
            end = log.end_offset
            assert log.append(Changes([b"n"], [b"w"]), durability=NOSYNC) == OffsetRange(end, end)
        with ChangelogReader.open(directory) as reader:
            assert frames_in(reader) == [*ROWS[:count], [(end, b"n", b"w")]]


@pytest.mark.spec("LOG-11", "LOG-16", "LOG-22")
@pytest.mark.parametrize(
    "turn", [0, *(pytest.param(turn, marks=pytest.mark.soak) for turn in range(1, 8))]
)
def test_a_flipped_bit_anywhere_is_an_error_or_a_torn_last_frame(
    directory: Path, segment: Path, ends: list[int], turn: int
) -> None:
    """A bit of every byte, and in the soak run every bit.

    Before the last frame it is an error, in it the frame is not there. With the store's committed
    offset, that is an error as well, and nothing is cut.
    """
    whole = segment.read_bytes()
    for byte in range(len(whole)):
        damaged = bytearray(whole)
        damaged[byte] ^= 1 << (byte + turn) % 8
        segment.write_bytes(damaged)
        if byte < ends[-2]:
            with pytest.raises(ChangelogCorruptedError, match=r"at byte \d+"):
                ChangelogReader.open(directory)
        else:
            with ChangelogReader.open(directory) as reader:
                assert frames_in(reader) == ROWS[:-1]
        with pytest.raises(ChangelogCorruptedError, match=r"at byte \d+"):
            FileChangelog.open(directory, "key-value", committed_offset=5)
        assert segment.read_bytes() == damaged


@pytest.mark.spec("LOG-11")
def test_a_flipped_bit_in_a_sealed_segment_is_an_error(directory: Path) -> None:
    """No frame of a sealed segment is taken for a torn tail, not even its last one."""
    write(directory, segment_bytes=1)
    sealed = directory / "00000000000000000002.log"
    whole = sealed.read_bytes()
    for byte in range(len(whole)):
        damaged = bytearray(whole)
        damaged[byte] ^= 1 << byte % 8
        sealed.write_bytes(damaged)
        with (
            pytest.raises(ChangelogCorruptedError, match=r"0002\.log.* at byte \d+"),
            ChangelogReader.open(directory) as reader,
        ):
            frames_in(reader)


@pytest.mark.spec("LOG-11", "LOG-17")
def test_a_sealed_segment_that_was_cut_is_an_error(directory: Path) -> None:
    """At every byte, also between two frames, where nothing but the next segment tells."""
    write(directory, segment_bytes=1000)
    sealed, last = sorted(directory.glob("*.log"))
    assert last.name == "00000000000000000003.log"
    whole = sealed.read_bytes()
    for length in range(len(whole)):
        sealed.write_bytes(whole[:length])
        with (
            pytest.raises(ChangelogCorruptedError, match=r"0000\.log.* at byte \d+"),
            ChangelogReader.open(directory) as reader,
        ):
            frames_in(reader)


@pytest.mark.spec("LOG-10")
@pytest.mark.parametrize(
    "tail",
    [
        bytes(1),
        bytes(5_000),
        b"\xff" * 64,
        b"SSCF" + bytes(100),
        b"SSCF" * 100,
        b"SSCF" + b"\xff" * 100,
        os.urandom(70_000),
    ],
    ids=["zero", "zeros", "ones", "magic", "magics", "huge lengths", "random"],
)
def test_whatever_follows_the_last_frame_is_cut(
    directory: Path, segment: Path, tail: bytes
) -> None:
    """Zeros of blocks that were allocated and not written, and garbage."""
    whole = segment.read_bytes()
    segment.write_bytes(whole + tail)
    with ChangelogReader.open(directory) as reader:
        assert frames_in(reader) == ROWS
    with FileChangelog.open(directory, "key-value", committed_offset=5) as log:
        assert log.torn_tail is not None
        assert log.torn_tail.length == len(tail)

    assert segment.read_bytes() == whole


@pytest.mark.spec("LOG-10")
@pytest.mark.parametrize("keep", range(0, 40, 3))
def test_a_last_frame_of_which_a_part_is_zeros_is_cut(
    directory: Path, segment: Path, ends: list[int], keep: int
) -> None:
    """The length reached the disk and the data did not."""
    whole = segment.read_bytes()
    start = ends[-2] + keep
    segment.write_bytes(whole[:start] + bytes(len(whole) - start))
    with FileChangelog.open(directory, "key-value") as log:
        assert frames_in(log) == ROWS[:-1]


@pytest.mark.spec("LOG-10", "LOG-11")
def test_an_old_frame_after_the_end_does_not_make_it_damage(
    directory: Path, segment: Path, ends: list[int]
) -> None:
    """Garbage may be an earlier piece of the log; only an offset that may follow tells damage."""
    whole = segment.read_bytes()
    first = whole[ends[0] : ends[1]]
    segment.write_bytes(whole + bytes(8) + first)
    with FileChangelog.open(directory, "key-value") as log:
        assert frames_in(log) == ROWS


@pytest.mark.spec("LOG-10", "LOG-11")
@pytest.mark.parametrize(("gap", "is_damage"), [(3, False), (8, True), (12, False), (16, True)])
def test_only_a_frame_that_is_aligned_makes_it_damage(
    directory: Path, segment: Path, ends: list[int], gap: int, *, is_damage: bool
) -> None:
    """Frames begin at multiples of eight bytes; elsewhere it is part of a value."""
    whole = segment.read_bytes()
    segment.write_bytes(whole[: ends[-2]] + bytes(gap) + whole[ends[-2] :])
    if is_damage:
        with pytest.raises(ChangelogCorruptedError, match="one of offset 3 follows"):
            ChangelogReader.open(directory)
    else:
        with FileChangelog.open(directory, "key-value") as log:
            assert frames_in(log) == ROWS[:-1]


@pytest.mark.spec("LOG-11", "LOG-23")
@pytest.mark.parametrize("removed", [0, 1])
def test_a_frame_that_is_missing_is_noticed(
    directory: Path, segment: Path, ends: list[int], removed: int
) -> None:
    """The frames are intact and their offsets have a hole."""
    whole = segment.read_bytes()
    segment.write_bytes(whole[: ends[removed]] + whole[ends[removed + 1] :])
    with pytest.raises(ChangelogCorruptedError, match="base offset"):
        ChangelogReader.open(directory)


@pytest.mark.spec("LOG-16", "LOG-27")
@pytest.mark.parametrize(("committed", "opens"), [(None, True), (2, True), (3, False), (9, False)])
def test_a_log_that_ends_before_the_store_is_damaged(
    directory: Path, segment: Path, ends: list[int], committed: int | None, *, opens: bool
) -> None:
    """A torn tail that begins at or before the committed offset was acknowledged once."""
    torn = segment.read_bytes()[: ends[-1] - 1]
    segment.write_bytes(torn)
    if opens:
        with FileChangelog.open(directory, "key-value", committed_offset=committed) as log:
            assert log.end_offset == 3
    else:
        with pytest.raises(ChangelogCorruptedError, match=f"committed offset {committed}"):
            FileChangelog.open(directory, "key-value", committed_offset=committed)

        assert segment.read_bytes() == torn


@pytest.mark.spec("LOG-17")
@pytest.mark.parametrize("leave_out", [[2], [2, 3], [0], [5], [0, 5]])
def test_missing_segments(directory: Path, leave_out: list[int]) -> None:
    """One between others is an error; the first is a deletion, and the last the store notices."""
    options = ChangelogOptions(segment_bytes=1)
    with FileChangelog.create(directory, "key-value", options) as log:
        for _ in range(6):
            log.append(Changes([b"a"], [b"1"]), durability=NOSYNC)
    for base in leave_out:
        (directory / f"{base:020d}.log").unlink()
    if 2 in leave_out:
        with pytest.raises(ChangelogCorruptedError, match=r"missing before .*\d{20}\.log"):
            FileChangelog.open(directory, "key-value")
        with (
            ChangelogReader.open(directory) as reader,
            pytest.raises(ChangelogCorruptedError, match=r"0001\.log.*next one begins at offset"),
        ):
            frames_in(reader)
        return
    if 5 in leave_out:
        with pytest.raises(ChangelogCorruptedError, match="committed offset 5"):
            FileChangelog.open(directory, "key-value", committed_offset=5)
    with FileChangelog.open(directory, "key-value") as log:
        assert log.first_offset == (1 if 0 in leave_out else 0)
        assert log.end_offset == (5 if 5 in leave_out else 6)


@pytest.mark.spec("LOG-11")
def test_damage_far_before_an_intact_frame_is_found(directory: Path) -> None:
    """The search for a later frame crosses what it reads at once, with the magic on the border."""
    chunk = 256 * 1024
    with FileChangelog.create(
        directory, "key-value", ChangelogOptions(compression=Compression.NONE)
    ) as log:
        log.append(Changes([b"a"], [b"x" * 600_000]), durability=NOSYNC)
        start = log._end.active.frames_at
        log.append(Changes([b"b"], [b"2"]), durability=NOSYNC)
    path = directory / FIRST
    whole = path.read_bytes()
    later = whole.rindex(b"SSCF")
    for shift in range(-16, 24, 8):
        padding = (chunk - (later - start - 8)) % chunk + shift
        moved = whole[:later] + bytes(padding) + whole[later:]
        path.write_bytes(moved[: start + 100] + b"!" + moved[start + 101 :])
        with pytest.raises(ChangelogCorruptedError, match="one of offset 1 follows"):
            ChangelogReader.open(directory)


def test_a_log_that_vanishes_while_it_is_read(directory: Path) -> None:
    """Somebody removes the directory under a reader."""
    write(directory, segment_bytes=1)

    def reading() -> Iterator[object]:
        with ChangelogReader.open(directory) as reader:
            frames = reader.read()
            yield next(frames)
            yield from frames

    steps = reading()
    next(steps)
    shutil.rmtree(directory)
    with pytest.raises(ChangelogCorruptedError, match="gone"):
        next(steps)
