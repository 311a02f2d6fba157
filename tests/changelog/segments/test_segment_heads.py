"""Heads of segments that cannot be, although their checksum is right."""

from struct import pack_into
from typing import Any

import google_crc32c
import pytest

from statestores.changelog import Compression
from statestores.changelog.segments.segment_head import DamagedHeadError, SegmentHead, head_bytes
from statestores.spi import Position, TopicPartition
from statestores_conformance.many_cases import for_each

FIXED_BYTES = 56
HEAD = SegmentHead(
    store_kind="key-value",
    compression=Compression.NONE,
    base_offset=7,
    previous_base=None,
    compacted_to=None,
    position=Position({TopicPartition("clicks", 0): 4}),
)


def changed(at: int, field: str, value: Any) -> bytes:
    """Return the stored form with another *value* at a place, and the checksum made right."""
    data = bytearray(HEAD.pack())
    pack_into(f">{field}", data, at, value)
    pack_into(">I", data, 8, google_crc32c.value(bytes(data[12:])))
    return bytes(data)


def test_a_head_is_aligned_and_says_nothing_that_is_not_so() -> None:
    """Frames begin at multiples of eight, and so behind a head; what does not apply is 0."""
    packed = HEAD.pack()

    assert SegmentHead.unpack(packed) == HEAD
    assert len(packed) % 8 == 0
    assert packed[32:40] == b"\xff" * 8
    assert packed[40:48] == bytes(8)
    # One that was read before is known by all of its bytes.
    assert SegmentHead.unpack(changed(24, "Q", 8)).base_offset == 8
    assert SegmentHead.unpack(packed) == HEAD
    with pytest.raises(DamagedHeadError, match="checksum of its head does not match"):
        SegmentHead.unpack(packed[:31] + b"\x09" + packed[32:])


@pytest.mark.spec("LOG-22")
@for_each(
    ("at", "field", "value", "message"),
    [
        (48, "I", 8, "lengths in its head contradict each other"),
        (52, "I", 8, "lengths in its head contradict each other"),
        (FIXED_BYTES, "H", 9_999, "position .* is malformed"),
        (FIXED_BYTES + 24, "8s", b"\xff" * 8, "its schema cannot be read"),
    ],
)
def test_a_head_that_contradicts_itself_is_damaged(
    at: int, field: str, value: Any, message: str
) -> None:
    """Whoever wrote it was wrong; it is told as damage, and not as an error of Python's."""
    with pytest.raises(DamagedHeadError, match=message):
        SegmentHead.unpack(changed(at, field, value))


def test_a_head_of_which_a_part_is_there_is_damaged() -> None:
    """It says how long it is, and that is looked at before its checksum."""
    packed = HEAD.pack()
    with pytest.raises(DamagedHeadError, match=f"has {len(packed)} bytes, and 80 are there"):
        SegmentHead.unpack(packed[:80])
    for data in (packed[:55], b"x" * 100):
        with pytest.raises(DamagedHeadError, match="does not begin with the head"):
            head_bytes(data)


@for_each("length", [0, FIXED_BYTES - 8, FIXED_BYTES + 4, (1 << 28) + 8])
def test_a_length_that_no_head_has_is_damage(length: int) -> None:
    """It would be read into memory."""
    with pytest.raises(DamagedHeadError, match=f"the length of its head, {length}, cannot be one"):
        head_bytes(changed(12, "I", length))


@for_each("length", [FIXED_BYTES, FIXED_BYTES + 8, 1 << 28])
def test_a_length_that_a_head_may_have_is_none(length: int) -> None:
    """Also the shortest, and the longest."""
    assert head_bytes(changed(12, "I", length)) == length
