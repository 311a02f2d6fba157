"""Typed versioned stores: the store of bytes below, through two serdes."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from statestores.errors import InvalidTypeError, SerializationError, StoreClosedError
from statestores.semantics import open_on_engine
from statestores.serdes import float64, raw, typed, utf8
from statestores.spi import (
    Engine,
    Isolation,
    PutResult,
    TopicPartition,
    Versioned,
    VersionedRecord,
    VersionedStore,
)
from statestores_conformance.many_cases import for_each

RATES = Versioned("rates", history_retention_ms=1_000, key=utf8, value=float64)
LOG = TopicPartition("rates-changelog", 0)


@pytest.fixture
def below(engine: Engine) -> VersionedStore[bytes, bytes]:
    """The store of bytes, to look at what the typed one wrote."""
    return open_on_engine(engine, RATES)


@pytest.fixture
def store(below: VersionedStore[bytes, bytes]) -> Iterator[VersionedStore[str, float]]:
    with typed(below, RATES) as opened:
        yield opened


@pytest.fixture
def filled(store: VersionedStore[str, float]) -> VersionedStore[str, float]:
    """EUR has two versions and a deletion between them, USD one."""
    store.put("EUR", 1.0, 10)
    store.put("EUR", None, 20)
    store.put("EUR", 3.0, 30)
    store.put("USD", 2.0, 15)
    return store


@pytest.mark.spec("SRD-24", "VRS-22")
def test_versions_keep_their_validity(
    filled: VersionedStore[str, float], below: VersionedStore[bytes, bytes]
) -> None:
    """In every read: only the value is decoded."""
    first, last = VersionedRecord(1.0, 10, 20), VersionedRecord(3.0, 30, None)

    assert below.get(b"EUR", 15) == VersionedRecord(float64.encode(1.0), 10, 20)
    assert filled.get("EUR", 15) == first
    assert filled.get("EUR", 25) is None
    assert filled.get("EUR") == last
    assert filled.get_many(["EUR", "GBP", "EUR"], 19) == [first, None, first]
    assert filled.get_many(["EUR", "EUR"], [19, 30]) == [first, last]
    assert list(filled.history("EUR")) == [first, last]
    assert list(filled.history("EUR", 20, 40, reverse=True)) == [last]
    assert list(filled.scan_as_of(15)) == [("EUR", first), ("USD", VersionedRecord(2.0, 15, None))]
    assert list(filled.scan_as_of(None, "F", reverse=True)) == [
        ("USD", VersionedRecord(2.0, 15, None))
    ]
    assert list(filled.scan_as_of(15, "A", "F")) == [("EUR", first)]
    assert filled.stream_time_ms == 30


@pytest.mark.spec("SRD-24")
def test_writes_answer_as_the_store_below(filled: VersionedStore[str, float]) -> None:
    """A put between two says where it ends; a delete returns what was valid."""
    assert filled.put("EUR", 1.5, 15) == PutResult(accepted=True, valid_to_ms=20)
    assert filled.delete("EUR", 18) == VersionedRecord(1.5, 15, 20)
    assert filled.delete("GBP", 18) is None
    assert filled.put("EUR", 9.0, 5_000) == PutResult(accepted=True, valid_to_ms=None)
    assert filled.put("EUR", 9.0, 3_999) == PutResult(accepted=False, valid_to_ms=None)


@pytest.mark.spec("SRD-2", "SRD-25")
@for_each(
    "write",
    [
        lambda store: store.put(b"EUR", 1.0, 40),
        lambda store: store.put("EUR", "1.0", 40),
        lambda store: store.put_many(["EUR", b"USD"], [1.0, 1.0], [40, 40]),
        lambda store: store.put_many(["EUR", "USD"], [1.0, True], [40, 40]),
        lambda store: store.put_many(pa.array(["EUR"]), pa.array(["1"]), pa.array([40])),
        lambda store: store.delete(1, 40),
    ],
)
def test_a_refused_write_changes_nothing(
    filled: VersionedStore[str, float], write: Callable[[Any], object]
) -> None:
    """Also when the last of many is the one that is refused."""
    with pytest.raises(SerializationError):
        write(filled)

    assert filled.stream_time_ms == 30
    assert len(list(filled.history("EUR"))) == 2


@pytest.mark.spec("SRD-5")
@for_each(
    "call",
    [
        lambda store: store.get(None),
        lambda store: store.get_many(["EUR", None]),
        lambda store: store.get_many(pa.array(["EUR", None])),
        lambda store: store.put(None, 1.0, 1),
        lambda store: store.put_many(["EUR", None], [1.0, 1.0], [40, 40]),
        lambda store: store.put_many(pa.array(["EUR", None]), pa.array([1.0, 1.0]), [40, 40]),
        lambda store: store.delete(None, 1),
        lambda store: store.history(None),
    ],
)
def test_none_is_no_key(filled: VersionedStore[str, float], call: Callable[[Any], object]) -> None:
    """The error is that of a store of bytes, and nothing has changed."""
    with pytest.raises(InvalidTypeError):
        call(filled)

    assert filled.stream_time_ms == 30


@pytest.mark.spec("SRD-2")
@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.get(b"EUR"),
        lambda store: store.get_many([b"EUR"]),
        lambda store: store.history(5),
        lambda store: store.scan_as_of(10, 5),
        lambda store: store.scan_as_of(10, "A", 5),
    ],
)
def test_reads_refuse_keys_of_other_types(
    filled: VersionedStore[str, float], read: Callable[[Any], object]
) -> None:
    """At the call, not at the first step of an iterator."""
    with pytest.raises(SerializationError, match="'utf8'"):
        read(filled)


@pytest.mark.spec("SRD-29")
@pytest.mark.parametrize(
    ("keys", "values", "times_ms"),
    [
        (["a", "b", "a"], [1.0, 2.0, None], [1, 2, 3]),
        (pa.array(["a", "b", "a"]), pa.array([1.0, 2.0, None]), pa.array([1, 2, 3])),
        (pa.array(["a", "b", "a"]).dictionary_encode(), iter([1.0, 2, None]), (1, 2, 3)),
        (pa.chunked_array([["a"], ["b", "a"]]), pa.array([1, 2, None]), [1, 2, 3]),
    ],
    ids=["lists", "arrays", "mixed", "chunked"],
)
def test_many_are_taken_from_iterables_and_columns(
    store: VersionedStore[str, float], keys: Any, values: Any, times_ms: Any
) -> None:
    """In any combination; null deletes."""
    assert store.put_many(keys, values, times_ms) == 3

    a, b = VersionedRecord(1.0, 1, 3), VersionedRecord(2.0, 2, None)
    assert store.get_many(["a", "b"], 2) == [a, b]
    assert store.get_many(pa.array(["a", "b"]), pa.array([2, 2])) == [a, b]
    assert store.get("a") is None


@pytest.mark.spec("SRD-27")
def test_iterators_decode_when_they_are_asked_and_are_frozen(
    filled: VersionedStore[str, float], below: VersionedStore[bytes, bytes]
) -> None:
    """Bytes that are not the serde's raise at their place; later writes do not show up."""
    below.put(b"EUR", b"short", 40)
    versions, pairs = filled.history("EUR"), filled.scan_as_of(40)
    filled.put("EUR", 5.0, 50)

    assert next(versions) == VersionedRecord(1.0, 10, 20)
    assert next(versions) == VersionedRecord(3.0, 30, 40)
    with pytest.raises(SerializationError, match="short"):
        next(versions)
    with pytest.raises(SerializationError, match="short"):
        next(pairs)


