"""Reads of a window store, by its owner and through facades, and what they see after expiry."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError, StoreClosedError
from statestores.spi import Isolation, ReadOnlyWindowStore
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.retained_stores import WindowStores
from statestores_conformance.subjects.store_fixtures import StoreFixtures
from statestores_conformance.subjects.stores import RETENTION_MS, Stores
from statestores_conformance.subjects.window_fixtures import (
    HIGHEST_MS,
    Store,
    WindowStoreFixtures,
    record,
)

_MALFORMED_READS: dict[str, Callable[[Any], object]] = {
    "fetch without key": lambda store: store.fetch(None, 1),
    "fetch without time": lambda store: store.fetch(b"k", None),
    "fetch at a negative time": lambda store: store.fetch(b"k", -1),
    "fetch at a time beyond int64": lambda store: store.fetch(b"k", HIGHEST_MS + 1),
    "many at other starts": lambda store: store.fetch_many([b"k", b"l"], [1]),
    "many without a key": lambda store: store.fetch_many([b"k", None], [1, 2]),
    "many at a negative time": lambda store: store.fetch_many([b"k", b"l"], [1, -1]),
    "many at a time beyond int64": lambda store: store.fetch_many([b"k"], HIGHEST_MS + 1),
    "none at a negative time": lambda store: store.fetch_many([], -1),
    "many at no time": lambda store: store.fetch_many([b"k"], None),
    "many at a bool": lambda store: store.fetch_many([b"k"], starts_ms=True),
    "range without key": lambda store: store.fetch_range(None),
    "range of a text key": lambda store: store.fetch_range("k"),
    "range from a negative time": lambda store: store.fetch_range(b"k", -1),
    "range to a time beyond int64": lambda store: store.fetch_range(b"k", 0, HIGHEST_MS + 1),
    "inverted range": lambda store: store.fetch_range(b"k", 2, 1),
    "all from a float": lambda store: store.fetch_all(1.0),
    "all inverted": lambda store: store.fetch_all(2, 1),
    "all of text keys": lambda store: store.fetch_all(None, None, "a"),
    "range, reverse or not": lambda store: store.fetch_range(b"k", reverse=None),
    "all, reverse or not": lambda store: store.fetch_all(reverse=1),
}
"""Reads of which one argument is wrong, by what is wrong."""

_TIME_RANGES = [(None, None), (10, 10), (11, 20), (20, None), (None, 9)]

_KEY_RANGES = [(None, None), (b"a", b"a"), (b"a\x00", b"b"), (b"aa", None), (None, b"a\x00")]

_STARTS = [100, 101, 102, 900]

_ISOLATIONS = [None, Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED]


class WindowReadTests(WindowStoreFixtures):
    """Point fetches and ranges."""

    @pytest.mark.spec("WIN-9", "WIN-24", "ROF-2")
    def test_a_fetch_is_of_exactly_one_window(self, filled: Store) -> None:
        """Neighbours, other keys and times within a window do not count, also of many at once."""
        assert filled.fetch(b"b", 20) == b"20"
        assert [filled.fetch(b"b", 21), filled.fetch(b"a", 20), filled.fetch(b"", 10)] == [None] * 3

        asked = [b"b", b"b", b"a", b"", b"b"], [20, 21, 20, 10, 20]
        assert filled.fetch_many(*asked) == [b"20", None, None, None, b"20"]
        assert filled.fetch_many((b"a", b"b"), 30) == [filled.fetch(b"a", 30), b"30"]
        assert filled.fetch_many([], []) == filled.fetch_many([], 7) == []
        assert filled.read_only(Isolation.READ_UNCOMMITTED).fetch_many(*asked)[-1] == b"20"
        committed = filled.read_only()
        one_by_one = [committed.fetch(*each) for each in zip(*asked, strict=True)]
        assert committed.fetch_many(*asked) == one_by_one
        filled.commit({})
        assert committed.fetch_many(*asked) == filled.fetch_many(*asked)

    @pytest.mark.spec("WIN-10", "WIN-12")
    def test_a_range_is_inclusive_and_in_order(self, filled: Store) -> None:
        """By the starts of the windows, from the first to the last, or backwards."""
        starts = [
            [window.start_ms for window in filled.fetch_range(b"b", *bounds, reverse=reverse)]
            for bounds in ((), (10, 20), (11, 19), (None, 20), (21, None), (30, 30))
            for reverse in (False, True)
        ]

        assert starts[::2] == [[10, 20, 30], [10, 20], [], [10, 20], [30], [30]]
        assert starts[1::2] == [windows[::-1] for windows in starts[::2]]
        assert next(filled.fetch_range(b"b")) == record(b"b", 10, b"10")

    @pytest.mark.spec("WIN-11", "WIN-12")
    def test_all_windows_are_by_key_and_then_by_start(self, filled: Store) -> None:
        """A key that begins with another comes after it, with all its windows."""
        everything = [(window.key, window.start_ms) for window in filled.fetch_all()]

        assert everything == [
            (b"a", 10),
            (b"a", 30),
            (b"a\x00", 10),
            (b"a\x00", 20),
            (b"b", 10),
            (b"b", 20),
            (b"b", 30),
        ]
        assert list(filled.fetch_all(reverse=True)) == list(filled.fetch_all())[::-1]

    @pytest.mark.spec("WIN-11")
    @for_each("reverse", [False, True])
    def test_both_ranges_are_inclusive(self, filled: Store, *, reverse: bool) -> None:
        """Of keys and of starts, each open or not: only what is within both is found."""
        for (first_ms, last_ms), (first, last) in itertools.product(_TIME_RANGES, _KEY_RANGES):
            expected = [
                window
                for window in filled.fetch_all(reverse=reverse)
                if (first_ms or 0)
                <= window.start_ms
                <= (HIGHEST_MS if last_ms is None else last_ms)
                and (first or b"") <= window.key <= (b"\xff" if last is None else last)
            ]
            found = list(filled.fetch_all(first_ms, last_ms, first, last, reverse=reverse))

            assert found == expected, (first_ms, last_ms, first, last)

    @pytest.mark.spec("WIN-23")
    def test_an_inverted_key_range_is_empty(self, filled: Store) -> None:
        """And not an error."""
        assert list(filled.fetch_all(first_key=b"b", last_key=b"a")) == []

    @pytest.mark.spec("WIN-14", "COM-19")
    @for_each("read", _MALFORMED_READS.values())
    @for_each("isolation", _ISOLATIONS)
    def test_malformed_reads_are_refused(
        self, filled: Store, read: Callable[[Any], object], isolation: Isolation | None
    ) -> None:
        """At the call, and not at the first step."""
        reader = filled if isolation is None else filled.read_only(isolation)
        with pytest.raises((InvalidTypeError, InvalidArgumentError)):
            read(reader)

    @pytest.mark.spec("WIN-13", "ROF-4")
    def test_iterators_are_frozen_at_the_call(self, filled: Store) -> None:
        """No put, commit or leap of stream time shows in one, begun or not, whoever reads."""
        filled.commit({})
        expected, held = [], []
        for reader in (filled, *(filled.read_only(isolation) for isolation in Isolation)):
            expected.append(list(reader.fetch_all()))
            of_all = reader.fetch_all()
            held.append((next(of_all), of_all, reader.fetch_all(), reader.fetch_range(b"b")))
        filled.put(b"b", b"new", 20)
        filled.put(b"a", None, 10)
        filled.put(b"z", b"v", 50_000)
        filled.commit({})
        filled.put(b"c", b"v", 50_000)
        filled.commit({})

        for windows, (begun, of_all, unstarted, of_b) in zip(expected, held, strict=True):
            assert [begun, *of_all] == list(unstarted) == windows
            assert list(of_b) == [window for window in windows if window.key == b"b"]

    @pytest.mark.spec("WIN-22", "ROF-3")
    def test_iterators_of_a_closed_store_raise(self, filled: Store) -> None:
        """At their next step, whoever reads."""
        filled.commit({})
        held = []
        for reader in (filled, *(filled.read_only(isolation) for isolation in Isolation)):
            begun = reader.fetch_range(b"b", reverse=True)
            next(begun)
            held += [reader.fetch_all(), begun]
        filled.close()
        for iterator in held:
            with pytest.raises(StoreClosedError):
                next(iterator)

    @pytest.mark.spec("COM-15", "ROF-3")
    def test_a_closed_store_refuses_what_needs_no_look(self, filled: Store) -> None:
        """Windows that have expired, a put of the window of the put before, and no keys at all."""
        filled.put(b"k", b"v", 50_000)
        readers = [filled, *(filled.read_only(isolation) for isolation in Isolation)]
        for _ in range(3):
            filled.put(b"k", b"v", 50_000)
        filled.close()
        calls: list[Callable[[], object]] = [
            lambda: filled.put(b"k", b"v", 50_000),
            lambda: filled.put(b"k", b"v", 1),
            lambda: filled.put_many([], [], []),
        ]
        for reader in readers:
            calls += [
                partial(reader.fetch, b"k", 1),
                partial(reader.fetch_many, [], []),
                partial(reader.fetch_range, b"k", 0, 1),
                partial(reader.fetch_all, 0, 1),
            ]
        for call in calls:
            with pytest.raises(StoreClosedError):
                call()

    @pytest.mark.spec("WIN-16")
    def test_pending_windows_are_merged(self, store: Store) -> None:
        """Puts over, between and around committed windows, and deletions, in both directions."""
        for start_ms in (10, 20, 30, 40):
            store.put(b"k", b"old", start_ms)
        store.commit({})
        for value, start_ms in ((b"new", 20), (None, 30), (b"new", 5), (b"new", 35), (b"new", 50)):
            store.put(b"k", value, start_ms)
        expected = [(5, b"new"), (10, b"old"), (20, b"new"), (35, b"new"), (40, b"old")]
        expected.append((50, b"new"))
        for reader in (store, store.read_only("read_uncommitted")):
            forward = [(window.start_ms, window.value) for window in reader.fetch_range(b"k")]
            back = [(window.start_ms, window.value) for window in reader.fetch_all(reverse=True)]

            assert forward == expected
            assert back == expected[::-1]
            assert [reader.fetch(b"k", start) for start in (20, 30, 40)] == [b"new", None, b"old"]

    @pytest.mark.spec("ROF-8", "WIN-9", "WIN-24")
    def test_a_facade_fetches_what_was_put_before_it_was_made(self, store: Store) -> None:
        """However the owner keeps several windows of one start that nobody has looked at yet."""
        for value in (b"1", b"2"):
            store.put_many([b"a", b"b", b"c"], [value] * 3, [10] * 3)
            for key in (b"a", b"b", b"d"):
                store.put(key, value, 10)
        store.put(b"b", None, 10)
        facade = store.read_only("read_uncommitted")
        keys = [b"a", b"b", b"c", b"d", b"e"]

        expected = [b"2", None, b"2", b"2", None]
        assert [facade.fetch(key, 10) for key in keys] == expected
        assert facade.fetch_many(keys, 10) == store.fetch_many(keys, 10) == expected
        assert facade.fetch(b"a", 11) is None
        store.put(b"a", b"3", 10)
        assert facade.fetch(b"a", 10) == b"3"


class WindowExpiryTests(WindowStoreFixtures):
    """What stream time has passed by the retention is gone from every read."""

    @staticmethod
    def _seen(reader: ReadOnlyWindowStore[bytes, bytes]) -> list[object]:
        many = reader.fetch_many([b"k"] * len(_STARTS), _STARTS)
        return [
            [window.start_ms for window in reader.fetch_range(b"k")],
            [window.start_ms for window in reader.fetch_range(b"k", 0, 5_000, reverse=True)][::-1],
            [window.start_ms for window in reader.fetch_all() if window.key == b"k"],
            [window.start_ms for window in reader.fetch_all(0, 5_000, b"k", b"k", reverse=True)][
                ::-1
            ],
            [start_ms for start_ms in _STARTS if reader.fetch(b"k", start_ms)],
            [start for start, value in zip(_STARTS, many, strict=True) if value is not None],
        ]

    @pytest.mark.spec("WIN-8")
    @pytest.mark.parametrize("isolation", _ISOLATIONS)
    def test_a_window_goes_at_its_retention_to_the_millisecond(
        self,
        store: Store,
        commit_between: Callable[[Store], None],
        isolation: Isolation | None,
    ) -> None:
        """A start at the horizon is gone, the next is there, whether committed or pending."""
        for start_ms in _STARTS:
            store.put(b"k", b"v", start_ms)
            commit_between(store)
        reader = store if isolation is None else store.read_only(isolation)
        store.put(b"x", b"v", 100 + RETENTION_MS)
        if isolation is Isolation.READ_COMMITTED:
            store.commit({})
        first = self._seen(reader)
        store.put(b"x", b"v", 101 + RETENTION_MS)
        if isolation is Isolation.READ_COMMITTED:
            store.commit({})

        assert first == [[101, 102, 900]] * 6
        assert self._seen(reader) == [[102, 900]] * 6

    @pytest.mark.spec("WIN-8", "ROF-9")
    def test_a_committed_facade_expires_by_committed_stream_time(self, store: Store) -> None:
        """Pending writes that move it may be rolled back, and must hide nothing until then."""
        store.put(b"k", b"v", 100)
        store.commit({})
        facade = store.read_only()
        store.put(b"x", b"v", 10_000)
        times = [facade.stream_time_ms, store.read_only("read_uncommitted").stream_time_ms]
        seen = facade.fetch(b"k", 100), len(list(facade.fetch_all()))
        store.commit({})

        assert times == [100, 10_000]
        assert seen == (b"v", 1)
        assert [facade.fetch(b"k", 100), len(list(facade.fetch_all()))] == [None, 1]

    @pytest.mark.spec("WIN-8", "COM-20")
    def test_an_expired_window_is_not_in_the_committed_content(self, store: Store) -> None:
        """Whether its space is already free or not: snapshots hold what can be read."""
        store.put(b"k", b"v", 100)
        store.commit({})
        store.put(b"x", b"v", 10_000)
        store.put(b"pending and expired", b"v", 9_001)
        store.put(b"x", b"v", 10_001)
        store.commit({})

        assert [key for changes in store.committed_changes() for key in changes.keys] == [b"x"] * 2

    @pytest.mark.spec("WIN-8")
    def test_the_longest_retention_keeps_everything(self, window_stores: WindowStores) -> None:
        """Nothing overflows."""
        store = window_stores.open(retention_ms=HIGHEST_MS, window_size_ms=HIGHEST_MS).store
        store.put(b"k", b"first", 1)
        store.put(b"k", b"last", HIGHEST_MS)
        store.commit({})

        assert [window.value for window in store.fetch_range(b"k")] == [b"first", b"last"]


class WindowReopeningTests(StoreFixtures):
    """What a window store remembers."""

    @pytest.mark.spec("WIN-17")
    def test_stream_time_and_windows_survive(self, persistent_stores: Stores) -> None:
        """Kafka forgets stream time: expired windows then reappear, and late ones are accepted."""
        opened = persistent_stores.open()
        opened.write(b"a", 10)
        opened.write(b"b", 5_000)
        opened.store.commit({})
        before = opened.content()
        opened.store.close()
        reopened = persistent_stores.open()
        reopened.write(b"c", 20)

        assert reopened.content() == before
        assert b"a" not in before
