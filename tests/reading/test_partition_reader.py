"""Reading a partition from its files shows what its store shows, and never takes a lock."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import statestores as ss
from statestores.arrow import write_snapshot
from statestores.arrow.keys.key_selection import KeySelection
from statestores.changelog import compact
from statestores.errors import (
    InvalidArgumentError,
    OffsetOutOfRangeError,
    SnapshotCorruptedError,
    StoreNotFoundError,
)
from statestores.reading.partition_reader import PartitionReader, end_offsets
from statestores.state_root import PartitionDirectory

Rows = Callable[[Iterator[pa.RecordBatch]], list[tuple[Any, ...]]]

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

KEY_VALUE = ss.KeyValue("counts")
VERSIONED = ss.Versioned("rates", history_retention_ms=50)
COMMITS = 8


def reader_of(partition: Any) -> PartitionReader:
    return PartitionReader(partition.directory, partition.store.specification)


def random_changes(rng: random.Random, now_ms: int, *, versioned: bool) -> list[tuple[Any, ...]]:
    """Return some changes of few keys; versions come out of order, and some too late."""
    changes: list[tuple[Any, ...]] = []
    for _ in range(rng.randrange(1, 8)):
        key = b"%02d" % rng.randrange(12)
        value = rng.choice([None, b"%d" % rng.randrange(100)])
        changes.append(
            (key, value, max(0, now_ms - rng.randrange(80))) if versioned else (key, value)
        )
    return changes


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("specification", [KEY_VALUE, VERSIONED], ids=["key-value", "versioned"])
def test_content_is_that_of_the_store_at_every_offset(
    written: Any, rows_of: Rows, tmp_path: Path, specification: Any, seed: int
) -> None:
    """Now, and at the offset of each commit, from whatever snapshots there are."""
    rng = random.Random(seed)
    versioned = specification is VERSIONED
    partition = written(specification, tmp_path)
    reader = reader_of(partition)
    at_commit: dict[int, list[tuple[Any, ...]]] = {}
    for number in range(COMMITS):
        partition.commit(random_changes(rng, number * 20, versioned=versioned))
        if rng.random() < 0.25:
            partition.snapshot()
        offset = partition.store.committed_offset(partition.partition)
        at_commit[offset] = partition.shown()

        assert rows_of(reader.rows()) == at_commit[offset]
        assert reader.end_offset == offset + 1
    for offset, expected in at_commit.items():
        assert rows_of(reader.rows(offset=offset)) == expected
        assert rows_of(reader.replay_after(None, offset).shown()) == expected
    with pytest.raises(OffsetOutOfRangeError, match="has no offset"):
        reader.replay_after(None, reader.end_offset)


def test_versions_are_shown_as_of_a_time_and_as_history(
    written: Any, rows_of: Rows, tmp_path: Path
) -> None:
    """The end of a version in the snapshot is that of the changelog's later ones."""
    rates = written(VERSIONED, tmp_path)
    rates.commit([(b"EUR", b"1.05", 100), (b"USD", b"1", 100)])
    rates.snapshot()
    rates.commit([(b"EUR", b"1.09", 130), (b"EUR", b"1.07", 120), (b"USD", None, 125)])
    reader = reader_of(rates)

    assert rows_of(reader.rows(as_of_ms=124)) == [
        (b"EUR", b"1.07", 120, 130),
        (b"USD", b"1", 100, 125),
    ]
    assert rows_of(reader.rows(as_of_ms=125)) == [(b"EUR", b"1.07", 120, 130)]
    assert rows_of(reader.rows(history=True)) == [
        (b"EUR", b"1.05", 100, 120),
        (b"EUR", b"1.07", 120, 130),
        (b"EUR", b"1.09", 130, None),
        (b"USD", b"1", 100, 125),
    ]


