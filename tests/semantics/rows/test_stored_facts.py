"""What a store keeps of itself: offsets, its position and how far its vacuum has come."""

from typing import Any

import pytest

import statestores as ss
from statestores.errors import StoreClosedError, StoreCorruptedError
from statestores.semantics import open_on_engine
from statestores.semantics.rows.closed_rows import ClosedRows
from statestores.semantics.rows.content_chunks import CHUNK_BYTES, CHUNK_ROWS, next_chunk_rows
from statestores.semantics.rows.layout import (
    OFFSETS,
    POSITION_ROW,
    PROGRESS_ROW,
    after_prefix,
    offset_row,
    pack_position,
    read_offset,
    read_offsets,
    read_position,
)
from statestores.semantics.rows.namespaced_rows import NamespacedRows, key_bounds, prefix_bounds
from statestores.semantics.rows.progress import Progress, read_progress
from statestores.spi import Durability, Position, TopicPartition
from statestores_conformance.many_cases import for_each
from statestores_memory import MemoryEngine

CRASH = Durability.PROCESS_CRASH
HIGH = TopicPartition("größe", 2**31 - 1)


def engine_with(rows: dict[bytes, bytes]) -> MemoryEngine:
    """Return an engine that has *rows*."""
    engine = MemoryEngine.open("")
    engine.apply(dict(rows), CRASH)
    return engine


@pytest.mark.spec("LAY-4")
def test_an_offset_is_eight_bytes_under_its_topic_and_number() -> None:
    """Of a topic of one letter, too; a row of another length is damage, whoever asks."""
    one = TopicPartition("t", 0)
    engine = engine_with({offset_row(one): (7).to_bytes(8, "big"), offset_row(HIGH): bytes(8)})

    assert offset_row(one) == OFFSETS + b"t\0" + bytes(4)
    assert read_offsets(engine) == {one: 7, HIGH: 0}
    assert (read_offset(engine, one), read_offset(engine, TopicPartition("u", 0))) == (7, None)
    for row in (bytes(7), bytes(9), b""):
        with pytest.raises(StoreCorruptedError, match=r"the committed offset .* is malformed"):
            read_offset(engine_with({offset_row(one): row}), one)
        with pytest.raises(StoreCorruptedError, match="committed offsets is malformed"):
            read_offsets(engine_with({offset_row(one): row}))


@pytest.mark.spec("LAY-4")
@for_each("name", [b"", b"\0" + bytes(3), b"\0" + bytes(4), b"\xff\0" + bytes(4)])
def test_a_row_that_names_no_partition_is_damage(name: bytes) -> None:
    """Nothing, too few bytes, no topic, or one that is no text."""
    with pytest.raises(StoreCorruptedError, match="committed offsets is malformed"):
        read_offsets(engine_with({OFFSETS + name: bytes(8)}))


@pytest.mark.spec("LAY-5")
def test_a_position_is_json_of_its_partitions_in_order() -> None:
    """Other letters as they are, so that every implementation writes the same bytes."""
    position = Position({HIGH: 3, TopicPartition("b", 1): 2, TopicPartition("b", 0): 1})
    packed = pack_position(position)

    assert packed.decode() == '[["b",0,1],["b",1,2],["größe",2147483647,3]]'
    assert read_position(engine_with({POSITION_ROW: packed})) == position
    assert read_position(engine_with({})) == Position()


@pytest.mark.spec("LAY-5")
@for_each("row", [b"", b"[", b"7", b"[[1,2]]", b'[["t",0,1,2]]', b"[null]", b"\xff"])
def test_a_row_that_is_no_position_is_damage(row: bytes) -> None:
    """And not an error of Python's."""
    with pytest.raises(StoreCorruptedError, match="the stored position"):
        read_position(engine_with({POSITION_ROW: row}))


@pytest.mark.spec("LAY-8")
def test_what_cannot_be_a_progress_is_damage() -> None:
    """A row that was cut off; and what was stored is read as it was."""
    progress = Progress(5, 3, 4, b"cursor")

    assert read_progress(engine_with({PROGRESS_ROW: progress.pack()})) == progress
    assert read_progress(engine_with({})) == Progress()
    with pytest.raises(StoreCorruptedError, match=r"the stored progress .* is malformed"):
        read_progress(engine_with({PROGRESS_ROW: progress.pack()[:20]}))


