"""A frame that is cut to a range of offsets, and headers that no frame can have."""

import pyarrow as pa
import pytest

from statestores.changelog.frame import HAS_OFFSETS, Frame, FrameHeader, FrameKind
from statestores.changelog.rows import change_schema, empty_batch
from statestores.spi import Position, TopicPartition
from statestores_conformance.many_cases import for_each

HIGHEST = (1 << 63) - 1
POSITION = Position({TopicPartition("clicks", 0): 4})


def merged(*offsets: int) -> Frame:
    """Return the frame that stands for 10 to 19 and has kept the changes of *offsets*."""
    return Frame(
        kind=FrameKind.CHANGES,
        base_offset=10,
        last_offset=19,
        appended_at_ms=1,
        position=POSITION,
        batch=pa.record_batch(
            {
                "key": pa.array([b"%d" % each for each in offsets], pa.binary()),
                "value": pa.array([b"v"] * len(offsets), pa.binary()),
            }
        ),
        explicit_offsets=pa.array(offsets, pa.int64()),
    )


@pytest.mark.spec("LOG-18")
@for_each(
    ("start", "stop", "expected"),
    [
        (10, 20, [11, 14, 15, 18]),
        (11, 19, [11, 14, 15, 18]),
        (12, 18, [14, 15]),
        (12, 15, [14]),
        (14, 15, [14]),
        (15, 16, [15]),
        (16, 18, []),
        (19, 20, []),
    ],
)
def test_a_merged_frame_is_cut_by_the_offsets_of_its_rows(
    start: int, stop: int, expected: list[int]
) -> None:
    """A reader of a range got the change behind it, or those up to the end of the frame."""
    part = merged(11, 14, 15, 18).within(start, stop)

    assert part.offsets == part.offset_column().to_pylist() == expected
    assert part.changes.keys == [b"%d" % each for each in expected]
    assert (part.base_offset, part.last_offset) == (start, stop - 1)
    assert part.position == (POSITION if stop == 20 else Position())


@pytest.mark.spec("LOG-18")
def test_the_only_row_of_a_merged_frame_is_cut_off() -> None:
    """It is not taken for a frame that has no rows to cut."""
    assert merged(15).within(10, 15).changes.keys == []
    assert merged(15).within(16, 20).changes.keys == []
    assert merged(15).within(12, 16).changes.keys == [b"15"]


@pytest.mark.spec("LOG-18")
def test_a_frame_of_which_compaction_has_left_nothing_is_cut() -> None:
    """It stands for the offsets of the part, and has the position only where it ends."""
    nothing = Frame(
        kind=FrameKind.CHANGES,
        base_offset=10,
        last_offset=19,
        appended_at_ms=1,
        position=POSITION,
        batch=empty_batch(change_schema("key-value")),
    )
    for start, stop, position in ((12, 15, Position()), (12, 20, POSITION)):
        part = nothing.within(start, stop)

        assert (part.base_offset, part.last_offset) == (start, stop - 1)
        assert part.offsets == range(start, start)
        assert part.position == position


def header(**fields: int) -> FrameHeader:
    """Return that of a frame with one change of offset 5, but for *fields*."""
    fields = {
        "version": 1,
        "kind": FrameKind.CHANGES,
        "flags": 0,
        "position_bytes": 8,
        "body_bytes": 64,
        "num_changes": 1,
        "base_offset": 5,
        "last_offset": 5,
        "appended_at_ms": 0,
        **fields,
    }
    return FrameHeader(**fields)


HEADERS: list[tuple[dict[str, int], str | None]] = [
    ({}, None),
    ({"base_offset": 6}, "its offsets are 6 to 5"),
    ({"base_offset": 9}, "its offsets are 9 to 5"),
    ({"base_offset": HIGHEST, "last_offset": HIGHEST}, None),
    ({"base_offset": HIGHEST, "last_offset": HIGHEST + 1, "num_changes": 2}, "its offsets"),
    ({"base_offset": HIGHEST + 1, "last_offset": HIGHEST + 1}, "its offsets are"),
    ({"base_offset": 0, "last_offset": HIGHEST, "num_changes": 0, "body_bytes": 0}, None),
    ({"base_offset": 1, "last_offset": HIGHEST, "flags": HAS_OFFSETS}, None),
    ({"position_bytes": 12}, "its parts are not aligned"),
    ({"body_bytes": 65}, "its parts are not aligned"),
    ({"position_bytes": 12, "body_bytes": 68}, "its parts are not aligned"),
    ({"num_changes": 2}, "it has 2 changes in 64 bytes for 1 offsets"),
    ({"num_changes": 0}, "it has 0 changes in 64 bytes for 1 offsets"),
    ({"body_bytes": 0}, "it has 1 changes in 0 bytes for 1 offsets"),
    ({"kind": FrameKind.CLEAR, "num_changes": 0, "body_bytes": 0}, None),
    ({"kind": FrameKind.CLEAR}, "it clears the store and has changes"),
    (
        {"kind": FrameKind.CLEAR, "num_changes": 0, "body_bytes": 0, "last_offset": 6},
        "it clears the store and has changes",
    ),
    ({"last_offset": 6}, "it lacks the offsets of its changes"),
    ({"last_offset": 6, "flags": HAS_OFFSETS}, None),
    ({"last_offset": 6, "num_changes": 2}, None),
]
"""Fields of headers that differ from a right one, and what is said of them."""


@pytest.mark.spec("LOG-23")
def test_a_header_that_contradicts_itself_says_so(subtests: pytest.Subtests) -> None:
    """Its checksum is right, and no writer makes it: an importer, or an earlier release, has."""
    for fields, expected in HEADERS:
        with subtests.test(fields=fields):
            found = header(**fields).contradiction

            assert found is None if expected is None else (found or "").startswith(expected)
