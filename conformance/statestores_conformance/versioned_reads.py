"""Reading a versioned store: as of a time, through time, and across keys."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError, StoreClosedError
from statestores.spi import Changes, Isolation
from statestores_conformance.replay import load_all
from statestores_conformance.stores import RETENTION_MS, VersionedStores
from statestores_conformance.versioned_writes import (
    HIGHEST_MS,
    Record,
    Store,
    VersionedStoreFixtures,
)

_TEN, _TWENTY, _FORTY = Record(b"10", 10, 20), Record(b"20", 20, 30), Record(b"40", 40, None)


class VersionedPointReadTests(VersionedStoreFixtures):
    """Get, now and as of a time. The store `history` has versions from 10, 20 and 40, and a gap."""

    @pytest.mark.spec("VRS-8")
    def test_get_gives_the_latest(self, history: Store) -> None:
        """Without a time, the version that has no end."""
        assert history.get(b"k") == _FORTY
        assert history.get(b"x") is None

    @pytest.mark.spec("VRS-9", "VRS-22")
    @pytest.mark.parametrize(
        ("as_of_ms", "expected"),
        [
            (0, None),
            (9, None),
            (10, _TEN),
            (19, _TEN),
            (20, _TWENTY),
            (29, _TWENTY),
            (30, None),
            (39, None),
            (40, _FORTY),
        ],
    )
    def test_as_of_is_inclusive(
        self, history: Store, as_of_ms: int, expected: Record | None
    ) -> None:
        """At its start a version is valid, at its end it is not; a deletion gives nothing."""
        assert history.get(b"k", as_of_ms) == expected

    @pytest.mark.spec("VRS-21")
    @pytest.mark.parametrize("as_of_ms", [41, 10**15, HIGHEST_MS])
    def test_a_time_above_stream_time_gives_the_latest(self, history: Store, as_of_ms: int) -> None:
        """As of a future that has not come, the present holds."""
        assert history.get(b"k", as_of_ms) == _FORTY

    @pytest.mark.spec("VRS-30")
    def test_the_latest_never_expires(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """However far stream time moves on, it is what the key is, also far below the horizon."""
        store.put(b"k", b"v", 10)
        commit_between(store)
        for far in (10_000, 10**9, 10**15):
            store.put(b"x", b"v", far)
            commit_between(store)

            assert store.get(b"k") == store.get(b"k", 10) == Record(b"v", 10, None)
            assert list(store.history(b"k")) == [Record(b"v", 10, None)]
            assert dict(store.scan_as_of(10))[b"k"] == Record(b"v", 10, None)

    @pytest.mark.spec("VRS-9", "VRS-11")
    def test_the_horizon_itself_is_readable(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """As of the horizon history is there; one millisecond below, only the latest counts."""
        store.put(b"k", b"old", 0)
        store.put(b"k", b"new", 1_000)
        commit_between(store)
        store.put(b"x", b"v", 999 + RETENTION_MS)
        commit_between(store)
        at_horizon = store.get(b"k", 999)
        below = [store.get(b"k", 998), store.get(b"x", 998)]
        store.put(b"x", b"v", 1_000 + RETENTION_MS)
        commit_between(store)

        assert at_horizon == Record(b"old", 0, 1_000)
        assert below == [None, None]
        assert store.get(b"k", 999) is None
        assert store.get(b"k", 1_000) == Record(b"new", 1_000, None)

    @pytest.mark.spec("VRS-9")
    def test_below_the_horizon_a_deleted_latest_gives_nothing(self, store: Store) -> None:
        """The latest is considered and is a deletion: there is nothing to return."""
        store.put(b"k", b"v", 10)
        store.put(b"k", None, 20)
        store.put(b"x", b"v", 10_000)

        assert [store.get(b"k", time) for time in (15, 20, 25)] == [None] * 3

    @pytest.mark.spec("VRS-23")
    def test_get_many_at_one_time(self, history: Store) -> None:
        """In the order of the keys, repeats repeated, now or as of one time for all."""
        history.put(b"j", b"v", 15)

        assert history.get_many([b"k", b"x", b"j", b"k"]) == [
            _FORTY,
            None,
            Record(b"v", 15, None),
            _FORTY,
        ]
        assert history.get_many([b"j", b"k"], 12) == [None, _TEN]
        assert history.get_many([]) == []

    @pytest.mark.spec("VRS-23")
    def test_get_many_at_a_time_for_each(self, history: Store) -> None:
        """Each key at its own time, in any order of times."""
        assert history.get_many([b"k"] * 4, [40, 35, 20, 10]) == [_FORTY, None, _TWENTY, _TEN]

    @pytest.mark.spec("VRS-23", "VRS-16")
    @pytest.mark.parametrize("times", [[1], [1, 2, 3], []], ids=repr)
    def test_get_many_refuses_other_numbers_of_times(
        self, history: Store, times: list[int]
    ) -> None:
        """As many times as keys, or one for all."""
        with pytest.raises(InvalidArgumentError):
            history.get_many([b"k", b"k"], times)


class VersionedHistoryTests(VersionedStoreFixtures):
    """History: the versions of one key through time."""

    @pytest.mark.spec("VRS-10")
    @pytest.mark.parametrize(
        ("first_ms", "last_ms", "expected"),
        [
            (None, None, [_TEN, _TWENTY, _FORTY]),
            (0, HIGHEST_MS, [_TEN, _TWENTY, _FORTY]),
            (10, 20, [_TEN, _TWENTY]),
            (19, 19, [_TEN]),
            (20, 20, [_TWENTY]),
            (15, 39, [_TEN, _TWENTY]),
            (29, 40, [_TWENTY, _FORTY]),
            (30, 39, []),
            (0, 9, []),
            (0, 10, [_TEN]),
            (25, None, [_TWENTY, _FORTY]),
            (None, 19, [_TEN]),
            (50, None, [_FORTY]),
            (50, 60, [_FORTY]),
        ],
    )
    def test_history_gives_what_was_valid_in_a_range(
        self, history: Store, first_ms: int | None, last_ms: int | None, expected: list[Record]
    ) -> None:
        """Inclusive at both ends; what began before and was still valid is in it."""
        assert list(history.history(b"k", first_ms, last_ms)) == expected
        assert list(history.history(b"k", first_ms, last_ms, reverse=True)) == expected[::-1]

    @pytest.mark.spec("VRS-10")
    def test_an_unknown_key_has_no_history(self, history: Store) -> None:
        """Nor have the neighbours of a known one."""
        for key in (b"x", b"", b"k\x00", b"kk", b"j"):
            assert list(history.history(key)) == []

    @pytest.mark.spec("VRS-11")
    def test_history_follows_the_horizon_exactly(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """What ended at or before it is gone, what ended after it is not, at every step."""
        for timestamp_ms in range(0, 100, 10):
            store.put(b"k", b"%d" % timestamp_ms, timestamp_ms)
            commit_between(store)
        for horizon in range(0, 120, 5):
            store.put(b"x", b"v", RETENTION_MS + horizon)
            commit_between(store)
            ends = [*range(10, 100, 10), HIGHEST_MS]

            assert [record.valid_from_ms for record in store.history(b"k")] == [
                start for start, end in zip(range(0, 100, 10), ends, strict=True) if end > horizon
            ]

    @pytest.mark.spec("VRS-11")
    def test_history_entirely_below_the_horizon_is_the_latest_only(self, store: Store) -> None:
        """A range that ends below the horizon finds the latest version, if it began by then."""
        store.put_many([b"k", b"k", b"j"], [b"1", b"2", b"1"], [10, 20, 10])
        store.put(b"x", b"v", 10_000)

        assert list(store.history(b"k", 0, 15)) == []
        assert list(store.history(b"k", 0, 25)) == [Record(b"2", 20, None)]
        assert list(store.history(b"j", 0, 15)) == [Record(b"1", 10, None)]

    @pytest.mark.spec("VRS-17", "VRS-10")
    def test_history_merges_pending_and_committed(self, store: Store) -> None:
        """Pending versions split, replace and end committed ones, before any commit."""
        store.put_many([b"k"] * 3, [b"10", b"30", b"50"], [10, 30, 50])
        store.commit({})
        store.put_many([b"k"] * 4, [b"20", b"new", None, b"60"], [20, 30, 40, 60])
        pending = list(store.history(b"k"))
        reverse = list(store.history(b"k", reverse=True))
        as_of = [store.get(b"k", time) for time in (19, 20, 35, 40, 55, 60)]
        store.commit({})

        assert pending == [
            Record(b"10", 10, 20),
            Record(b"20", 20, 30),
            Record(b"new", 30, 40),
            Record(b"50", 50, 60),
            Record(b"60", 60, None),
        ]
        assert reverse == pending[::-1]
        assert as_of == [*pending[:3], None, *pending[3:]]
        assert list(store.history(b"k")) == pending

    @pytest.mark.spec("VRS-17")
    def test_the_horizon_follows_pending_writes(self, store: Store) -> None:
        """The owner's reads use the stream time that its own pending writes have moved."""
        store.put_many([b"k", b"k"], [b"1", b"2"], [10, 20])
        store.commit({})
        store.put(b"x", b"v", 10_000)
        pending = (store.get(b"k", 15), list(store.history(b"k")), store.stream_time_ms)
        store.rollback()

        assert pending == (None, [Record(b"2", 20, None)], 10_000)
        assert store.get(b"k", 15) == Record(b"1", 10, 20)

    @pytest.mark.spec("VRS-16")
    def test_an_inverted_time_range_is_refused(self, history: Store) -> None:
        """Times are computed by the caller: the mistake is told."""
        with pytest.raises(InvalidArgumentError):
            history.history(b"k", 20, 19)

    @pytest.mark.spec("VRS-16", "COM-19")
    @pytest.mark.parametrize("time", [-1, HIGHEST_MS + 1, 1.0, "1", True, b"1"], ids=repr)
    def test_a_malformed_time_is_refused_by_every_read(self, history: Store, time: Any) -> None:
        """Negative, beyond int64 or of another type, wherever a time is taken."""
        error = InvalidArgumentError if type(time) is int else InvalidTypeError
        reads: list[Callable[[], object]] = [
            lambda: history.get(b"k", time),
            lambda: history.get_many([b"k"], time),
            lambda: history.get_many([b"k", b"k"], [1, time]),
            lambda: history.history(b"k", time),
            lambda: history.history(b"k", None, time),
            lambda: history.scan_as_of(time),
            lambda: history.delete(b"k", time),
        ]
        for read in reads:
            with pytest.raises((error, InvalidTypeError) if type(time) is bytes else error):
                read()

        assert list(history.history(b"k")) == [_TEN, _TWENTY, _FORTY]

    @pytest.mark.spec("COM-19")
    @pytest.mark.parametrize("key", [None, "k", 1, bytearray(b"k")], ids=repr)
    def test_a_malformed_key_is_refused_by_every_read(self, history: Store, key: Any) -> None:
        """``None`` is a key nowhere; where it opens a range, it is a bound and not a key."""
        reads: list[Callable[[], object]] = [
            lambda: history.get(key),
            lambda: history.get(key, 10),
            lambda: history.get_many([b"k", key]),
            lambda: history.history(key),
        ]
        if key is not None:
            reads += [
                lambda: history.scan_as_of(10, key),
                lambda: history.scan_as_of(10, None, key),
            ]
        for read in reads:
            with pytest.raises(InvalidTypeError):
                read()


