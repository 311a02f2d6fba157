"""A whole batch against a versioned store: each row as `get` would answer it."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statestores.arrow import AsOfIndex, join_as_of
from statestores.arrow.as_of.reads import find_as_of
from statestores.arrow.row_batches import batches_from_changes
from statestores.arrow.schemas import VERSIONED_ROWS
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    StoreClosedError,
)
from statestores.semantics import open_on_engine
from statestores.serdes import int64, json, typed, utf8
from statestores.spi import Durability, KeyValue, Versioned
from statestores_conformance.many_cases import for_each
from statestores_memory import MemoryEngine

RATES = Versioned("rates", history_retention_ms=1_000)
DOCUMENTS = Versioned("documents", history_retention_ms=1_000, key=utf8, value=json)
NUMBERS = Versioned("numbers", history_retention_ms=1_000, key=int64, value=int64)

KEYS = [b"", b"a", b"a\x00", b"a\x00\xff", "é".encode(), b"zz"]


def expected(store: Any, batch: Any, max_age_ms: int | None = None) -> list[Any]:
    """Return value and start for each row, by one `get` for each."""
    answers = []
    for key, time_ms in zip(batch["key"].to_pylist(), batch["at"].to_pylist(), strict=True):
        record = None
        if key is not None and time_ms is not None and time_ms >= 0:
            record = store.get(key, time_ms)
        if record and max_age_ms is not None and time_ms - record.valid_from_ms > max_age_ms:
            record = None
        answers.append((record and record.value, record and record.valid_from_ms))
    return answers


def answers_of(joined: Any) -> list[Any]:
    """Return what the join has added."""
    return list(zip(joined["value"].to_pylist(), joined["valid_from"].to_pylist(), strict=True))


def index_of(store: Any) -> AsOfIndex:
    """Return what is committed in *store* as an index."""
    content = store.committed_content()
    rows = list(batches_from_changes("versioned", content.changes))
    stream_time = store.read_only().stream_time_ms
    return AsOfIndex.from_rows(
        pa.Table.from_batches(rows, VERSIONED_ROWS),
        specification=store.specification,
        horizon_ms=None
        if stream_time is None
        else stream_time - store.specification.history_retention_ms,
    )


puts = st.lists(
    st.tuples(
        st.sampled_from(KEYS),
        st.one_of(st.none(), st.binary(max_size=3)),
        st.integers(0, 2_500),
    ),
    max_size=40,
)
questions = st.lists(
    st.tuples(
        st.one_of(st.none(), st.sampled_from([*KEYS, b"missing"])),
        st.one_of(st.none(), st.integers(-5, 3_000)),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(committed=puts, pending=puts, asked=questions, age=st.one_of(st.none(), st.integers(0, 900)))
def test_a_join_is_a_get_for_each_row(
    committed: Any, pending: Any, asked: Any, age: int | None
) -> None:
    """Late versions, deletions, expired times, nulls; with and without pending writes."""
    engine = MemoryEngine.open("")
    with open_on_engine(engine, RATES, durability=Durability.PROCESS_CRASH) as store:
        for key, value, time_ms in committed:
            store.put(key, value, time_ms)
        store.commit({})
        batch = pa.table(
            {
                "key": pa.array([key for key, _ in asked], pa.binary()),
                "at": pa.array([time_ms for _, time_ms in asked], pa.int64()),
            }
        )
        stored = expected(store, batch, age)
        from_index = join_as_of(index_of(store), batch, on="key", at="at", max_age_ms=age)
        for key, value, time_ms in pending:
            store.put(key, value, time_ms)
        now = expected(store, batch, age)

        assert answers_of(from_index) == stored
        joined = join_as_of(store.read_only(), batch, on="key", at="at", max_age_ms=age)
        assert answers_of(joined) == stored
        joined = join_as_of(store, batch, on="key", at="at", max_age_ms=age)
        assert answers_of(joined) == now
        dirty = store.read_only("read_uncommitted")
        assert answers_of(join_as_of(dirty, batch, on="key", at="at", max_age_ms=age)) == now
        inner = join_as_of(store, batch, on="key", at="at", max_age_ms=age, how="inner")
        assert answers_of(inner) == [answer for answer in now if answer[1] is not None]


def test_every_backend_answers_alike(open_store: Any, backend: str) -> None:
    """Many keys with many versions, in stream order, and in one batch."""
    chance = random.Random(20260601)
    specification = Versioned("many", history_retention_ms=3_000)
    store = open_store(specification, backend)
    for step in range(6_000):
        key = b"key-%d\x00" % min(chance.randrange(300), chance.randrange(300))
        store.put(key, None if chance.random() < 0.1 else b"%d" % step, step + chance.randrange(9))
        if step % 1_500 == 0:
            store.commit({})
    rows = [(b"key-%d\x00" % chance.randrange(310), chance.randrange(7_000)) for _ in range(4_000)]
    batch = pa.table({"key": [key for key, _ in rows], "at": [time_ms for _, time_ms in rows]})

    assert answers_of(join_as_of(store, batch, on="key", at="at")) == expected(store, batch)
    store.commit({})
    assert answers_of(join_as_of(store, batch, on="key", at="at")) == expected(store, batch)
    assert answers_of(join_as_of(store.read_only(), batch, on="key", at="at")) == expected(
        store, batch
    )
    assert answers_of(join_as_of(index_of(store), batch, on="key", at="at")) == expected(
        store, batch
    )


@pytest.fixture
def rates(open_store: Any) -> Any:
    """Open a store of two versions of one key."""
    store = open_store(RATES)
    store.put_many([b"EUR", b"EUR"], [b"1.08", b"1.10"], [100, 200])
    return store


@pytest.mark.parametrize(
    "arrow_type",
    [
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.binary(3),
        pa.dictionary(pa.int8(), pa.binary()),
    ],
    ids=str,
)
def test_keys_may_have_any_layout(rates: Any, arrow_type: Any) -> None:
    """Bytes are bytes."""
    keys = pa.array([b"EUR", None, b"USD"], pa.binary()).cast(arrow_type)
    batch = pa.record_batch({"key": keys, "at": [150, 150, 150]})

    joined = join_as_of(rates, batch, on="key", at="at")

    assert isinstance(joined, pa.RecordBatch)
    assert joined.column("value").to_pylist() == [b"1.08", None, None]
    rates.commit({})
    assert join_as_of(index_of(rates), batch, on="key", at="at").equals(joined)


@pytest.mark.parametrize(
    "arrow_type",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_typed_stores_answer_in_their_types(open_store: Any, arrow_type: Any) -> None:
    """Text as keys, documents as values; the committed rows in memory answer the same."""
    store = typed(open_store(DOCUMENTS), DOCUMENTS)
    store.put("äöü", {"a": 1}, 100)
    store.put("äöü", {"a": 2}, 200)
    store.commit({})
    keys = pa.array(["äöü", "missing", "äöü"]).cast(arrow_type)
    batch = pa.table({"key": keys, "at": [150, 150, 250]})

    joined = join_as_of(store, batch, on="key", at="at", value_name="v", valid_from_name="since")

    assert joined["v"].type == json.arrow_type()
    assert joined["since"].to_pylist() == [100, None, 200]
    assert joined["v"].to_pylist() == get_all(store, ["äöü", "missing", "äöü"], [150, 150, 250])
    index = index_of(store)
    assert join_as_of(
        index, batch, on="key", at="at", value_name="v", valid_from_name="since"
    ).equals(joined)


def get_all(store: Any, keys: list[Any], times: list[int]) -> list[Any]:
    """Return the values as the serde's column has them."""
    found = [store.get(key, time_ms) for key, time_ms in zip(keys, times, strict=True)]
    encoded = pa.array([each and json.encode(each.value) for each in found], pa.binary())
    values: list[Any] = json.decode_array(encoded).to_pylist()
    return values


