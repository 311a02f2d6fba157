"""Adversaries of a store: keys and values of every size, and changes as a damaged log gives them.

The sizes that an engine takes are in chapter 1 (ENG-25); here the store adds its own bytes to each
key, and escapes some of them. What a store cannot keep it must refuse as a whole.
"""

import random

import pytest

from statestores.errors import StateStoreError
from statestores_conformance.subjects.store_fixtures import StoreFixtures
from statestores_conformance.subjects.stores import (
    CHANGELOG,
    KEYS,
    KeyValueStores,
    Stores,
    StoreUnderTest,
    VersionedStores,
)
from statestores_conformance.subjects.versioned_fixtures import HIGHEST_MS, Record

_HUGE_KEY_BYTES = 64 * 1024
_HUGE_VALUE_BYTES = 10 * 1024 * 1024
_SEED = 67

HUGE_KEYS: dict[str, bytes] = {
    "plain": b"k" * _HUGE_KEY_BYTES,
    "all zero, which escapes double": b"\x00" * _HUGE_KEY_BYTES,
    "all ff": b"\xff" * _HUGE_KEY_BYTES,
    "no text in any encoding": random.Random(_SEED).randbytes(_HUGE_KEY_BYTES),  # noqa: S311
}
"""Keys of 64 KiB, by what is hard about them."""


class AnyKindAdversaryTests(StoreFixtures):
    """Whatever the kind."""

    @pytest.mark.spec("COM-1", "COM-9", "ENG-25", "ENG-16")
    @pytest.mark.parametrize("key", HUGE_KEYS.values(), ids=HUGE_KEYS)
    def test_a_huge_key_is_kept_or_refused_whole(self, opened: StoreUnderTest, key: bytes) -> None:
        """Never cut short, never half a commit, and the store goes on after a refusal."""
        neighbours = [key[:-1], key[:-1] + bytes([key[-1] ^ 1])]
        opened.write(KEYS[0], 1)
        opened.store.commit({CHANGELOG: 1})
        before = opened.committed()
        try:
            for number, each in enumerate([*neighbours, key]):
                opened.write(each, 10 + number)
            opened.store.commit({CHANGELOG: 2})
        except StateStoreError:
            opened.store.rollback()
            assert opened.committed() == opened.content() == before
            assert opened.store.committed_offset(CHANGELOG) == 1
        else:
            expected = {KEYS[0]: b"1", neighbours[0]: b"10", neighbours[1]: b"11", key: b"12"}
            assert opened.latest() == expected
            assert list(opened.latest()) == sorted(expected)
            opened.erase(key, 20)
            opened.store.commit({})
            del expected[key]
            assert opened.latest() == expected
        opened.write(KEYS[1], 30)
        opened.store.commit({CHANGELOG: 3})

        assert opened.latest()[KEYS[1]] == b"30"

    @pytest.mark.spec("COM-3", "COM-6", "COM-21")
    def test_an_end_of_the_log_below_the_store_is_noticed(self, stores: Stores) -> None:
        """A log that was cut below the committed offset cannot be committed from again."""
        opened = stores.open()
        for number in range(3):
            opened.write(KEYS[number], number)
            opened.store.commit({CHANGELOG: 10 + number})
        opened.write(KEYS[3], 9)
        with pytest.raises(StateStoreError, match="11"):
            opened.store.commit({CHANGELOG: 11})

        assert opened.store.committed_offset(CHANGELOG) == 12
        assert KEYS[3] not in opened.committed()

    @pytest.mark.spec("COM-3", "COM-4", "COM-23")
    def test_the_offset_of_another_partition_is_not_its_own(self, opened: StoreUnderTest) -> None:
        """Asking with the wrong partition, or the wrong topic, finds none."""
        opened.store.commit({CHANGELOG: 5})
        wrong = [
            CHANGELOG._replace(partition=1),
            CHANGELOG._replace(topic=CHANGELOG.topic + "0"),
            CHANGELOG._replace(topic=CHANGELOG.topic[:-1]),
            CHANGELOG._replace(topic=CHANGELOG.topic + "\x00"),
        ]
        for number, partition in enumerate(wrong):
            assert opened.store.committed_offset(partition) is None
            opened.store.commit({partition: number})

        assert opened.store.committed_offset(CHANGELOG) == 5

    @pytest.mark.spec("COM-3", "COM-17")
    def test_gaps_between_offsets_are_legal(self, opened: StoreUnderTest) -> None:
        """A compacted log leaves numbers out; a store counts nothing and misses nothing."""
        for number, offset in enumerate([0, 1, 7, 1_000_000, 2**62, 2**63 - 1]):
            opened.write(KEYS[number % 4], number)
            opened.store.commit({CHANGELOG: offset})

            assert opened.store.committed_offset(CHANGELOG) == offset
        assert opened.latest() == {b"a": b"4", b"b": b"5", b"c": b"2", b"d": b"3"}


