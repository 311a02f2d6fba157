"""Whole columns into stores and out of them."""

import random
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from statestores.arrow import Progress, bulk_load, get_many, put_many
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    SerializationError,
    StoreClosedError,
)
from statestores.serdes import int64, json, typed, utf8
from statestores.spi import KeyValue, TopicPartition, Versioned

BYTES = KeyValue("bytes")
TYPED = KeyValue("typed", key=utf8, value=int64)
DOCUMENTS = Versioned("documents", history_retention_ms=100, key=utf8, value=json)


@pytest.fixture
def numbers(open_store: Any) -> Any:
    """Open a store from text to whole numbers."""
    return typed(open_store(TYPED), TYPED)


@pytest.fixture
def documents(open_store: Any) -> Any:
    """Open a versioned store from text to JSON."""
    return typed(open_store(DOCUMENTS), DOCUMENTS)


def test_values_come_back_in_the_order_of_the_keys(numbers: Any) -> None:
    """Typed, null where there is nothing, and a key may occur twice."""
    put_many(numbers, pa.table({"key": ["a", "b", "c"], "value": [1, 2, None]}))
    numbers.commit({})

    found = get_many(numbers, pa.array(["b", "missing", "a", "b", "c"]))

    assert found.type == pa.int64()
    assert found.to_pylist() == [2, None, 1, 2, None]
    assert numbers.get("b") == 2


def test_a_store_of_bytes_takes_and_gives_bytes(open_store: Any) -> None:
    """Chunked columns too; what comes is one array."""
    store = open_store(BYTES)
    keys = pa.chunked_array([[b"a"], [b"b", b""]], pa.binary())
    put_many(store, pa.table({"value": pa.array([b"1", b"", b"3"]), "key": keys}))

    assert get_many(store, keys).to_pylist() == [b"1", b"", b"3"]
    assert get_many(store.read_only(), keys).to_pylist() == [None, None, None]


def test_versions_come_with_their_validity(documents: Any) -> None:
    """As of one time, as of a time for each key, and the latest."""
    rows = {
        "key": ["a", "a", "b"],
        "value": ['{"n": 1}', '{"n": 2}', "[3]"],
        "valid_from": [5, 9, 7],
    }
    accepted = put_many(documents, pa.table(rows))
    keys = pa.array(["a", "b", "c"])

    latest = get_many(documents, keys)
    as_of_8 = get_many(documents, keys, 8)
    each = get_many(documents, keys, pa.array([5, 6, 7]))

    assert accepted == 3
    assert latest.to_pydict() == {
        "value": ['{"n":2}', "[3]", None],
        "valid_from": [9, 7, None],
        "valid_to": [None, None, None],
    }
    assert as_of_8.to_pydict() == {
        "value": ['{"n":1}', "[3]", None],
        "valid_from": [5, 7, None],
        "valid_to": [9, None, None],
    }
    assert each["value"].to_pylist() == ['{"n":1}', None, None]


def test_late_versions_are_not_counted(documents: Any) -> None:
    """In the order of the rows, 5 comes after 200, and retention is 100."""
    rows = pa.table({"key": ["a", "b"], "value": ["1", "2"], "valid_from": [200, 5]})

    assert put_many(documents, rows) == 1
    assert documents.get("b") is None


def test_timestamps_become_milliseconds_or_an_error(documents: Any) -> None:
    """Never microseconds that are taken for milliseconds."""
    when = datetime(2026, 1, 1, tzinfo=UTC)
    rows = {"key": ["a"], "value": ["1"]}
    for unit in ("s", "ms", "us", "ns"):
        times = pa.array([when], pa.timestamp(unit, "UTC"))
        put_many(documents, pa.table({**rows, "valid_from": times}))

        assert documents.get("a").valid_from_ms == 1_767_225_600_000
    finer = pa.array([1_767_225_600_000_001], pa.timestamp("us"))
    with pytest.raises(InvalidArgumentError, match="no int64 milliseconds"):
        put_many(documents, pa.table({**rows, "valid_from": finer}))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"key": ["a"]}, "expected key, value"),
        ({"key": ["a"], "value": [1], "extra": [1]}, "expected key, value"),
        ({"key": [None], "value": [1]}, "'key' has nulls"),
    ],
)
def test_columns_that_are_not_the_stores_are_refused(
    numbers: Any, rows: dict[str, list[Any]], message: str
) -> None:
    """Nothing is put."""
    table = pa.table({name: pa.array(column) for name, column in rows.items()})
    if table["key"].null_count:
        table = table.cast(pa.schema([("key", pa.string()), ("value", pa.int64())]))
    with pytest.raises(InvalidArgumentError, match=message):
        put_many(numbers, table)

    assert numbers.uncommitted_bytes == 0


