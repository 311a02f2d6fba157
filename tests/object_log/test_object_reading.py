"""Content and changes of a partition in an object store, read while its owner works."""

import pickle
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.arrow.keys.key_selection import KeySelection
from statestores.errors import InvalidArgumentError, OffsetOutOfRangeError
from statestores.object_log import writes
from statestores.object_log.driver import run
from statestores.object_log.pieces import read_ahead
from statestores.reading.partition_places import ObjectPartition, place_of
from statestores.reading.partition_reader import PartitionReader, end_offsets

INPUT = ss.TopicPartition("words", 0)


def put(root: ss.StateRoot, directory: Path, rows: dict[str, int | None], **options: Any) -> None:
    """Commit each of *rows* to partition 0."""
    with ss.open_logged_store(
        root, "counts", 0, directory=directory, backend="memory", **options
    ) as counts:
        for number, (key, value) in enumerate(rows.items()):
            if value is None:
                counts.store.delete(key)
            else:
                counts.store.put(key, value)
            counts.commit({INPUT: number})


def reader_of(root: ss.StateRoot, number: int = 0, store: str = "counts") -> PartitionReader:
    """Return what reads a partition."""
    return PartitionReader(place_of(root, store, number), root.store(store).specification)


def content(reader: PartitionReader, **options: Any) -> dict[str, int]:
    """Return the rows by key."""
    return {
        row["key"]: row["value"] for batch in reader.rows(**options) for row in batch.to_pylist()
    }


@pytest.mark.spec("OBJ-25")
def test_values_before_changes_are_not_guessed(root: ss.StateRoot, tmp_path: Path) -> None:
    """A compaction that came while a change feed was read made it say what nobody had replaced."""
    for value in range(4):
        put(root, tmp_path, {"a": value})
    root.object_log("counts").fold()
    changes = reader_of(root).changes(1, before=True)
    root.object_log("counts").compact()

    with pytest.raises(OffsetOutOfRangeError, match=r"from offset 4 on, and not from 1"):
        list(changes)


@pytest.mark.spec("OBJ-25")
def test_content_and_changes_are_those_of_the_log(root: ss.StateRoot, tmp_path: Path) -> None:
    """Now, at an offset, and of some keys; before and after folding and compaction."""
    put(root, tmp_path / "a", {"a": 1, "b": 2})
    reader = reader_of(root)
    assert content(reader) == {"a": 1, "b": 2}
    put(root, tmp_path / "a", {"a": 3, "b": None, "c": 4})
    for _ in range(2):
        assert reader.end_offset == 5
        assert content(reader) == {"a": 3, "c": 4}
        assert content(reader, keys=KeySelection.of([b"a"])) == {"a": 3}
        assert content(reader, offset=1) == {"a": 1, "b": 2}
        assert content(reader, offset=-1) == {}
        assert dict(reader.position) == {INPUT: 2}
        changes = [row for batch in reader.changes(1, 4) for row in batch.to_pylist()]
        assert [(each["offset"], each["operation"], each["key"]) for each in changes] == [
            (1, "put", "b"),
            (2, "put", "a"),
            (3, "delete", "b"),
        ]
        assert reader.change_bytes(0) > 0
        assert reader.offset_at(0) == 0
        assert reader.offset_at(1 << 60) == 5
        assert content(reader_of(root, 1)) == {}
        root.object_log("counts").fold()
    root.object_log("counts").compact()

    assert content(reader) == {"a": 3, "c": 4}
    assert (reader.beginning.offset, reader.beginning.complete_from) == (0, 5)
    with pytest.raises(OffsetOutOfRangeError, match="has been compacted"):
        content(reader, offset=1)
    with pytest.raises(InvalidArgumentError, match="knows no time to be read as of"):
        content(reader, as_of_ms=1)


@pytest.mark.spec("OBJ-25")
def test_versions_are_read_as_of_a_time(root: ss.StateRoot, tmp_path: Path) -> None:
    """As in a directory."""
    rates = ss.Versioned("rates", history_retention_ms=ss.DAY, key=ss.utf8, value=ss.int64)
    root.add_store(rates, partitions=1)
    with ss.open_logged_store(
        root, "rates", 0, directory=tmp_path / "r", backend="memory"
    ) as opened:
        opened.store.put("EUR", 1, timestamp_ms=1_000)
        opened.store.put("EUR", 2, timestamp_ms=3_000)
        opened.commit()
    reader = reader_of(root, store="rates")

    assert content(reader, as_of_ms=2_000) == {"EUR": 1}
    assert content(reader) == {"EUR": 2}
    assert sum(batch.num_rows for batch in reader.rows(history=True)) == 2


@pytest.mark.spec("OBJ-26")
def test_what_was_planned_is_read_elsewhere(root: ss.StateRoot, tmp_path: Path) -> None:
    """What a driver has seen goes to a task, which reads that, and not what has come since.

    Also when it was folded meanwhile; what a compaction has dropped is told.
    """
    put(root, tmp_path / "a", {"a": 1, "b": 2})
    driver = reader_of(root)
    assert end_offsets([driver, reader_of(root, 1)]) == [2, 0]
    sent = pickle.dumps(driver.seen)
    put(root, tmp_path / "a", {"a": 3, "d": 5})

    def task() -> PartitionReader:
        seen = pickle.loads(sent)  # noqa: S301  # what this test has made
        place = ObjectPartition(root.object_log("counts"), 0, seen, pinned=True)
        return PartitionReader(place, root.store("counts").specification)

    assert task().end_offset == 2
    assert content(task(), offset=1) == {"a": 1, "b": 2}
    root.object_log("counts").fold()
    assert content(task(), offset=1) == {"a": 1, "b": 2}
    assert [batch.num_rows for batch in task().changes(0, 2)] == [1, 1]
    root.object_log("counts").compact()
    with pytest.raises(OffsetOutOfRangeError, match="has been compacted"):
        content(task(), offset=1)


@pytest.mark.spec("OBJ-26")
def test_entries_are_read_several_at_once(root: ss.StateRoot, tmp_path: Path) -> None:
    """A task has none of their bytes: one after the other they would cost a round trip each."""
    put(root, tmp_path / "a", {f"k{number:02}": number for number in range(40)})
    log = root.object_log("counts")
    view = log.view([0]).of(0)

    assert all(entry.data is None for entry in view.parts[0].entries)
    ahead = run(read_ahead(log.names, view.parts[0], 5), log.storage)
    assert len(ahead) == 16
    frames = list(log.reader_at(view, 0).read_seen(3, 40))
    assert [frame.base_offset for frame in frames] == list(range(3, 40))


@pytest.mark.spec("OBJ-9", "OBJ-26")
def test_a_write_of_two_partitions_is_seen_in_both_or_in_none(root: ss.StateRoot) -> None:
    """The ends of all partitions are those of one moment."""
    log = root.object_log("counts")
    readers = [reader_of(root, number) for number in range(2)]
    assert end_offsets(readers) == [0, 0]
    write = run(writes.begin_write(log.names, "w"), log.storage)

    assert write.endswith("-w")
    assert end_offsets(readers) == [0, 0]
