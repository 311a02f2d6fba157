"""The rows of versioned stores: examples by hand, what a crash leaves, and what cannot be one."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores.errors import StoreCorruptedError
from statestores.migration.kafka.database import KafkaDatabase
from statestores.migration.kafka.versions import LATEST, HistoryRow, parse_history, versions_of
from statestores_conformance.many_cases import for_each

WriteDatabase: TypeAlias = Callable[..., Path]
Version: TypeAlias = tuple[bytes, bytes | None, int, int | None]

pytestmark = [pytest.mark.usefixtures("no_descriptor_leaks"), pytest.mark.spec("MIG-11")]

KEY = b"k"


def latest(value: bytes, start_ms: int) -> bytes:
    """Return the value of a latest row."""
    return struct.pack(">q", start_ms) + value


def history(next_ms: int, *versions: tuple[int, bytes | None]) -> bytes:
    """Return the value of a history row: *versions* are newest first."""
    entries = b"".join(
        struct.pack(">qi", start, -1 if value is None else len(value)) for start, value in versions
    )
    values = b"".join(value or b"" for _, value in reversed(versions))
    return struct.pack(">qq", next_ms, versions[-1][0]) + entries + values


def segment(number: int) -> bytes:
    """Return the prefix of a segment's rows."""
    return struct.pack(">q", number)


@pytest.fixture
def read(
    tmp_path: Path, write_database: WriteDatabase
) -> Callable[[dict[bytes, bytes]], list[Version]]:
    """Return the function that reads the versions from rows."""

    def versions(rows: dict[bytes, bytes]) -> list[Version]:
        path = write_database(tmp_path / "versions", {"default": rows})
        with KafkaDatabase(path) as database:
            return [(row[0], row[1], row[2], row[3]) for row in versions_of(database, path)]

    return versions


Read: TypeAlias = Callable[[dict[bytes, bytes]], list[Version]]


def test_versions_of_several_segments_are_put_together(read: Read) -> None:
    """a@1000, bb@1500, deleted@2500, c@3200, d@2700 late, deleted@2900 late; intervals of 1000."""
    rows = {
        LATEST + KEY: bytes.fromhex("0000000000000c80 63"),
        segment(1) + KEY: bytes.fromhex(
            "00000000000005dc 00000000000003e8 00000000000003e8 00000001 61"
        ),
        segment(2) + KEY: bytes.fromhex(
            "0000000000000b54 00000000000005dc 0000000000000a8c 00000001"
            "00000000000009c4 ffffffff 00000000000005dc 00000002 626264"
        ),
        segment(3) + KEY: bytes.fromhex(
            "0000000000000c80 0000000000000b54 0000000000000b54 ffffffff"
        ),
    }

    assert read(rows) == [
        (KEY, b"a", 1000, 1500),
        (KEY, b"bb", 1500, 2500),
        (KEY, None, 2500, 2700),
        (KEY, b"d", 2700, 2900),
        (KEY, None, 2900, 3200),
        (KEY, b"c", 3200, None),
    ]


def test_a_lone_deletion_has_a_row_of_its_own(read: Read) -> None:
    """Alone, and before a version that came later."""
    lone = bytes.fromhex("00000000000004d2" * 3 + "ffffffff")

    assert parse_history(lone) == HistoryRow(1234, ((1234, None),))
    assert read({segment(1) + KEY: lone}) == [(KEY, None, 1234, None)]
    assert read({LATEST + KEY: latest(b"v", 5000)}) == [
        (KEY, None, 1234, 5000),
        (KEY, b"v", 5000, None),
    ]


def test_an_end_where_no_version_begins_is_a_deletion(read: Read) -> None:
    """In the middle and at the end; empty values are values."""
    rows = {
        segment(1) + b"a": history(1900, (1000, b"")),
        LATEST + b"a": latest(b"", 2000),
        segment(1) + b"b": history(1900, (1500, b"2"), (1000, b"1")),
    }

    assert read(rows) == [
        (b"a", b"", 1000, 1900),
        (b"a", None, 1900, 2000),
        (b"a", b"", 2000, None),
        (b"b", b"1", 1000, 1500),
        (b"b", b"2", 1500, 1900),
        (b"b", None, 1900, None),
    ]


