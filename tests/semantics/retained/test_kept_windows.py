"""Rows that a window store keeps in memory: whatever changes them, it shows.

The twin of each store keeps none, and asks its engine for every fetch. Rows are kept by their start
as long as they are put one after the other, and by their keys where they came in another way.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from statestores.errors import StateStoreError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.retained.named_starts import NOT_KEPT
from statestores.semantics.rows.layout import HISTORY
from statestores.spi import Changes, Durability, Window
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, KeptOpen, Moment

KEYS = [b"%02d" % number for number in range(30)]
STARTS = [640, 650, 700, 800]
WINDOW = Window("windows", retention_ms=640, window_size_ms=10)


def _put(store: Any, start_ms: int, value: bytes | None, count: int = len(KEYS)) -> None:
    for key in KEYS[:count]:
        store.put(key, value, start_ms)


def _put_and_commit(store: Any, start_ms: int, value: bytes | None, count: int = len(KEYS)) -> None:
    _put(store, start_ms, value, count)
    store.commit({})


def _delete_and_put(store: Any) -> None:
    _put_and_commit(store, 700, None)
    _put_and_commit(store, 700, b"new")


def _gathered(store: Any) -> None:
    _put(store, 700, b"new")
    list(store.fetch_all(first_ms=700))
    store.commit({})


def _fail(store: Any, moment: Moment) -> None:
    _put(store, 700, b"new")
    store._engine.plan(Fault(call="apply", at=1, moment=moment))
    with pytest.raises(StateStoreError):
        store.commit({})
    store._engine.plan(None)


def _fail_and_take_back(store: Any) -> None:
    _fail(store, Moment.BEFORE)
    store.rollback()


def _roll_back(store: Any) -> None:
    _put(store, 700, b"new")
    store.rollback()


def _replay(store: Any) -> None:
    store.replay(Changes(list(KEYS), [b"new", None] * 15, [700] * 30))
    store.commit({})


CHANGES: dict[str, Callable[[Any], object]] = {
    "pending puts": lambda store: _put(store, 700, b"new"),
    "puts": lambda store: _put_and_commit(store, 700, b"new"),
    "puts of rows": _gathered,
    "few puts": lambda store: _put_and_commit(store, 700, b"new", 2),
    "one deletion": lambda store: _put_and_commit(store, 700, None, 1),
    "deletions": lambda store: _put_and_commit(store, 700, None),
    "deletions and puts": _delete_and_put,
    "late puts": lambda store: _put_and_commit(store, 650, b"new"),
    "puts that leap": lambda store: _put_and_commit(store, 1_300, b"new"),
    "puts that leap far": lambda store: _put_and_commit(store, 9_000, b"new"),
    "columns": lambda store: (store.put_many(KEYS, [b"x"] * 30, [700] * 30), store.commit({})),
    "a replay": _replay,
    "a rollback": _roll_back,
    "a commit that fails": lambda store: _fail(store, Moment.BEFORE),
    "a commit that comes about and fails": lambda store: _fail(store, Moment.AFTER),
    "a failure and a rollback": _fail_and_take_back,
    "an emptied store": lambda store: store.truncate(),
}


@contextmanager
def _store(cache_bytes: int, put: Callable[..., object] = _put_and_commit) -> Iterator[Any]:
    """Open a store with windows, which have been read since the first of them was put."""
    engine = FaultyEngine(KeptOpen(load_backend("memory").open("unused")))
    with open_on_engine(
        engine, WINDOW, durability=Durability.PROCESS_CRASH, read_cache_bytes=cache_bytes
    ) as store:
        for start_ms in (10, *STARTS):  # before the first one it is not known what was named
            store.fetch(b"nothing", start_ms)
            put(store, start_ms, b"%d" % start_ms)
        yield store


def _put_rows_and_commit(store: Any, start_ms: int, value: bytes | None) -> None:
    """Put windows that become rows before they are committed."""
    _put(store, start_ms, value)
    list(store.fetch_all(first_ms=start_ms))
    store.commit({})


WAYS = {"by start": _put_and_commit, "by key": _put_rows_and_commit}


RANGES = [(None, None), (640, 700), (650, 650), (645, 799), (0, 641), (701, None)]


def _found(store: Any) -> list[Any]:
    found: list[Any] = [store.fetch(key, start_ms) for start_ms in STARTS for key in KEYS]
    for start_ms in STARTS:
        found += store.fetch_many(KEYS, [start_ms] * len(KEYS))
    for bounds in RANGES:
        found += [list(store.fetch_range(key, *bounds)) for key in KEYS[:3]]
        found += [list(store.fetch_range(key, *bounds, reverse=True)) for key in KEYS[-1:]]
    return found


def _kept(store: Any) -> dict[str, int]:
    """Return how many rows are kept in which form."""
    forms = {"by start": store._by_committed_start, "by key": store._committed}
    return {
        form: sum(value is not NOT_KEPT for each in rows.values() for value in each.values())
        for form, rows in forms.items()
    }


@pytest.mark.spec("WIN-9", "WIN-24")
@pytest.mark.parametrize("way", WAYS)
def test_a_fetch_shows_every_change(way: str, subtests: pytest.Subtests) -> None:
    """After each change of a store a fetch gives what it gives without anything in memory."""
    for what, change in CHANGES.items():
        with subtests.test(what), _store(0, WAYS[way]) as twin, _store(1 << 20, WAYS[way]) as store:
            assert _found(store) == _found(twin)
            assert _kept(store)[way] == sum(_kept(store).values()) == len(KEYS) * len(STARTS)
            assert not sum(_kept(twin).values())
            for each in (store, twin):
                change(each)

            assert _found(store) == _found(twin)
            for each in (store, twin):
                _put_and_commit(each, 810, b"810", 1)
            assert _found(store) == _found(twin)


@pytest.mark.spec("MET-12")
def test_a_range_below_the_horizon_is_counted_where_rows_are_kept() -> None:
    """Such a range never comes to them: a mutant let it, and told nobody."""
    with _store(1 << 20) as store:
        horizon_ms = max(STARTS) - WINDOW.retention_ms
        counted = []
        for last_ms in (horizon_ms + 1, horizon_ms):
            assert list(store.fetch_range(KEYS[0], 0, last_ms)) == []
            counted.append(
                [m.value for m in store.metrics() if m.name == "reads-below-horizon-total"]
            )

        assert counted == [[0], [1]]


def _value_bytes(store: Any) -> int:
    bytes_of_values: int = store._spans._value_bytes + store._spans.starts.value_bytes
    return bytes_of_values


@pytest.mark.parametrize("way", WAYS)
def test_memory_for_rows_is_bounded(way: str, subtests: pytest.Subtests) -> None:
    """What does not fit is names, from the earliest windows on."""
    with _store(12_000, WAYS[way]) as store:
        with subtests.test("the newest are kept"):
            assert 0 < _value_bytes(store) <= 12_000
            assert 0 < _kept(store)[way] < len(KEYS) * len(STARTS)
            assert store.fetch_many(KEYS, [max(STARTS)] * 30) == [b"800"] * 30
        with subtests.test("what is put again and again counts once"):
            for _ in range(20):
                _put_and_commit(store, 800, b"again")

            assert 0 < _value_bytes(store) <= 12_000
            assert _kept(store)[way] >= len(KEYS)
        with subtests.test("the names are known"):
            before = len(list(store._engine.scan(HISTORY, b"\xff")))
            _put_and_commit(store, 650, b"named before")

            assert len(list(store._engine.scan(HISTORY, b"\xff"))) == before


@pytest.mark.spec("WIN-9")
def test_a_range_has_rows_of_which_only_the_names_are_kept() -> None:
    """Large values do not fit, and their names do.

    A mutant went on taking what is in memory for all there is, and gave what stands there for a
    value: `not kept`.
    """
    large = b"x" * 500
    with _store(0) as twin, _store(60_000) as store:
        for each in (store, twin):
            for start_ms in (810, 820, 830, 840):
                _put_and_commit(each, start_ms, large)

        assert store._spans.starts.kept_spans()
        assert any(NOT_KEPT in rows.values() for rows in store._by_committed_start.values())
        assert _found(store) == _found(twin)
        for key in KEYS:
            expected = list(twin.fetch_range(key, 810, 840))
            assert list(store.fetch_range(key, 810, 840)) == expected


def test_rows_by_key_are_kept_of_a_store_that_is_read(subtests: pytest.Subtests) -> None:
    """Rows that come in other ways than by start take no memory, but that of their names."""
    with _store(12_000, _put_rows_and_commit) as store:
        with subtests.test("of a store that is not read, names"):
            _put_rows_and_commit(store, 1_000, b"x")

            assert 100 not in store._committed
            assert store._spans._names[100]
        with subtests.test("names become rows"):
            store.fetch(KEYS[0], 1_000)
            _put_and_commit(store, 1_000, b"y", 25)
            rows = store._committed[100].values()

            assert sorted(rows) == sorted([NOT_KEPT] * 5 + [b"y"] * 25)
            assert store.fetch_many(KEYS, [1_000] * 30) == [b"y"] * 25 + [b"x"] * 5
            assert store.fetch(KEYS[29], 1_000) == b"x"