class VersionedScanTests(VersionedStoreFixtures):
    """Scans across keys, as of a time."""

    @pytest.fixture(params=["pending", "committed", "mixed"])
    def keys(self, store: Store, request: pytest.FixtureRequest) -> Store:
        """Give a store with the keys a to e: b is deleted, c is younger, d has an older version."""
        store.put_many([b"a", b"b", b"c", b"d"], [b"1"] * 4, [10, 10, 30, 10])
        if request.param == "mixed":
            store.commit({})
        store.put_many([b"b", b"d", b"e"], [None, b"2", b"1"], [20, 40, 5])
        if request.param == "committed":
            store.commit({})
        return store

    @pytest.mark.spec("VRS-12")
    @pytest.mark.parametrize(
        ("as_of_ms", "expected"),
        [
            (None, b"acde"),
            (4, b""),
            (5, b"e"),
            (10, b"abde"),
            (20, b"ade"),
            (30, b"acde"),
            (HIGHEST_MS, b"acde"),
        ],
    )
    def test_a_scan_has_what_get_has(
        self, keys: Store, as_of_ms: int | None, expected: bytes
    ) -> None:
        """Exactly the keys that have a value then, each with that version, in both directions."""
        pairs = [(bytes([key]), keys.get(bytes([key]), as_of_ms)) for key in expected]

        assert list(keys.scan_as_of(as_of_ms)) == pairs
        assert list(keys.scan_as_of(as_of_ms, reverse=True)) == pairs[::-1]
        assert None not in dict(pairs).values()

    @pytest.mark.spec("VRS-12")
    @pytest.mark.parametrize(
        ("first", "last", "expected"),
        [
            (b"a", b"d", b"acd"),
            (b"b", None, b"cde"),
            (None, b"c", b"ac"),
            (b"a\x00", b"c\xff", b"c"),
            (b"c", b"c", b"c"),
            (b"f", None, b""),
        ],
    )
    def test_a_key_range_is_inclusive(
        self, keys: Store, first: bytes | None, last: bytes | None, expected: bytes
    ) -> None:
        """``None`` opens a side; in reverse, *first* is still the lower bound."""
        forward = [key for key, _ in keys.scan_as_of(None, first, last)]
        backward = [key for key, _ in keys.scan_as_of(None, first, last, reverse=True)]

        assert forward == [bytes([key]) for key in expected]
        assert backward == forward[::-1]

    @pytest.mark.spec("VRS-24")
    def test_an_inverted_key_range_is_empty(self, keys: Store) -> None:
        """It is not an error, in either direction."""
        assert list(keys.scan_as_of(None, b"d", b"a")) == []
        assert list(keys.scan_as_of(10, b"d", b"a", reverse=True)) == []

    @pytest.mark.spec("VRS-12", "VRS-9")
    def test_a_scan_below_the_horizon_has_latest_versions_only(self, keys: Store) -> None:
        """As `get` does: of each key the latest, if it had begun by then."""
        keys.put(b"x", b"v", 10_000)

        assert [key for key, _ in keys.scan_as_of(10)] == [b"a", b"e"]
        assert [key for key, _ in keys.scan_as_of(40)] == [b"a", b"c", b"d", b"e"]