@for_each("unit", ["s", "ms", "us", "ns"])
@for_each("zone", [None, "UTC", "Europe/Berlin"])
def test_times_may_be_timestamps_of_any_unit(open_store: Any, unit: str, zone: str | None) -> None:
    """What is finer than milliseconds is rounded down, also before the epoch."""
    store = open_store(Versioned("moments", history_retention_ms=5_000))
    store.put_many([b"k", b"k"], [b"0", b"2"], [0, 2_000])
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit]
    last_moment = 2 * per_second - 1
    times = pa.array([-1, 0, last_moment, 2 * per_second, None], pa.timestamp(unit, zone))
    batch = pa.table({"key": [b"k"] * 5, "at": times})

    assert join_as_of(store, batch, on="key", at="at")["value"].to_pylist() == [
        None,
        b"0",
        b"0",
        b"2",
        None,
    ]


def test_chunks_and_dictionaries_that_differ_are_joined(rates: Any) -> None:
    """A table comes in chunks, each with a dictionary of its own."""
    keys = pa.chunked_array(
        [
            pa.array([b"EUR"], pa.binary()).dictionary_encode(),
            pa.array([b"USD", b"EUR"], pa.binary()).dictionary_encode(),
        ]
    )
    batch = pa.table({"key": keys, "at": pa.chunked_array([[100, 200], [300]])})

    assert join_as_of(rates, batch, on="key", at="at")["value"].to_pylist() == [
        b"1.08",
        None,
        b"1.10",
    ]


