"""Sums and extremes of many keys in typed stores: as many gets and puts, in lists and columns."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import statestores as ss
from statestores import arrow
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    SerializationError,
    StateStoreError,
    StoreClosedError,
)
from statestores.serdes.typed_stores import number_columns
from statestores_conformance.many_cases import for_each

BACKENDS = ["memory", "rocksdb", "leveldb", "sqlite"]

_LAST = (1 << 63) - 1
_STEPS = 6

_rows = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.none() | st.integers(-5, 5) | st.sampled_from([_LAST, -_LAST, _LAST - 1]),
        st.integers(0, 50),
    ),
    min_size=1,
    max_size=8,
)
_steps = st.lists(
    st.tuples(
        st.sampled_from(["add_many", "min_many", "max_many"]),
        _rows,
        st.sampled_from(["lists", "columns", "chunks"]),
        st.sampled_from(["commit", "rollback", "nothing"]),
    ),
    min_size=1,
    max_size=_STEPS,
)

Model = dict[str, tuple[int, int]]


@pytest.fixture(autouse=True)
def _columns_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of few rows are columns here, too."""
    monkeypatch.setattr(number_columns, "LEAST_ROWS", 1)


@pytest.fixture
def counts() -> Iterator[ss.KeyValueStore[str, int]]:
    """A store of counts, with a committed and a pending one."""
    specification = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    with ss.open_store("unused", specification, backend="memory") as store:
        store.put("a", 5)
        store.commit({})
        store.put("b", -1)
        yield store


def columns_of(form: str, rows: list[tuple[Any, ...]]) -> list[Any]:
    """Return keys, values and timestamps: lists, Arrow arrays or chunked arrays."""
    lists = [list(column) for column in zip(*rows, strict=True)]
    types = pa.string(), pa.int64(), pa.int64()
    if form == "lists":
        return lists
    if form == "columns":
        return [pa.array(column, of) for column, of in zip(lists, types, strict=False)]
    return [
        pa.chunked_array([column[:1], column[1:]], of)
        for column, of in zip(lists, types, strict=False)
    ]


def updated(model: Model, method: str, rows: list[tuple[str, int | None, int]]) -> Model | None:
    """Return what a loop would make of *model*; ``None`` if a sum leaves int64 in the end."""
    found = dict(model)
    for key, value, time_ms in rows:
        if value is not None:
            present, seen_ms = found.get(key, (None, time_ms))
            merged = (
                value
                if present is None
                else {"add_many": present + value}.get(
                    method, (min if method == "min_many" else max)(present, value)
                )
            )
            found[key] = merged, max(seen_ms, time_ms)
    return found if all(-_LAST - 1 <= value <= _LAST for value, _ in found.values()) else None


