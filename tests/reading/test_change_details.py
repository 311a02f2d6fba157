"""What a change feed says beside a change: the value that it replaced, its input, its time."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import statestores as ss
from statestores.arrow.keys.key_selection import KeySelection
from statestores.changelog import FileChangelog, change_schema, compact
from statestores.errors import InvalidArgumentError, OffsetOutOfRangeError
from statestores.reading.commit_times import offset_from
from statestores.reading.partition_reader import PartitionReader
from statestores.spi import Changes
from statestores.staging.staged_write import publish, stage
from statestores.upkeep import Vacuum

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

COUNTS = ss.KeyValue("counts")
COMMITS = 8


def reader_of(partition: Any) -> PartitionReader:
    return PartitionReader(partition.directory, partition.store.specification)


def feed(reader: PartitionReader, *bounds: int, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in reader.changes(*bounds, **options) for row in batch.to_pylist()]


def with_before(changes: list[dict[str, Any]]) -> list[tuple[int, bytes | None]]:
    """Return the value that each change of a whole log replaced, by going through it."""
    content: dict[bytes, bytes | None] = {}
    found: list[tuple[int, bytes | None]] = []
    for change in changes:
        if change["operation"] == "clear":
            content.clear()
            found.append((change["offset"], None))
            continue
        found.append((change["offset"], content.get(change["key"])))
        content[change["key"]] = change["value"]
    return found


@pytest.mark.parametrize("seed", range(3))
def test_the_value_before_is_that_of_the_previous_change(
    written: Any, tmp_path: Path, seed: int
) -> None:
    """From wherever one begins, with snapshots or without, and for some keys or all."""
    rng = random.Random(seed)
    partition = written(COUNTS, tmp_path)
    for number in range(COMMITS):
        keys = [rng.choice([b"", b"\x00", b"a", "é".encode(), b"\xff"]) for _ in range(6)]
        partition.commit([(key, rng.choice([None, b"%d" % number, b""])) for key in keys])
        if rng.random() < 0.3:
            partition.snapshot()
        if rng.random() < 0.2:
            partition.log.append_clear()
            partition.store.truncate()
            partition.store.commit({partition.partition: partition.log.end_offset - 1})
    reader = reader_of(partition)
    end = reader.end_offset
    expected = with_before(feed(reader))
    for start in range(seed, end, 3):  # with the other seeds, each remainder
        read = feed(reader, start, before=True, columns=["offset", "before"])
        assert [(row["offset"], row["before"]) for row in read] == expected[start:]
    chosen = KeySelection.of([b"", b"\xff"])
    offsets = [row["offset"] for row in feed(reader, keys=chosen)]
    read = feed(reader, keys=chosen, before=True)

    assert [(row["offset"], row["before"]) for row in read] == [expected[at] for at in offsets]


def test_a_value_before_is_of_the_serdes_type(written: Any, tmp_path: Path) -> None:
    """As the value is, unless both are bytes."""
    partition = written(ss.KeyValue("typed", value=ss.int64), tmp_path)
    partition.commit([(b"a", 7)])
    partition.commit([(b"a", None)])
    reader = reader_of(partition)

    assert reader.change_schema(before=True).field("before").type == pa.int64()
    assert [row["before"] for row in feed(reader, before=True)] == [None, 7]
    assert [row["before"] for row in feed(reader, before=True, typed=False)] == [
        None,
        ss.int64.encode(7),
    ]


def test_what_a_compaction_has_dropped_makes_a_value_unknown(written: Any, tmp_path: Path) -> None:
    """A null would say that the key was not there."""
    partition = written(COUNTS, tmp_path)
    for value in (b"1", b"2", b"3"):
        partition.commit([(b"a", value)])
    partition.log.seal()
    compact(partition.log)
    partition.commit([(b"a", b"4")])
    reader = reader_of(partition)

    with pytest.raises(OffsetOutOfRangeError, match=r"from offset 3 on.*begin at 3"):
        feed(reader, before=True)
    assert [row["before"] for row in feed(reader, 3, before=True)] == [b"3"]


def test_a_compaction_that_comes_meanwhile_makes_a_value_unknown(
    written: Any, tmp_path: Path
) -> None:
    """A feed that had begun gave values that no change had replaced.

    A compaction beside it dropped the changes in between, and the value before the first one was
    given as that before the last. Now the feed ends with the error that it has where it begins
    after the compaction.
    """
    partition = written(COUNTS, tmp_path)
    for value in (b"1", b"2", b"3", b"4"):
        partition.commit([(b"a", value)])
    partition.log.seal()
    changes = reader_of(partition).changes(1, before=True)
    compact(partition.log)

    with pytest.raises(OffsetOutOfRangeError, match=r"from offset 4 on, and not from 1"):
        list(changes)


def test_what_was_deleted_makes_a_value_unknown_until_a_snapshot_knows_it(
    written: Any, tmp_path: Path
) -> None:
    """The content before the first change is what it takes."""
    partition = written(COUNTS, tmp_path)
    partition.commit([(b"a", b"1")])
    partition.log.seal()
    partition.commit([(b"a", b"2")])
    partition.log.delete_before(1)
    reader = reader_of(partition)

    with pytest.raises(OffsetOutOfRangeError, match="begin after the offset of a snapshot"):
        feed(reader, before=True)
    partition.snapshot()
    partition.commit([(b"a", b"3"), (b"b", b"1")])
    read = feed(reader, 2, before=True)
    assert [(row["key"], row["before"]) for row in read] == [(b"a", b"2"), (b"b", None)]


@pytest.mark.parametrize(
    ("specification", "reason"),
    [
        (ss.Versioned("v", history_retention_ms=5), "it is a versioned store"),
        (ss.TimestampedKeyValue("t", ttl_ms=5), "had expired"),
        (ss.Session("s", retention_ms=5), "it is a session store"),
    ],
)
def test_other_kinds_have_no_one_value_before(
    tmp_path: Path, specification: Any, reason: str
) -> None:
    """The message says why."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(specification, partitions=1)
    reader = PartitionReader(root.partition(specification.name, 0), specification)

    with pytest.raises(InvalidArgumentError, match=reason):
        reader.changes(before=True)
    assert feed(reader) == []