@pytest.mark.parametrize(
    ("age", "found"), [(0, [100, None, None, 200]), (7, [100, 100, None, 200])]
)
def test_values_are_taken_up_to_an_age(rates: Any, age: int, found: list[int | None]) -> None:
    """Those that are exactly as old as that as well, and 0 takes what begins at the time."""
    rates.commit({})
    batch = pa.table({"key": [b"EUR"] * 4, "at": [100, 107, 108, 200]})
    values: dict[int | None, Any] = {100: b"1.08", 200: b"1.10", None: None}
    for asked in (rates, index_of(rates)):
        joined = join_as_of(asked, batch, on="key", at="at", max_age_ms=age)

        assert answers_of(joined) == [(values[start], start) for start in found]


def test_keys_beyond_two_gibibytes_are_refused(rates: Any) -> None:
    """A table of larger chunks cannot be joined at once, and the error says what to do.

    It was an error of Arrow's, which says something of columns that a caller has not made:
    `join_as_of` looked for chunks in its place, which Arrow does not give back.
    """
    size = 1 << 30
    offsets, data = pa.py_buffer(np.array([0, size], np.int32)), pa.py_buffer(np.zeros(size, "u1"))
    keys = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data])
    batch = pa.table({"key": pa.chunked_array([keys] * 2), "at": [100, 100]})

    with pytest.raises(InvalidArgumentError, match="join the table in slices"):
        join_as_of(rates, batch, on="key", at="at")


@pytest.mark.parametrize("asked_of", ["store", "facade", "index"])
def test_an_empty_batch_gains_two_empty_columns(rates: Any, asked_of: str) -> None:
    """With the same types as any other."""
    rates.commit({})
    asked = {"store": rates, "facade": rates.read_only(), "index": index_of(rates)}[asked_of]
    batch = pa.record_batch({"key": pa.array([], pa.binary()), "at": pa.array([], pa.int64())})

    joined = join_as_of(asked, batch, on="key", at="at")

    assert joined.num_rows == 0
    assert joined.schema.field("value").type == pa.binary()
    assert joined.schema.field("valid_from").type == pa.int64()
    # A table without batches, as a filter may leave it, has columns without chunks.
    table = pa.Table.from_batches([], batch.schema)
    assert join_as_of(asked, table, on="key", at="at").schema == joined.schema


def test_columns_without_a_type_are_all_null(rates: Any) -> None:
    """As Arrow makes them of nothing but nulls."""
    batch = pa.table({"key": pa.nulls(2), "at": pa.nulls(2)})

    assert join_as_of(rates, batch, on="key", at="at")["value"].to_pylist() == [None, None]


