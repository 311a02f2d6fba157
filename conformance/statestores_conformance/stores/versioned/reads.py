"""Reading a versioned store: as of a time, and through time."""

from collections.abc import Callable
from typing import Any

import pytest

from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
)
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.stores import RETENTION_MS
from statestores_conformance.subjects.versioned_fixtures import (
    FORTY,
    HIGHEST_MS,
    TEN,
    TWENTY,
    Record,
    Store,
    VersionedStoreFixtures,
)


class VersionedPointReadTests(VersionedStoreFixtures):
    """Get, now and as of a time. The store `history` has versions from 10, 20 and 40, and a gap."""

    @pytest.mark.spec("VRS-8")
    def test_get_gives_the_latest(self, history: Store) -> None:
        """Without a time, the version that has no end."""
        assert history.get(b"k") == FORTY
        assert history.get(b"x") is None

    @pytest.mark.spec("VRS-9", "VRS-22")
    @for_each(
        ("as_of_ms", "expected"),
        [
            (0, None),
            (9, None),
            (10, TEN),
            (19, TEN),
            (20, TWENTY),
            (29, TWENTY),
            (30, None),
            (39, None),
            (40, FORTY),
        ],
    )
    def test_as_of_is_inclusive(
        self, history: Store, as_of_ms: int, expected: Record | None
    ) -> None:
        """At its start a version is valid, at its end it is not; a deletion gives nothing."""
        assert history.get(b"k", as_of_ms) == expected

    @pytest.mark.spec("VRS-21")
    @for_each("as_of_ms", [41, 10**15, HIGHEST_MS])
    def test_a_time_above_stream_time_gives_the_latest(self, history: Store, as_of_ms: int) -> None:
        """As of a future that has not come, the present holds."""
        assert history.get(b"k", as_of_ms) == FORTY

    @pytest.mark.spec("VRS-30")
    def test_the_latest_never_expires(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """However far stream time moves on, it is the key's value, even far below the horizon."""
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
        """Only the latest is considered, and it is a deletion: there is nothing to return."""
        store.put(b"k", b"v", 10)
        store.put(b"k", None, 20)
        store.put(b"x", b"v", 10_000)

        assert [store.get(b"k", time) for time in (15, 20, 25)] == [None] * 3

    @pytest.mark.spec("VRS-23")
    def test_get_many_at_one_time(self, history: Store) -> None:
        """In the order of the keys, with repeats repeated, now or as of one time for all."""
        history.put(b"j", b"v", 15)

        assert history.get_many([b"k", b"x", b"j", b"k"]) == [
            FORTY,
            None,
            Record(b"v", 15, None),
            FORTY,
        ]
        assert history.get_many([b"j", b"k"], 12) == [None, TEN]
        assert history.get_many([]) == []

    @pytest.mark.spec("VRS-23")
    def test_get_many_at_a_time_for_each(self, history: Store) -> None:
        """Each key at its own time, in any order of times."""
        assert history.get_many([b"k"] * 4, [40, 35, 20, 10]) == [FORTY, None, TWENTY, TEN]

    @pytest.mark.spec("VRS-23", "VRS-16")
    @for_each("times", [[1], [1, 2, 3], []])
    def test_get_many_refuses_other_numbers_of_times(
        self, history: Store, times: list[int]
    ) -> None:
        """There must be as many times as keys, or one for all."""
        with pytest.raises(InvalidArgumentError):
            history.get_many([b"k", b"k"], times)


class VersionedHistoryTests(VersionedStoreFixtures):
    """History: the versions of one key through time."""

    @pytest.mark.spec("VRS-10")
    @for_each(
        ("first_ms", "last_ms", "expected"),
        [
            (None, None, [TEN, TWENTY, FORTY]),
            (0, HIGHEST_MS, [TEN, TWENTY, FORTY]),
            (10, 20, [TEN, TWENTY]),
            (19, 19, [TEN]),
            (20, 20, [TWENTY]),
            (15, 39, [TEN, TWENTY]),
            (29, 40, [TWENTY, FORTY]),
            (30, 39, []),
            (0, 9, []),
            (0, 10, [TEN]),
            (25, None, [TWENTY, FORTY]),
            (None, 19, [TEN]),
            (50, None, [FORTY]),
            (50, 60, [FORTY]),
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
        """Neither have the neighbours of a known one."""
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
        """Times are computed by the caller, so the mistake must be reported."""
        with pytest.raises(InvalidArgumentError):
            history.history(b"k", 20, 19)

    @pytest.mark.spec("VRS-16", "COM-19")
    @for_each("time", [-1, HIGHEST_MS + 1, 1.0, "1", True, b"1"])
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

        assert list(history.history(b"k")) == [TEN, TWENTY, FORTY]

    @pytest.mark.spec("COM-19")
    @for_each("key", [None, "k", 1, bytearray(b"k")])
    def test_a_malformed_key_is_refused_by_every_read(self, history: Store, key: Any) -> None:
        """``None`` is never a key; where it opens a range, it is a bound and not a key."""
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
