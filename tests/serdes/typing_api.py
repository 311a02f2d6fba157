"""What a type checker knows of specifications, serdes and typed stores. mypy is the test."""

from typing import Any, assert_type

from statestores.semantics import open_on_engine
from statestores.serdes import float64, int64, json, serde_by_name, typed, utf8
from statestores.spi import (
    Engine,
    KeyValue,
    KeyValueStore,
    ReadOnlyKeyValueStore,
    ReadOnlyVersionedStore,
    Serde,
    Versioned,
    VersionedRecord,
    VersionedStore,
)


def specifications_know_their_types() -> None:
    """The serdes decide; without them there are bytes."""
    assert_type(KeyValue("x"), KeyValue[bytes, bytes])
    assert_type(KeyValue("x", key=utf8), KeyValue[str, bytes])
    assert_type(KeyValue("x", value=int64), KeyValue[bytes, int])
    assert_type(KeyValue("x", key=utf8, value=json), KeyValue[str, Any])
    assert_type(Versioned("x", history_retention_ms=1), Versioned[bytes, bytes])
    assert_type(Versioned("x", history_retention_ms=1, key=utf8), Versioned[str, bytes])
    assert_type(
        Versioned("x", history_retention_ms=1, key=int64, value=float64), Versioned[int, float]
    )
    assert_type(serde_by_name("utf8"), Serde[Any])


def key_value_stores_know_their_types(engine: Engine) -> None:
    """From the specification to each read."""
    specification = KeyValue("x", key=utf8, value=int64)
    store = typed(open_on_engine(engine, specification), specification)

    assert_type(store, KeyValueStore[str, int])
    assert_type(store.get("a"), int | None)
    assert_type(store.get_many(["a"]), list[int | None])
    assert_type(next(store.range("a", "b")), tuple[str, int])
    assert_type(store.delete("a"), int | None)
    assert_type(store.read_only(), ReadOnlyKeyValueStore[str, int])
    store.put(b"a", 1)  # type: ignore[arg-type]  # a key of bytes
    store.put("a", "1")  # type: ignore[arg-type]  # a value of text


def versioned_stores_know_their_types(engine: Engine) -> None:
    """From the specification to each version."""
    specification = Versioned("x", history_retention_ms=1, key=utf8, value=float64)
    store = typed(open_on_engine(engine, specification), specification)

    assert_type(store, VersionedStore[str, float])
    assert_type(store.get("a", 5), VersionedRecord[float] | None)
    assert_type(next(store.history("a")).value, float)
    assert_type(next(store.scan_as_of(5)), tuple[str, VersionedRecord[float]])
    assert_type(store.read_only(), ReadOnlyVersionedStore[str, float])
    store.put("a", 1.0, "now")  # type: ignore[arg-type]  # a time of text


def kinds_are_told_apart(
    key_value: KeyValueStore[bytes, bytes], versioned: VersionedStore[bytes, bytes]
) -> None:
    """A store of one kind is not given the specification of another."""
    typed(key_value, Versioned("x", history_retention_ms=1))  # type: ignore[call-overload]
    typed(versioned, KeyValue("x"))  # type: ignore[call-overload]