def test_a_floor_is_the_lowest_that_was_noted() -> None:
    """Of all rows, and of those that the running pass has left behind."""
    progress = Progress()
    for valid_to_ms in (7, 5, 9):
        progress.lower(valid_to_ms)

    assert (progress.floor_ms, progress.pass_floor_ms) == (5, 5)


def test_a_chunk_has_as_many_rows_as_fit() -> None:
    """At most twice as many as the one before, and one at least."""
    assert next_chunk_rows(64, 0) == 128
    assert next_chunk_rows(700, 1) == CHUNK_ROWS
    assert next_chunk_rows(1, CHUNK_BYTES) == 1
    assert next_chunk_rows(100, 2 * CHUNK_BYTES) == 50
    assert next_chunk_rows(1, 1) == 2
    assert next_chunk_rows(1, 5 * CHUNK_BYTES) == 1


def test_the_end_of_a_prefix_is_above_all_that_begin_with_it() -> None:
    """Where bytes cannot be raised those before them are; of the highest there is none."""
    assert after_prefix(b"ab") == b"ac"
    assert after_prefix(b"a\xff\xff") == b"b"
    assert after_prefix(b"\xff\xff") is None
    assert after_prefix(b"") is None
    assert prefix_bounds(b"\xff") == (b"\x02\xff", b"\x03")


@pytest.mark.spec("KVS-8")
def test_the_end_of_a_range_is_the_lowest_key_above_its_last() -> None:
    """So that the last is in it, and no other key that begins with it."""
    start, stop = key_bounds(b"a", b"b")

    assert (start, stop) == (b"\x02a", b"\x02b\x00")


def test_rows_with_a_namespace_come_with_their_own_rows() -> None:
    """In pairs, values alone, and one by one; what is given later replaces what was before."""
    rows = NamespacedRows({b"a": b"1", b"b": None})
    rows[b"\x00x"] = b"2"
    later = NamespacedRows({b"a": b"3"})
    later[b"\x00y"] = None
    joined = NamespacedRows.joined([rows, later])

    assert list(rows.items()) == [(b"\x02a", b"1"), (b"\x02b", None), (b"\x00x", b"2")]
    assert (list(rows.values()), len(rows)) == ([b"1", None, b"2"], 3)
    assert (b"2" in rows.values(), b"9" in rows.values()) == (True, False)
    assert (rows.get(b"\x02a"), rows.get(b"\x00x"), rows.get(b"\x02z")) == (b"1", b"2", None)
    assert dict(joined.items()) == {
        **dict(rows.items()),
        **dict(later.items()),
    }


def test_the_rows_of_a_closed_store_are_refused() -> None:
    """However they are asked for."""
    closed: Any = ClosedRows("the store is closed")
    for call in (lambda: closed[b"k"], lambda: b"k" in closed, closed.copy):
        with pytest.raises(StoreClosedError, match="the store is closed"):
            call()


@pytest.mark.spec("COM-17")
def test_the_rows_of_a_commit_are_read_some_at_a_time() -> None:
    """Whatever is committed meanwhile, with the offsets and the position of that commit."""
    with open_on_engine(MemoryEngine.open(""), ss.KeyValue("s")) as store:
        for number in range(5):
            store.put(b"%d" % number, b"v")
        store.advance_position({HIGH: 1})
        store.commit({HIGH: 4})
        rows = store.committed_rows()
        store.put(b"0", None)
        store.put(b"5", b"later")
        store.advance_position({HIGH: 2})
        store.commit({HIGH: 5})

        assert (rows.offsets, rows.position) == ({HIGH: 4}, Position({HIGH: 1}))
        assert rows.read(2) == [(b"\x020", b"v"), (b"\x021", b"v")]
        assert [key for key, _ in rows.read(9)] == [b"\x022", b"\x023", b"\x024"]
        assert rows.read(1) == []
        again = store.committed_rows()
        again.close()
        with pytest.raises(StoreClosedError):
            again.read(1)
        rows.close()
    with pytest.raises(StoreClosedError, match="the store 's' is closed"):
        store.committed_rows()
    with pytest.raises(StoreClosedError, match="the store 's' is closed"):
        store.committed_content()
