"""Timestamps beside the values of a key-value store."""

from typing import Any

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.spi import (
    Changes,
    KeyValueStore,
    TimestampedKeyValue,
    TimestampedKeyValueStore,
    TimestampedValue,
)
from statestores_conformance.stores.every_kind.replay import load_all, split
from statestores_conformance.stores.key_value.writes import KeyValueBulkTests
from statestores_conformance.subjects.timestamped_stores import TimestampedStores

_LAST_MS = (1 << 63) - 1


class TimestampedBulkTests(KeyValueBulkTests):
    """Columns, as in any key-value store."""

    @pytest.mark.spec("COM-16")
    def test_uncommitted_bytes_are_those_of_keys_and_values(
        self, store: KeyValueStore[bytes, bytes]
    ) -> None:
        """And eight for the timestamp of each value; deletions have none."""
        store.put(b"abc", b"defg")
        store.put(b"abc", b"h")
        store.put(b"abc", None)
        store.put_many([b"12", b"3"], [b"4567", None])

        assert store.uncommitted_bytes == (7 + 8) + (4 + 8) + 3 + (7 + 8)
        store.put_all([(b"xy", b"z"), (b"xy", None)])
        store.put_if_absent(b"new", b"v")
        store.put_if_absent(b"new", b"not absent")
        store.delete(b"new")
        store.delete(b"missing")

        assert store.uncommitted_bytes == 45 + (3 + 8 + 2) + (4 + 8) + 3 + 7


