"""Typed window and session stores: the store of bytes below, through two serdes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from statestores.errors import InvalidTypeError, SerializationError, StoreMismatchError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.serdes import float64, raw, typed, utf8
from statestores.spi import (
    Engine,
    ReadOnlySessionStore,
    ReadOnlyWindowStore,
    Session,
    SessionRecord,
    SessionStore,
    TopicPartition,
    Window,
    WindowRecord,
    WindowStore,
)
from statestores_conformance.many_cases import for_each

MEANS = Window("means", retention_ms=1_000, window_size_ms=10, key=utf8, value=float64)
VISITS = Session("visits", retention_ms=1_000, key=utf8, value=float64)
LOG = TopicPartition("changelog", 0)


@pytest.fixture
def windows(engine: Engine) -> Iterator[WindowStore[str, float]]:
    """Windows of two keys, one of them deleted."""
    with typed(open_on_engine(engine, MEANS), MEANS) as store:
        store.put("ä", 1.5, 10)
        store.put("ä", 2.5, 20)
        assert store.put_many(["b", "b"], [3.5, None], [10, 20]) == 2
        store.commit({LOG: 3})
        yield store


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[SessionStore[str, float]]:
    """Sessions of two keys, one of them removed."""
    engine = load_backend("memory").open(tmp_path / "sessions")
    with typed(open_on_engine(engine, VISITS), VISITS) as store:
        store.put("ä", 10, 20, 1.5)
        store.put("ä", 30, 30, 2.5)
        assert store.put_many(["b", "b"], [0, 5], [9, 9], [3.5, 4.5]) == 2
        store.remove("b", 5, 9)
        store.commit({LOG: 4})
        yield store


@pytest.mark.spec("WIN-9", "WIN-10", "WIN-11")
def test_windows_are_read_as_they_were_put(windows: WindowStore[str, float]) -> None:
    """By the owner and through facades, with what the serdes make of keys and values."""
    readers: list[ReadOnlyWindowStore[str, float]] = [
        windows,
        windows.read_only(),
        windows.read_only("read_uncommitted"),
    ]
    first, second = WindowRecord("ä", 10, 20, 1.5), WindowRecord("ä", 20, 30, 2.5)
    for reader in readers:
        assert [reader.fetch("ä", 20), reader.fetch("b", 20)] == [2.5, None]
        assert reader.fetch_many(["ä", "b"], 20) == [2.5, None]
        assert list(reader.fetch_range("ä")) == [first, second]
        assert list(reader.fetch_range("ä", 15, reverse=True)) == [second]
        assert list(reader.fetch_all()) == [WindowRecord("b", 10, 20, 3.5), first, second]
        assert list(reader.fetch_all(None, 10, "c")) == [first]
        assert reader.stream_time_ms == 20
        assert reader.committed_offset(LOG) == 3


@pytest.mark.spec("SES-9", "SES-10", "SES-11", "SES-12")
def test_sessions_are_read_as_they_were_put(sessions: SessionStore[str, float]) -> None:
    """By the owner and through facades, with what the serdes make of keys and values."""
    readers: list[ReadOnlySessionStore[str, float]] = [
        sessions,
        sessions.read_only(),
        sessions.read_only("read_uncommitted"),
    ]
    first, second = SessionRecord("ä", 10, 20, 1.5), SessionRecord("ä", 30, 30, 2.5)
    other = SessionRecord("b", 0, 9, 3.5)
    for reader in readers:
        assert [reader.fetch_session("ä", 30, 30), reader.fetch_session("b", 5, 9)] == [2.5, None]
        assert reader.fetch_many(["ä", "b"], [30, 5], [30, 9]) == [2.5, None]
        assert list(reader.find_sessions("ä", 15, 25)) == [first]
        assert list(reader.find_sessions("ä", reverse=True)) == [second, first]
        assert list(reader.find_all_sessions()) == [other, first, second]
        assert list(reader.find_all_sessions(last_key="c")) == [other]
        assert list(reader.find_sessions_by_end(10, 20)) == [first]
        assert reader.stream_time_ms == 30
        assert reader.committed_offset(LOG) == 4


@pytest.mark.spec("COM-19")
@for_each(
    "write",
    [
        lambda windows, _: windows.put(None, 1.5, 10),
        lambda windows, _: windows.put(b"k", 1.5, 10),
        lambda windows, _: windows.put("k", "text", 10),
        lambda windows, _: windows.put_many(["k", None], [1.0, 2.0], [1, 2]),
        lambda windows, _: windows.put_many(["k", "l"], [1.0, "text"], [1, 2]),
        lambda windows, _: windows.fetch(None, 1),
        lambda _, sessions: sessions.put(None, 1, 2, 1.5),
        lambda _, sessions: sessions.put("k", 1, 2, "text"),
        lambda _, sessions: sessions.put_many(["k"], [1], [2], ["text"]),
        lambda _, sessions: sessions.remove(None, 1, 2),
        lambda _, sessions: sessions.find_sessions(None),
    ],
)
def test_what_cannot_be_encoded_changes_nothing(
    windows: WindowStore[str, float],
    sessions: SessionStore[str, float],
    write: Callable[[Any, Any], object],
) -> None:
    """Everything is encoded before anything is written."""
    with pytest.raises((InvalidTypeError, SerializationError)):
        write(windows, sessions)

    assert [windows.uncommitted_bytes, sessions.uncommitted_bytes] == [0, 0]


@pytest.mark.spec("SRD-10")
def test_bytes_need_no_typed_store(engine: Engine) -> None:
    """Without serdes, or with those of bytes, the store of bytes is the store."""
    specification = Window("raw", retention_ms=1, window_size_ms=1, key=raw)
    store = open_on_engine(engine, specification)

    assert typed(store, specification) is store


@pytest.mark.spec("COM-13")
def test_another_retention_is_refused(engine: Engine) -> None:
    """What is typed is the store that was opened."""
    below = open_on_engine(engine, VISITS)
    with pytest.raises(StoreMismatchError, match="retention_ms"):
        typed(below, Session("visits", retention_ms=5, key=utf8, value=float64))