class KeyValueAdversaryTests(AnyKindAdversaryTests):
    """Adversaries of a key-value store."""

    @pytest.mark.spec("KVS-1", "KVS-5", "KVS-7", "ENG-25")
    def test_a_huge_value_comes_back(self, key_value_stores: KeyValueStores) -> None:
        """10 MiB, pending, committed and replaced by a smaller one."""
        value = random.Random(_SEED).randbytes(_HUGE_VALUE_BYTES)  # noqa: S311  # not secret
        store = key_value_stores.open().store
        store.put(b"k", value)
        found = [store.get(b"k") == value]
        store.commit({})
        found.append(dict(store.range()) == {b"k": value})
        store.put(b"k", b"")
        store.commit({})

        assert found == [True, True]
        assert store.get(b"k") == b""


class VersionedAdversaryTests(AnyKindAdversaryTests):
    """Adversaries of a versioned store: times at both extremes, and exactly at the horizon."""

    @pytest.mark.spec("VRS-2", "VRS-11", "VRS-29")
    @pytest.mark.parametrize(
        ("retention_ms", "stream_time_ms"),
        [(0, 0), (0, HIGHEST_MS), (1, HIGHEST_MS), (1_000, 5_000), (HIGHEST_MS, HIGHEST_MS)],
    )
    def test_the_horizon_is_exact_at_every_edge(
        self, versioned_stores: VersionedStores, retention_ms: int, stream_time_ms: int
    ) -> None:
        """A put at it is accepted and one below is not, pending, committed and replayed."""
        horizon_ms = stream_time_ms - retention_ms
        live = versioned_stores.open("live", history_retention_ms=retention_ms).store
        copy = versioned_stores.open("copy", history_retention_ms=retention_ms).store
        live.put(b"x", b"v", stream_time_ms)
        for time_ms in (horizon_ms, horizon_ms - 1, horizon_ms + 1):
            if 0 <= time_ms <= HIGHEST_MS:
                result = live.put(b"%d" % (time_ms - horizon_ms), b"v", time_ms)

                assert result.accepted == (time_ms >= horizon_ms)
                stream_time_ms = max(stream_time_ms, time_ms)
        changes = live.pending_changes()
        live.commit({})
        copy.replay(changes)
        copy.commit({})

        assert live.get(b"0") == Record(b"v", horizon_ms, None)
        assert live.get(b"-1") is None
        assert list(copy.scan_as_of()) == list(live.scan_as_of())
        assert copy.stream_time_ms == live.stream_time_ms == stream_time_ms

    @pytest.mark.spec("VRS-4", "VRS-5", "COM-31")
    def test_many_writes_at_one_time_leave_the_last(
        self, versioned_stores: VersionedStores
    ) -> None:
        """Values and deletions of one key and time replace each other, in one commit or many."""
        store = versioned_stores.open().store
        for number in range(20):
            store.put(b"k", None if number % 3 == 0 else b"%d" % number, 100)
            if number % 4 == 0:
                store.commit({})
        store.commit({})

        assert list(store.history(b"k")) == [Record(b"19", 100, None)]
        store.put(b"k", None, 100)
        store.commit({})
        assert list(store.history(b"k")) == []
        assert store.stream_time_ms == 100