def test_changes_are_those_of_the_log(written: Any, rows_of: Rows, tmp_path: Path) -> None:
    """Puts, deletions and clears with their offsets; a range is half-open."""
    counts = written(KEY_VALUE, tmp_path)
    counts.commit([(b"a", b"1"), (b"b", b"2")])
    counts.log.append_clear()
    counts.log.append(ss.Changes([b"a"], [None]))
    reader = reader_of(counts)
    expected = [
        (0, 0, "put", b"a", b"1"),
        (1, 0, "put", b"b", b"2"),
        (2, 0, "clear", None, None),
        (3, 0, "delete", b"a", None),
    ]

    assert rows_of(reader.changes()) == expected
    assert rows_of(reader.changes(1, 3)) == expected[1:3]
    assert rows_of(reader.changes(4)) == []
    assert rows_of(reader.rows()) == []
    assert rows_of(reader.rows(offset=1)) == [(b"a", b"1"), (b"b", b"2")]


@pytest.mark.parametrize(("first", "stop"), [(5, None), (0, 5), (None, 9)])
def test_offsets_that_are_not_there_are_refused(
    written: Any, tmp_path: Path, first: int | None, stop: int | None
) -> None:
    """An empty result would say that nothing has changed."""
    counts = written(KEY_VALUE, tmp_path)
    counts.commit([(b"a", b"1"), (b"b", b"2")])

    with pytest.raises(OffsetOutOfRangeError, match="from offset 0 up to, and without, 2"):
        list(reader_of(counts).changes(first, stop))


def test_an_offset_that_is_not_written_yet_is_refused(written: Any, tmp_path: Path) -> None:
    """The content at a later offset is not the content now."""
    counts = written(KEY_VALUE, tmp_path)
    counts.commit([(b"a", b"1")])

    with pytest.raises(OffsetOutOfRangeError, match="has no offset 1 yet"):
        list(reader_of(counts).rows(offset=1))


def test_content_that_a_compaction_has_dropped_is_refused(
    written: Any, rows_of: Rows, tmp_path: Path
) -> None:
    """Between its changes a compacted log says less than was true at the time."""
    counts = written(KEY_VALUE, tmp_path)
    for value in (b"1", b"2", b"3"):
        counts.commit([(b"a", value)])
    counts.log.seal()
    compact(counts.log)
    reader = reader_of(counts)

    assert rows_of(reader.rows()) == [(b"a", b"3")]
    assert rows_of(reader.rows(offset=2)) == [(b"a", b"3")]
    with pytest.raises(OffsetOutOfRangeError, match="before offset 3 is gone"):
        list(reader.rows(offset=1))


def test_a_damaged_snapshot_is_replaced_by_an_older_one(
    written: Any, rows_of: Rows, tmp_path: Path
) -> None:
    """As long as the changelog reaches back far enough, damage costs time and no data."""
    counts = written(KEY_VALUE, tmp_path)
    for number in range(3):
        counts.commit([(b"%d" % number, b"x")])
        counts.snapshot()
    newest = counts.directory.snapshots / f"{2:020d}" / "data-0000.arrow"
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    reader = reader_of(counts)

    assert rows_of(reader.rows()) == counts.shown()
    counts.log.seal()
    counts.log.delete_before(3)
    for each in sorted(counts.directory.snapshots.iterdir())[:2]:
        for file in each.iterdir():
            file.unlink()
    with pytest.raises(SnapshotCorruptedError):
        list(reader.rows())


def test_a_selection_gives_what_a_filter_would(written: Any, rows_of: Rows, tmp_path: Path) -> None:
    """Keys and columns may be left out; what is left is the same."""
    specification = ss.KeyValue("words", key=ss.utf8, value=ss.int64)
    words = written(specification, tmp_path)
    words.commit([(f"w{number:03}", number) for number in range(300)])
    words.snapshot()
    words.commit([(f"w{number:03}", -number) for number in range(0, 300, 7)])
    reader = reader_of(words)
    everything = rows_of(reader.rows())

    assert everything == words.shown()
    assert rows_of(reader.rows(keys=KeySelection.prefix(b"w01"))) == everything[10:20]
    assert rows_of(reader.rows(keys=KeySelection(first=b"w290"))) == everything[290:]
    assert rows_of(reader.rows(keys=KeySelection(first=b"w007", last=b"w007"))) == [("w007", -7)]
    assert rows_of(reader.rows(columns=["value"])) == [(value,) for _, value in everything]
    assert rows_of(reader.rows(columns=["value", "key"]))[:1] == [(0, "w000")]
    assert rows_of(reader.rows(typed=False))[1] == (b"w001", (1).to_bytes(8, "big"))
    assert len(rows_of(reader.changes(keys=KeySelection.prefix(b"w000")))) == 2