class VersionedIteratorTests(VersionedStoreFixtures):
    """What iterators freeze."""

    @staticmethod
    def _iterators(store: Store) -> list[Iterator[Any]]:
        return [
            store.history(b"k"),
            store.history(b"k", reverse=True),
            store.history(b"k", 15, 35),
            store.scan_as_of(),
            store.scan_as_of(15, reverse=True),
        ]

    @pytest.mark.spec("VRS-25")
    def test_an_iterator_is_frozen_at_the_call(self, history: Store) -> None:
        """Puts, deletions and commits before its first step do not show."""
        expected = [list(iterator) for iterator in self._iterators(history)]
        held = self._iterators(history)
        history.put_many([b"k", b"k", b"k", b"a"], [b"new", None, b"new", b"new"], [10, 15, 50, 1])
        seen = [list(iterator) for iterator in held]
        history.rollback()
        history.put_many([b"k"] * 4, [b"10", b"20", None, b"40"], [10, 20, 30, 40])
        held = self._iterators(history)
        history.put_many([b"k", b"a"], [b"new", b"new"], [50, 1])
        history.commit({})
        seen += [list(iterator) for iterator in held]

        assert seen == expected * 2

    @pytest.mark.spec("VRS-25")
    def test_the_horizon_of_an_iterator_is_frozen(self, history: Store) -> None:
        """Stream time that moves on takes nothing away from an iterator under way."""
        expected = [list(iterator) for iterator in self._iterators(history)]
        held = self._iterators(history)
        history.put(b"x", b"v", 10**6)
        history.commit({})

        assert [list(iterator) for iterator in held] == expected

    @pytest.mark.spec("VRS-25")
    def test_an_iterator_is_frozen_over_a_rollback(self, history: Store) -> None:
        """What was pending at the call is still given after it was rolled back."""
        history.put(b"k", b"50", 50)
        expected = [list(iterator) for iterator in self._iterators(history)]
        held = self._iterators(history)
        history.rollback()

        assert [list(iterator) for iterator in held] == expected

    @pytest.mark.spec("VRS-26")
    def test_an_iterator_over_a_closed_store_raises(self, history: Store) -> None:
        """Whether it was begun or not, and also at its end."""
        begun, unstarted, ended = (
            history.history(b"k"),
            history.scan_as_of(),
            history.history(b"k"),
        )
        next(begun)
        for _ in range(3):
            next(ended)
        history.close()
        for iterator in (begun, unstarted, ended):
            with pytest.raises(StoreClosedError):
                next(iterator)


