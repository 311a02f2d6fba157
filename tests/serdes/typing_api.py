"""What a type checker knows of specifications, serdes and typed stores. mypy is the test."""

from typing import Any, assert_type

from statestores import StateRoot, open_logged_store
from statestores.query import QueryableStores
from statestores.semantics import open_on_engine
from statestores.serdes import float64, int64, json, serde_by_name, typed, utf8
from statestores.spi import (
    Engine,
    KeyValue,
    KeyValueStore,
    ReadOnlyKeyValueStore,
    ReadOnlyVersionedStore,
    Serde,
    Session,
    SessionStore,
    TimestampedKeyValue,
    TimestampedKeyValueStore,
    TtlClock,
    Versioned,
    VersionedRecord,
    VersionedStore,
    Window,
    WindowStore,
)
from statestores.tasks import Task


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


def windows_and_sessions_know_their_types(either: Serde[str] | None) -> None:
    """They have fields of their own beside the serdes; what may be a serde counts as one."""
    assert_type(Window("x", retention_ms=1, window_size_ms=1), Window[bytes, bytes])
    assert_type(Window("x", retention_ms=1, window_size_ms=1, key=utf8), Window[str, bytes])
    assert_type(Window("x", retention_ms=1, window_size_ms=1, value=int64), Window[bytes, int])
    assert_type(
        Window("x", retention_ms=1, window_size_ms=1, key=utf8, value=int64), Window[str, int]
    )
    assert_type(Session("x", retention_ms=1), Session[bytes, bytes])
    assert_type(Session("x", retention_ms=1, key=utf8), Session[str, bytes])
    assert_type(Session("x", retention_ms=1, value=int64), Session[bytes, int])
    assert_type(Session("x", retention_ms=1, key=either, value=int64), Session[str, int])


def timestamps_are_a_kind_of_their_own() -> None:
    """The clock may be given by its name; whoever reads it gets a member."""
    assert_type(TimestampedKeyValue("x"), TimestampedKeyValue[bytes, bytes])
    assert_type(TimestampedKeyValue("x", ttl_ms=5, key=utf8), TimestampedKeyValue[str, bytes])
    assert_type(TimestampedKeyValue("x", value=int64), TimestampedKeyValue[bytes, int])
    assert_type(TimestampedKeyValue("x", key=utf8, value=json), TimestampedKeyValue[str, Any])
    assert_type(TimestampedKeyValue("x", ttl_clock="wall").ttl_clock, TtlClock)
    KeyValue("x", ttl_ms=5)  # type: ignore[call-arg]  # nothing would expire
    plain: KeyValue[bytes, bytes] = TimestampedKeyValue("x")  # type: ignore[assignment]  # a sibling
    del plain


def stores_know_their_types(engine: Engine) -> None:
    """From the specification to the store, of every other kind."""
    stamped = TimestampedKeyValue("x", key=utf8)
    windows = Window("x", retention_ms=1, window_size_ms=1, value=int64)
    sessions = Session("x", retention_ms=1, key=utf8, value=int64)

    assert_type(
        typed(open_on_engine(engine, stamped), stamped), TimestampedKeyValueStore[str, bytes]
    )
    assert_type(typed(open_on_engine(engine, windows), windows), WindowStore[bytes, int])
    assert_type(typed(open_on_engine(engine, sessions), sessions), SessionStore[str, int])


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


def stores_are_known_through_every_door(
    root: StateRoot, task: Task, queries: QueryableStores
) -> None:
    """By their specification: from a root, from a task, from what answers queries."""
    plain = KeyValue("x", key=utf8, value=int64)
    stamped = TimestampedKeyValue("x", key=utf8, value=int64)
    versions = Versioned("x", history_retention_ms=1, key=utf8, value=float64)
    windows = Window("x", retention_ms=1, window_size_ms=1, value=int64)
    sessions = Session("x", retention_ms=1, key=utf8, value=int64)

    assert_type(open_logged_store(root, plain).store, KeyValueStore[str, int])
    assert_type(open_logged_store(root, stamped, 1).store, TimestampedKeyValueStore[str, int])
    assert_type(
        open_logged_store(root, versions, backend="memory").store, VersionedStore[str, float]
    )
    assert_type(open_logged_store(root, windows).store, WindowStore[bytes, int])
    assert_type(open_logged_store(root, sessions).store, SessionStore[str, int])
    assert_type(open_logged_store(root, "x").store, Any)
    open_logged_store(root, plain, colour="red")  # type: ignore[call-overload]  # no option
    assert_type(task.store(plain), KeyValueStore[str, int])
    assert_type(task.store(stamped), TimestampedKeyValueStore[str, int])
    assert_type(task.store(versions), VersionedStore[str, float])
    assert_type(task.store(windows), WindowStore[bytes, int])
    assert_type(task.store(sessions), SessionStore[str, int])
    assert_type(task.store("x"), Any)
    assert_type(queries.store(plain), ReadOnlyKeyValueStore[str, int])
    assert_type(queries.store(versions), ReadOnlyVersionedStore[str, float])