@pytest.mark.spec("SRD-24", "ROF-1")
def test_facades_are_typed_as_well(filled: VersionedStore[str, float]) -> None:
    """At both isolations, with the same answers; and without a way to write."""
    filled.commit({LOG: 1})
    filled.put("EUR", 4.0, 40)
    committed, uncommitted = filled.read_only(), filled.read_only(Isolation.READ_UNCOMMITTED)

    assert committed.get("EUR") == VersionedRecord(3.0, 30, None)
    assert uncommitted.get("EUR") == VersionedRecord(4.0, 40, None)
    assert (committed.stream_time_ms, uncommitted.stream_time_ms) == (30, 40)
    assert [key for key, _ in committed.scan_as_of()] == ["EUR", "USD"]
    assert len(list(uncommitted.history("EUR"))) == 3
    for method in ("put", "put_many", "delete", "commit", "rollback", "truncate", "close"):
        assert not hasattr(committed, method)


@pytest.mark.spec("SRD-24")
def test_changes_are_bytes_and_rebuild_the_store(
    filled: VersionedStore[str, float], engine: Engine
) -> None:
    """Pending changes go into a changelog as they are, and replay takes them back."""
    changes = filled.pending_changes()
    filled.rollback()
    assert filled.get("EUR") is None
    filled.replay(changes)

    assert list(filled.history("EUR")) == [VersionedRecord(1.0, 10, 20), VersionedRecord(3.0, 30)]
    filled.commit({LOG: 7})
    assert filled.committed_offset(LOG) == 7
    assert filled.specification == RATES


@pytest.mark.spec("SRD-24")
def test_closing_closes_the_store_below(
    store: VersionedStore[str, float], below: VersionedStore[bytes, bytes]
) -> None:
    """Afterwards every call says so."""
    store.close()

    assert not below.is_open
    with pytest.raises(StoreClosedError):
        store.get("EUR")
    with pytest.raises(StoreClosedError):
        store.put("EUR", 1.0, 1)


@pytest.mark.spec("SRD-10")
@pytest.mark.parametrize(
    "specification",
    [
        Versioned("plain", history_retention_ms=1),
        Versioned("plain", history_retention_ms=1, key=raw, value=raw),
    ],
)
def test_a_store_of_bytes_is_itself(engine: Engine, specification: Versioned[bytes, bytes]) -> None:
    """Nothing is put between a caller and a store that has nothing to encode."""
    with open_on_engine(engine, specification) as below:
        assert typed(below, specification) is below
