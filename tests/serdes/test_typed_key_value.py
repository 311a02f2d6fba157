"""Typed key-value stores: the store of bytes below, through two serdes."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    SerializationError,
    StoreClosedError,
    StoreMismatchError,
)
from statestores.semantics import open_on_engine
from statestores.serdes import int64, int64_sorted, json, raw, typed, utf8
from statestores.spi import (
    Changes,
    Engine,
    Isolation,
    KeyValue,
    KeyValueStore,
    TopicPartition,
    Versioned,
)
from statestores_conformance.many_cases import for_each

CITIES = KeyValue("cities", key=int64_sorted, value=json)
LOG = TopicPartition("cities-changelog", 0)


@pytest.fixture
def below(engine: Engine) -> KeyValueStore[bytes, bytes]:
    """The store of bytes, to look at what the typed one wrote."""
    opened: KeyValueStore[bytes, bytes] = open_on_engine(engine, CITIES)
    return opened


@pytest.fixture
def store(below: KeyValueStore[bytes, bytes]) -> Iterator[KeyValueStore[int, Any]]:
    with typed(below, CITIES) as opened:
        yield opened


@pytest.mark.spec("SRD-24")
def test_keys_and_values_go_through_the_serdes(
    store: KeyValueStore[int, Any], below: KeyValueStore[bytes, bytes]
) -> None:
    """What is put typed is there as bytes, and comes back typed."""
    store.put(-5, {"b": 1, "a": "é"})

    assert below.get(int64_sorted.encode(-5)) == '{"a":"é","b":1}'.encode()
    assert store.get(-5) == {"a": "é", "b": 1}
    assert store.get(5) is None
    assert store.get_many([5, -5, -5]) == [None, {"a": "é", "b": 1}, {"a": "é", "b": 1}]
    assert store.put_if_absent(-5, "other") == {"a": "é", "b": 1}
    assert store.put_if_absent(5, "new") is None
    assert store.approximate_num_entries() == 2
    assert store.delete(5) == "new"
    assert store.delete(5) is None
    store.put(-5, None)
    assert list(store.range()) == []


@pytest.mark.spec("SRD-26")
def test_ranges_of_a_sorted_serde_are_ranges_of_values(store: KeyValueStore[int, Any]) -> None:
    """Negative numbers come first; both ends are inclusive; reverse is the opposite order."""
    store.put_many([3, -3, 0, -1, 1], ["c", "a", "m", "b", "n"])

    assert list(store.range()) == [(-3, "a"), (-1, "b"), (0, "m"), (1, "n"), (3, "c")]
    assert list(store.range(-1, 1)) == [(-1, "b"), (0, "m"), (1, "n")]
    assert list(store.range(last=-1, reverse=True)) == [(-1, "b"), (-3, "a")]
    assert [key for key, _ in store.prefix_scan(b"\x80", reverse=True)] == [3, 1, 0]


@pytest.mark.spec("SRD-12", "SRD-26")
def test_ranges_of_an_unsorted_serde_are_ranges_of_bytes(engine: Engine) -> None:
    """With Kafka's Long, -1 comes after 1: from -1 to 1 there is nothing, from 1 to -1 there is."""
    longs = KeyValue("longs", key=int64)
    with typed(open_on_engine(engine, longs), longs) as store:
        store.put_many([-1, 0, 1], [b"a", b"b", b"c"])

        assert list(store.range(-1, 1)) == []
        assert list(store.range(1, -1)) == [(1, b"c"), (-1, b"a")]
        assert [key for key, _ in store.range()] == [0, 1, -1]


