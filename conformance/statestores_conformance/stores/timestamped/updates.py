"""Updating many keys at once where values have timestamps, and where they expire."""

from typing import Any

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.spi import TimestampedKeyValue, TimestampedKeyValueStore, TimestampedValue
from statestores_conformance.many_cases import for_each
from statestores_conformance.stores.key_value.updates import returning
from statestores_conformance.stores.timestamped.time_to_live_reads import Hands
from statestores_conformance.subjects.timestamped_stores import TimestampedStores

_EVENT = TimestampedKeyValue("store", ttl_ms=20)
_WALL = TimestampedKeyValue("store", ttl_ms=20, ttl_clock="wall")


class TimestampedUpdateTests:
    """What timestamp the merged values have."""

    @pytest.fixture
    def store(self, timestamped_stores: TimestampedStores) -> TimestampedKeyValueStore[Any, Any]:
        """Open one empty store whose values do not expire."""
        return timestamped_stores.open_with(TimestampedKeyValue("store"))

    @pytest.mark.spec("TKV-8", "TKV-5")
    def test_a_merged_value_has_the_highest_timestamp(
        self, store: TimestampedKeyValueStore[bytes, bytes]
    ) -> None:
        """That of a row, or the one that it had, whichever value is kept; stream time is that."""
        store.put(b"a", b"5", 100)
        store.commit({})
        store.max_many([b"a", b"b", b"b", b"c"], [b"9", b"1", b"7", b"1"], [50, 80, 70, 60])

        assert dict(store.range()) == {
            b"a": TimestampedValue(b"9", 100),
            b"b": TimestampedValue(b"7", 80),
            b"c": TimestampedValue(b"1", 60),
        }
        store.min_many([b"b", b"c"], [b"9", b"9"], [150, 61])

        assert store.get_many([b"b", b"c"]) == [(b"7", 150), (b"1", 61)]
        assert store.stream_time_ms == 150

    @pytest.mark.spec("KVS-20", "TKV-8", "TKV-6")
    def test_nothing_moves_no_time(self, store: TimestampedKeyValueStore[bytes, bytes]) -> None:
        """A row without a value has no effect, and may be without a timestamp as well."""
        store.put(b"a", b"5", 10)
        store.max_many([b"a", b"b", b"a"], [None, None, b"6"], [99, None, 5])

        assert list(store.range()) == [(b"a", TimestampedValue(b"6", 10))]
        assert store.stream_time_ms == 10

    @pytest.mark.spec("TKV-3", "COM-19", "KVS-22")
    @for_each("times", [None, [1, None], [1, -1], [-1, 1], [1, "1"], [True, 1], [1 << 63, 1], [1]])
    def test_a_timestamp_that_is_none_is_refused(
        self, store: TimestampedKeyValueStore[bytes, bytes], times: Any
    ) -> None:
        """Missing, malformed, out of bounds or too few; also where a later row has a higher one."""
        for keys in ([b"a", b"a"], [b"a", b"b"]):
            for method in (store.add_many, store.min_many, store.max_many):
                with pytest.raises((InvalidTypeError, InvalidArgumentError)):
                    method(keys, [b"1", b"2"], times)

        assert list(store.range()) == []

    @pytest.mark.spec("TKV-8", "KVS-21")
    def test_a_function_gets_what_is_pending(
        self, store: TimestampedKeyValueStore[bytes, bytes]
    ) -> None:
        """Whatever was committed before it: a value, a deletion, and a row of the same commit."""
        store.put_many([b"a", b"b", b"c"], [b"1"] * 3, [10] * 3)
        store.commit({})
        store.put_many([b"a", b"b", b"d"], [b"2", None, b"2"], [20, None, 5])
        asked: list[Any] = []

        def updated(keys: list[bytes], found: list[Any]) -> list[Any]:
            asked.append((keys, found))
            return found

        store.update_many([b"d", b"a", b"b", b"a", b"c"], updated)

        assert asked == [([b"d", b"a", b"b", b"c"], [(b"2", 5), (b"2", 20), None, (b"1", 10)])]
        assert dict(store.range()) == {b"a": (b"2", 20), b"c": (b"1", 10), b"d": (b"2", 5)}

    @pytest.mark.spec("TKV-8", "KVS-21", "KVS-22")
    def test_a_function_gets_and_gives_timestamps(
        self, store: TimestampedKeyValueStore[bytes, bytes]
    ) -> None:
        """As pairs, or nothing; what is no pair is refused."""
        store.put(b"a", b"5", 10)
        wrong: list[Any] = [b"1", [(b"1",)], [b"1"], [(b"1", None)], [(1, 1)]]
        for updated in wrong:
            with pytest.raises((InvalidTypeError, InvalidArgumentError)):
                store.update_many([b"a"], returning(updated))
        store.update_many(
            [b"b", b"a"], lambda keys, found: [TimestampedValue(keys[0], 7), found[1] and None]
        )

        assert list(store.range()) == [(b"b", TimestampedValue(b"b", 7))]


