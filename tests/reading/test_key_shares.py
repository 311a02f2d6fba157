"""Selections of keys, and the keys of a partition shared out: the rows are those of one reader."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import statestores as ss
from statestores.arrow import write_snapshot
from statestores.arrow.keys.key_selection import KeySelection
from statestores.reading.partition_reader import PartitionReader

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

SPECIFICATIONS = [
    ss.KeyValue("s"),
    ss.Versioned("s", history_retention_ms=50),
]
SELECTIONS = 300
"""Each is asked in memory what it selects."""

READ_SELECTIONS = 20
"""With each, a partition is read."""

KEYS = [bytes(key) for key in ([], [0], [0, 0], [0, 255], [1], [97], [97, 0], [97, 98], [255])]
KEYS += [b"%02d" % number for number in range(30)]
KEYS += [b"\xff" * length for length in (2, 63, 64, 65, 70)]
KEYS += [b"k" * 70 + b"%d" % n for n in (1, 2)]


def random_selection(rng: random.Random) -> KeySelection:
    """Return bounds, points, or both; bounds may be inverted."""

    def maybe(chance: float) -> bytes | None:
        return rng.choice(KEYS) if rng.random() < chance else None

    points = None
    if rng.random() < 0.4:
        points = KeySelection.of(rng.choices(KEYS, k=rng.randrange(4))).points
    return KeySelection(first=maybe(0.4), last=maybe(0.3), stop=maybe(0.3), points=points)


def is_selected(keys: KeySelection, key: bytes) -> bool:
    """Say what the words of `KeySelection` say."""
    return (
        (keys.first is None or keys.first <= key)
        and (keys.last is None or key <= keys.last)
        and (keys.stop is None or key < keys.stop)
        and (keys.points is None or key in keys.points)
    )


def test_a_selection_selects_what_it_says() -> None:
    """In a mask, in common with another one, and for what may be between two keys."""
    rng = random.Random(20261122)
    batch = pa.record_batch({"key": pa.array(KEYS, pa.binary())})
    for _ in range(SELECTIONS):
        one, other = random_selection(rng), random_selection(rng)
        selected = [key for key in KEYS if is_selected(one, key)]

        assert one.filter(batch)["key"].to_pylist() == selected
        assert one.everything <= (selected == KEYS)
        assert not (one.nothing and selected)
        both = one.both(other)
        assert both.filter(batch)["key"].to_pylist() == [
            key for key in selected if is_selected(other, key)
        ]
        lowest, highest = sorted(rng.choices(KEYS, k=2))
        if any(lowest <= key <= highest for key in selected):
            assert one.may_be_between(lowest, highest)
            assert one.may_be_between(lowest, None)
        assert all(one.may_be_between(key, key) for key in selected)


@pytest.fixture(params=SPECIFICATIONS, ids=lambda each: each.kind)
def partition(request: pytest.FixtureRequest, written: Any, tmp_path: Path) -> Any:
    """A partition with a snapshot of many small batches, and changes after it."""
    rng = random.Random(7)
    partition = written(request.param, tmp_path)
    for now_ms in range(0, 300, 30):
        changes: list[tuple[Any, ...]] = [
            (key, rng.choice([b"v%d" % now_ms, b"", None]), max(0, now_ms - rng.randrange(60)))
            for key in rng.choices(KEYS, k=30)
        ]
        if isinstance(request.param, ss.KeyValue):
            changes = [change[:2] for change in changes]
        partition.commit(changes)
        if now_ms == 210:
            write_snapshot(
                partition.store,
                partition.directory.snapshots,
                partition=partition.partition,
                batch_rows=3,
                rows_per_file=12,
            )
    return partition


def reader_of(partition: Any) -> PartitionReader:
    return PartitionReader(partition.directory, partition.store.specification)


def rows_of(reader: PartitionReader, keys: KeySelection | None, **options: Any) -> list[Any]:
    rows = [row for batch in reader.rows(keys=keys, **options) for row in batch.to_pylist()]
    return [tuple(row.values()) for row in rows]


def test_selected_keys_are_those_that_a_filter_leaves(partition: Any) -> None:
    """Whatever the batches of the snapshot are, and what has changed since."""
    rng = random.Random(8)
    reader = reader_of(partition)
    options: dict[str, Any] = {}
    if isinstance(partition.store.specification, ss.Versioned):
        options["history"] = True
    everything = rows_of(reader, None, **options)
    for _ in range(READ_SELECTIONS):
        keys = random_selection(rng)

        assert rows_of(reader, keys, **options) == [
            row for row in everything if is_selected(keys, row[0])
        ]


@pytest.mark.parametrize(
    "sizes",
    [
        {"count": 4},
        {"rows": 7},
        *(
            pytest.param(each, marks=pytest.mark.long)
            for each in ({"count": 1}, {"count": 500}, {})
        ),
    ],
)
def test_shares_follow_each_other_and_leave_nothing_out(partition: Any, sizes: Any) -> None:
    """Read after one another they give the rows of one reader, in their order."""
    rng = random.Random(9)
    reader = reader_of(partition)
    offset = reader.end_offset - 1
    for keys in [KeySelection(), *(random_selection(rng) for _ in range(4))]:
        shares = reader.shares(offset, keys, **sizes)

        assert len(shares) <= sizes.get("count", 1000)
        for one, other in pairwise(shares):
            assert one.both(other).nothing
        read = [row for share in shares for row in rows_of(reader, share)]
        assert read == rows_of(reader, keys)
    if sizes.get("count") == 4:
        assert len(reader.shares(offset, **sizes)) == 4


def test_shares_are_about_equal(partition: Any) -> None:
    """In rows of the snapshot, to a batch."""
    reader = reader_of(partition)
    at = reader.newest_snapshot()
    assert at is not None
    shares = reader.shares(at.offset, count=3)
    versioned = isinstance(partition.store.specification, ss.Versioned)
    options = {"history": True} if versioned else {}
    sizes = [len(rows_of(reader, share, offset=at.offset, **options)) for share in shares]

    assert len(sizes) == 3
    assert max(sizes) - min(sizes) <= 12


def test_a_long_changelog_is_not_read_twice_unless_asked(written: Any, tmp_path: Path) -> None:
    """Each share reads all of it; so does each of a partition without a snapshot."""
    partition = written(ss.KeyValue("s"), tmp_path)
    reader = reader_of(partition)
    assert reader.shares(-1, count=3) == [KeySelection()]
    partition.commit([(b"%02d" % number, b"v") for number in range(9)])
    assert reader.shares(8) == [KeySelection()]
    write_snapshot(
        partition.store, partition.directory.snapshots, partition=partition.partition, batch_rows=2
    )
    assert len(reader.shares(8, rows=3)) == 3
    partition.commit([(b"%02d" % number, b"w") for number in range(10)])

    assert reader.shares(18) == [KeySelection()]
    assert len(reader.shares(18, count=3)) == 3


@pytest.mark.parametrize("order", ["by key", "by no order", "after a clear"])
def test_without_a_snapshot_the_changelog_says_how_keys_lie(
    written: Any, tmp_path: Path, order: str
) -> None:
    """As many shares as are asked for, about even, whatever the order in which keys were written.

    `splits` had been ignored where there was no snapshot, so that one task had a whole partition.
    """
    partition = written(ss.KeyValue("s"), tmp_path)
    reader = reader_of(partition)
    keys = [b"%04d" % number for number in range(400)]
    if order != "by key":
        random.Random(10).shuffle(keys)
    for number in range(0, len(keys), 50):
        if order == "after a clear" and number == 200:
            partition.store.truncate()
        partition.commit([(key, b"v") for key in keys[number : number + 50]])
    everything = rows_of(reader, None)
    at = reader.end_offset - 1

    assert len(reader.shares(at, count=1)) == len(reader.shares(at)) == 1
    sized: list[dict[str, Any]] = [{"count": 4}, {"rows": 1 + at // 4}]
    for wanted in sized:
        shares = reader.shares(at, **wanted)
        sizes = [len(rows_of(reader, share)) for share in shares]
        assert len(shares) == 4
        assert max(sizes) <= 2 * min(sizes)
        assert [row for share in shares for row in rows_of(reader, share)] == everything
    some = KeySelection(first=b"0100", last=b"0150")
    parts = reader.shares(at, some, count=3)
    assert len(parts) == 3
    assert [row for share in parts for row in rows_of(reader, share)] == rows_of(reader, some)
    assert len(reader.shares(at, count=9_999)) <= 400
    assert reader.shares(at, KeySelection.of([b"0001", b"0300"]), count=3) == [
        KeySelection.of([b"0001", b"0300"])
    ]