class VersionedReopeningTests(VersionedStoreFixtures):
    """What a versioned store still knows after it was closed."""

    @pytest.mark.spec("VRS-13")
    def test_history_survives_reopening(self, versioned_stores: VersionedStores) -> None:
        """All versions and deletions are there, for reads and for out-of-order puts alike."""
        with versioned_stores.open().store as store:
            if not store.persistent:
                pytest.skip("promise not made: persistent")
            store.put_many([b"k"] * 4, [b"10", b"20", None, b"40"], [10, 20, 30, 40])
            store.commit({})
        reopened = versioned_stores.open().store

        assert list(reopened.history(b"k")) == [_TEN, _TWENTY, _FORTY]
        assert reopened.put(b"k", b"15", 15).valid_to_ms == 20
        assert reopened.put(b"k", b"25", 25).valid_to_ms == 30
        assert reopened.get(b"k", 29) == Record(b"25", 25, 30)

    @pytest.mark.spec("VRS-13", "VRS-2")
    def test_stream_time_survives_reopening(self, versioned_stores: VersionedStores) -> None:
        """What was late before is late after: the horizon does not start again."""
        with versioned_stores.open().store as store:
            if not store.persistent:
                pytest.skip("promise not made: persistent")
            store.put_many([b"k", b"k", b"x"], [b"1", b"2", b"v"], [10, 20, 10_000])
            store.delete(b"x", 10_001)
            store.commit({})
        reopened = versioned_stores.open().store

        assert reopened.stream_time_ms == 10_001
        assert not reopened.put(b"k", b"late", 10_000 - RETENTION_MS).accepted
        assert reopened.put(b"k", b"3", 10_001 - RETENTION_MS).accepted
        assert reopened.get(b"k", 15) is None