@pytest.mark.parametrize(
    "arguments",
    [{"as_of_ms": 1}, {"history": True}, {"columns": ["valid_from"]}],
    ids=["as of", "history", "column"],
)
def test_what_a_key_value_store_does_not_know_is_refused(
    written: Any, tmp_path: Path, arguments: Any
) -> None:
    """At the call, not at the first row."""
    counts = written(KEY_VALUE, tmp_path)

    with pytest.raises(InvalidArgumentError):
        reader_of(counts).rows(**arguments)


def test_a_partition_that_was_never_written_is_empty(tmp_path: Path, rows_of: Rows) -> None:
    """A store is made of partitions that come into being when they are written."""
    reader = PartitionReader(PartitionDirectory(tmp_path / "counts" / "3"), KEY_VALUE)

    assert (reader.end_offset, rows_of(reader.rows()), rows_of(reader.changes())) == (0, [], [])
    assert end_offsets([reader]) == [0]
    assert end_offsets([]) == []


def test_an_engine_alone_cannot_be_read(tmp_path: Path) -> None:
    """Its content is behind its lock; to show nothing would be to say that it is empty."""
    directory = PartitionDirectory(tmp_path / "counts" / "0")
    with ss.open_store(directory.path, KEY_VALUE, backend="sqlite") as store:
        store.put(b"a", b"1")
        store.commit({})

        with pytest.raises(StoreNotFoundError, match="write a snapshot"):
            list(PartitionReader(directory, KEY_VALUE).rows())


def test_snapshots_alone_can_be_read(tmp_path: Path, rows_of: Rows) -> None:
    """A store that commits the offsets of its input, and has no changelog, shows its snapshots."""
    directory = PartitionDirectory(tmp_path / "counts" / "0")
    with ss.open_store(directory.path, KEY_VALUE, backend="sqlite") as store:
        for offset, key in ((5, b"a"), (9, b"b")):
            store.put(key, b"1")
            store.commit({ss.TopicPartition("words", 0): offset})
            write_snapshot(store, directory.snapshots)
    reader = PartitionReader(directory, KEY_VALUE)

    assert reader.end_offset == 10
    assert rows_of(reader.rows()) == [(b"a", b"1"), (b"b", b"1")]
    assert rows_of(reader.rows(offset=5)) == [(b"a", b"1")]
    assert rows_of(reader.rows(offset=-1)) == []


def test_a_changelog_without_a_change_is_an_empty_store(
    written: Any, rows_of: Rows, tmp_path: Path
) -> None:
    """Its engine may exist already."""
    counts = written(KEY_VALUE, tmp_path)
    with ss.open_store(counts.directory.path, KEY_VALUE, backend="sqlite"):
        reader = reader_of(counts)

        assert (reader.end_offset, rows_of(reader.rows())) == (0, [])


def test_a_reader_goes_on_while_the_store_is_written(
    written: Any, rows_of: Rows, tmp_path: Path
) -> None:
    """Rows are of one moment, that of the first one."""
    counts = written(KEY_VALUE, tmp_path)
    counts.commit([(b"%05d" % number, b"1") for number in range(100_000)])
    counts.snapshot()
    rows = reader_of(counts).rows()
    first = next(rows)
    counts.commit([(b"%05d" % number, b"2") for number in range(100_000)])

    assert {value for batch in (first, *rows) for value in batch["value"].to_pylist()} == {b"1"}
