"""What reads show of values that expire, by stream time and by the wall clock."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

from statestores.spi import (
    ReadOnlyTimestampedKeyValueStore,
    TimestampedKeyValue,
    TimestampedKeyValueStore,
    TimestampedValue,
)
from statestores_conformance.subjects.stores import CHANGELOG
from statestores_conformance.subjects.timestamped_stores import TimestampedStores

Reader: TypeAlias = ReadOnlyTimestampedKeyValueStore[bytes, bytes]
Store: TypeAlias = TimestampedKeyValueStore[bytes, bytes]

_TTL_MS = 100
_EVENT = TimestampedKeyValue("store", ttl_ms=_TTL_MS)
_WALL = TimestampedKeyValue("store", ttl_ms=_TTL_MS, ttl_clock="wall")

READS: dict[str, Callable[[Reader], list[bytes]]] = {
    "get": lambda reader: [key for key in (b"a", b"ab", b"b", b"z") if reader.get(key)],
    "get_many": lambda reader: [
        key
        for key, found in zip(
            (b"a", b"ab", b"b", b"z"), reader.get_many([b"a", b"ab", b"b", b"z"]), strict=True
        )
        if found
    ],
    "range": lambda reader: [key for key, _ in reader.range()],
    "reverse range": lambda reader: [key for key, _ in reader.range(reverse=True)][::-1],
    "bounded range": lambda reader: [key for key, _ in reader.range(b"a", b"z")],
    "prefix_scan": lambda reader: [key for key, _ in reader.prefix_scan(b"")],
}
"""Every form of read, as the keys that it finds."""


class Hands:
    """A clock whose hands the test moves."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


class TimeToLiveReadTests:
    """By stream time: an expired key is immediately absent from every read."""

    @pytest.fixture
    def store(self, timestamped_stores: TimestampedStores) -> Store:
        """Open a store with a, ab and b, put at 0, 50 and 60."""
        store = timestamped_stores.open_with(_EVENT)
        for key, time_ms in ((b"a", 0), (b"ab", 50), (b"b", 60)):
            store.put(key, b"v", time_ms)
        store.commit({CHANGELOG: 1})
        return store

    @pytest.mark.spec("TTL-1", "TTL-2")
    @pytest.mark.parametrize(
        ("time_ms", "expected"),
        [
            (99, [b"a", b"ab", b"b", b"z"]),
            (100, [b"ab", b"b", b"z"]),
            (149, [b"ab", b"b", b"z"]),
            (150, [b"b", b"z"]),
            (160, [b"z"]),
            (10_000, [b"z"]),
        ],
    )
    def test_an_expired_key_is_absent_from_every_read(
        self, store: Store, time_ms: int, expected: list[bytes]
    ) -> None:
        """Exactly when its time to live has passed, not a millisecond earlier or later."""
        store.put(b"z", b"v", time_ms)
        uncommitted, committed = store.read_only("read_uncommitted"), store.read_only()
        pending = {name: [read(store), read(uncommitted)] for name, read in READS.items()}
        others = {name: read(committed) for name, read in READS.items()}
        store.commit({CHANGELOG: 2})
        after = {name: [read(store), read(store.read_only())] for name, read in READS.items()}

        living = [b"a", b"ab", b"b"]
        assert pending == dict.fromkeys(READS, [expected] * 2)
        assert others == dict.fromkeys(READS, living)
        assert after == dict.fromkeys(READS, [expected] * 2)

    @pytest.mark.spec("TTL-2")
    def test_what_has_expired_counts_as_absent(self, store: Store) -> None:
        """Put if absent sets it, delete finds nothing, and both are writes like any other."""
        store.put(b"z", b"v", 1_000)
        found = store.delete(b"ab"), store.put_if_absent(b"a", b"new", 1_000)
        store.commit({})

        assert found == (None, None)
        assert [key for key, _ in store.range()] == [b"a", b"z"]

    @pytest.mark.spec("TTL-2", "KVS-11")
    def test_an_iterator_keeps_what_lived_at_its_call(self, store: Store) -> None:
        """Time that passes while it runs takes nothing from it."""
        held = [reader.range() for reader in (store, store.read_only())]
        first = [next(iterator) for iterator in held]
        store.put(b"z", b"v", 10_000)
        store.commit({})
        rest = [[key for key, _ in iterator] for iterator in held]

        assert first == [(b"a", TimestampedValue(b"v", 0))] * 2
        assert rest == [[b"ab", b"b"]] * 2

    @pytest.mark.spec("TTL-2", "COM-7")
    def test_a_rollback_brings_back_what_its_time_had_expired(self, store: Store) -> None:
        """The passing of that time was pending as well."""
        store.put(b"z", b"v", 10_000)
        store.pending_changes()
        store.rollback()

        assert [key for key, _ in store.range()] == [b"a", b"ab", b"b"]

    @pytest.mark.spec("TTL-3")
    def test_a_put_that_is_too_old_hides_its_key(self, store: Store) -> None:
        """It is the later put, so it counts; and it has expired."""
        store.put(b"z", b"v", 150)
        store.put(b"b", b"late", 50)
        hidden = store.get(b"b")
        store.commit({})

        assert hidden is None
        assert [key for key, _ in store.range()] == [b"z"]

    @pytest.mark.spec("TTL-2")
    def test_time_passes_for_a_reopened_store_alike(
        self, timestamped_stores: TimestampedStores, store: Store
    ) -> None:
        """Stream time is stored, and so it is known what has expired."""
        store.put(b"z", b"v", 155)
        store.commit({})
        expected = list(store.range())
        if store.persistent:
            store.close()
            store = timestamped_stores.open_with(_EVENT)

        assert list(store.range()) == list(store.read_only().range()) == expected
        assert [key for key, _ in expected] == [b"b", b"z"]

    @pytest.mark.spec("TTL-9", "COM-13")
    def test_the_time_to_live_may_change(self, timestamped_stores: TimestampedStores) -> None:
        """Shorter, longer, none, again: from the opening on, the rows' own timestamps decide."""
        store = timestamped_stores.open_with(TimestampedKeyValue("store"))
        if not store.persistent:
            pytest.skip("promise not made: persistent")
        for number in range(5):
            store.put(b"%d" % number, b"v", 100 * number)
        store.commit({CHANGELOG: 3})
        store.close()
        living = {}
        for ttl_ms in (401, 250, 300, None):
            again = timestamped_stores.open_with(TimestampedKeyValue("store", ttl_ms=ttl_ms))
            living[ttl_ms] = [key for key, _ in again.range()]
            assert again.specification == TimestampedKeyValue("store", ttl_ms=ttl_ms)
            assert again.committed_offset(CHANGELOG) == 3
            again.close()

        everything = [b"0", b"1", b"2", b"3", b"4"]
        assert living == {
            401: everything,
            250: everything[2:],
            300: everything[2:],
            None: everything,
        }


