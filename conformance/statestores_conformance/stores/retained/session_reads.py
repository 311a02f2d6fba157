"""Reads of a session store, by its owner and through facades, and what they see after expiry."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError, StoreClosedError
from statestores.spi import Isolation, ReadOnlySessionStore
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.retained_stores import SESSION_MS
from statestores_conformance.subjects.session_fixtures import (
    HIGHEST_MS,
    SESSIONS,
    Record,
    SessionStoreFixtures,
    Store,
)
from statestores_conformance.subjects.store_fixtures import StoreFixtures
from statestores_conformance.subjects.stores import RETENTION_MS, Stores

_MALFORMED_READS: dict[str, Callable[[Any], object]] = {
    "fetch without key": lambda store: store.fetch_session(None, 1, 2),
    "fetch without end": lambda store: store.fetch_session(b"k", 1, None),
    "fetch at a negative time": lambda store: store.fetch_session(b"k", -1, 2),
    "fetch of an inverted session": lambda store: store.fetch_session(b"k", 2, 1),
    "many with other ends": lambda store: store.fetch_many([b"k", b"l"], [1, 1], [2]),
    "many without a key": lambda store: store.fetch_many([b"k", None], [1, 1], [2, 2]),
    "many of an inverted session": lambda store: store.fetch_many([b"k"], [2], [1]),
    "find without key": lambda store: store.find_sessions(None),
    "find of a text key": lambda store: store.find_sessions("k"),
    "find from a negative time": lambda store: store.find_sessions(b"k", -1),
    "find from a negative time to another": lambda store: store.find_sessions(b"k", -1, 9),
    "find up to a negative time": lambda store: store.find_sessions(b"k", 0, -1),
    "find from a time beyond int64": lambda store: store.find_sessions(b"k", HIGHEST_MS + 1, 9),
    "find to a time beyond int64": lambda store: store.find_sessions(b"k", 0, HIGHEST_MS + 1),
    "find all from a float": lambda store: store.find_all_sessions(1.0),
    "find all of text keys": lambda store: store.find_all_sessions(first_key="a"),
    "by end, inverted": lambda store: store.find_sessions_by_end(2, 1),
    "by end, of text keys": lambda store: store.find_sessions_by_end(last_key="a"),
    "find, reverse or not": lambda store: store.find_sessions(b"k", reverse=0),
    "find all, reverse or not": lambda store: store.find_all_sessions(reverse=None),
    "by end, reverse or not": lambda store: store.find_sessions_by_end(reverse="yes"),
}
"""Reads of which one argument is wrong, by what is wrong."""

_ENDS = [100, 101, 102, 900]

_ISOLATIONS = [None, Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED]

_TIMES = (None, 0, 9, 10, 20, 21, 35, 60, 90, 91, HIGHEST_MS)

_IN_ORDER = sorted((key, end, start) for key, start, end in SESSIONS)


def _shape(sessions: Any) -> list[tuple[bytes, int, int]]:
    """Return key, end and start of each session."""
    return [(found.key, found.end_ms, found.start_ms) for found in sessions]


class SessionReadTests(SessionStoreFixtures):
    """Fetching and finding."""

    @pytest.mark.spec("SES-9", "SES-23", "ROF-2")
    def test_a_fetch_is_of_exactly_one_session(self, filled: Store) -> None:
        """Key, start and end all count, also of many at once."""
        assert filled.fetch_session(b"b", 5, 20) == b"5-20"
        assert filled.fetch_session(b"b", 10, 20) == b"10-20"
        assert [filled.fetch_session(b"b", 5, 21), filled.fetch_session(b"a", 5, 20)] == [None] * 2

        asked = [b"b", b"b", b"a", b"b"], [10, 5, 5, 10], [20, 21, 20, 20]
        assert filled.fetch_many(*asked) == [b"10-20", None, None, b"10-20"]
        assert filled.fetch_many([], [], []) == []
        assert filled.read_only(Isolation.READ_UNCOMMITTED).fetch_many(*asked)[0] == b"10-20"
        committed = filled.read_only()
        one_by_one = [committed.fetch_session(*each) for each in zip(*asked, strict=True)]
        assert committed.fetch_many(*asked) == one_by_one
        filled.commit({})
        assert committed.fetch_many(*asked) == filled.fetch_many(*asked)

    @pytest.mark.spec("SES-10", "SES-11", "SES-13")
    @for_each("reverse", [False, True])
    @for_each("earliest_end_ms", _TIMES)
    def test_sessions_are_found_by_end_and_start(
        self, filled: Store, earliest_end_ms: int | None, *, reverse: bool
    ) -> None:
        """Both bounds are inclusive; if the first is later, sessions containing both are found."""
        for latest_start_ms in _TIMES:
            expected = [
                (key, end, start)
                for key, end, start in _IN_ORDER
                if end >= (earliest_end_ms or 0)
                and (latest_start_ms is None or start <= latest_start_ms)
            ]
            bounds = earliest_end_ms, latest_start_ms
            found = _shape(filled.find_all_sessions(*bounds, reverse=reverse))
            of_b = _shape(filled.find_sessions(b"b", *bounds, reverse=reverse))
            again = _shape(filled.find_sessions(b"b", *bounds, reverse=not reverse))

            assert found == (expected[::-1] if reverse else expected)
            assert of_b == [session for session in found if session[0] == b"b"]
            assert again == of_b[::-1]

    @pytest.mark.spec("SES-12", "SES-13")
    @for_each("reverse", [False, True])
    def test_sessions_are_found_by_end(self, filled: Store, *, reverse: bool) -> None:
        """Within an inclusive range, in the order of all sessions."""
        for first_ms, last_ms in ((None, None), (10, 20), (20, 20), (21, 29), (30, None)):
            found = _shape(filled.find_sessions_by_end(first_ms, last_ms, reverse=reverse))
            expected = [
                session
                for session in _IN_ORDER
                if (first_ms or 0) <= session[1] <= (HIGHEST_MS if last_ms is None else last_ms)
            ]

            assert found == (expected[::-1] if reverse else expected)

    @pytest.mark.spec("SES-11", "SES-12")
    @for_each("reverse", [False, True])
    @for_each(
        "keys", [(None, None), (b"a", b"a"), (b"a\x00", b"b"), (b"aa", None), (None, b"a\x00")]
    )
    def test_key_ranges_are_inclusive(
        self, filled: Store, keys: tuple[bytes | None, bytes | None], *, reverse: bool
    ) -> None:
        """Each end may be open, with either way of finding."""
        expected = [
            session
            for session in _IN_ORDER
            if (keys[0] or b"") <= session[0] <= (b"\xff" if keys[1] is None else keys[1])
        ]
        if reverse:
            expected.reverse()

        assert _shape(filled.find_all_sessions(None, None, *keys, reverse=reverse)) == expected
        assert _shape(filled.find_sessions_by_end(None, None, *keys, reverse=reverse)) == expected

    @pytest.mark.spec("SES-11", "SES-12")
    @for_each("reverse", [False, True])
    def test_keys_and_times_bound_each_session(self, filled: Store, *, reverse: bool) -> None:
        """Times also bound the keys in between, not only those at the ends of the key range."""
        bounds: list[tuple[int | None, int | None]] = [(15, None), (20, 5), (None, 5), (21, 30)]
        key_ranges = [(b"a", b"b"), (b"a", None), (None, b"b"), (None, None)]
        for (one_ms, other_ms), (first, last) in product(bounds, key_ranges):
            low, high = one_ms or 0, HIGHEST_MS if other_ms is None else other_ms
            within = [
                session
                for session in (_IN_ORDER[::-1] if reverse else _IN_ORDER)
                if (first or b"") <= session[0] <= (last or b"\xff")
            ]
            found = filled.find_all_sessions(one_ms, other_ms, first, last, reverse=reverse)

            assert _shape(found) == [
                session for session in within if session[1] >= low and session[2] <= high
            ]
            if low <= high:
                found = filled.find_sessions_by_end(one_ms, other_ms, first, last, reverse=reverse)
                assert _shape(found) == [session for session in within if low <= session[1] <= high]

    @pytest.mark.spec("SES-13")
    @for_each("reverse", [False, True])
    def test_a_session_comes_where_it_ends(self, filled: Store, *, reverse: bool) -> None:
        """One that contains others begins before them but comes after them, in every read."""
        for start_ms, end_ms in ((0, 100), (50, 60), (50, 80), (70, 80)):
            filled.put(b"long", start_ms, end_ms, b"v")
        expected = [(b"long", 60, 50), (b"long", 80, 50), (b"long", 80, 70), (b"long", 100, 0)]
        if reverse:
            expected.reverse()
        bounds = None, None, b"long", b"long"

        assert _shape(filled.find_sessions(b"long", reverse=reverse)) == expected
        assert _shape(filled.find_all_sessions(*bounds, reverse=reverse)) == expected
        assert _shape(filled.find_sessions_by_end(*bounds, reverse=reverse)) == expected

    @pytest.mark.spec("SES-21")
    def test_an_inverted_key_range_is_empty(self, filled: Store) -> None:
        """And not an error."""
        assert list(filled.find_all_sessions(first_key=b"b", last_key=b"a")) == []
        assert list(filled.find_sessions_by_end(first_key=b"b", last_key=b"a")) == []

    @pytest.mark.spec("SES-15", "COM-19")
    @for_each("read", _MALFORMED_READS.values())
    @for_each("isolation", _ISOLATIONS)
    def test_malformed_reads_are_refused(
        self, filled: Store, read: Callable[[Any], object], isolation: Isolation | None
    ) -> None:
        """At the call, and not at the first step; also of a key whose sessions were just found."""
        reader = filled if isolation is None else filled.read_only(isolation)
        for _ in range(2):
            with pytest.raises((InvalidTypeError, InvalidArgumentError)):
                read(reader)
            assert list(reader.find_sessions(b"k")) == []

    @pytest.mark.spec("SES-14", "ROF-4")
    def test_iterators_are_frozen_at_the_call(self, filled: Store) -> None:
        """No put, removal, commit or leap of stream time shows in one, whoever reads."""
        filled.commit({})
        expected, held = [], []
        for reader in (filled, *(filled.read_only(isolation) for isolation in Isolation)):
            expected.append(list(reader.find_all_sessions()))
            of_all, by_end = reader.find_all_sessions(), reader.find_sessions_by_end()
            held.append((next(of_all), of_all, by_end, reader.find_sessions(b"b")))
        filled.put(b"b", 5, 20, b"new")
        filled.remove(b"a", 0, 10)
        filled.put(b"z", 0, 50_000, b"v")
        filled.commit({})
        filled.put(b"c", 0, 50_000, b"v")
        filled.commit({})

        for sessions, (begun, of_all, by_end, of_b) in zip(expected, held, strict=True):
            assert [begun, *of_all] == list(by_end) == sessions
            assert list(of_b) == [found for found in sessions if found.key == b"b"]

    @pytest.mark.spec("SES-22", "ROF-3")
    def test_iterators_of_a_closed_store_raise(self, filled: Store) -> None:
        """At their next step, whoever reads."""
        filled.commit({})
        held = []
        for reader in (filled, *(filled.read_only(isolation) for isolation in Isolation)):
            begun = reader.find_sessions(b"b", reverse=True)
            next(begun)
            held += [reader.find_all_sessions(), begun]
        filled.close()
        for iterator in held:
            with pytest.raises(StoreClosedError):
                next(iterator)

    @pytest.mark.spec("SES-16")
    def test_pending_sessions_are_merged(self, store: Store) -> None:
        """Puts over, between and around committed sessions, and removals, in both directions."""
        for end_ms in (10, 20, 30, 40):
            store.put(b"k", 5, end_ms, b"old")
        store.commit({})
        for value, end_ms in ((b"new", 20), (None, 30), (b"new", 5), (b"new", 35), (b"new", 50)):
            store.put(b"k", 5, end_ms, value)
        expected = [(5, b"new"), (10, b"old"), (20, b"new"), (35, b"new"), (40, b"old")]
        expected.append((50, b"new"))
        for reader in (store, store.read_only("read_uncommitted")):
            forward = [(found.end_ms, found.value) for found in reader.find_sessions(b"k")]
            back = [(found.end_ms, found.value) for found in reader.find_all_sessions(reverse=True)]
            fetched = [reader.fetch_session(b"k", 5, end_ms) for end_ms in (20, 30, 40)]

            assert forward == expected
            assert back == expected[::-1]
            assert fetched == [b"new", None, b"old"]


class SessionExpiryTests(SessionStoreFixtures):
    """What stream time has passed by the retention is gone from every read."""

    @staticmethod
    def _seen(reader: ReadOnlySessionStore[bytes, bytes]) -> list[list[int]]:
        many = reader.fetch_many([b"k"] * len(_ENDS), [0] * len(_ENDS), _ENDS)
        return [
            [found.end_ms for found in reader.find_sessions(b"k")],
            [found.end_ms for found in reader.find_sessions(b"k", 0, 99, reverse=True)][::-1],
            [found.end_ms for found in reader.find_all_sessions() if found.key == b"k"],
            [found.end_ms for found in reader.find_sessions_by_end(0, 950)],
            [end_ms for end_ms in _ENDS if reader.fetch_session(b"k", 0, end_ms)],
            [end_ms for end_ms, value in zip(_ENDS, many, strict=True) if value is not None],
            # Once more: whoever keeps what was found answers from there.
            [found.end_ms for found in reader.find_sessions(b"k")],
        ]

    @pytest.mark.spec("SES-8")
    @pytest.mark.parametrize("isolation", _ISOLATIONS)
    def test_a_session_goes_at_its_retention_to_the_millisecond(
        self,
        store: Store,
        commit_between: Callable[[Store], None],
        isolation: Isolation | None,
    ) -> None:
        """An end at the horizon is gone, the next is there, whether committed or pending."""
        for end_ms in _ENDS:
            store.put(b"k", 0, end_ms, b"v")
            commit_between(store)
        reader = store if isolation is None else store.read_only(isolation)
        store.put(b"x", 0, 100 + RETENTION_MS, b"v")
        if isolation is Isolation.READ_COMMITTED:
            store.commit({})
        first = self._seen(reader)
        store.put(b"x", 0, 101 + RETENTION_MS, b"v")
        if isolation is Isolation.READ_COMMITTED:
            store.commit({})

        assert first == [[101, 102, 900]] * 7
        assert self._seen(reader) == [[102, 900]] * 7

    @pytest.mark.spec("SES-8", "ROF-9")
    def test_a_committed_facade_expires_by_committed_stream_time(self, store: Store) -> None:
        """Pending writes that move it may be rolled back, and must hide nothing until then."""
        store.put(b"k", 0, 100, b"v")
        store.commit({})
        facade = store.read_only()
        store.put(b"x", 0, 10_000, b"v")
        times = [facade.stream_time_ms, store.read_only("read_uncommitted").stream_time_ms]
        seen = list(facade.find_all_sessions())
        store.commit({})

        assert times == [100, 10_000]
        assert seen == [Record(b"k", 0, 100, b"v")]
        assert [found.key for found in facade.find_all_sessions()] == [b"x"]

    @pytest.mark.spec("SES-8", "COM-20")
    def test_an_expired_session_is_not_in_the_committed_content(self, store: Store) -> None:
        """Whether its space is already free or not: snapshots hold what can be read."""
        store.put(b"k", 0, 100, b"v")
        store.commit({})
        store.put(b"x", 0, 10_000, b"v")
        store.commit({})

        assert [key for changes in store.committed_changes() for key in changes.keys] == [b"x"]


class SessionReopeningTests(StoreFixtures):
    """What a session store remembers."""

    @pytest.mark.spec("SES-17")
    def test_stream_time_and_sessions_survive(self, persistent_stores: Stores) -> None:
        """Kafka forgets stream time: expired sessions then reappear, and late ones are accepted."""
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
        assert before[b"stream time"] == 5_000 + SESSION_MS