@pytest.mark.spec("KVS-19", "KVS-20", "KVS-22", "KVS-24", "TKV-8", "KVS-17")
@pytest.mark.parametrize("is_stamped", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_updates_are_those_of_a_dict(backend: str, tmp_path: Path, *, is_stamped: bool) -> None:
    """Whatever form they come in, rolled back or committed, and a sum too large changes nothing."""
    kind: Any = ss.TimestampedKeyValue if is_stamped else ss.KeyValue
    store = ss.open_store(tmp_path, kind("counts", key=ss.utf8, value=ss.int64), backend=backend)

    @settings(max_examples=max(1, settings().max_examples // 2))
    @given(steps=_steps)
    def performed(steps: list[Any]) -> None:
        store.truncate()
        committed: Model = {}
        model: Model = {}
        for method, rows, form, end in steps:
            columns = columns_of(form, rows)[: 3 if is_stamped else 2]
            after = updated(model, method, rows)
            if after is None:
                with pytest.raises(SerializationError):
                    getattr(store, method)(*columns)
            else:
                getattr(store, method)(*columns)
                model = after
            if end == "rollback":
                store.rollback()
                model = committed
            elif end == "commit":
                store.commit({})
                committed = model
            found = dict(store.range())

            assert found == (model if is_stamped else {key: model[key][0] for key in model})

    with store:
        performed()


@pytest.mark.spec("KVS-19")
@for_each(
    ("value_serde", "amounts"),
    [
        (ss.float64, [0.1, 0.2, -0.0, 1e300, -1e300, 0.1, float("inf")]),
        (ss.float64, [0.1, 3, 0.25, 2]),
        (ss.json, [1, 2.5, -3]),
        (ss.json, ["a", "b", ""]),
        (ss.json, [[1], [2, 3]]),
    ],
)
def test_any_values_that_add_up_are_added_in_order(value_serde: Any, amounts: list[Any]) -> None:
    """Floats to the last bit, since their sum depends on the order."""
    specification = ss.KeyValue("sums", key=ss.json, value=value_serde)
    with (
        ss.open_store("unused", specification, backend="memory") as many,
        ss.open_store("unused", specification, backend="memory") as single,
    ):
        keys = [1, 1.0, True, "1"][: len(amounts)] * 2
        several = amounts * 2
        rows = [(key, amount) for key in keys for amount in several]
        many.add_many([key for key, _ in rows], [amount for _, amount in rows])
        for key, amount in rows:
            found = single.get(key)
            single.put(key, amount if found is None else found + amount)
        changes = many.pending_changes(), single.pending_changes()

        assert changes[0].keys == changes[1].keys
        assert changes[0].values == changes[1].values


@pytest.mark.spec("KVS-22", "KVS-19", "KVS-20")
@for_each(
    ("keys", "values", "error"),
    [
        (["a"], [_LAST], SerializationError),
        (["new"], [_LAST + 1], SerializationError),
        (["new"], [1.5], SerializationError),
        (["new"], [True], SerializationError),
        (["b", 5], [1, 1], SerializationError),
        (["b", None], [1, 1], InvalidTypeError),
        (["b", None], [1, None], InvalidTypeError),
        (["b", "a"], [1, "1"], InvalidTypeError),
        (["b"], [b"\x00" * 8], InvalidTypeError),
        (["b", "a"], [1], InvalidArgumentError),
        (pa.array(["b", None]), pa.array([1, 1]), InvalidTypeError),
        (pa.array(["a", "b"]), pa.array([_LAST, 1]), SerializationError),
        (pa.array(["b", "a"]), pa.array([1]), InvalidArgumentError),
        (pa.array(["b", "a"]), pa.array([1, 2.5]), SerializationError),
        (pa.array(["b"]), pa.array(["1"]), InvalidTypeError),
    ],
)
def test_what_cannot_be_added_changes_nothing(
    counts: ss.KeyValueStore[str, int], keys: Any, values: Any, error: type[StateStoreError]
) -> None:
    """Neither the rows before it nor those after it."""
    with pytest.raises(error):
        counts.add_many(keys, values)

    assert dict(counts.range()) == {"a": 5, "b": -1}


@pytest.mark.spec("KVS-19", "KVS-22")
def test_stored_bytes_that_are_no_number_are_an_error(counts: Any) -> None:
    """Whether the rows come as columns or not; nothing is put over them."""
    counts.store_of_bytes.put(b"a", b"seven b")
    for form in ("lists", "columns"):
        with pytest.raises(SerializationError):
            counts.add_many(*columns_of(form, [("a", 1)]))

    assert counts.store_of_bytes.get(b"a") == b"seven b"


@pytest.mark.spec("KVS-21")
def test_a_function_of_columns_gets_columns(counts: ss.KeyValueStore[str, int]) -> None:
    """`arrow.update_many` gives it arrays of the serdes' types, and takes the same."""
    given_keys = pa.chunked_array([["b", "c"], ["b", "a"]])

    def increased(keys: pa.Array, values: pa.Array) -> pa.Array:
        assert keys.to_pylist() == ["b", "c", "a"]
        return pa.array([each and each + 10 for each in values.to_pylist()], pa.int64())

    wrong: list[Callable[[Any, Any], Any]] = [
        lambda _, values: values[:1],
        lambda keys, _: keys,
        lambda keys, values: pa.table({"value": values, "other": values}),
    ]
    for function in wrong:
        with pytest.raises((InvalidArgumentError, SerializationError)):
            arrow.update_many(counts, given_keys, function)

    assert dict(counts.range()) == {"a": 5, "b": -1}
    assert arrow.update_many(counts, given_keys, increased) == 3
    assert arrow.update_many(counts, given_keys[:0], increased) == 0
    assert dict(counts.range()) == {"a": 15, "b": 9}
    counts.close()
    with pytest.raises(StoreClosedError):
        arrow.update_many(counts, given_keys[:0], increased)


@pytest.mark.spec("KVS-21", "TKV-8")
def test_a_function_of_columns_gets_timestamps() -> None:
    """Of a timestamped store, a table of values and timestamps; other kinds are refused."""
    specification = ss.TimestampedKeyValue("counts", key=ss.utf8, value=ss.int64)
    with ss.open_store("unused", specification, backend="memory") as store:
        store.put("a", 1, 10)
        store.put("b", 2, 20)

        def moved(keys: pa.Array, rows: pa.Table) -> pa.Table:
            values = pa.array([None if key == "b" else 7 for key in keys.to_pylist()], pa.int64())
            return rows.set_column(0, "value", values).set_column(
                1, "timestamp", pa.array([30, 30, 30])
            )

        arrow.update_many(store, pa.array(["b", "a", "c"]), moved)

        assert dict(store.range()) == {"a": (7, 30), "c": (7, 30)}
    versions = ss.Versioned("v", history_retention_ms=1)
    with (
        ss.open_store("unused", versions, backend="memory") as other,
        pytest.raises(InvalidTypeError),
    ):
        arrow.update_many(other, pa.array([b"a"]), moved)


@pytest.mark.spec("SRD-24")
@for_each("value", [1, -1, 0, _LAST, -_LAST - 1])
def test_many_numbers_are_encoded_as_each_one(value: int) -> None:
    """Packed at once, bytes are those of the serde."""
    specification = ss.KeyValue("s", value=ss.int64)
    with ss.open_store("unused", specification, backend="memory") as store:
        store.put_many([b"a", b"b"], [value, value])
        below: Any = store
        stored = below.store_of_bytes.get_many([b"a", b"b", b"c"])

        assert stored == [ss.int64.encode(value)] * 2 + [None]
        assert store.get_many([b"b", b"c", b"a"]) == [value, None, value]
