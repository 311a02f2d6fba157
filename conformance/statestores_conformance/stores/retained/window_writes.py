"""Puts into a window store, one by one and in bulk, and the duplicates that it may retain."""

from collections.abc import Callable
from typing import Any

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.spi import Changes, Isolation, Window
from statestores_conformance.many_cases import for_each
from statestores_conformance.stores.every_kind.replay import split
from statestores_conformance.subjects.adversarial_keys import SHORT_KEYS
from statestores_conformance.subjects.retained_stores import WindowStores
from statestores_conformance.subjects.store_fixtures import StoreFixtures
from statestores_conformance.subjects.stores import RETENTION_MS, Stores
from statestores_conformance.subjects.window_fixtures import (
    HIGHEST_MS,
    MALFORMED_PUTS,
    Store,
    WindowStoreFixtures,
    record,
)


class WindowPutTests(WindowStoreFixtures):
    """Putting one value."""

    @pytest.mark.spec("WIN-2", "WIN-5")
    def test_a_put_sets_the_value_of_one_window(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """It is that of its key and start only, in whatever order the starts come."""
        for key, value, start_ms in ((b"k", b"1", 20), (b"k", b"2", 10), (b"j", b"3", 10)):
            assert store.put(key, value, start_ms)
            commit_between(store)

        assert [store.fetch(b"k", 20), store.fetch(b"k", 10)] == [b"1", b"2"]
        assert [store.fetch(b"j", 10), store.fetch(b"j", 20)] == [b"3", None]

    @pytest.mark.spec("WIN-2")
    def test_a_put_replaces_the_value_that_is_there(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """A window has one value, which may be empty."""
        for value in (b"1", b"2", b""):
            store.put(b"k", value, 10)
            commit_between(store)

        assert store.fetch(b"k", 10) == b""
        assert list(store.fetch_range(b"k")) == [record(b"k", 10, b"")]

    @pytest.mark.spec("WIN-2")
    def test_a_put_of_none_deletes(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """Only that window; deleting what is not there is not an error."""
        store.put(b"k", b"1", 10)
        store.put(b"k", b"2", 20)
        commit_between(store)
        accepted = [store.put(b"k", None, 10), store.put(b"k", None, 15)]
        commit_between(store)

        assert accepted == [True, True]
        assert list(store.fetch_all()) == [record(b"k", 20, b"2")]

    @pytest.mark.spec("WIN-3", "WIN-8")
    def test_a_window_that_has_expired_is_not_accepted(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """At the horizon it is too late, a millisecond above it is not; deletions likewise."""
        store.put(b"k", b"v", 5_000)
        commit_between(store)
        horizon = 5_000 - RETENTION_MS
        before = store.uncommitted_bytes
        refused = [store.put(b"late", b"v", horizon), store.put(b"late", None, horizon)]

        assert refused == [False, False]
        assert store.uncommitted_bytes == before
        assert [store.fetch(b"late", horizon), store.stream_time_ms] == [None, 5_000]
        assert store.put(b"late", b"v", horizon + 1)
        assert store.fetch(b"late", horizon + 1) == b"v"

    @pytest.mark.spec("WIN-3", "COM-35")
    def test_a_refused_put_is_not_in_the_changes(self, store: Store) -> None:
        """A changelog holds what the store holds; Kafka's has refused puts as well."""
        store.put(b"k", b"v", 5_000)
        store.put(b"late", b"v", 1)

        assert list(store.pending_changes().keys) == [b"k"]

    @pytest.mark.spec("COM-16")
    def test_uncommitted_bytes_are_those_of_keys_values_and_starts(self, store: Store) -> None:
        """The lengths put and 8 for each start, overwritten and deleted windows included."""
        store.put(b"abc", b"defg", 10)
        store.put(b"abc", b"h", 10)
        store.put(b"abc", None, 10)
        store.put_many([b"12", b"3"], [b"4567", None], [30, 30])
        for value in (b"4567", b"8", None, b"9"):  # as many records of one window come
            store.put(b"12", value, 30)

        assert store.uncommitted_bytes == 7 + 4 + 3 + 7 + 5 * 8 + 6 + 4 * (2 + 8)

    @pytest.mark.spec("COM-16")
    def test_uncommitted_bytes_are_those_of_what_is_accepted(self, store: Store) -> None:
        """Of many that are put at once, too: those that have expired are not written."""
        store.put(b"k", b"v", 5_000)
        store.commit({})
        store.put_many([b"ab", b"late"], [b"cde", b"fghi"], [5_001, 1])

        assert store.uncommitted_bytes == 2 + 3 + 8

    @pytest.mark.spec("WIN-4")
    def test_stream_time_is_the_highest_accepted_start(self, store: Store) -> None:
        """Of a put or a deletion of any key; lower starts do not move it back."""
        seen = [store.stream_time_ms]
        for value, start_ms in ((b"v", 10), (b"v", 5), (None, 20), (b"v", 15)):
            store.put(b"k", value, start_ms)
            seen.append(store.stream_time_ms)

        assert seen == [None, 10, 10, 20, 20]

    @pytest.mark.spec("WIN-4")
    def test_a_rollback_takes_stream_time_back(self, store: Store) -> None:
        """Windows that had expired through writes that are rolled back are visible again."""
        store.put(b"k", b"v", 10)
        store.commit({})
        store.put(b"j", b"v", 10_000)
        expired = store.fetch(b"k", 10)
        store.rollback()

        assert expired is None
        assert [store.stream_time_ms, store.fetch(b"k", 10)] == [10, b"v"]

    @pytest.mark.spec("WIN-14", "COM-19")
    @for_each("put", MALFORMED_PUTS.values())
    def test_a_malformed_put_changes_nothing(
        self, store: Store, put: tuple[bytes, bytes, int]
    ) -> None:
        """Not even half of it; nor where good ones of the same window came before."""
        with pytest.raises((InvalidTypeError, InvalidArgumentError)):
            store.put(*put)
        assert [list(store.fetch_all()), store.stream_time_ms] == [[], None]
        for _ in range(4):
            store.put(b"k", b"v", 1)
        with pytest.raises((InvalidTypeError, InvalidArgumentError)):
            store.put(*put)

        assert [list(store.fetch_all()), store.stream_time_ms] == [[record(b"k", 1, b"v")], 1]
        store.rollback()

    @pytest.mark.spec("WIN-15")
    def test_the_last_window_ends_with_time(self, store: Store) -> None:
        """An end is the start and the size, and never beyond the highest time."""
        store.put(b"k", b"v", HIGHEST_MS - 3)

        assert [window.end_ms for window in store.fetch_range(b"k")] == [HIGHEST_MS]

    @pytest.mark.spec("WIN-12", "WIN-9")
    def test_keys_of_any_bytes_are_apart(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """Keys that begin with another, or with zeros, neither collide nor misorder."""
        for number, key in enumerate(SHORT_KEYS):
            for start_ms in (0, 256, 1):
                store.put(key, b"%d-%d" % (number, start_ms), start_ms)
            commit_between(store)
        found = [(window.key, window.start_ms) for window in store.fetch_all()]

        assert found == [(key, start) for key in sorted(SHORT_KEYS) for start in (0, 1, 256)]
        for number, key in enumerate(SHORT_KEYS):
            assert store.fetch(key, 1) == b"%d-1" % number
            assert [window.start_ms for window in store.fetch_range(key, 1, 256)] == [1, 256]


_COLUMNS: list[tuple[list[tuple[bytes, bytes | None, int]], int]] = [
    ([(b"a", b"1", 10), (b"b", b"2", 5_000), (b"a", None, 4_500), (b"a", b"4", 20)], 2),
    ([(b"%d" % (step // 2), b"%d" % step, 5_000 + step % 2) for step in range(12)], 12),
    ([(b"\x00" * (step % 5), b"%d" % step, 5_000 + step) for step in range(12)], 12),
    ([(b"%d" % (step // 2), None, 10 + step % 2 * 4_990) for step in range(12)], 6),
    ([(b"%d" % step, b"all", 5_000) for step in range(12)], 12),
]
"""Rows of columns: of two starts, of as many as rows, in part too late, of one; how many count."""


class WindowBulkTests(WindowStoreFixtures):
    """Putting columns."""

    @pytest.mark.spec("WIN-7", "WIN-8", "WIN-24", "COM-24")
    def test_many_windows_are_fetched_as_each_is(
        self, store: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """Of those that have expired since nothing is left, however many are asked for at once.

        And columns are the caller's again: what is done to them afterwards is not what was put.
        """
        keys = [b"%03d" % number for number in range(150)]
        for start_ms, value in ((10, b"1"), (1_005, b"2"), (1_011, b"3")):
            columns: Any = [keys.copy(), [value] * 150, [start_ms] * 150]
            store.put_many(*columns)
            for column in columns:
                column.clear()
            commit_between(store)
            at_each = [10, 1_005, 1_011] * 50
            for asked in (*([at] * 150 for at in (10, 1_005, 1_011)), at_each):
                expected = [store.fetch(*pair) for pair in zip(keys, asked, strict=True)]

                assert store.fetch_many(keys, asked) == expected
        store.commit({})
        expected = [None if at == 10 else b"2" if at == 1_005 else b"3" for at in at_each]
        for reader in (store, *map(store.read_only, Isolation)):
            assert reader.fetch_many(keys, at_each) == expected

    @pytest.mark.spec("WIN-7")
    def test_a_bulk_put_is_the_puts_in_order(self, window_stores: WindowStores) -> None:
        """It also counts what was accepted, of few rows and of many, above what is pending."""
        one, many = window_stores.open("one").store, window_stores.open("many").store
        for rows, count in _COLUMNS:
            for store in (one, many):
                for _ in range(3):
                    store.put(b"0", b"before", 5_000)
            columns = [list(column) for column in zip(*rows, strict=True)]
            accepted = [one.put(*row) for row in rows]

            assert many.put_many(*columns) == sum(accepted) == count
            assert many.fetch_many(columns[0], columns[2]) == one.fetch_many(columns[0], columns[2])
            assert list(many.fetch_all()) == list(one.fetch_all())

    @pytest.mark.spec("WIN-7", "WIN-14")
    @for_each("put", MALFORMED_PUTS.values())
    def test_a_malformed_row_changes_nothing(
        self, store: Store, put: tuple[bytes, bytes, int]
    ) -> None:
        """Everything is checked before the first put."""
        columns: Any = [[good, bad] for good, bad in zip((b"a", b"v", 1), put, strict=True)]
        with pytest.raises((InvalidTypeError, InvalidArgumentError)):
            store.put_many(*columns)

        assert list(store.fetch_all()) == []

    @pytest.mark.spec("WIN-7")
    def test_columns_of_other_lengths_are_refused(self, store: Store) -> None:
        """None of them is put."""
        with pytest.raises(InvalidArgumentError):
            store.put_many([b"a", b"b"], [b"1", b"2"], [1])

        assert list(store.fetch_all()) == []


class WindowSpecificationTests(StoreFixtures):
    """What a window store can be."""

    @pytest.mark.spec("WIN-1")
    @for_each(
        ("retention_ms", "window_size_ms"),
        [(10, 11), (0, 0), (10, 0), (-1, 10), (10, -1), (2**63, 1)],
    )
    def test_sizes_that_make_no_sense_are_refused(
        self, retention_ms: int, window_size_ms: int
    ) -> None:
        """Windows would last no time, or be gone before they are over."""
        with pytest.raises(InvalidArgumentError):
            Window("store", retention_ms=retention_ms, window_size_ms=window_size_ms)

    @pytest.mark.spec("WIN-1", "COM-13")
    def test_the_specification_survives(self, persistent_stores: Stores) -> None:
        """A store that was closed opens again as what it was."""
        persistent_stores.open().store.close()
        store = persistent_stores.open().store

        assert store.specification == persistent_stores.specification()


_DUPLICATES = 300
"""More than a byte counts."""


class WindowDuplicateTests(WindowStoreFixtures):
    """Several values for one window."""

    @pytest.mark.spec("WIN-6", "WIN-9", "WIN-12")
    def test_every_value_is_kept_in_the_order_of_the_puts(
        self, duplicates: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """Equal ones too; a point fetch gives the last one."""
        for value, start_ms in ((b"1", 10), (b"2", 20), (b"1", 10), (b"0", 10)):
            duplicates.put(b"k", value, start_ms)
            commit_between(duplicates)
        values = [(window.start_ms, window.value) for window in duplicates.fetch_all()]
        backwards = [
            (window.start_ms, window.value) for window in duplicates.fetch_range(b"k", reverse=True)
        ]

        assert values == [(10, b"1"), (10, b"1"), (10, b"0"), (20, b"2")]
        assert backwards == values[::-1]
        assert [duplicates.fetch(b"k", start_ms) for start_ms in (10, 20, 15)] == [b"0", b"2", None]
        assert duplicates.read_only("read_uncommitted").fetch(b"k", 10) == b"0"

    @pytest.mark.spec("WIN-6", "WIN-9", "WIN-12", "WIN-17")
    def test_any_number_of_values_is_kept(
        self, duplicates: Store, commit_between: Callable[[Store], None]
    ) -> None:
        """After each put the last one is fetched, and in the end there are all of them."""
        for number in range(_DUPLICATES):
            duplicates.put(b"k", b"%d" % number, 10)
            if number % 50 == 0:
                commit_between(duplicates)

            assert duplicates.fetch(b"k", 10) == b"%d" % number
        duplicates.commit({})
        found = [window.value for window in duplicates.fetch_range(b"k", 10, 10)]

        assert found == [b"%d" % number for number in range(_DUPLICATES)]
        for reader in (duplicates, *map(duplicates.read_only, Isolation)):
            assert reader.fetch_many([b"k", b"j"], 10) == [b"%d" % (_DUPLICATES - 1), None]

    @pytest.mark.spec("WIN-6")
    def test_none_is_not_accepted(self, duplicates: Store) -> None:
        """There is no single value for it to delete; windows go when they expire."""
        duplicates.put(b"k", b"1", 10)

        assert not duplicates.put(b"k", None, 10)
        assert not duplicates.put(b"k", None, 99)
        assert [duplicates.fetch(b"k", 10), duplicates.stream_time_ms] == [b"1", 10]

    @pytest.mark.spec("WIN-6", "WIN-17")
    def test_duplicates_go_on_after_reopening(self, window_stores: WindowStores) -> None:
        """Kafka counts from the beginning again, and new values replace old ones."""
        store = window_stores.open(retain_duplicates=True).store
        if not store.persistent:
            pytest.skip("promise not made: persistent")
        store.put(b"k", b"1", 10)
        store.put(b"k", b"2", 10)
        store.commit({})
        store.put(b"k", b"forgotten", 10)
        store.close()
        reopened = window_stores.open(retain_duplicates=True).store
        reopened.put(b"k", b"3", 10)

        assert [window.value for window in reopened.fetch_range(b"k")] == [b"1", b"2", b"3"]

    @pytest.mark.spec("WIN-21", "COM-32")
    def test_replaying_duplicates_twice_is_replaying_them_once(
        self, window_stores: WindowStores
    ) -> None:
        """The changes number the values; and the copy numbers its own after them."""
        original = window_stores.open("original", retain_duplicates=True).store
        copy = window_stores.open("copy", retain_duplicates=True).store
        for value in (b"1", b"2", b"2"):
            original.put(b"k", value, 10)
        changes = original.pending_changes()
        original.commit({})
        for _ in range(2):
            copy.replay(changes)
            copy.commit({})
        copied = list(copy.fetch_all())
        for store in (original, copy):
            store.put(b"k", b"3", 10)

        assert copied == [record(b"k", 10, value) for value in (b"1", b"2", b"2")]
        assert list(copy.fetch_all()) == list(original.fetch_all())
        assert len(list(copy.fetch_all())) == 4

    @pytest.mark.spec("WIN-21", "COM-20")
    def test_a_loaded_copy_goes_on_numbering(self, window_stores: WindowStores) -> None:
        """A value that is put after the load is the last of its window.

        The last key was written first: what is loaded last has the lowest number.
        """
        original = window_stores.open("original", retain_duplicates=True).store
        copy = window_stores.open("copy", retain_duplicates=True).store
        original.put(b"z", b"0", 10)
        for value in (b"1", b"2"):
            original.put(b"k", value, 10)
        original.commit({})
        content = original.committed_content()
        for changes in content.changes:
            for row in split(changes, *range(1, len(changes))):
                copy.load(row, stream_time_ms=content.stream_time_ms)
        copy.put(b"k", b"3", 10)

        assert [window.value for window in copy.fetch_range(b"k")] == [b"1", b"2", b"3"]

    @pytest.mark.spec("WIN-21", "COM-34")
    def test_changes_of_another_form_are_refused(self, store: Store, duplicates: Store) -> None:
        """Sequences without duplicates, duplicates without sequences, deletions of duplicates."""
        plain, numbered = Changes([b"k"], [b"1"], [1]), Changes([b"k"], [b"1"], [1], sequences=[0])
        deletion = Changes([b"k"], [None], [1], sequences=[0])
        sessions = Changes([b"k"], [b"1"], [1], end_times_ms=[1])
        for refusing, changes in (
            (store, numbered),
            (duplicates, plain),
            (duplicates, deletion),
            (store, sessions),
        ):
            with pytest.raises(InvalidArgumentError):
                refusing.replay(changes)

            assert list(refusing.fetch_all()) == []
