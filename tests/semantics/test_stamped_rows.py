"""The rows of values with a timestamp, one by one and many at a time, and as changes."""

from random import Random
from typing import Any

import pytest

import statestores as ss
from statestores.errors import StoreClosedError
from statestores.semantics import open_on_engine
from statestores.semantics.timestamped.content import pending_columns, stamped_chunks
from statestores.semantics.timestamped.rows import (
    living,
    living_pairs,
    stamped_columns,
    stamped_row,
    stamped_rows,
    stamped_value,
    stamped_values,
    timestamps_of,
)
from statestores.spi import Durability, TimestampedValue
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.faulty_engine import FaultyEngine
from statestores_memory import MemoryEngine

CASES: list[tuple[bytes | None, int | None]] = [
    (b"", 0),
    (b"v", 2**62),
    (b"value", None),
    (None, None),
    (None, 7),
    (b"\xff" * 20, 1),
]


@pytest.mark.spec("TKV-7")
def test_a_row_is_eight_bytes_of_time_and_the_value() -> None:
    """Where there is no timestamp it is the lowest below none, which is above all as bytes."""
    assert stamped_row(b"v", 258) == bytes(6) + b"\x01\x02v"
    assert stamped_row(b"v", None) == b"\xff" * 8 + b"v"
    assert stamped_value(stamped_row(b"v", 0)) == TimestampedValue(b"v", 0)
    assert stamped_value(stamped_row(b"", None)) == TimestampedValue(b"", None)


@pytest.mark.spec("TKV-7")
def test_many_rows_are_as_each_of_them(subtests: pytest.Subtests) -> None:
    """Packed, unpacked, and turned into columns, whatever there is not."""
    for seed in range(20):
        with subtests.test(seed=seed):
            chance = Random(seed)
            cases = chance.choices(CASES if seed % 2 else CASES[:2], k=chance.randrange(5))
            values = [value for value, _ in cases]
            times = [time_ms for _, time_ms in cases]
            rows = [
                None if value is None else stamped_row(value, time_ms) for value, time_ms in cases
            ]

            assert stamped_rows(values, times) == rows
            assert stamped_values(rows) == [
                None if row is None else stamped_value(row) for row in rows
            ]
            present = [row for row in rows if row is not None]
            assert timestamps_of(present) == [stamped_value(row).timestamp_ms for row in present]
            columns = [None if row is None else stamped_value(row) for row in rows]
            assert stamped_columns(rows) == (
                [None if each is None else each.value for each in columns],
                [None if each is None else each.timestamp_ms for each in columns],
            )


@pytest.mark.spec("TTL-5")
def test_a_value_lives_until_its_time_is_the_horizon() -> None:
    """One without a timestamp lives for ever."""
    rows = [(b"\x02%d" % time_ms, stamped_row(b"v", time_ms)) for time_ms in (0, 4, 5, 6)]
    rows.append((b"\x02n", stamped_row(b"v", None)))
    at_5 = {b"6": TimestampedValue(b"v", 6), b"n": TimestampedValue(b"v", None)}

    assert dict(living_pairs(iter(rows), 5)) == at_5
    assert {key[1:]: living(row, 5) for key, row in rows} == dict.fromkeys(
        [b"0", b"4", b"5"], None
    ) | at_5
    assert living(None, 5) is None
    assert living(rows[0][1], -1) == TimestampedValue(b"v", 0)
    assert len(list(living_pairs(iter(rows), -1))) == 5


@pytest.mark.spec("COM-17", "TKV-5")
@for_each("values", [[b"a", b"b"], [b"a", None], [None, b"b"], [None, None], []])
def test_pending_rows_are_changes_in_their_order(values: list[bytes | None]) -> None:
    """With what moved the stream time first, if another put has taken its place."""
    rows = {
        b"\x02%d" % number: None if value is None else stamped_row(value, number)
        for number, value in enumerate(values)
    }
    times = [None if value is None else number for number, value in enumerate(values)]
    keys = [b"%d" % number for number in range(len(values))]
    changes = pending_columns(rows, None)
    assert (changes.keys, changes.values, changes.timestamps_ms) == (keys, values, times)
    for number in range(len(values)):
        key, row = b"\x02%d" % number, rows[b"\x02%d" % number]
        if row is not None:
            assert pending_columns(rows, (key, row)) == changes
        high = stamped_row(b"high", 99)
        before = pending_columns(rows, (key, high))
        assert (before.keys, before.values) == ([b"%d" % number, *keys], [b"high", *values])
        assert before.timestamps_ms == [99, *times]


