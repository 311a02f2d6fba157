"""Reads between writes: what was remembered for a read is forgotten when the content changes.

A store sorts its pending writes, or keeps rows that were read, so that the next read is cheap. Both
are right until something is written, truncated or rolled back after the read. The twin of a store
never reads in between, and commits each write, so it has nothing to remember.
"""

import random
from itertools import product
from typing import Any

import pytest

from statestores.spi import Isolation
from statestores_conformance.intensity import seed
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.store_fixtures import StoreFixtures
from statestores_conformance.subjects.stores import (
    CHANGELOG,
    KEYS,
    RETENTION_MS,
    Stores,
    StoreUnderTest,
)

_PENDING = 200
_ROUNDS = 6
_READS = 20
_STEPS = 300
_LEFT_MS = 9
"""Times of writes: what was written so many steps ago that the retention is over but for a
millisecond is one of them."""

assert (RETENTION_MS - 1) % _LEFT_MS == 0

_NUMBERS = (3, 17, 40)
"""What the tests of remembered rows write: small, so that nothing expires."""


def _everything(opened: StoreUnderTest) -> list[Any]:
    """Return what single reads, requests and scans give, to the owner and to others."""
    return [
        (
            [opened.read_one(key, number, isolation) for key in KEYS for number in _NUMBERS],
            opened.latest_of_keys(isolation),
            opened.latest(isolation),
            opened.content(isolation),
        )
        for isolation in (None, *Isolation)
    ]


def _read_often(opened: StoreUnderTest) -> list[Any]:
    """Do the same until what is remembered only when it is asked for often is remembered."""
    for _ in range(_READS - 1):
        _everything(opened)
    return _everything(opened)


def _write(opened: StoreUnderTest, numbers: tuple[int, ...] = _NUMBERS) -> None:
    for number in numbers:
        for key in KEYS[:3]:
            opened.write(key, number)


class InterleavingTests(StoreFixtures):
    """Reads, then a change, then the same reads."""

    @pytest.mark.spec("COM-24")
    def test_scans_and_writes_take_turns(self, stores: Stores) -> None:
        """Two hundred pending keys, a scan, a few more, a scan: each sees all of them, in order."""
        opened, twin = stores.open(), stores.open("twin")
        chance = random.Random(seed(200))  # noqa: S311  # reproducible, not secret
        keys = [b"%04d" % number for number in chance.sample(range(10_000), 2 * _PENDING)]
        for key in keys[:_PENDING]:
            opened.write(key, 1)
            twin.write(key, 1)
        for turn in range(_ROUNDS):
            twin.store.commit({})
            found, expected = opened.latest(), twin.latest(Isolation.READ_COMMITTED)

            assert found == expected
            assert list(found) == list(expected)
            some = keys[_PENDING + 3 * turn : _PENDING + 3 * turn + 3]
            for under_test in (opened, twin):
                for key in (*some, keys[turn], min(some) + b"\x00"):
                    under_test.write(key, 2 + turn)
                under_test.erase(keys[50 + turn], 2 + turn)
        opened.store.commit({})
        twin.store.commit({})

        assert opened.latest() == opened.latest(Isolation.READ_COMMITTED) == twin.latest()

    @pytest.mark.spec("COM-18", "COM-24", "ROF-8")
    @for_each("also", ["nothing", "pending"])
    def test_what_was_truncated_is_not_read_again(self, stores: Stores, also: str) -> None:
        """Every read that found something finds nothing: the owner's, and those of facades."""
        opened, empty = stores.open(also), stores.open(f"empty-{also}")
        _write(opened)
        opened.store.commit({CHANGELOG: 1})
        if also == "pending":
            opened.write(KEYS[3], 50)
        before = _read_often(opened)
        opened.store.truncate()

        assert before != _everything(empty)
        assert _everything(opened) == _everything(empty)
        opened.write(KEYS[0], _NUMBERS[0])
        empty.write(KEYS[0], _NUMBERS[0])
        assert _everything(opened) == _everything(empty)

    @pytest.mark.spec("COM-24", "VRS-11", "VRS-14", "WIN-8", "WIN-18", "SES-8", "SES-18")
    def test_what_commits_remove_had_expired(self, stores: Stores) -> None:
        """While stream time moves on, and commits remove what it has left behind, and no more.

        Something ends one millisecond above the horizon all the time. What a store keeps has no
        twin in memory: that one never commits, so it has nothing to remove.
        """
        opened, twin = stores.open(), stores.open("twin")
        for number in range(_LEFT_MS, _STEPS * _LEFT_MS, _LEFT_MS):
            key = KEYS[number // _LEFT_MS % 3]
            opened.write(key, number)
            twin.write(key, number)
            opened.store.commit({})
            if number % (4 * _LEFT_MS):
                continue

            assert opened.content() == twin.content()
        assert opened.content(Isolation.READ_COMMITTED) == twin.content()

    @pytest.mark.spec("COM-1", "COM-24")
    def test_what_was_deleted_and_put_again_is_there(self, stores: Stores) -> None:
        """With the value that it has had, before the deletion was committed or after it."""
        for numbers, also_committed in product((_NUMBERS, _NUMBERS[:1]), (False, True)):
            name = f"{len(numbers)}, {also_committed}"
            opened, twin = stores.open(name), stores.open(f"twin of {name}")
            for under_test in (opened, twin):
                _write(under_test, numbers)
                under_test.store.commit({})
            for key, number in product(KEYS[:3], numbers):
                opened.erase(key, number)
            if also_committed:
                opened.store.commit({})
            _write(opened, numbers)

            assert opened.content() == twin.content()
            opened.store.commit({})
            assert _everything(opened) == _everything(twin)

    @pytest.mark.spec("COM-7", "COM-24")
    def test_what_was_rolled_back_is_not_read_again(self, stores: Stores) -> None:
        """Nor what was deleted and is back: pending rows that were read are forgotten."""
        opened = stores.open()
        _write(opened, _NUMBERS[:1])
        opened.store.commit({})
        before = _read_often(opened)
        _write(opened, _NUMBERS[1:])
        opened.erase(KEYS[0], 60)
        opened.write(KEYS[3], 60)

        assert _read_often(opened) != before
        opened.store.rollback()
        assert _everything(opened) == before

    @pytest.mark.spec("COM-1", "COM-24", "COM-20")
    @for_each("change", ["replay", "load", "commit"])
    def test_what_was_missing_is_found_when_it_comes(self, stores: Stores, change: str) -> None:
        """Absence is not remembered either, whichever way a value comes into the store."""
        opened, twin = stores.open(change), stores.open(f"twin-{change}")
        numbers = list(_NUMBERS)
        columns = ([KEYS[0]] * len(numbers), [b"%d" % number for number in numbers], numbers)

        assert opened.latest_of_keys() == [None] * len(KEYS)
        assert _read_often(opened) == _everything(twin)
        if change == "commit":
            for number in numbers:
                opened.write(KEYS[0], number)
            _everything(opened)
        else:
            getattr(opened.store, change)(opened.changes(*columns))
        opened.store.commit({})
        twin.store.replay(twin.changes(*columns))
        twin.store.commit({})
        assert _everything(opened) == _everything(twin)
        assert opened.latest_of_keys()[0] == b"%d" % numbers[-1]