BAD_WRITES: list[Any] = [
    pytest.param(lambda store: store.put("1", "x"), id="put-key"),
    pytest.param(lambda store: store.put(1, {1}), id="put-value"),
    pytest.param(lambda store: store.put_if_absent("1", "x"), id="put_if_absent-key"),
    pytest.param(lambda store: store.put_if_absent(1, {1}), id="put_if_absent-value"),
    pytest.param(lambda store: store.put_all([(1, "x"), (2, {1})]), id="put_all-value"),
    pytest.param(lambda store: store.put_all([(1, "x"), (True, "y")]), id="put_all-key"),
    pytest.param(lambda store: store.put_many([1, "2"], ["x", "y"]), id="put_many-key"),
    pytest.param(lambda store: store.put_many([1, 2], ["x", {1}]), id="put_many-value"),
    pytest.param(
        lambda store: store.put_many(pa.array([1, 2]), pa.array(["1", "{"])), id="put_many-arrow"
    ),
    pytest.param(lambda store: store.put_many(pa.array([1.5]), ["x"]), id="put_many-arrow-key"),
    pytest.param(lambda store: store.delete("0"), id="delete-key"),
]


@pytest.mark.spec("SRD-2", "SRD-25")
@for_each(["write"], BAD_WRITES)
def test_a_refused_write_changes_nothing(
    store: KeyValueStore[int, Any], write: Callable[[Any], object]
) -> None:
    """Also when the last of many is the one that is refused."""
    store.put(0, "before")
    with pytest.raises(SerializationError):
        write(store)

    assert list(store.range()) == [(0, "before")]
    assert len(store.pending_changes()) == 1


@pytest.mark.spec("SRD-2")
@for_each(
    "read",
    [
        lambda store: store.get("1"),
        lambda store: store.get_many([1, "1"]),
        lambda store: store.range("1"),
        lambda store: store.range(1, "2"),
    ],
)
def test_reads_refuse_keys_of_other_types(
    store: KeyValueStore[int, Any], read: Callable[[Any], object]
) -> None:
    """At the call, not at the first step of an iterator."""
    with pytest.raises(SerializationError, match="'int64_sorted'"):
        read(store)


@pytest.mark.spec("SRD-5")
@for_each(
    "call",
    [
        lambda store: store.get(None),
        lambda store: store.get_many([1, None]),
        lambda store: store.put(None, "x"),
        lambda store: store.put_if_absent(None, "x"),
        lambda store: store.put_all([(1, "x"), (None, "x")]),
        lambda store: store.put_many([1, None], ["x", "y"]),
        lambda store: store.put_many(pa.array([1, None]), ["x", "y"]),
        lambda store: store.get_many(pa.array([1, None])),
        lambda store: store.delete(None),
        lambda store: store.put_many("keys", ["x"]),
        lambda store: store.put_many(1, ["x"]),
    ],
)
def test_none_is_no_key(store: KeyValueStore[int, Any], call: Callable[[Any], object]) -> None:
    """The error is that of a store of bytes, and nothing has changed."""
    with pytest.raises(InvalidTypeError):
        call(store)

    assert len(store.pending_changes()) == 0


@pytest.mark.spec("KVS-14")
def test_none_is_not_put_if_absent(store: KeyValueStore[int, Any]) -> None:
    """It could only mean to delete what is not there."""
    with pytest.raises(InvalidTypeError):
        store.put_if_absent(1, None)

    assert len(store.pending_changes()) == 0


@pytest.mark.spec("SRD-25")
@pytest.mark.parametrize("entries", [[(1, "x"), (2,)], [(1, "x"), 5]])
def test_entries_that_are_no_pairs_are_refused(
    store: KeyValueStore[int, Any], entries: Any
) -> None:
    """As by a store of bytes, and nothing has changed."""
    with pytest.raises(InvalidArgumentError, match="pairs"):
        store.put_all(entries)

    assert len(store.pending_changes()) == 0


@pytest.mark.spec("SRD-25")
def test_an_iterator_that_fails_on_the_way_writes_nothing(store: KeyValueStore[int, Any]) -> None:
    """Its own error comes out."""

    def entries() -> Iterator[tuple[int, Any]]:
        yield 1, "x"
        raise KeyError("the source is gone")

    with pytest.raises(KeyError, match="the source is gone"):
        store.put_all(entries())

    assert len(store.pending_changes()) == 0