def test_a_change_says_what_input_its_commit_reflects(tmp_path: Path) -> None:
    """As JSON; null where the changelog does not say it."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(COUNTS, partitions=1)
    with ss.open_logged_store(root, "counts", 0, backend="memory") as logged:
        logged.store.put(b"a", b"1")
        logged.store.put(b"b", b"1")
        logged.commit({ss.TopicPartition("orders", 3): 41, ss.TopicPartition("a", 0): 7})
        logged.store.put(b"a", b"2")
        logged.commit({ss.TopicPartition("a", 0): 8})
    reader = PartitionReader(root.partition("counts", 0), COUNTS)
    read = [row["position"] for row in feed(reader, position=True)]

    assert [text and json.loads(text) for text in read] == [
        {"a": {"0": 7}, "orders": {"3": 41}},
        {"a": {"0": 7}, "orders": {"3": 41}},
        {"a": {"0": 8}, "orders": {"3": 41}},
    ]
    cut = feed(reader, 0, 1, position=True)
    assert [row["position"] for row in cut] == [None]


def test_a_time_is_the_first_offset_appended_then_or_later(tmp_path: Path) -> None:
    """Ranges of times that follow each other have each change once."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(COUNTS, partitions=1)
    now = [0]
    directory = root.partition("counts", 0)
    with FileChangelog.create(directory.changelog, COUNTS.kind, clock_ms=lambda: now[0]) as log:
        for now[0] in (100, 100, 250, 240, 300):
            log.append(Changes([b"a", b"b"], [b"1", None]))
    reader = PartitionReader(directory, COUNTS)

    times = [0, 100, 101, 245, 250, 251, 300, 301]
    assert [reader.offset_at(time) for time in times] == [0, 0, 4, 4, 4, 8, 8, 10]


def test_a_staged_write_that_is_not_appended_yet_is_of_now(tmp_path: Path) -> None:
    """All of it is there at any later time (`test_commit_times` has those of unfinished ones)."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(COUNTS, partitions=1)
    batch = pa.record_batch([[b"k"], [b"v"]], schema=change_schema(COUNTS.kind))
    publish(root, "counts", "w1", [stage(root.path, COUNTS, 1, "w1", "t0", [batch])])
    reader = PartitionReader(root.partition("counts", 0), COUNTS)

    assert (reader.offset_at(0), reader.offset_at(1 << 62)) == (0, 1)


def test_changes_from_a_time_whose_changes_are_gone_are_refused(tmp_path: Path) -> None:
    """A feed from a time before the changelog began gave what was there, as if it were all.

    What a snapshot has was appended before it was made, so a time after that is known.
    """
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(COUNTS, partitions=1)
    for commits in (2, 1):  # a vacuum ends the segment that is written
        with ss.open_logged_store(root, COUNTS, backend="sqlite") as opened:
            for _ in range(commits):
                opened.store.put(b"k", b"v")
                opened.commit()
                opened.snapshot()
        Vacuum(root=str(root.path), store="counts", partition=0)()
    reader = PartitionReader(root.partition("counts", 0), COUNTS)
    newest = max(each.created_at_ms for each in reader.snapshots())

    assert reader.beginning.offset == 2
    with pytest.raises(OffsetOutOfRangeError, match="p has changes from offset 2 on, and nothing"):
        offset_from(reader, 1_000, "p")
    assert offset_from(reader, newest + 1, "p") == 3