class TimestampTests:
    """What is put with a value comes back with it."""

    @pytest.fixture
    def store(self, timestamped_stores: TimestampedStores) -> TimestampedKeyValueStore[Any, Any]:
        """Open one empty store whose values do not expire."""
        return timestamped_stores.open_with(TimestampedKeyValue("store"))

    @pytest.mark.spec("TKV-1")
    @pytest.mark.parametrize("time_ms", [0, 1, 1_700_000_000_000, _LAST_MS])
    def test_every_read_gives_the_timestamp(
        self, store: TimestampedKeyValueStore[bytes, bytes], time_ms: int
    ) -> None:
        """Before the commit and after it, by the owner and through facades."""
        store.put(b"k", b"", time_ms)
        stamped = TimestampedValue(b"", time_ms)
        for committing in (False, True):
            if committing:
                store.commit({})
            readers = [store, store.read_only("read_uncommitted"), store.read_only()]
            for reader in readers if committing else readers[:2]:
                assert reader.get(b"k") == stamped
                assert reader.get_many([b"k", b"x"]) == [stamped, None]
                assert list(reader.range()) == [(b"k", stamped)]
                assert list(reader.prefix_scan(b"k", reverse=True)) == [(b"k", stamped)]
                assert reader.stream_time_ms == time_ms
        assert store.put_if_absent(b"k", b"new", 5) == stamped
        assert store.delete(b"k") == stamped
        assert store.get(b"k") is None

    @pytest.mark.spec("TKV-2")
    def test_the_later_put_wins(self, timestamped_stores: TimestampedStores) -> None:
        """In the order of the puts, not of the timestamps; within one commit or across two."""
        for name, committing in (("one", False), ("two", True)):
            store = timestamped_stores.open_with(TimestampedKeyValue("store"), name)
            store.put(b"k", b"new", 100)
            if committing:
                store.commit({})
            store.put(b"k", b"late", 40)
            store.commit({})

            assert store.get(b"k") == TimestampedValue(b"late", 40)
            assert store.stream_time_ms == 100

    @pytest.mark.spec("TKV-4", "TKV-5")
    def test_a_deletion_has_no_timestamp(
        self, store: TimestampedKeyValueStore[bytes, bytes]
    ) -> None:
        """One that is given is checked, and moves nothing."""
        store.put(b"k", b"v", 10)
        store.put(b"k", None, 99)
        store.put(b"k", None)

        assert store.stream_time_ms == 10
        assert store.get(b"k") is None
        with pytest.raises(InvalidArgumentError):
            store.put(b"k", None, -1)

    @pytest.mark.spec("TKV-3", "COM-19")
    def test_a_malformed_timestamp_is_refused(
        self, store: TimestampedKeyValueStore[bytes, bytes]
    ) -> None:
        """So is a missing one, and in a bulk put nothing is put."""
        bad: Any
        for bad, error in (
            (None, InvalidTypeError),
            ("1", InvalidTypeError),
            (1.0, InvalidTypeError),
            (True, InvalidTypeError),
            (-1, InvalidArgumentError),
            (1 << 63, InvalidArgumentError),
        ):
            with pytest.raises(error):
                store.put(b"k", b"v", bad)
            with pytest.raises(error):
                store.put_if_absent(b"k", b"v", bad)
            with pytest.raises(error):
                store.put_all([(b"j", b"v", 1), (b"k", b"v", bad)])
            with pytest.raises(error):
                store.put_many([b"j", b"k"], [b"v", b"v"], [1, bad])
        with pytest.raises(InvalidTypeError):
            store.put_many([b"k"], [b"v"])
        with pytest.raises(InvalidArgumentError):
            store.put_many([b"k"], [b"v"], [1, 2])

        assert list(store.range()) == []
        assert store.stream_time_ms is None
        assert store.uncommitted_bytes == 0

    @pytest.mark.spec("TKV-4", "TKV-5")
    def test_a_deletion_among_many_moves_no_time(
        self, timestamped_stores: TimestampedStores
    ) -> None:
        """Its timestamp may be the highest of the column."""
        store = timestamped_stores.open_with(TimestampedKeyValue("store"))
        for times in ([7, 90, 8], [90, 3, 2], [1, 2, 90]):
            store.put_many(
                [b"a", b"b", b"c"], [None if time_ms == 90 else b"v" for time_ms in times], times
            )
            store.commit({})

            assert store.stream_time_ms == 8

    @pytest.mark.spec("TKV-3")
    def test_many_are_put_with_their_timestamps(
        self, store: TimestampedKeyValueStore[bytes, bytes]
    ) -> None:
        """By triples or by columns; deletions need no timestamp among them."""
        store.put_all([(b"a", b"1", 3), (b"b", b"2", 9), (b"c", b"3", 1)])
        store.put_many(iter([b"c", b"a"]), (b"4", None), iter([7, None]))

        assert list(store.range()) == [
            (b"b", TimestampedValue(b"2", 9)),
            (b"c", TimestampedValue(b"4", 7)),
        ]
        assert store.stream_time_ms == 9

    @pytest.mark.spec("TKV-5", "COM-7", "COM-10")
    def test_stream_time_follows_commits(self, timestamped_stores: TimestampedStores) -> None:
        """A rollback takes it back, and a reopened store has that of its last commit."""
        store = timestamped_stores.open_with(TimestampedKeyValue("store"))
        store.put(b"k", b"v", 50)
        store.commit({})
        store.put(b"k", b"v", 80)
        seen = [
            store.stream_time_ms,
            store.read_only("read_uncommitted").stream_time_ms,
            store.read_only().stream_time_ms,
        ]
        store.rollback()
        seen.append(store.stream_time_ms)

        assert seen == [80, 80, 50, 50]
        if store.persistent:
            store.close()
            reopened = timestamped_stores.open_with(TimestampedKeyValue("store"))
            assert reopened.stream_time_ms == reopened.read_only().stream_time_ms == 50

    @pytest.mark.spec("TKV-5", "COM-17", "COM-29")
    def test_an_overwritten_put_still_moves_stream_time(
        self, timestamped_stores: TimestampedStores
    ) -> None:
        """In a replay too, whose changes have one put of each key, however they are cut."""
        original = timestamped_stores.open_with(TimestampedKeyValue("store"), "original")
        original.put(b"j", b"1", 5)
        original.put(b"k", b"1", 900)
        original.put(b"k", b"2", 30)
        original.put(b"j", None)
        changes = original.pending_changes()
        original.commit({})
        for number in range(len(changes) + 1):
            copy = timestamped_stores.open_with(TimestampedKeyValue("store"), f"copy-{number}")
            for part in split(changes, number):
                copy.replay(part)
                copy.commit({})

            assert list(copy.range()) == list(original.range())
            assert copy.stream_time_ms == original.stream_time_ms == 900

    @pytest.mark.spec("TKV-6")
    def test_a_value_may_have_no_timestamp(self, timestamped_stores: TimestampedStores) -> None:
        """Such a value comes from elsewhere; it survives a load, and never expires."""
        source = timestamped_stores.open_with(TimestampedKeyValue("store", ttl_ms=10), "source")
        copy = timestamped_stores.open_with(TimestampedKeyValue("store", ttl_ms=10), "copy")
        source.replay(Changes([b"old", b"new"], [b"1", b"2"], timestamps_ms=[None, 3]))
        source.commit({})
        early = list(source.range())
        source.put(b"now", b"3", 1_000)
        source.commit({})
        load_all(source, copy)

        expected = [
            (b"now", TimestampedValue(b"3", 1_000)),
            (b"old", TimestampedValue(b"1", None)),
        ]
        assert early == [(b"new", TimestampedValue(b"2", 3)), expected[1]]
        assert list(source.range()) == list(copy.range()) == expected
        assert copy.stream_time_ms == 1_000
        for store in (source, copy):
            for reader in (store, store.read_only(), store.read_only("read_uncommitted")):
                assert reader.get(b"old") == expected[1][1]
                assert reader.get_many([b"old", b"new"]) == [expected[1][1], None]
                assert list(reader.prefix_scan(b"o")) == [expected[1]]

    @pytest.mark.spec("TKV-5", "COM-20")
    def test_a_load_takes_stream_time_over(self, timestamped_stores: TimestampedStores) -> None:
        """What moved it may be gone: overwritten by an older value, or deleted."""
        specification = TimestampedKeyValue("store", ttl_ms=100)
        source = timestamped_stores.open_with(specification, "source")
        copy = timestamped_stores.open_with(specification, "copy")
        source.put(b"deleted", b"1", 150)
        source.put(b"older", b"2", 120)
        source.put(b"older", b"3", 60)
        source.put(b"expired", b"4", 50)
        source.delete(b"deleted")
        source.commit({})
        load_all(source, copy)

        assert copy.stream_time_ms == source.stream_time_ms == 150
        copy.put(b"late", b"5", 50)
        assert list(copy.range()) == [(b"older", TimestampedValue(b"3", 60))]
