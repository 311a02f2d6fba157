"""Few rows of one call go the way of single calls: nobody can tell, at any number of them.

A `put_many` or `get_many` of one row took two to seven times as long as the call for one row, which
it made columns of. Both ways remain, so each is held against single calls here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, product
from random import Random
from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidTypeError, StoreClosedError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.engine_store import FEW_ROWS
from statestores_conformance.many_cases import for_each

KINDS: dict[str, Any] = {
    "key-value": ss.KeyValue("rows"),
    "timestamped": ss.TimestampedKeyValue("rows"),
    "expiring": ss.TimestampedKeyValue("rows", ttl_ms=50),
    "versioned": ss.Versioned("rows", history_retention_ms=50),
    "window": ss.Window("rows", window_size_ms=5, retention_ms=50),
    "duplicates": ss.Window("rows", window_size_ms=5, retention_ms=50, retain_duplicates=True),
    "session": ss.Session("rows", retention_ms=50),
}
SIZES = (0, 1, 2, FEW_ROWS, FEW_ROWS + 1, 9)
LIVES = 12
STEPS = 25
KEYS = [b"\x00a", b"b\x00", b"c", b"", b"dd"]

Row = tuple[bytes, bytes | None, int]
"""A key, a value and a time; the others follow from it."""


@contextmanager
def opened(kind: str) -> Iterator[Any]:
    """Give a store in memory."""
    with open_on_engine(load_backend("memory").open("unused"), KINDS[kind]) as store:
        yield store


def arguments(kind: str, rows: list[Row]) -> list[tuple[Any, ...]]:
    """Return what a put of each row takes."""
    if kind == "key-value":
        return [(key, value) for key, value, _ in rows]
    if kind == "session":
        return [(key, time_ms // 2, time_ms, value) for key, value, time_ms in rows]
    return list(rows)


def columns(rows: list[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Return the *width* columns of *rows*."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


def drawn(dice: Random, now: int) -> list[Row]:
    """Return rows, some of them late or too late, some of one key, some deletions."""
    return [
        (
            dice.choice(KEYS),
            None if dice.random() < 0.2 else b"%d" % dice.randrange(100),
            max(0, now - dice.choice((0, 0, 0, 3, 49, 50, 51, 52))),
        )
        for _ in range(dice.choice(SIZES))
    ]


def put_many(kind: str, store: Any, rows: list[Row]) -> object:
    """Put *rows* in one call; return how many were accepted, if the kind says so."""
    width = {"key-value": 2, "session": 4}.get(kind, 3)
    return store.put_many(*columns(arguments(kind, rows), width))


def put_each(kind: str, store: Any, rows: list[Row]) -> object:
    """Put them one by one; return the same."""
    results = [store.put(*row) for row in arguments(kind, rows)]
    if kind == "versioned":
        return sum(result.accepted for result in results)
    return None if kind in ("key-value", "timestamped", "expiring") else sum(results)


def reads(kind: str, store: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the read of one row, and that of many."""
    if kind in ("window", "duplicates"):
        return store.fetch, store.fetch_many
    if kind == "session":
        return store.fetch_session, store.fetch_many
    return store.get, store.get_many