def test_the_last_time_there_is_finds_the_latest(rates: Any) -> None:
    """No arithmetic overflows, in no source."""
    batch = pa.table({"key": [b"EUR"], "at": [(1 << 63) - 1]})
    rates.commit({})

    assert join_as_of(rates, batch, on="key", at="at")["value"].to_pylist() == [b"1.10"]
    assert join_as_of(index_of(rates), batch, on="key", at="at")["value"].to_pylist() == [b"1.10"]


@for_each(
    ("arguments", "told"),
    [
        ({"on": "missing"}, "0 columns 'missing'"),
        ({"at": "missing"}, "0 columns 'missing'"),
        ({"value_name": "key"}, "two columns 'key'"),
        ({"valid_from_name": "value"}, "two columns 'value'"),
        ({"how": "outer"}, "'outer'"),
        ({"max_age_ms": -1}, "max_age_ms"),
        ({"on": "text"}, "the column 'text' of the type string"),
        ({"at": "text"}, "the column 'text' must be int64 milliseconds or a timestamp, got string"),
        ({"at": "far"}, "the column 'far' of the type timestamp"),
        ({"at": "huge"}, "the column 'huge' of the type uint64"),
    ],
)
@for_each("asked_of", ["store", "index"])
def test_what_cannot_be_joined_is_named(
    rates: Any, asked_of: str, arguments: dict[str, Any], told: str
) -> None:
    """The column and its type, before anything is read."""
    rates.commit({})
    batch = pa.table(
        {
            "key": [b"EUR"],
            "at": [100],
            "text": ["EUR"],
            "far": pa.array([1 << 62], pa.timestamp("s")),
            "huge": pa.array([1 << 63], pa.uint64()),
        }
    )
    asked = {"store": rates, "index": index_of(rates)}[asked_of]

    with pytest.raises(InvalidArgumentError) as refused:
        join_as_of(asked, batch, **{"on": "key", "at": "at", **arguments})

    assert told in str(refused.value)


def test_only_batches_and_versioned_stores_are_joined(rates: Any, open_store: Any) -> None:
    """And not a closed one."""
    batch = pa.table({"key": [b"EUR"], "at": [100]})
    with pytest.raises(InvalidTypeError, match="got list"):
        join_as_of(rates, [], on="key", at="at")
    with pytest.raises(InvalidTypeError, match="EngineKeyValueStore"):
        join_as_of(open_store(KeyValue("counts")), batch, on="key", at="at")
    facade = rates.read_only()
    rates.close()
    for closed in (rates, facade):
        with pytest.raises(StoreClosedError):
            join_as_of(closed, batch, on="key", at="at")


def test_numbers_are_looked_up_as_numbers(open_store: Any) -> None:
    """Of any width; text that looks like one is refused."""
    store = typed(open_store(NUMBERS), NUMBERS)
    store.put(-7, 70, 100)
    batch = pa.table({"key": pa.array([-7, 7], pa.int8()), "at": [100, 100]})

    assert join_as_of(store, batch, on="key", at="at")["value"].to_pylist() == [70, None]
    with pytest.raises(InvalidArgumentError, match="'key' of the type string"):
        join_as_of(store, pa.table({"key": ["-7"], "at": [100]}), on="key", at="at")


def test_values_are_given_as_they_are_kept_where_that_is_asked_for() -> None:
    """Of serdes that no column says exactly, a topology decodes each value by itself."""
    with typed(open_on_engine(MemoryEngine.open("unused"), DOCUMENTS), DOCUMENTS) as store:
        store.put("a", {"n": 1}, 5)
        asked = pa.array([b"a", b"b", None]), pa.array([7, 7, 7])

        kept = find_as_of(store, *asked, as_bytes=True).values.to_pylist()

        assert kept == [json.encode({"n": 1}), None, None]
        assert find_as_of(store, *asked).values.to_pylist() != kept
