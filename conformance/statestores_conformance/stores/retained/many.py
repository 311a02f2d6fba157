"""Many windows or sessions: long columns, long ranges, and few writes after many.

What is near the beginning of a range is read ahead, and columns of one time have another way: both
are right for the few rows that most tests write.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from statestores.spi import Isolation, ReadOnlySessionStore, ReadOnlyWindowStore
from statestores_conformance.subjects.session_fixtures import SessionStoreFixtures
from statestores_conformance.subjects.session_fixtures import Store as SessionStore
from statestores_conformance.subjects.stores import RETENTION_MS
from statestores_conformance.subjects.window_fixtures import Store as WindowStore
from statestores_conformance.subjects.window_fixtures import WindowStoreFixtures

_ROWS = 300
_STEP_MS = 3
_SIZES = (2, 9, 120, 1_100)

assert _ROWS * _STEP_MS < RETENTION_MS

_TIMES = [_STEP_MS * number for number in range(_ROWS)]
_CHANGED = {_TIMES[place]: value for place, value in ((1, b"new"), (45, None), (-2, b"new"))}
"""What is put after the others: in all parts of a long range, two values and a deletion."""
_ADDED = {_TIMES[70] + 1: b"added", _TIMES[-1] + 1: b"added"}


def _expected(*changes: dict[int, bytes | None]) -> list[tuple[int, bytes]]:
    """Return times and values of k, in order."""
    rows: dict[int, bytes | None] = dict.fromkeys(_TIMES, b"old")
    for change in changes:
        rows.update(change)
    return [(time_ms, value) for time_ms, value in sorted(rows.items()) if value is not None]


class WindowManyTests(WindowStoreFixtures):
    """What holds of many windows."""

    @pytest.mark.spec("WIN-7", "WIN-9", "WIN-24")
    def test_of_equal_windows_in_a_column_the_last_counts(self, store: WindowStore) -> None:
        """However long the column, at one start or at several."""
        for size in _SIZES:
            for starts in ([size] * size, [size + number % 2 for number in range(size)]):
                keys = [b"%d" % (number % (size // 2 + 1)) for number in range(size)]
                values = [b"%d-%d" % (size, number) for number in range(size)]
                expected = dict(zip(zip(keys, starts, strict=True), values, strict=True))
                store.put_many(keys, values, starts)
                asked = ([key for key, _ in expected], [start for _, start in expected])

                assert store.fetch_many(*asked) == list(expected.values())
                store.commit({})
                assert store.fetch_many(*asked) == list(expected.values())

    @pytest.mark.spec("WIN-10", "WIN-11", "WIN-12", "COM-24", "ROF-8")
    def test_a_long_range_has_what_was_put_since(self, store: WindowStore) -> None:
        """At its far end as at the near one, forwards and backwards, of one key and of all."""
        store.put_many([b"k"] * _ROWS, [b"old"] * _ROWS, _TIMES)
        store.put_many([b"j", b"l"], [b"beside"] * 2, [_TIMES[-1]] * 2)
        store.commit({})
        committed = store.read_only()
        for time_ms, value in (_CHANGED | _ADDED).items():
            store.put(b"k", value, time_ms)
        pending = _expected(_CHANGED, dict(_ADDED))
        for reader in (store, store.read_only(Isolation.READ_UNCOMMITTED)):
            _check_windows(reader, pending)
        _check_windows(committed, _expected())
        store.commit({})
        for reader in (store, committed):
            _check_windows(reader, pending)

    @pytest.mark.spec("WIN-9", "WIN-24", "COM-24")
    def test_what_few_writes_change_of_many_is_read(self, store: WindowStore) -> None:
        """A commit of few rows, after one of many, each of which was read."""
        keys = [b"%03d" % number for number in range(_ROWS)]
        for number in range(3):  # so that what is read often is kept, if anything is
            store.put_many(keys, [b"%d" % number] * _ROWS, [10] * _ROWS)
            store.commit({})

            assert store.fetch_many(keys, 10) == [b"%d" % number] * _ROWS
        expected: list[bytes | None] = [b"2"] * _ROWS
        for place, value in ((7, b"new"), (40, None), (7, b"newer"), (40, b"again"), (41, None)):
            expected[place] = value
            store.put(keys[place], value, 10)
            store.commit({})

            assert store.fetch_many(keys, 10) == expected
            assert [store.fetch(key, 10) for key in keys] == expected


class SessionManyTests(SessionStoreFixtures):
    """What holds of many sessions."""

    @pytest.mark.spec("SES-10", "SES-11", "COM-24", "ROF-8")
    def test_a_long_range_has_what_was_put_since(self, store: SessionStore) -> None:
        """At its far end as at the near one, forwards and backwards, of one key and of all."""
        store.put_many([b"k"] * _ROWS, _TIMES, _TIMES, [b"old"] * _ROWS)
        store.put_many([b"j", b"l"], [0, 0], [_TIMES[-1]] * 2, [b"beside"] * 2)
        store.commit({})
        committed = store.read_only()
        for time_ms, value in (_CHANGED | _ADDED).items():
            store.put(b"k", time_ms, time_ms, value)
        pending = _expected(_CHANGED, dict(_ADDED))
        for reader in (store, store.read_only(Isolation.READ_UNCOMMITTED)):
            _check_sessions(reader, pending)
        _check_sessions(committed, _expected())
        store.commit({})
        for reader in (store, committed):
            _check_sessions(reader, pending)


def _check_windows(
    reader: ReadOnlyWindowStore[bytes, bytes], expected: list[tuple[int, bytes]]
) -> None:
    for reverse in (False, True):
        there = expected[::-1] if reverse else expected
        of_key = list(reader.fetch_range(b"k", reverse=reverse))
        of_all = list(reader.fetch_all(reverse=reverse))

        assert [(each.start_ms, each.value) for each in of_key] == there
        _check_beside(of_all, of_key)


def _check_sessions(
    reader: ReadOnlySessionStore[bytes, bytes], expected: list[tuple[int, bytes]]
) -> None:
    for reverse in (False, True):
        there = expected[::-1] if reverse else expected
        of_key = list(reader.find_sessions(b"k", reverse=reverse))
        of_all = list(reader.find_all_sessions(reverse=reverse))

        assert [(each.end_ms, each.value) for each in of_key] == there
        _check_beside(of_all, of_key)


def _check_beside(of_all: Iterable[Any], of_key: list[Any]) -> None:
    """Compare what was read of all keys with what was read of k, between two others."""
    first, *between, last = of_all

    assert between == of_key
    assert {first.key, last.key} == {b"j", b"l"}