def test_values_of_another_type_are_refused(numbers: Any, documents: Any) -> None:
    """By the serde, before anything is put; times by us."""
    with pytest.raises(SerializationError):
        put_many(numbers, pa.table({"key": ["a"], "value": ["text"]}))
    for times in ([1.5], [None], ["2026"]):
        with pytest.raises(InvalidArgumentError, match="'valid_from'"):
            put_many(documents, pa.table({"key": ["a"], "value": ["1"], "valid_from": times}))

    assert numbers.uncommitted_bytes == documents.uncommitted_bytes == 0


def test_a_time_means_nothing_to_a_key_value_store(numbers: Any) -> None:
    """It would be ignored, and the answer taken for one as of then."""
    with pytest.raises(InvalidArgumentError, match="knows no time"):
        get_many(numbers, pa.array(["a"]), 5)


def test_what_is_no_store_is_refused(numbers: Any) -> None:
    """A closed one, and keys that are no column."""
    with pytest.raises(InvalidTypeError):
        get_many(numbers, ["a"])
    numbers.close()
    with pytest.raises(StoreClosedError):
        get_many(numbers, pa.array(["a"]))


def test_a_load_gives_what_puts_in_the_same_order_give(open_store: Any) -> None:
    """Sorted by key underneath, and the later of two rows of a key still wins."""
    chance = random.Random(20260604)
    keys = [b"%d" % chance.randrange(300) for _ in range(2_000)]
    values = [None if chance.random() < 0.1 else b"%d" % row for row in range(2_000)]
    rows = pa.table({"key": keys, "value": pa.array(values, pa.binary())})
    loaded, expected = open_store(BYTES), open_store(BYTES)
    expected.put_many(keys, values)

    accepted = bulk_load(loaded, rows, batch_rows=150)

    assert accepted == 2_000
    assert loaded.uncommitted_bytes == 0
    assert list(loaded.read_only().range()) == list(expected.range())


def test_loaded_versions_do_not_make_each_other_late(open_store: Any) -> None:
    """The file is in key order, where the newest of key 0 would make the old of key 1 late."""
    specification = Versioned("v", history_retention_ms=10)
    rows = [(b"%d" % key, b"%d" % start, start) for key in range(5) for start in range(0, 50, 5)]
    table = pa.table(
        {
            "key": [r[0] for r in rows],
            "value": [r[1] for r in rows],
            "valid_from": [r[2] for r in rows],
        }
    )
    store = open_store(specification)

    accepted = bulk_load(store, table, batch_rows=7)

    assert accepted == len(rows)
    assert store.stream_time_ms == 45
    assert [record.valid_from_ms for record in store.history(b"4")] == [35, 40, 45]


def test_a_load_commits_as_it_is_told(open_store: Any) -> None:
    """A store with a changelog has its own commit; progress comes after each."""
    store = open_store(BYTES)
    log = TopicPartition("bytes-changelog", 0)
    told: list[Progress] = []
    offset = -1

    def commit() -> None:
        nonlocal offset
        offset += len(store.pending_changes())
        store.commit({log: offset})

    table = pa.table({"key": [b"%04d" % row for row in range(100)], "value": [b"v"] * 100})
    bulk_load(store, table, batch_rows=30, commit=commit, progress=told.append)

    assert store.committed_offset(log) == 99
    assert [(progress.rows, progress.total_rows) for progress in told] == [
        (30, 100),
        (60, 100),
        (90, 100),
        (100, 100),
    ]


def test_a_load_of_nothing_is_nothing(numbers: Any) -> None:
    """An empty table has columns, and no chunk."""
    schema = pa.schema([("key", pa.string()), ("value", pa.int64())])

    assert bulk_load(numbers, schema.empty_table()) == 0
    assert put_many(numbers, schema.empty_table()) == 0


def test_a_load_does_not_commit_what_was_pending(numbers: Any) -> None:
    """It is the owner's, who has not said so."""
    numbers.put("a", 1)
    with pytest.raises(InvalidArgumentError, match="pending"):
        bulk_load(numbers, pa.table({"key": ["b"], "value": [2]}))
    numbers.rollback()
    with pytest.raises(InvalidArgumentError, match="batch_rows"):
        bulk_load(numbers, pa.table({"key": ["b"], "value": [2]}), batch_rows=0)
