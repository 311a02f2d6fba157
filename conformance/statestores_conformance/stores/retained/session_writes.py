"""Puts into a session store and removals from it, one by one and in bulk."""

from collections.abc import Callable
from typing import Any

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.spi import Changes, Session
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.adversarial_keys import SHORT_KEYS
from statestores_conformance.subjects.retained_stores import SessionStores
from statestores_conformance.subjects.session_fixtures import (
    HIGHEST_MS,
    MALFORMED_PUTS,
    Record,
    SessionStoreFixtures,
    Store,
)
from statestores_conformance.subjects.store_fixtures import StoreFixtures
from statestores_conformance.subjects.stores import RETENTION_MS, Stores


class SessionPutTests(SessionStoreFixtures):
    """Putting and removing one session."""

    @pytest.mark.spec("SES-2")
    def test_a_put_sets_the_value_of_one_session(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """Start and end both tell sessions of a key apart; a second put replaces the value."""
        for start_ms, end_ms, value in ((5, 20, b"1"), (5, 10, b"2"), (10, 20, b"3"), (5, 20, b"")):
            assert store.put(b"k", start_ms, end_ms, value)
            commit_between(store)

        assert list(store.find_sessions(b"k")) == [
            Record(b"k", 5, 10, b"2"),
            Record(b"k", 5, 20, b""),
            Record(b"k", 10, 20, b"3"),
        ]

    @pytest.mark.spec("SES-5")
    def test_a_removal_is_of_exactly_one_session(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """Removing what is not there is not an error, and putting ``None`` does the same."""
        for end_ms in (10, 20, 30):
            store.put(b"k", 5, end_ms, b"v")
        commit_between(store)
        accepted = [
            store.remove(b"k", 5, 10),
            store.remove(b"k", 6, 20),
            store.remove(b"j", 5, 20),
            store.put(b"k", 5, 30, None),
        ]
        commit_between(store)

        assert accepted == [True] * 4
        assert [(found.start_ms, found.end_ms) for found in store.find_all_sessions()] == [(5, 20)]

    @pytest.mark.spec("COM-16")
    def test_uncommitted_bytes_are_those_of_keys_values_and_times(self, store: Store) -> None:
        """The lengths put and 16 for each session, overwritten and removed ones included."""
        store.put(b"abc", 10, 20, b"defg")
        store.put(b"abc", 10, 20, b"h")
        store.remove(b"abc", 10, 20)
        store.put(b"abc", 10, 20, None)
        store.put_many([b"12", b"3"], [30, 30], [40, 40], [b"4567", b""])

        assert store.uncommitted_bytes == 7 + 4 + 3 + 3 + 7 + 6 * 16

    @pytest.mark.spec("COM-16")
    def test_uncommitted_bytes_are_those_of_what_is_accepted(self, store: Store) -> None:
        """Of many that are put at once, too: those that have expired are not written."""
        store.put(b"k", 0, 5_000, b"v")
        store.commit({})
        store.put_many([b"ab", b"late"], [0, 0], [5_001, 1], [b"cde", b"fghi"])

        assert store.uncommitted_bytes == 2 + 3 + 16

    @pytest.mark.spec("SES-7")
    def test_nothing_is_merged(self, store: Store) -> None:
        """Sessions of a key that overlap, touch or contain each other stay as they are."""
        sessions = [(0, 10), (5, 15), (10, 20), (0, 30)]
        for start_ms, end_ms in sessions:
            store.put(b"k", start_ms, end_ms, b"v")
        store.commit({})

        assert [(found.start_ms, found.end_ms) for found in store.find_sessions(b"k")] == sessions

    @pytest.mark.spec("SES-3", "SES-8")
    def test_a_session_that_has_expired_is_not_accepted(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """Its end decides: at the horizon it is too late, a millisecond above it is not."""
        store.put(b"k", 0, 5_000, b"v")
        commit_between(store)
        horizon = 5_000 - RETENTION_MS
        before = store.uncommitted_bytes
        refused = [store.put(b"late", 0, horizon, b"v"), store.remove(b"late", 0, horizon)]

        assert refused == [False, False]
        assert store.uncommitted_bytes == before
        assert [store.fetch_session(b"late", 0, horizon), store.stream_time_ms] == [None, 5_000]
        assert store.put(b"late", 0, horizon + 1, b"v")
        assert store.fetch_session(b"late", 0, horizon + 1) == b"v"

    @pytest.mark.spec("SES-3", "COM-35")
    def test_a_refused_put_is_not_in_the_changes(self, store: Store) -> None:
        """A changelog holds what the store holds."""
        store.put(b"k", 0, 5_000, b"v")
        store.put(b"late", 0, 1, b"v")

        assert list(store.pending_changes().keys) == [b"k"]

    @pytest.mark.spec("SES-4")
    def test_stream_time_is_the_highest_accepted_end(self, store: Store) -> None:
        """Of a put or a removal of any key; a rollback takes it back."""
        seen = [store.stream_time_ms]
        for value, end_ms in ((b"v", 10), (b"v", 5), (None, 20), (b"v", 15)):
            store.put(b"k", 0, end_ms, value)
            seen.append(store.stream_time_ms)
        store.remove(b"j", 0, 25)
        seen.append(store.stream_time_ms)
        store.commit({})
        store.put(b"k", 0, 10_000, b"v")
        store.rollback()

        assert seen == [None, 10, 10, 20, 20, 25]
        assert [store.stream_time_ms, store.fetch_session(b"k", 0, 10)] == [25, b"v"]

    @pytest.mark.spec("SES-15", "COM-19")
    @for_each("put", MALFORMED_PUTS.values())
    def test_a_malformed_put_changes_nothing(
        self, store: Store, put: tuple[bytes, int, int, bytes]
    ) -> None:
        """Not even half of it."""
        with pytest.raises((InvalidTypeError, InvalidArgumentError)):
            store.put(*put)

        assert [list(store.find_all_sessions()), store.stream_time_ms] == [[], None]

    @pytest.mark.spec("SES-13", "SES-9")
    def test_keys_of_any_bytes_are_apart(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """Keys that begin with another, or with zeros, neither collide nor misorder."""
        for number, key in enumerate(SHORT_KEYS):
            for end_ms in (0, 256, 1):
                store.put(key, 0, end_ms, b"%d-%d" % (number, end_ms))
            commit_between(store)
        found = [(session.key, session.end_ms) for session in store.find_all_sessions()]

        assert found == [(key, end) for key in sorted(SHORT_KEYS) for end in (0, 1, 256)]
        for number, key in enumerate(SHORT_KEYS):
            assert store.fetch_session(key, 0, 1) == b"%d-1" % number
            assert [session.end_ms for session in store.find_sessions(key, 1)] == [1, 256]

    @pytest.mark.spec("COM-34")
    def test_changes_of_another_form_are_refused(self, store: Store) -> None:
        """Without ends, with sequences, or with an end before the start."""
        for changes in (
            Changes([b"k"], [b"1"], [1]),
            Changes([b"k"], [b"1"], None, end_times_ms=[1]),
            Changes([b"k"], [b"1"], [1], end_times_ms=[1], sequences=[0]),
            Changes([b"k"], [b"1"], [2], end_times_ms=[1]),
        ):
            with pytest.raises(InvalidArgumentError):
                store.replay(changes)

            assert list(store.find_all_sessions()) == []


class SessionBulkTests(SessionStoreFixtures):
    """Putting columns."""

    @pytest.mark.spec("SES-6", "SES-10", "SES-16", "SES-23", "COM-24")
    def test_what_was_searched_before_a_bulk_put_is_searched_anew(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """Whoever merges in columns searches before each, and finds what the last one left.

        Columns are the caller's again, and many sessions are fetched as each of them is.
        """
        keys = [b"%03d" % number for number in range(150)]
        for step in range(1, 4):
            before = step * 10 - 10
            ends = [step * 10] * 150
            for key in keys[:20]:
                found = [(each.start_ms, each.end_ms) for each in store.find_sessions(key, 0, 100)]
                assert found == ([(0, before)] if before else [])
                assert store.fetch_session(key, 0, before or 1) == (
                    b"%d" % before if before else None
                )
            columns: Any = [[*keys, *keys], [0] * 300, [*[before] * 150, *ends]]
            columns += [[*[None] * 150, *[b"%d" % (step * 10)] * 150]]
            store.put_many(*(column[150 * (step == 1) :] for column in columns))
            commit_between(store)

            assert store.fetch_many(keys, [0] * 150, ends) == [b"%d" % (step * 10)] * 150
        columns = [[b"k"], [1], [2], [b"v"]]
        store.put_many(*columns)
        for column in columns:
            column.clear()
        store.commit({})

        assert store.fetch_session(b"k", 1, 2) == b"v"

    @pytest.mark.spec("SES-2", "SES-5", "SES-9", "SES-10")
    def test_a_session_may_be_of_any_length(self, session_stores: SessionStores) -> None:
        """A start is kept whole, however far it lies before the end."""
        lengths = [step + (1 << bits) for bits in (15, 16, 31, 32, 53, 62) for step in (-1, 0, 1)]
        store = session_stores.open(retention_ms=HIGHEST_MS).store
        for length in lengths:
            store.put(b"k", 7, 7 + length, b"%d" % length)
            store.put(b"l", HIGHEST_MS - length, HIGHEST_MS, b"%d" % length)
        for committed in (False, True):
            if committed:
                store.commit({})
            of_k = [(each.start_ms, each.end_ms, each.value) for each in store.find_sessions(b"k")]
            of_l = [(each.start_ms, each.value) for each in store.find_sessions(b"l")]

            assert of_k == [(7, 7 + length, b"%d" % length) for length in sorted(lengths)]
            starts = sorted(lengths, reverse=True)
            assert of_l == [(HIGHEST_MS - length, b"%d" % length) for length in starts]
            for length in lengths:
                assert store.fetch_session(b"k", 7, 7 + length) == b"%d" % length
        assert store.remove(b"k", 7, 7 + (1 << 32))
        assert store.fetch_session(b"k", 7, 7 + (1 << 32)) is None
        assert len(list(store.find_sessions(b"k"))) == len(lengths) - 1

    @pytest.mark.spec("SES-6")
    def test_a_bulk_put_is_the_puts_in_order(self, session_stores: SessionStores) -> None:
        """It also counts what was accepted."""
        columns = [b"a", b"b", b"a", b"a"], [1, 2, 3, 4], [10, 5_000, 4_500, 20], [b"1"] * 4
        one, many = session_stores.open("one").store, session_stores.open("many").store
        accepted = [one.put(*row) for row in zip(*columns, strict=True)]

        assert many.put_many(*columns) == sum(accepted) == 3
        assert list(many.find_all_sessions()) == list(one.find_all_sessions())

    @pytest.mark.spec("SES-6", "SES-15")
    @for_each("put", MALFORMED_PUTS.values())
    def test_a_malformed_row_changes_nothing(
        self, store: Store, put: tuple[bytes, int, int, bytes]
    ) -> None:
        """Everything is checked before the first put."""
        columns: Any = [[good, bad] for good, bad in zip((b"a", 1, 2, b"v"), put, strict=True)]
        with pytest.raises((InvalidTypeError, InvalidArgumentError)):
            store.put_many(*columns)

        assert list(store.find_all_sessions()) == []

    @pytest.mark.spec("SES-6")
    def test_columns_of_other_lengths_are_refused(self, store: Store) -> None:
        """None of them is put."""
        with pytest.raises(InvalidArgumentError):
            store.put_many([b"a", b"b"], [1, 1], [2], [b"1", b"2"])

        assert list(store.find_all_sessions()) == []


class SessionSpecificationTests(StoreFixtures):
    """What a session store can be."""

    @pytest.mark.spec("SES-1")
    @for_each("retention_ms", [0, -1, 2**63])
    def test_a_retention_that_makes_no_sense_is_refused(self, retention_ms: int) -> None:
        """Sessions would be gone immediately, or never."""
        with pytest.raises(InvalidArgumentError):
            Session("store", retention_ms=retention_ms)

    @pytest.mark.spec("SES-1", "COM-13")
    def test_the_specification_survives(self, persistent_stores: Stores) -> None:
        """A store that was closed opens again as what it was."""
        persistent_stores.open().store.close()
        store = persistent_stores.open().store

        assert store.specification == persistent_stores.specification()