KEYS, VALUES = [5, -5, 7, 5], ['"a"', '{"n":1}', None, "[2]"]


@pytest.mark.spec("SRD-29")
@pytest.mark.parametrize(
    ("keys", "values"),
    [
        (KEYS, ["a", {"n": 1}, None, [2]]),
        (iter(KEYS), iter(["a", {"n": 1}, None, [2]])),
        (pa.array(KEYS), pa.array(VALUES)),
        (pa.array(KEYS, pa.int16()), ["a", {"n": 1}, None, [2]]),
        (tuple(KEYS), pa.array(VALUES)),
        (pa.chunked_array([KEYS[:1], KEYS[1:]]), pa.chunked_array([VALUES[:3], VALUES[3:]])),
        (pa.array([0, *KEYS]).slice(1), pa.array([*VALUES, "0"]).slice(0, 4)),
    ],
    ids=["lists", "iterators", "arrays", "array-list", "tuple-array", "chunked", "slices"],
)
def test_many_are_taken_from_iterables_and_columns(
    store: KeyValueStore[int, Any], keys: Any, values: Any
) -> None:
    """In any combination, in order: of two values for a key the last one wins, null deletes."""
    store.put(7, "deleted")
    store.put_many(keys, values)

    assert list(store.range()) == [(-5, {"n": 1}), (5, [2])]
    assert store.get_many(pa.array([5, 7, -5])) == [[2], None, {"n": 1}]
    assert store.get_many(pa.chunked_array([[5], [7]])) == [[2], None]
    assert store.get_many(key for key in (5, 7)) == [[2], None]


@pytest.mark.spec("SRD-25", "KVS-16")
def test_columns_of_different_lengths_are_refused(store: KeyValueStore[int, Any]) -> None:
    """As by a store of bytes."""
    with pytest.raises(InvalidArgumentError):
        store.put_many(pa.array([1, 2]), ["x"])

    assert len(store.pending_changes()) == 0


@pytest.mark.spec("SRD-27")
def test_iterators_decode_when_they_are_asked(
    store: KeyValueStore[int, Any], below: KeyValueStore[bytes, bytes]
) -> None:
    """Bytes that are not the serde's raise at their place, after the pairs before them."""
    store.put(1, "good")
    below.put(int64_sorted.encode(2), b"{not json")
    pairs = store.range()

    assert next(pairs) == (1, "good")
    with pytest.raises(SerializationError, match="not json"):
        next(pairs)
    with pytest.raises(SerializationError, match="not json"):
        store.get(2)
    with pytest.raises(SerializationError, match="not json"):
        store.get_many([1, 2])


@pytest.mark.spec("SRD-27")
def test_iterators_are_frozen_at_the_call(store: KeyValueStore[int, Any]) -> None:
    """Not at the first step."""
    store.put(1, "one")
    pairs, scanned = store.range(), store.prefix_scan(b"")
    store.put(2, "two")
    store.delete(1)

    assert list(pairs) == list(scanned) == [(1, "one")]


@pytest.mark.spec("SRD-24")
def test_what_has_no_types_is_that_of_the_store_below(
    store: KeyValueStore[int, Any], below: KeyValueStore[bytes, bytes]
) -> None:
    """Commit, offsets, position, changes, rollback, truncate and the names of things."""
    source = TopicPartition("input", 3)
    store.put(1, "a")
    assert store.uncommitted_bytes == below.uncommitted_bytes == 8 + 3
    assert list(store.pending_changes().values) == [b'"a"']
    store.advance_position({source: 9})
    store.commit({LOG: 4})

    assert (store.uncommitted_bytes, len(store.pending_changes())) == (0, 0)
    assert store.committed_offset(LOG) == below.committed_offset(LOG) == 4
    assert store.committed_offsets() == {LOG: 4}
    assert store.position == {source: 9}
    assert store.committed_content().offsets == {LOG: 4}
    assert [list(changes.keys) for changes in store.committed_changes()] == [
        [int64_sorted.encode(1)]
    ]
    assert (store.name, store.specification) == ("cities", CITIES)
    assert store.persistent == below.persistent

    store.put(2, "b")
    store.rollback()
    assert list(store.range()) == [(1, "a")]
    store.replay(Changes([int64_sorted.encode(3)], [b'"c"']))
    store.load(Changes([int64_sorted.encode(4)], [b'"d"']))
    assert list(store.range()) == [(1, "a"), (3, "c"), (4, "d")]
    store.clear_offsets()
    assert store.committed_offsets() == {}
    store.truncate()
    assert list(store.range()) == []


