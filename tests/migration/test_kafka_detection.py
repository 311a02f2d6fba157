"""Which kinds the bytes of a store allow: one where that is certain, and else all that fit."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from statestores.migration import KafkaKind, KafkaStateDirectory

WriteDatabase: TypeAlias = Callable[..., Path]

pytestmark = [pytest.mark.usefixtures("no_descriptor_leaks"), pytest.mark.spec("MIG-9")]

HOUR = 3_600_000
T0 = 450_000 * HOUR
LATEST = b"\xff" * 8
HISTORY = struct.pack(">qqqi", T0 + 9, T0, T0, 1) + b"v"

Rows: TypeAlias = dict[bytes, bytes]


def window(key: bytes, start: int, sequence: int = 0) -> bytes:
    """Return the key of a window's row."""
    return key + struct.pack(">qi", start, sequence)


def session(key: bytes, start: int, end: int) -> bytes:
    """Return the key of a session's row."""
    return key + struct.pack(">qq", end, start)


@pytest.fixture
def kinds(tmp_path: Path, write_database: WriteDatabase) -> Callable[..., set[KafkaKind]]:
    """Return the function that tells the kinds of a store with the given databases."""

    def detect(*partitions: Rows, segments: dict[str, Rows] | None = None) -> set[KafkaKind]:
        for number, rows in enumerate(partitions):
            write_database(tmp_path / "app" / f"0_{number}" / "rocksdb" / "s", {"default": rows})
        for name, rows in (segments or {}).items():
            write_database(tmp_path / "app" / "0_0" / "s" / f"s.{name}", {"default": rows})
        with KafkaStateDirectory(tmp_path / "app") as state:
            return set(state.store("s").kinds)

    return detect


Kinds: TypeAlias = Callable[..., set[KafkaKind]]
EITHER = {KafkaKind.KEY_VALUE, KafkaKind.VERSIONED}


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ([{}], EITHER),
        ([{b"key": b"value"}], {KafkaKind.KEY_VALUE}),
        ([{struct.pack(">q", 5) + b"k": HISTORY}], {KafkaKind.VERSIONED}),
        # Keys of -1 as a long, and values that are one: or latest rows without any history.
        ([{LATEST: struct.pack(">q", T0)}], EITHER),
        ([{LATEST + b"k": struct.pack(">q", -5)}], {KafkaKind.KEY_VALUE}),
        # One partition that tells is enough.
        ([{}, {b"key": b"value"}], {KafkaKind.KEY_VALUE}),
        ([{LATEST + b"k": HISTORY}, {struct.pack(">q", 5): HISTORY}], {KafkaKind.VERSIONED}),
    ],
)
def test_stores_of_one_database(
    kinds: Kinds, partitions: list[Rows], expected: set[KafkaKind]
) -> None:
    """Plain or versioned; history rows cannot look as they do by chance."""
    assert kinds(*partitions) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({window(b"", T0): b"v"}, {KafkaKind.WINDOW}),
        ({window(b"\x00key", T0 + 1, 3): b"v"}, {KafkaKind.WINDOW}),
        ({session(b"", T0 - 5, T0): b"v"}, {KafkaKind.SESSION}),
        ({session(b"\x01key", 0, T0 + 7): b"v"}, {KafkaKind.SESSION}),
        (
            {
                b"\x00" + struct.pack(">q", T0) + b"some-key" + bytes(4): struct.pack(">q", T0)
                + b"v"
            },
            {KafkaKind.TIME_FIRST_WINDOW},
        ),
        (
            {b"\x00" + struct.pack(">qq", T0, T0 - 5) + b"some-key": b"v"},
            {KafkaKind.TIME_FIRST_SESSION},
        ),
        # The key ends with four zeros, and its value may be a timestamp: only its owner knows.
        (
            {b"\x00" + struct.pack(">qq", T0, T0 - 5) + bytes(8): bytes(8)},
            {KafkaKind.TIME_FIRST_SESSION, KafkaKind.TIME_FIRST_WINDOW},
        ),
        ({b"nothing that is known": b"v"}, set()),
    ],
)
def test_stores_of_segments(kinds: Kinds, rows: Rows, expected: set[KafkaKind]) -> None:
    """The times in the keys are those in the segments' names, at one place only."""
    assert kinds(segments={str(T0): rows, str(T0 + HOUR): {}}) == expected


def test_empty_segments_allow_every_kind(kinds: Kinds) -> None:
    """There is nothing to tell it by."""
    assert kinds(segments={str(T0): {}}) == {
        KafkaKind.WINDOW,
        KafkaKind.SESSION,
        KafkaKind.TIME_FIRST_WINDOW,
        KafkaKind.TIME_FIRST_SESSION,
    }


def test_one_segment_from_time_zero(kinds: Kinds) -> None:
    """Then no name bounds the times."""
    assert kinds(segments={"0": {window(b"key", 1_000): b"v"}}) == {KafkaKind.WINDOW}