class VersionedReplayTests(VersionedStoreFixtures):
    """What is particular to replaying and loading versions."""

    @pytest.mark.spec("COM-41")
    def test_pending_changes_are_in_time_order(self, store: Store) -> None:
        """Whatever the order in which they were put: so none is late when it is replayed."""
        for timestamp_ms in (500, 100, 900, 300, 700):
            store.put(b"%d" % (timestamp_ms % 4), b"v", timestamp_ms)
        changes = store.pending_changes()

        assert list(changes.times_ms or ()) == [100, 300, 500, 700, 900]

    @pytest.mark.spec("COM-40")
    def test_a_late_change_is_not_taken(self, store: Store) -> None:
        """A replayed change is judged as a put is; one at the horizon is taken."""
        store.put(b"x", b"v", 5_000)
        store.commit({})
        horizon = 5_000 - RETENTION_MS
        store.replay(Changes([b"k", b"j"], [b"late", b"v"], [horizon - 1, horizon]))

        assert store.get(b"k") is None
        assert store.get(b"j") == Record(b"v", horizon, None)

    @pytest.mark.spec("COM-40", "COM-29")
    def test_a_change_is_judged_by_the_changes_before_it(self, store: Store) -> None:
        """Kafka judges a batch by its last record (VER-25): a deletion in it could be lost."""
        store.replay(Changes([b"k", b"k", b"x"], [None, b"v", b"w"], [1_015, 1_010, 9_000]))
        store.commit({})

        assert store.get(b"k") is None

    @pytest.mark.spec("COM-20")
    def test_nothing_is_late_in_a_load(self, versioned_stores: VersionedStores) -> None:
        """Versions far below the horizon are loaded, whatever the stream time of the content."""
        original = versioned_stores.open("original").store
        original.put_many([b"z", b"k", b"k"], [b"latest", b"1", b"2"], [10, 20, 9_500])
        original.put(b"a", b"v", 10_000)
        original.commit({})
        copy = versioned_stores.open("copy").store
        load_all(original, copy)

        assert copy.get(b"z") == Record(b"latest", 10, None)
        assert copy.get(b"k", 9_000) == original.get(b"k", 9_000) == Record(b"1", 20, 9_500)
        assert copy.stream_time_ms == 10_000

    @pytest.mark.spec("COM-20", "VRS-3")
    def test_stream_time_is_loaded_with_the_content(
        self, versioned_stores: VersionedStores
    ) -> None:
        """Also when the deletion that moved it is long forgotten."""
        original = versioned_stores.open("original").store
        original.put(b"k", b"v", 10)
        original.put(b"x", None, 10_000)
        original.commit({})
        copy = versioned_stores.open("copy").store
        load_all(original, copy)

        assert copy.stream_time_ms == 10_000
        assert not copy.put(b"k", b"late", 20).accepted

    @pytest.mark.spec("COM-38")
    def test_the_committed_content_is_in_key_and_time_order(self, store: Store) -> None:
        """So that a snapshot can be searched, and a chunk never splits what belongs together."""
        for timestamp_ms in (500, 100, 300):
            store.put_many([b"b", b"a", b"a\x00"], [b"v"] * 3, [timestamp_ms] * 3)
        store.commit({})
        rows = [
            row
            for changes in store.committed_changes()
            for row in zip(changes.keys, changes.times_ms or (), strict=True)
        ]

        assert rows == sorted(rows)
        assert len(rows) == 9