def test_what_a_crash_between_two_rows_leaves_is_dropped(read: Read) -> None:
    """The newer row counts: put a@1000 and b@2000 wrote history first, or only the latest row."""
    assert read(
        {segment(2) + KEY: history(2000, (1000, b"a")), LATEST + KEY: latest(b"a", 1000)}
    ) == [(KEY, b"a", 1000, None)]


def test_a_row_that_overlaps_a_newer_one_gives_way(read: Read) -> None:
    """Versions at or above the start of the newer row are its own."""
    rows = {
        segment(3) + KEY: history(3500, (2500, b"c"), (2000, b"b")),
        segment(2) + KEY: history(2500, (2000, b"b"), (1000, b"a")),
    }

    assert read(rows) == [
        (KEY, b"a", 1000, 2000),
        (KEY, b"b", 2000, 2500),
        (KEY, b"c", 2500, 3500),
        (KEY, None, 3500, None),
    ]


def test_keys_of_any_bytes_are_told_apart(read: Read) -> None:
    """Empty ones, prefixes of each other, and those that look like a segment's number."""
    keys = [b"", b"\x00", b"a", b"a\x00", b"\xff" * 8, segment(1)]
    rows = {LATEST + key: latest(key + b"!", 9) for key in keys}
    rows |= {segment(0) + key: history(9, (3, key)) for key in keys}
    found = read(rows)

    assert found == sorted(found, key=lambda row: (row[0], row[2]))
    assert {row[:3] for row in found} == {
        *((key, key + b"!", 9) for key in keys),
        *((key, key, 3) for key in keys),
    }


@pytest.mark.spec("MIG-13")
@for_each(
    "rows",
    [
        {b"short": b""},
        {segment(-2) + KEY: history(9, (3, b"a"))},
        {LATEST + KEY: b"1234567"},
        {LATEST + KEY: latest(b"v", -1)},
        {segment(0) + KEY: history(9, (3, b"a"))[:-1]},
        {segment(0) + KEY: history(9, (3, b"a")) + b"x"},
        {segment(0) + KEY: history(3, (3, b"a"))},
        {segment(0) + KEY: history(9, (3, b"a"), (5, b"b"))},
        {segment(0) + KEY: history(9, (-3, b"a"))},
        {segment(0) + KEY: b""},
    ],
)
def test_rows_that_cannot_be_versions_are_refused(read: Read, rows: dict[bytes, bytes]) -> None:
    """No version is made up from them."""
    with pytest.raises(StoreCorruptedError, match="does not fit the store's kind"):
        read(rows)


VERSIONS = st.lists(
    st.tuples(st.integers(0, 2**62), st.none() | st.binary(max_size=8)),
    min_size=1,
    max_size=6,
    unique_by=lambda version: version[0],
).map(lambda versions: sorted(versions, key=lambda version: version[0], reverse=True))


@given(VERSIONS, st.integers(1, 2**60))
def test_history_rows_are_read_as_they_were_written(
    versions: list[tuple[int, bytes | None]], lasted_ms: int
) -> None:
    """For any versions and deletions."""
    next_ms = versions[0][0] + lasted_ms

    assert parse_history(history(next_ms, *versions)) == HistoryRow(next_ms, tuple(versions))


@given(VERSIONS, st.integers(1, 2**60), st.data())
def test_a_cut_row_is_never_taken_for_a_whole_one(
    versions: list[tuple[int, bytes | None]], lasted_ms: int, data: st.DataObject
) -> None:
    """At any byte."""
    row = history(versions[0][0] + lasted_ms, *versions)
    cut = data.draw(st.integers(0, len(row) - 1))

    assert parse_history(row[:cut]) is None
