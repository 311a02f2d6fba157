"""A partition's keys in even parts, by what the manifest of its snapshot says."""

from dataclasses import replace

import pytest

from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.snapshots.key_splits import (
    BYTES_PER_SHARE,
    ROWS_PER_SHARE,
    between,
    key_shares,
)
from statestores.arrow.snapshots.manifest import BatchEntry, FileEntry, Manifest, data_name
from statestores.spi import KeyValue, Position, TopicPartition
from statestores_conformance.many_cases import for_each

_LOG = TopicPartition("counts-changelog", 0)
EVERYTHING = KeySelection()


def _manifest(*files: tuple[bytes, int, int]) -> Manifest:
    """Return a manifest: for each file the first letters of its batches, rows of each, bytes."""
    return Manifest(
        specification=KeyValue("counts").describe(),
        partition=_LOG,
        offsets={_LOG: 1},
        position=Position(),
        stream_time_ms=None,
        files=tuple(
            FileEntry(
                name=data_name(number),
                bytes=size,
                crc32c=0,
                batches=tuple(
                    BatchEntry(rows=rows, first_key=bytes((letter,)), last_key=bytes((letter, 0)))
                    for letter in letters
                ),
            )
            for number, (letters, rows, size) in enumerate(files)
        ),
        created_at_ms=0,
        library_version="0.1.0",
    )


TEN = _manifest((b"abcd", 10, 400), (b"efghij", 10, 600))
"""Ten batches of ten rows, a key each, in two files."""


SHARES: list[tuple[int | None, int | None, bytes]] = [
    (1, None, b""),
    (2, None, b"f"),
    (4, None, b"dfi"),
    (10, None, b"bcdefghij"),
    (99, None, b"bcdefghij"),
    (None, 100, b""),
    (None, 99, b"f"),
    (None, 50, b"f"),
    (None, 30, b"dfi"),
    (3, 10, b"eh"),
    (None, None, b""),
]
"""How many parts, or how many rows of a part, and where parts begin."""


def test_each_part_has_about_as_many_rows(subtests: pytest.Subtests) -> None:
    """Parts begin where a batch does, and there are no more of them than batches."""
    for count, rows, borders in SHARES:
        with subtests.test(count=count, rows=rows):
            shares = key_shares(TEN, EVERYTHING, count=count, rows=rows)

            edges = [bytes((letter,)) for letter in borders]
            assert shares == between(EVERYTHING, edges)
            assert len(shares) == len(edges) + 1


@for_each(
    ("rows", "size", "count"),
    [
        (ROWS_PER_SHARE // 4, 400, 1),
        (ROWS_PER_SHARE // 4 + 1, 400, 2),
        (ROWS_PER_SHARE, 400, 4),
        (10, BYTES_PER_SHARE, 1),
        (10, BYTES_PER_SHARE + 40, 2),
        (10, 3 * BYTES_PER_SHARE, 3),
        (ROWS_PER_SHARE // 2, 3 * BYTES_PER_SHARE, 3),
        (ROWS_PER_SHARE, 2 * BYTES_PER_SHARE, 4),
    ],
)
def test_rows_and_bytes_say_how_many_parts_there_are(rows: int, size: int, count: int) -> None:
    """Whichever are more: many rows that are short take as long as few that are long."""
    assert len(key_shares(_manifest((b"abcd", rows, size)), EVERYTHING)) == count


def test_bytes_of_each_file_count_by_its_batches_that_are_asked_for() -> None:
    """Half of a file is half of its bytes."""
    manifest = _manifest((b"abcd", 10, 4 * BYTES_PER_SHARE), (b"efgh", 10, 8 * BYTES_PER_SHARE))

    assert len(key_shares(manifest, KeySelection(last=b"b\0"))) == 2
    assert len(key_shares(manifest, KeySelection(first=b"d", last=b"e\0"))) == 2
    assert len(key_shares(manifest, KeySelection(first=b"c", last=b"f\0"))) == 4


def test_versions_of_one_key_are_one_part() -> None:
    """However many batches begin with it; the keys behind it still have parts of their own."""
    manifest = _manifest((b"abcccccdefg", 10, 100))

    shares = key_shares(manifest, EVERYTHING, count=11)

    assert shares == between(EVERYTHING, [b"b", b"c", b"d", b"e", b"f", b"g"])


def test_a_part_that_one_key_fills_takes_no_other_s_place() -> None:
    """The batches of the key are one part, and what comes behind them is another, as was asked."""
    manifest = _manifest((b"aabdde", 10, 100))
    (file,) = manifest.files
    batches = [
        replace(each, rows=20) if n in {2, 3} else each for n, each in enumerate(file.batches)
    ]
    file = replace(file, batches=tuple(batches))

    shares = key_shares(replace(manifest, files=(file,)), EVERYTHING, count=4)

    assert shares == between(EVERYTHING, [b"b", b"d", b"e"])


@for_each(("lowest", "borders"), [(b"", [b"b"]), (b"\x01", [b"\x01", b"b"])])
def test_no_part_ends_before_the_first_key(lowest: bytes, borders: list[bytes]) -> None:
    """Not even where several batches begin with the lowest key that there is."""
    manifest = _manifest((b"aab", 10, 100))
    (file,) = manifest.files
    lowest_batch = BatchEntry(rows=10, first_key=lowest, last_key=b"\x01")
    file = replace(file, batches=(lowest_batch, lowest_batch, file.batches[-1]))

    shares = key_shares(replace(manifest, files=(file,)), EVERYTHING, count=3)

    assert shares == between(EVERYTHING, borders)


def test_what_is_asked_for_alone_is_shared_out() -> None:
    """A range of keys, of which the snapshot may have none."""
    some = KeySelection(first=b"c", last=b"f\0")

    assert key_shares(TEN, some, count=2) == between(some, [b"e"])
    assert key_shares(TEN, KeySelection(first=b"x"), count=3) == [KeySelection(first=b"x")]
    assert key_shares(_manifest(), EVERYTHING) == [EVERYTHING]