class ExpiringUpdateTests:
    """What is still there for a row to be merged with."""

    @pytest.mark.spec("TKV-8", "TTL-2", "TTL-3")
    def test_a_row_finds_what_the_rows_before_it_have_left(
        self, timestamped_stores: TimestampedStores
    ) -> None:
        """They move stream time, by which the key's value may have expired within the batch."""
        store = timestamped_stores.open_with(_EVENT)
        store.put_many([b"a", b"b"], [b"9", b"9"], [100, 100])
        store.max_many(
            [b"a", b"x", b"b", b"b", b"y", b"y"],
            [b"1", b"0", b"1", b"0", b"8", b"2"],
            [100, 120, 120, 120, 90, 101],
        )

        assert dict(store.range()) == {
            b"b": TimestampedValue(b"1", 120),
            b"x": TimestampedValue(b"0", 120),
            b"y": TimestampedValue(b"2", 101),
        }

    @pytest.mark.spec("TKV-8", "TKV-3", "TTL-4")
    def test_rows_have_the_time_of_the_call(self, timestamped_stores: TimestampedStores) -> None:
        """Where values expire by the wall clock, and rows are merged with what lives then."""
        clock = Hands(1_000)
        store = timestamped_stores.open_with(_WALL, clock=clock)
        store.max_many([b"a", b"b"], [b"9", b"9"])
        clock.now_ms = 1_010
        store.max_many([b"b"], [b"1"])
        clock.now_ms = 1_020
        store.max_many([b"a", b"b", b"c"], [b"1", b"1", b"1"], [None, 1_005, None])

        assert dict(store.range()) == {
            b"a": TimestampedValue(b"1", 1_020),
            b"b": TimestampedValue(b"9", 1_010),
            b"c": TimestampedValue(b"1", 1_020),
        }

    @pytest.mark.spec("TKV-8", "TKV-5")
    def test_a_row_that_had_expired_moves_stream_time_too(
        self, timestamped_stores: TimestampedStores
    ) -> None:
        """By the wall clock it is replaced, not merged with; a replica reaches the same time."""
        first = timestamped_stores.open_with(_WALL, "first", clock=Hands(1_000))
        other = timestamped_stores.open_with(_WALL, "other", clock=Hands(1_000))
        for store in (first, other):
            store.put(b"a", b"0", 1)
        first.max_many([b"a", b"a", b"a"], [b"9", b"1", b"2"], [900, 800, 990])
        other.max_many([b"a", b"a", b"a"], [b"8", b"7", b"2"], [940, 930, 920])
        replica = timestamped_stores.open_with(_WALL, "replica", clock=Hands(1_000))
        replica.replay(other.pending_changes())

        assert list(first.range()) == [(b"a", TimestampedValue(b"2", 990))]
        assert list(other.range()) == []
        assert [first.stream_time_ms, other.stream_time_ms] == [990, 940]
        assert replica.stream_time_ms == 940