def asked(kind: str, rows: list[Row]) -> list[tuple[Any, ...]]:
    """Return what a read of each row takes."""
    if kind in ("window", "duplicates", "versioned"):
        return [(key, time_ms) for key, _, time_ms in rows]
    if kind == "session":
        return [(key, time_ms // 2, time_ms) for key, _, time_ms in rows]
    return [(key,) for key, _, _ in rows]


def waiting(store: Any) -> list[tuple[Any, ...]]:
    """Return the pending rows; in which order those of one time come is up to the store."""
    changes = store.pending_changes()
    numbers = [changes.times_ms, changes.end_times_ms, changes.timestamps_ms, changes.sequences]
    return sorted(zip(changes.keys, map(repr, changes.values), *filter(None, numbers), strict=True))


def counts(store: Any) -> dict[str, float]:
    """Return what is counted of puts and of reads that were too early or too late."""
    return {
        metric.name: metric.value
        for metric in store.metrics()
        if metric.name in COUNTED and isinstance(metric.value, int | float)
    }


COUNTED = ("put-total", "dropped-records-total", "reads-below-horizon-total")


@for_each("kind", KINDS)
@pytest.mark.spec("KVS-6", "KVS-15", "VRS-18", "VRS-23", "WIN-7", "WIN-24", "SES-6", "SES-23")
def test_many_are_what_single_ones_are(kind: str) -> None:
    """The same rows wait and are stored, are found, are counted and refused."""
    found = 0
    for life in range(LIVES):
        dice = Random(life)
        now = 100
        with opened(kind) as single, opened(kind) as many:
            for _ in range(STEPS):
                now += dice.randrange(12)
                rows = drawn(dice, now)
                assert put_many(kind, many, rows) == put_each(kind, single, rows)
                assert many.uncommitted_bytes == single.uncommitted_bytes
                if dice.random() < 0.4:
                    assert waiting(many) == waiting(single)
                if dice.random() < 0.4:
                    single.commit({})
                    many.commit({})
                wanted = asked(kind, drawn(dice, now))
                one, several = reads(kind, single)[0], reads(kind, many)[1]
                expected = [one(*each) for each in wanted]
                width = {"window": 2, "duplicates": 2, "versioned": 2, "session": 3}.get(kind, 1)
                assert several(*columns(wanted, width)) == expected
                found += len(wanted) - expected.count(None)
                assert counts(many) == counts(single)
            single.commit({})
            many.commit({})
            assert list(many.committed_changes()) == list(single.committed_changes())

    assert found > LIVES


@for_each(("kind", "size"), product(KINDS, SIZES[1:]))
@pytest.mark.spec("KVS-3", "VRS-19")
def test_a_malformed_row_leaves_nothing(kind: str, size: int) -> None:
    """Whichever it is, the last one too, and whatever is wrong with it."""
    bad: Any
    for bad in ((None, b"v", 100), (b"k", "v", 100), (b"k", b"v", "100")):
        rows = [*[(b"k", b"v", 100)] * (size - 1), bad]
        with opened(kind) as store:
            taken = arguments(kind if kind != "session" else "all", rows)
            given = columns(taken, 3)
            if kind == "session":
                given = [given[0], given[2], given[2], given[1]]
            if kind == "key-value" and bad[0] is not None and bad[1] == b"v":
                continue
            with pytest.raises(InvalidTypeError):
                store.put_many(*given)

            assert not store.has_pending_writes
            assert sum(counts(store).values()) == 0


@for_each(("kind", "size"), product(KINDS, [0, 1, FEW_ROWS + 1]))
@pytest.mark.spec("COM-15")
def test_a_closed_store_refuses_any_number(kind: str, size: int) -> None:
    """None at all as well."""
    with opened(kind) as store:
        one, several = reads(kind, store)
        assert one is not several
        rows: list[Row] = [(b"k", b"v", 100)] * size
    width = {"window": 2, "duplicates": 2, "versioned": 2, "session": 3}.get(kind, 1)
    with pytest.raises(StoreClosedError):
        several(*columns(asked(kind, rows), width))
    with pytest.raises(StoreClosedError):
        put_many(kind, store, rows)


@for_each("replayed", SIZES)
@pytest.mark.spec("MET-6")
def test_what_is_replayed_counts_as_no_put(replayed: int) -> None:
    """A changelog of few versions is put as columns are, though it is short."""
    with opened("versioned") as store:
        rows = [(b"%d" % number, b"v", number) for number in range(replayed)]
        store.replay(ss.Changes(*columns(rows, 3)))

        assert counts(store)["put-total"] == 0
        assert len(store.pending_changes().keys) == replayed


@pytest.mark.spec("KVS-6")
def test_few_values_that_expire_are_of_one_time() -> None:
    """A clock that goes on between two of them does not let one expire before the other."""
    times = count(100)
    wall = ss.TimestampedKeyValue("rows", ttl_ms=5, ttl_clock="wall")
    engine = load_backend("memory").open("unused")
    with open_on_engine(engine, wall, clock=lambda: next(times)) as store:
        store.put(b"k", b"v", 100)
        found = [store.get_many([b"k"] * FEW_ROWS) for _ in range(FEW_ROWS + 2)]

    assert found[0] == [(b"v", 100)] * FEW_ROWS
    assert found[-1] == [None] * FEW_ROWS
    assert [each for each in found if len(set(each)) > 1] == []
