"""Sessions that a store keeps in memory once they were searched: whatever changes them, it shows.

The twin of each store keeps none, and asks its engine for every search.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from statestores.errors import StateStoreError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.engine_store import FEW_ROWS
from statestores.semantics.retained.session_cache import (
    KEY_OVERHEAD_BYTES,
    MOST_SESSIONS,
    SESSION_OVERHEAD_BYTES,
    SessionCache,
)
from statestores.spi import Changes, Durability, Session
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, KeptOpen, Moment

KEYS = (b"a", b"a\x00", b"b")
TIMES = [(0, 10), (20, 30), (40, 100), (90, 110), (95, 115), (50, 100), (40, 120)]
"""Start and end of sessions that some key has, or has at some time, and of others."""

SESSION = Session("sessions", retention_ms=1_000)


def _fail(store: Any, moment: Moment) -> None:
    store._engine.plan(Fault(call="apply", at=1, moment=moment))
    with pytest.raises(StateStoreError):
        store.commit({})
    store._engine.plan(None)


def _fail_and_take_back(store: Any) -> None:
    _fail(store, Moment.BEFORE)
    store.rollback()


LEAST = FEW_ROWS + 1
"""So many sessions of one call are put as columns; fewer as single ones."""

NEW = [b"new"] * (LEAST - 1)

CHANGES: dict[str, Callable[[Any], object]] = {
    "a put": lambda store: store.put(b"a", 95, 115, b"new"),
    "a put of the same session": lambda store: store.put(b"a", 90, 110, b"new"),
    "a removal": lambda store: store.remove(b"a", 90, 110),
    "a late put": lambda store: store.put(b"a", 10, 15, b"new"),
    "a put that leaps": lambda store: store.put(b"b", 1_100, 1_100, b"new"),
    "columns": lambda store: store.put_many(
        [b"a"] * LEAST, [90, *[95] * (LEAST - 1)], [110, *[115] * (LEAST - 1)], [None, *NEW]
    ),
    "late columns": lambda store: store.put_many(
        [b"b", *[b"a"] * (LEAST - 1)],
        [1_105, *[90] * (LEAST - 1)],
        [1_105, *[110] * (LEAST - 1)],
        [b"x"] * LEAST,
    ),
    "few of a call": lambda store: store.put_many([b"a"] * 2, [90, 95], [110, 115], [None, b"new"]),
    "few and late": lambda store: store.put_many(
        [b"b", b"a"], [1_105, 90], [1_105, 110], [b"x"] * 2
    ),
    "a replay": lambda store: store.replay(Changes([b"a"], [None], [90], end_times_ms=[110])),
    "a load": lambda store: store.load(Changes([b"a"], [None], [90], end_times_ms=[110])),
    "a commit": lambda store: store.commit({}),
    "a commit that leaps": lambda store: (store.put(b"b", 1_110, 1_110, b"x"), store.commit({})),
    "a rollback": lambda store: store.rollback(),
    "a commit that fails": lambda store: _fail(store, Moment.BEFORE),
    "a commit that comes about and fails": lambda store: _fail(store, Moment.AFTER),
    "a failure and a rollback": _fail_and_take_back,
    "an emptied store": lambda store: store.truncate(),
}


@contextmanager
def _store(cache_bytes: int) -> Iterator[Any]:
    """Open a store with committed and pending sessions."""
    engine = FaultyEngine(KeptOpen(load_backend("memory").open("unused")))
    with open_on_engine(
        engine, SESSION, durability=Durability.PROCESS_CRASH, read_cache_bytes=cache_bytes
    ) as store:
        for key in KEYS:
            store.put(key, 0, 10, b"1")
            store.put(key, 20, 30, b"2")
            store.put(key, 40, 100, b"3")
        store.commit({})
        store.put(b"a", 90, 110, b"pending")
        store.remove(b"b", 40, 100)
        yield store


def _found(store: Any, earliest_ms: int | None) -> list[Any]:
    found: list[Any] = [list(store.find_sessions(key, earliest_ms, 1_200)) for key in KEYS]
    found += [store.fetch_session(key, *times) for key in KEYS for times in TIMES]
    return found


@pytest.mark.spec("SES-9", "SES-10")
def test_a_search_shows_every_change(subtests: pytest.Subtests) -> None:
    """After each change of a store a search finds what it finds without anything in memory."""
    for what, change in CHANGES.items():
        for earliest_ms in (None, 15, 31, 105):
            with (
                subtests.test(what, earliest_ms=earliest_ms),
                _store(0) as twin,
                _store(1 << 20) as store,
            ):
                for _ in range(2):
                    assert _found(store, 31) == _found(twin, 31)
                assert set(store._cached) == set(KEYS)
                for each in (store, twin):
                    change(each)

                assert _found(store, earliest_ms) == _found(twin, earliest_ms)
                assert _found(store, earliest_ms) == _found(twin, earliest_ms)


def test_memory_for_sessions_is_bounded() -> None:
    """Of a key the newest sessions are kept, of keys those that were used last."""
    cache = SessionCache(10_000)
    for number in range(100):
        cache.keep(b"%03d" % number, 0, [(end, 0, b"v" * 100) for end in range(5)])
        # Whoever makes room leaves nearly all of what was used last: a mutant left nothing.
        newest = [b"%03d" % each for each in range(max(0, number - 2), number + 1)]
        assert list(cache.by_key)[-3:] == newest

    assert 0 < cache._held_bytes <= 10_000
    assert list(cache.by_key)[-1] == b"099"
    assert all(len(found) == MOST_SESSIONS for _, *found in cache.by_key.values())
    for key in list(cache.by_key):
        cache.follow(key, cache.by_key.pop(key), 0, 9, b"w")
        cache.follow(key, cache.by_key.pop(key), 0, 9, None)
    cache.drop(list(cache.by_key))

    assert cache._held_bytes == 0


@pytest.mark.parametrize(("most", "left"), [(64, 60), (50, 45)])
def test_few_keys_go_where_there_is_no_room(most: int, left: int) -> None:
    """Of keys that come in turns those go that come next: once it was a half of what was there.

    A sixteenth of the room is free then, or a little more; a thirty-second goes at a time.
    """
    size = KEY_OVERHEAD_BYTES + SESSION_OVERHEAD_BYTES + 4 + 100
    cache = SessionCache(most * size)
    for number in range(most + 1):
        assert len(cache.by_key) == number
        cache.keep(b"%04d" % number, 0, [(1, 0, b"v" * 100)])

    assert list(cache.by_key) == [b"%04d" % each for each in range(most + 1 - left, most + 1)]
    assert cache._held_bytes == left * size


@pytest.mark.spec("SES-9")
def test_sessions_in_memory_are_fetched_from_there() -> None:
    """Also to say that there is none: the engine is asked for what ends before those alone."""
    with _store(1 << 20) as store:
        list(store.find_sessions(b"a", 31, 1_200))
        before = store._engine_gets
        for times in TIMES[2:]:
            store.fetch_session(b"a", *times)

        assert store.fetch_session(b"a", 90, 110) == b"pending"
        assert store._engine_gets == before
        assert store.fetch_session(b"a", 20, 30) == b"2"
        assert store._engine_gets == before + 1


@pytest.mark.spec("SES-8")
def test_a_session_at_the_horizon_is_found_again() -> None:
    """The conformance suite reads without a cache, and so does not see a bound of it."""
    store = open_on_engine(load_backend("memory").open("unused"), Session("s", retention_ms=9))
    for end_ms in (100, 101):
        store.put(b"k", 0, end_ms, b"v")
    for latest_ms, expected in ((109, [101]), (110, [])):
        store.put(b"x", 0, latest_ms, b"v")
        for _ in range(2):
            assert [found.end_ms for found in store.find_sessions(b"k")] == expected


@pytest.mark.spec("SES-7", "SES-10")
def test_who_merges_events_searches_a_session_without_the_engine() -> None:
    """From the first search of a key on: what is put of it follows, and what is removed.

    In every way that a search before a put is made; else each event costs a scan.
    """
    with load_backend("memory").open("unused") as engine:
        watched = FaultyEngine(KeptOpen(engine))
        store: Any = open_on_engine(watched, SESSION, durability=Durability.PROCESS_CRASH)
        store.put(b"k", 0, 0, b"v")
        store.commit({})
        assert list(store.find_sessions(b"k", None, None)) == [(b"k", 0, 0, b"v")]
        watched.plan(None)
        for end_ms in range(1, 40):
            for bounds in ((end_ms - 1, end_ms + 1), (None, end_ms + 1), (end_ms - 1, None)):
                found = list(store.find_sessions(b"k", *bounds))
                assert found == [(b"k", 0, end_ms - 1, b"v")]
            assert store.fetch_session(b"k", 0, end_ms - 1) == b"v"
            assert store.fetch_session(b"k", 1, end_ms - 1 or 1) is None
            store.remove(b"k", 0, end_ms - 1)
            store.put(b"k", 0, end_ms, b"v")
            if end_ms % 7 == 0:
                store.commit({})
        assert watched.calls["scan"] == watched.calls["get"] == 0
        store.put(b"k", 35, 40, b"w")
        both = [(b"k", 0, 39, b"v"), (b"k", 35, 40, b"w")]
        for bounds in ((30, 40), (None, 40), (30, None)):
            assert list(store.find_sessions(b"k", *bounds)) == both
            assert list(store.find_sessions(b"k", *bounds, reverse=True)) == both[::-1]


@pytest.mark.spec("SES-9")
def test_a_search_tells_of_what_ends_with_its_bound_too() -> None:
    """Of what ends before, the engine has to be asked; also when it was searched in vain."""
    with load_backend("memory").open("unused") as engine:
        watched = FaultyEngine(KeptOpen(engine))
        store: Any = open_on_engine(watched, SESSION, durability=Durability.PROCESS_CRASH)
        store.put(b"k", 0, 3, b"v")
        for bound_ms, start_ms, expected in ((3, 0, b"v"), (4, 1, None)):
            store._cache.forget()
            watched.plan(None)
            for _ in range(3):
                list(store.find_sessions(b"k", bound_ms))
            assert watched.calls["scan"] == 1
            assert store.fetch_session(b"k", start_ms, bound_ms) == expected
            assert watched.calls["get"] == 0
            store.fetch_session(b"k", 0, bound_ms - 2)
            assert watched.calls["get"] == 1