@pytest.mark.spec("COM-17")
def test_content_comes_in_chunks_without_what_has_expired() -> None:
    """All of it once, a chunk of 64 rows first and then twice as many."""
    engine = MemoryEngine.open("")
    rows: dict[bytes, bytes | None] = {
        b"\x02%03d" % number: stamped_row(b"value", number) for number in range(300)
    }
    engine.apply(rows | {b"\x03history": b"", b"\x01offset": b""}, Durability.PROCESS_CRASH)
    chunks = list(stamped_chunks(engine, 9))

    assert [len(chunk) for chunk in chunks] == [64, 128, 98]
    keys = [key for chunk in chunks for key in chunk.keys]
    assert keys == [b"%03d" % number for number in range(10, 300)]
    times: list[Any] = [each for chunk in chunks for each in chunk.timestamps_ms or []]
    assert times == list(range(10, 300))
    assert {value for chunk in chunks for value in chunk.values} == {b"value"}


@pytest.mark.spec("TKV-7")
def test_whole_rows_are_read_and_put_at_once() -> None:
    """Pending ones, cached ones, and the engine's in the order in which they were asked for."""
    engine = FaultyEngine(MemoryEngine.open(""))
    keys = [b"\x02%d" % number for number in range(4)]
    rows = [stamped_row(b"%d" % number, number) for number in range(4)]
    with open_on_engine(engine, ss.TimestampedKeyValue("s")) as store:
        for number in range(3):
            store.put(b"%d" % number, b"%d" % number, number)
        store.commit({})
        store._cached[keys[1]] = b"of the cache"
        assert store.read_rows(keys) == [rows[0], b"of the cache", rows[2], None]
        assert store._engine_gets == 3
        columns = ("as they were put",)
        store.put_rows(
            [keys[2], keys[3]],
            [None, stamped_row(b"high", 50)],
            highest=1,
            highest_ms=50,
            size_bytes=30,
            columns=columns,
        )
        assert store.pending_columns() == columns
        assert store.read_rows(keys) == [rows[0], b"of the cache", None, stamped_row(b"high", 50)]
        assert store.read_rows(keys[2:]) == [None, stamped_row(b"high", 50)]
        assert (store.uncommitted_bytes, store._puts, store.stream_time_ms) == (30, 5, 50)
        assert store._highest == (keys[3], stamped_row(b"high", 50))
        asked = store._engine_gets
        store.put_rows(
            [keys[0]], [rows[0]], highest=0, highest_ms=50, size_bytes=9, columns=columns
        )
        assert (store.stream_time_ms, store._engine_gets) == (50, asked)
        assert store._highest == (keys[3], stamped_row(b"high", 50))
        assert store.pending_columns() is None
        store.rollback()
        store.put_rows([keys[0]], [rows[0]], highest=0, highest_ms=0, size_bytes=9, columns=columns)
        store.put(b"more", b"v", 1)
        assert store.pending_columns() is None
        assert store.read_rows([]) == []
    with pytest.raises(StoreClosedError, match="the store 's' is closed"):
        store.read_rows(keys)


@for_each("how", ["put", "put_rows"])
def test_a_deletion_moves_no_stream_time_with_its_row(how: str) -> None:
    """There is no timestamp in it."""
    with open_on_engine(MemoryEngine.open(""), ss.TimestampedKeyValue("s")) as store:
        store.put(b"k", b"v", 5)
        if how == "put":
            store.put(b"k", None)
        else:
            store.put_rows([b"\x02k"], [None], highest=0, highest_ms=9, size_bytes=1, columns=())

        assert store.stream_time_ms == 5