class WallClockTests:
    """By the wall clock: time passes even when nothing is written."""

    @pytest.mark.spec("TTL-1", "TTL-4")
    @pytest.mark.parametrize("read", READS)
    def test_a_key_expires_by_itself(
        self, timestamped_stores: TimestampedStores, read: str
    ) -> None:
        """For the owner and for facades, committed or pending."""
        clock = Hands(1_000)
        store = timestamped_stores.open_with(_WALL, clock=clock)
        store.put(b"a", b"v", 1_000)
        store.commit({})
        store.put(b"b", b"v", 1_050)
        facades = [store.read_only(), store.read_only("read_uncommitted")]
        seen = []
        for now_ms in (1_099, 1_100, 1_149, 1_150):
            clock.now_ms = now_ms
            seen.append([READS[read](reader) for reader in (store, *facades)])

        both, a, b = [b"a", b"b"], [b"a"], [b"b"]
        assert seen == [[both, a, both], [b, [], b], [b, [], b], [[], [], []]]

    @pytest.mark.spec("TKV-3")
    def test_a_put_takes_the_time_of_the_call(self, timestamped_stores: TimestampedStores) -> None:
        """Unless it is given another one, which then counts."""
        clock = Hands(5_000)
        store = timestamped_stores.open_with(_WALL, clock=clock)
        store.put(b"a", b"v")
        store.put_if_absent(b"b", b"v")
        clock.now_ms += 7
        store.put_many([b"c", b"d"], [b"v", b"v"])
        store.put_all([(b"e", b"v", None), (b"f", b"v", 4_990)])

        assert {key: stamped.timestamp_ms for key, stamped in store.range()} == {
            **dict.fromkeys((b"a", b"b"), 5_000),
            **dict.fromkeys((b"c", b"d", b"e"), 5_007),
            b"f": 4_990,
        }

    @pytest.mark.spec("TTL-4")
    def test_a_clock_that_goes_back_brings_nothing_back(
        self, timestamped_stores: TimestampedStores
    ) -> None:
        """What a store has once treated as expired stays so while it is open."""
        clock = Hands(1_000)
        store = timestamped_stores.open_with(_WALL, clock=clock)
        store.put(b"a", b"v")
        store.commit({})
        clock.now_ms = 1_100
        first = store.get(b"a")
        clock.now_ms = 1_000

        assert first is None
        assert store.get(b"a") is store.read_only().get(b"a") is None

    @pytest.mark.spec("TTL-1")
    def test_stream_time_expires_nothing_then(self, timestamped_stores: TimestampedStores) -> None:
        """A timestamp far ahead of the clock takes no other key with it."""
        store = timestamped_stores.open_with(_WALL, clock=Hands(1_000))
        store.put(b"a", b"v", 1_000)
        store.put(b"b", b"v", 10**12)
        store.commit({})

        assert [key for key, _ in store.range()] == [b"a", b"b"]
        assert store.stream_time_ms == 10**12
