"""Writing a versioned store: timestamps in any order, deletions, many at once."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    StateStoreError,
    StoreClosedError,
)
from statestores.spi import Isolation
from statestores_conformance.many_cases import for_each
from statestores_conformance.stores.key_value.writes import COLUMNS
from statestores_conformance.subjects import adversarial_keys
from statestores_conformance.subjects.stores import VersionedStores
from statestores_conformance.subjects.versioned_fixtures import (
    HIGHEST_MS,
    MALFORMED_PUTS,
    Record,
    Store,
    VersionedStoreFixtures,
    accepted,
)


class VersionedPutTests(VersionedStoreFixtures):
    """Puts in any order."""

    @pytest.mark.spec("VRS-1", "VRS-8")
    def test_a_newer_put_is_the_latest(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """It has no end, and ends the version before it."""
        first = store.put(b"k", b"1", 10)
        commit_between(store)
        second = store.put(b"k", b"2", 20)
        commit_between(store)

        assert [first, second] == [accepted(), accepted()]
        assert store.get(b"k") == Record(b"2", 20, None)
        assert list(store.history(b"k")) == [Record(b"1", 10, 20), Record(b"2", 20, None)]

    @pytest.mark.spec("VRS-6", "VRS-1")
    def test_an_older_put_ends_where_the_next_begins(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """Put before, between and after others: the validity of all neighbours follows."""
        results = []
        for timestamp_ms in (50, 10, 30, 20, 40):
            results.append(store.put(b"k", b"%d" % timestamp_ms, timestamp_ms))
            commit_between(store)
        times = [10, 20, 30, 40, 50, None]

        assert results == [accepted(end) for end in (None, 50, 50, 30, 50)]
        assert list(store.history(b"k")) == [
            Record(b"%d" % start, start, end)
            for start, end in itertools.pairwise(times)
            if start is not None
        ]

    @pytest.mark.spec("VRS-6")
    def test_other_keys_are_not_affected(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """Keys that are prefixes of each other keep their own histories."""
        keys = [b"", b"k", b"k\x00", b"k\x00\xff", b"k\xff", b"kk"]
        for number, key in enumerate(keys * 2):
            store.put(key, b"%d" % number, 10 + number * 7 % 12)
            commit_between(store)
        histories = [list(store.history(key)) for key in keys]

        assert [{record.value for record in history} for history in histories] == [
            {b"%d" % number, b"%d" % (number + 6)} for number in range(6)
        ]

    @pytest.mark.spec("VRS-4")
    def test_a_put_at_the_same_time_replaces(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """Anywhere in the history, a value or a deletion replaces a value or a deletion."""
        for timestamp_ms in (10, 20, 30):
            store.put(b"k", b"old", timestamp_ms)
            commit_between(store)
        results = [store.put(b"k", b"new", 20)]
        commit_between(store)
        results.append(store.put(b"k", None, 20))
        commit_between(store)
        gap = list(store.history(b"k"))
        results.append(store.put(b"k", b"back", 20))
        commit_between(store)
        results.append(store.put(b"k", b"latest", 30))
        commit_between(store)

        assert results == [accepted(30), accepted(30), accepted(30), accepted()]
        assert gap == [Record(b"old", 10, 20), Record(b"old", 30, None)]
        assert list(store.history(b"k")) == [
            Record(b"old", 10, 20),
            Record(b"back", 20, 30),
            Record(b"latest", 30, None),
        ]

    @pytest.mark.spec("VRS-5")
    def test_a_deletion_ends_the_version_before_it(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """After it there is nothing; what was there before it stays."""
        store.put(b"k", b"v", 10)
        commit_between(store)
        store.put(b"k", None, 20)
        commit_between(store)

        assert store.get(b"k") is None
        assert store.get(b"k", 20) is None
        assert store.get(b"k", 19) == Record(b"v", 10, 20)

    @pytest.mark.spec("VRS-5")
    def test_a_deletion_at_the_time_of_the_only_version_is_kept(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """Kafka loses it (VER-14): an older value that comes later has already ended."""
        store.put(b"k", b"v", 10)
        commit_between(store)
        store.put(b"k", None, 10)
        commit_between(store)
        late = store.put(b"k", b"w", 5)
        commit_between(store)

        assert late == accepted(10)
        assert store.get(b"k") is None
        assert list(store.history(b"k")) == [Record(b"w", 5, 10)]

    @pytest.mark.spec("VRS-5")
    def test_a_deletion_of_an_unknown_key_is_kept(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """It is the first write of the key: an older value that comes later ends at it."""
        first = store.put(b"k", None, 10)
        commit_between(store)
        late = store.put(b"k", b"w", 5)
        commit_between(store)

        assert [first, late] == [accepted(), accepted(10)]
        assert store.get(b"k") is None
        assert store.get(b"k", 9) == Record(b"w", 5, 10)

    @pytest.mark.spec("VRS-5", "VRS-6")
    def test_an_older_deletion_leaves_a_gap(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """Put between two versions, it ends the earlier and does not touch the later."""
        store.put(b"k", b"1", 10)
        store.put(b"k", b"2", 30)
        commit_between(store)
        result = store.put(b"k", None, 20)
        commit_between(store)

        assert result == accepted(30)
        assert list(store.history(b"k")) == [Record(b"1", 10, 20), Record(b"2", 30, None)]
        assert store.get(b"k", 25) is None

    @pytest.mark.spec("VRS-5")
    def test_repeated_deletions_are_all_kept(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """Each ends whatever is put before it."""
        for timestamp_ms in (40, 20):
            store.put(b"k", None, timestamp_ms)
            commit_between(store)
        results = []
        for timestamp_ms in (30, 10):
            results.append(store.put(b"k", b"v", timestamp_ms))
            commit_between(store)

        assert results == [accepted(40), accepted(20)]
        assert list(store.history(b"k")) == [Record(b"v", 10, 20), Record(b"v", 30, 40)]

    @pytest.mark.spec("VRS-7")
    def test_delete_returns_what_was_valid(self, history: Store) -> None:
        """What was valid at the deletion's time, before it, and when that ended."""
        assert history.delete(b"k", 15) == Record(b"10", 10, 20)
        assert history.delete(b"k", 15) is None
        assert history.delete(b"k", 50) == Record(b"40", 40, None)
        assert history.delete(b"x", 50) is None
        assert list(history.history(b"k")) == [
            Record(b"10", 10, 15),
            Record(b"20", 20, 30),
            Record(b"40", 40, 50),
        ]

    @pytest.mark.spec("COM-28", "VRS-8")
    def test_empty_keys_and_values_are_not_absence(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """``b""`` is a key and a value like any other, in every read."""
        store.put(b"", b"", 0)
        commit_between(store)
        record = Record(b"", 0, None)

        assert store.get(b"") == store.get(b"", 0) == record
        assert list(store.history(b"")) == [record]
        assert list(store.scan_as_of()) == [(b"", record)]
        assert store.delete(b"", 1) == record

    @pytest.mark.spec("VRS-6")
    def test_adversarial_keys_keep_their_histories_apart(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """Each key has exactly its own versions, and a scan has the keys in order."""
        keys = [b"", *(key for key in adversarial_keys.KEYS if len(key) < 400)]
        for timestamp_ms in (20, 10, 30):
            for number, key in enumerate(keys):
                store.put(key, b"%d@%d" % (number, timestamp_ms), timestamp_ms)
            commit_between(store)
        for number, key in enumerate(keys):
            assert [record.value for record in store.history(key)] == [
                b"%d@%d" % (number, timestamp_ms) for timestamp_ms in (10, 20, 30)
            ]

        for as_of_ms in (10, 25, 30):
            assert [key for key, _ in store.scan_as_of(as_of_ms)] == keys

    @pytest.mark.spec("VRS-16", "VRS-3")
    def test_times_at_the_edges_are_times(
        self, versioned_stores: VersionedStores, commit_between: Callable[[Store], None]
    ) -> None:
        """0 and the highest int64 can be put, deleted and read."""
        store = versioned_stores.open(history_retention_ms=HIGHEST_MS).store
        results = [store.put(b"k", b"first", 0)]
        commit_between(store)
        results.append(store.put(b"k", b"last", HIGHEST_MS))
        commit_between(store)
        results.append(store.put(b"k", b"before", HIGHEST_MS - 1))
        commit_between(store)

        assert results == [accepted(), accepted(), accepted(HIGHEST_MS)]
        assert store.stream_time_ms == HIGHEST_MS
        assert store.get(b"k", 0) == Record(b"first", 0, HIGHEST_MS - 1)
        assert store.get(b"k", HIGHEST_MS) == Record(b"last", HIGHEST_MS, None)
        assert len(list(store.history(b"k", 0, HIGHEST_MS))) == 3

    @pytest.mark.spec("VRS-16", "COM-19")
    @for_each(("key", "value", "time"), MALFORMED_PUTS.values())
    def test_a_malformed_put_is_refused(
        self, store: Store, key: Any, value: Any, time: Any
    ) -> None:
        """The error is ours, and nothing changes: no version, no stream time."""
        error = InvalidArgumentError if type(time) is int and time != 1 else InvalidTypeError
        with pytest.raises(error):
            store.put(key, value, time)
        if value == b"v":
            with pytest.raises(error):
                store.delete(key, time)

        assert list(store.scan_as_of()) == []
        assert store.stream_time_ms is None
        assert store.uncommitted_bytes == 0


_LATER = 40
"""Commits after which what has expired is removed, or is never."""


class VersionedBulkTests(VersionedStoreFixtures):
    """Many puts at once."""

    @pytest.mark.spec("VRS-4", "VRS-5", "VRS-14", "VRS-30")
    def test_the_latest_stays_whatever_was_at_its_time_before(self, store: Store) -> None:
        """A value that has replaced a deletion, committed or not, is no deletion that has expired.

        So much later, when all that was superseded has been removed.
        """
        values: tuple[bytes | None, ...] = (b"1", None, b"2")
        cases = list(itertools.product(values, repeat=3))
        for turn in range(3):
            for number, case in enumerate(cases):
                store.put(b"committed %d" % number, case[turn], 20)
                store.put(b"pending %d" % number, case[0], 20)
                for value in case[1 : turn + 1]:
                    store.put(b"pending %d" % number, value, 20)
            store.commit({})
        for number in range(_LATER):
            store.put_many(
                [b"later %d" % key for key in range(9)], [b"v"] * 9, [10_000 + number] * 9
            )
            store.commit({})
        for number, case in enumerate(cases):
            expected = case[-1] and Record(case[-1], 20, None)

            assert store.get(b"committed %d" % number) == expected, case
            assert store.get(b"pending %d" % number) == expected, case

    @pytest.mark.spec("VRS-18", "VRS-23", "VRS-9")
    def test_many_keys_at_once_are_many_keys(self, store: Store) -> None:
        """Columns of any length are put and asked for row by row, at one time or at many.

        And they are the caller's again: what is done to them afterwards is not what was put.
        """
        keys = [b"%04d" % number for number in range(1_100)]
        columns: Any = [
            [*keys, *keys],
            [b"1"] * 1_100 + [b"2"] * 1_100,
            [10] * 1_100 + [30] * 1_100,
        ]
        for committed in (False, True):
            if not committed:
                store.put_many(*columns)
                for column in columns:
                    column.clear()
            else:
                store.commit({})
            for reader in (store, *map(store.read_only, Isolation if committed else ())):
                assert [each and each.value for each in reader.get_many(keys, 20)] == [b"1"] * 1_100
                assert [each and each.value for each in reader.get_many(keys)] == [b"2"] * 1_100
                times = [5 if number % 3 else 30 for number in range(1_100)]
                found = reader.get_many(keys, times)
                assert [each and each.value for each in found] == [
                    None if time_ms == 5 else b"2" for time_ms in times
                ]

    @pytest.mark.spec("VRS-18", "VRS-1")
    def test_put_many_is_as_many_puts(self, versioned_stores: VersionedStores) -> None:
        """In the order of the columns, late ones left out and not counted."""
        rows: list[tuple[bytes, bytes | None, int]] = [
            (b"a", b"1", 100),
            (b"b", b"1", 5_000),
            (b"a", b"late", 100),
            (b"a", b"2", 4_500),
            (b"a", b"3", 4_500),
            (b"a", None, 4_700),
            (b"b", b"0", 4_000),
        ]
        one, other = versioned_stores.open("one").store, versioned_stores.open("other").store
        results = [one.put(*row) for row in rows]
        keys, values, times = zip(*rows, strict=True)
        count = other.put_many(keys, values, times)

        assert count == sum(result.accepted for result in results) == 6
        for key in (b"a", b"b"):
            assert list(other.history(key)) == list(one.history(key))
        assert other.stream_time_ms == one.stream_time_ms
        assert other.uncommitted_bytes == one.uncommitted_bytes

    @pytest.mark.spec("VRS-19")
    @for_each(("key", "value", "time"), MALFORMED_PUTS.values())
    def test_one_malformed_put_refuses_them_all(
        self, store: Store, key: Any, value: Any, time: Any
    ) -> None:
        """Nothing is put, not even what came before the malformed row."""
        with pytest.raises((InvalidTypeError, InvalidArgumentError)):
            store.put_many([b"a", key], [b"1", value], [1, time])

        assert list(store.scan_as_of()) == []
        assert store.stream_time_ms is None

    @pytest.mark.spec("VRS-19")
    @for_each("lengths", [(1, 2, 2), (2, 1, 2), (2, 2, 1), (0, 0, 1)])
    def test_columns_of_different_length_are_refused(
        self, store: Store, lengths: tuple[int, int, int]
    ) -> None:
        """Nothing is put."""
        keys, values, times = lengths
        with pytest.raises(InvalidArgumentError):
            store.put_many([b"k"] * keys, [b"v"] * values, [1] * times)

        assert list(store.scan_as_of()) == []

    @pytest.mark.spec("KVS-17", "VRS-18", "VRS-23")
    @for_each("form", COLUMNS.values())
    def test_columns_come_in_many_forms(
        self, store: Store, form: Callable[[list[Any]], Any]
    ) -> None:
        """Any iterable is a column, and so is anything with `to_pylist`."""
        count = store.put_many(form([b"a", b"b", b"a"]), form([b"1", b"2", None]), form([1, 2, 3]))

        assert count == 3
        assert store.get_many(form([b"b", b"a", b"a"]), form([2, 3, 2])) == [
            Record(b"2", 2, None),
            None,
            Record(b"1", 1, 3),
        ]

    @pytest.mark.spec("COM-16")
    def test_uncommitted_bytes_are_those_of_keys_values_and_times(self, store: Store) -> None:
        """The lengths put and 8 for each timestamp, overwritten and deleted ones included."""
        store.put(b"abc", b"defg", 10)
        store.put(b"abc", b"h", 10)
        store.put(b"abc", None, 20)
        store.put_many([b"12", b"3"], [b"4567", None], [30, 30])

        assert store.uncommitted_bytes == 7 + 4 + 3 + 7 + 5 * 8
        store.delete(b"12", 40)
        store.delete(b"missing", 40)

        assert store.uncommitted_bytes == 61 + 2 + 7 + 2 * 8

    @pytest.mark.spec("VRS-18")
    def test_putting_nothing_is_not_an_error(self, store: Store) -> None:
        """No rows, none accepted."""
        assert store.put_many([], [], []) == 0
        assert store.stream_time_ms is None

    @pytest.mark.spec("COM-15")
    def test_a_closed_store_refuses_every_method(self, store: Store) -> None:
        """Even calls that would have nothing to do, or that come too late."""
        store.put(b"k", b"v", 5_000)
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.put(b"k", b"w", 6_000),
            lambda: store.put(b"k", b"w", 1),
            lambda: store.put_many([], [], []),
            lambda: store.delete(b"k", 6_000),
            lambda: store.delete(b"k", 1),
            lambda: store.get(b"k"),
            lambda: store.get(b"k", 5_000),
            lambda: store.get(b"x"),
            lambda: store.get_many([]),
            lambda: store.get_many([b"k"], 5_000),
            lambda: next(store.history(b"k")),
            lambda: next(store.history(b"x"), None),
            lambda: next(store.scan_as_of()),
            lambda: next(store.scan_as_of(None, b"b", b"a"), None),
            lambda: store.stream_time_ms,
            store.read_only,
        ]
        refused = []
        for call in calls:
            with pytest.raises(StateStoreError) as refusal:
                call()
            refused.append(type(refusal.value))

        assert refused == [StoreClosedError] * len(calls)