class VersionedFacadeTests(VersionedStoreFixtures):
    """Every read of a facade."""

    @pytest.mark.spec("ROF-2", "ROF-8", "ROF-9")
    def test_every_read_of_a_facade_follows_its_isolation(self, store: Store) -> None:
        """Points, histories, scans and stream time agree on what is seen, horizon included."""
        store.put_many([b"k", b"k", b"j"], [b"1", b"2", b"1"], [10, 20, 10])
        store.commit({})
        store.put_many([b"k", b"x"], [b"3", b"v"], [30, 10_000])
        committed = store.read_only(Isolation.READ_COMMITTED)
        uncommitted = store.read_only(Isolation.READ_UNCOMMITTED)

        assert [committed.stream_time_ms, uncommitted.stream_time_ms] == [20, 10_000]
        assert committed.get(b"k") == Record(b"2", 20, None)
        assert uncommitted.get(b"k") == Record(b"3", 30, None)
        assert committed.get(b"k", 15) == Record(b"1", 10, 20)
        assert uncommitted.get(b"k", 15) is None
        assert committed.get_many([b"k", b"x", b"j"], [10, 10, 10]) == [
            Record(b"1", 10, 20),
            None,
            Record(b"1", 10, None),
        ]
        assert uncommitted.get_many([b"k", b"x"]) == [
            Record(b"3", 30, None),
            Record(b"v", 10_000, None),
        ]
        assert [record.valid_from_ms for record in committed.history(b"k")] == [10, 20]
        assert [record.valid_from_ms for record in uncommitted.history(b"k")] == [30]
        assert [key for key, _ in committed.scan_as_of()] == [b"j", b"k"]
        assert [key for key, _ in uncommitted.scan_as_of()] == [b"j", b"k", b"x"]
        assert next(iter(committed.history(b"k", reverse=True))).valid_to_ms is None

    @pytest.mark.spec("ROF-3", "COM-15")
    @pytest.mark.parametrize("isolation", Isolation, ids=lambda level: level.value)
    def test_a_facade_of_a_closed_store_refuses_every_method(
        self, history: Store, isolation: Isolation
    ) -> None:
        """Every kind of read raises, whatever was pending."""
        facade = history.read_only(isolation)
        history.close()
        for read in (
            lambda: facade.get(b"k"),
            lambda: facade.get(b"k", 15),
            lambda: facade.get_many([b"k"]),
            lambda: next(facade.history(b"k")),
            lambda: next(facade.scan_as_of()),
            lambda: facade.stream_time_ms,
        ):
            with pytest.raises(StoreClosedError):
                read()

    @pytest.mark.spec("VRS-16", "COM-19")
    @pytest.mark.parametrize("isolation", Isolation, ids=lambda level: level.value)
    def test_a_facade_judges_arguments_as_the_store_does(
        self, history: Store, isolation: Isolation
    ) -> None:
        """Malformed times and inverted time ranges are refused, inverted key ranges empty."""
        facade = history.read_only(isolation)
        for read in (
            lambda: facade.get(b"k", -1),
            lambda: facade.history(b"k", 2, 1),
            lambda: facade.scan_as_of(-1),
            lambda: facade.get_many([b"k"], [1, 2]),
        ):
            with pytest.raises(InvalidArgumentError):
                read()

        assert list(facade.scan_as_of(None, b"b", b"a")) == []