@pytest.mark.spec("SRD-24")
def test_closing_closes_the_store_below(
    store: KeyValueStore[int, Any], below: KeyValueStore[bytes, bytes]
) -> None:
    """Afterwards every call says so, and so do facades."""
    facade = store.read_only()
    assert [each.is_open for each in (store, below, facade)] == [True, True, True]
    store.close()

    assert [each.is_open for each in (store, below, facade)] == [False, False, False]
    with pytest.raises(StoreClosedError):
        store.get(1)
    with pytest.raises(StoreClosedError):
        store.put(1, "x")
    with pytest.raises(StoreClosedError):
        facade.get(1)


@pytest.mark.spec("SRD-24", "ROF-1")
def test_facades_are_typed_as_well(store: KeyValueStore[int, Any]) -> None:
    """At both isolations, with the same answers; and without a way to write."""
    store.put(1, "committed")
    store.commit({LOG: 1})
    store.put(2, "pending")
    committed = store.read_only()
    uncommitted = store.read_only(Isolation.READ_UNCOMMITTED)

    assert list(committed.range()) == [(1, "committed")]
    assert committed.get_many([1, 2]) == ["committed", None]
    assert uncommitted.get(2) == "pending"
    assert [key for key, _ in uncommitted.prefix_scan(b"", reverse=True)] == [2, 1]
    assert committed.committed_offset(LOG) == 1
    assert committed.position == {}
    assert (committed.name, committed.specification) == ("cities", CITIES)
    assert committed.approximate_num_entries() == 1
    for method in ("put", "put_many", "delete", "commit", "rollback", "truncate", "close"):
        assert not hasattr(committed, method)
    with pytest.raises(InvalidArgumentError):
        store.read_only("dirty")


@pytest.mark.spec("SRD-5", "SRD-10")
@pytest.mark.parametrize(
    "specification", [KeyValue("plain"), KeyValue("plain", key=raw, value=raw)]
)
def test_a_store_of_bytes_is_itself(engine: Engine, specification: KeyValue[bytes, bytes]) -> None:
    """Nothing is put between a caller and a store that has nothing to encode."""
    with open_on_engine(engine, specification) as below:
        assert typed(below, specification) is below


@pytest.mark.spec("SRD-10")
def test_one_side_may_stay_bytes(engine: Engine) -> None:
    """A specification names one serde, and the other side takes bytes, and only bytes."""
    counts = KeyValue("counts", key=utf8)
    with typed(open_on_engine(engine, counts), counts) as store:
        store.put("word", b"1")

        assert list(store.range("a", "z")) == [("word", b"1")]
        wrong: Any = "1"
        with pytest.raises(SerializationError, match="'bytes'"):
            store.put("word", wrong)


@pytest.mark.spec("SRD-28")
def test_another_specification_is_refused(below: KeyValueStore[bytes, bytes]) -> None:
    """Bytes that are read with the wrong serde are wrong data."""
    with below:
        for other in (KeyValue("cities", key=utf8, value=json), KeyValue("cities")):
            with pytest.raises(StoreMismatchError, match="int64_sorted"):
                typed(below, other)
        versioned: Any = Versioned("cities", history_retention_ms=1)
        with pytest.raises(StoreMismatchError, match="key-value"):
            typed(below, versioned)
