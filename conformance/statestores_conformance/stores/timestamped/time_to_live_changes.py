"""Expiry in the changes of a store: what a changelog, a replica and a snapshot see of it."""

import random

import pytest

from statestores.spi import Changes, TimestampedKeyValue, TimestampedKeyValueStore
from statestores_conformance.stores.every_kind.replay import load_all, split
from statestores_conformance.subjects.timestamped_stores import TimestampedStores

_TTL_MS = 100
_EVENT = TimestampedKeyValue("store", ttl_ms=_TTL_MS)
_KEYS = 12
_SEED = 258


def _deleted(changes: Changes) -> list[bytes]:
    pairs = zip(changes.keys, changes.values, strict=True)
    return [key for key, value in pairs if value is None]


def _grow_old(store: TimestampedKeyValueStore[bytes, bytes], keys: list[bytes]) -> None:
    """Commit *keys*, and put more than enough others to make these expire."""
    for key in keys:
        store.put(key, b"v", 0)
    store.commit({})
    for number in range(60):
        store.put(b"~%02d" % number, b"v", _TTL_MS)


class TimeToLiveChangeTests:
    """The deletion of what has expired is a change like any other."""

    def _live(self, store: TimestampedKeyValueStore[bytes, bytes]) -> list[Changes]:
        """Write, in and out of order, and commit; return what each commit made durable."""
        dice = random.Random(_SEED)  # noqa: S311  # reproducible, not secret
        log = []
        for number in range(600):
            key = b"%02d" % dice.randrange(_KEYS)
            late = dice.randrange(2 * _TTL_MS) if dice.random() < 0.2 else 0
            value = None if dice.random() < 0.1 else b"%d" % number
            store.put(key, value, max(0, 3 * number - late))
            store.put(b"once-%d" % number, b"v", 3 * number)
            if number % 20 == 19:
                log.append(store.pending_changes())
                store.commit({})
        return log

    @pytest.mark.spec("TTL-5", "COM-35")
    def test_a_deletion_by_age_is_among_the_pending_changes(
        self, timestamped_stores: TimestampedStores
    ) -> None:
        """It is part of the commit that makes it, so a changelog has it."""
        store = timestamped_stores.open_with(_EVENT)
        _grow_old(store, [b"a", b"b"])
        deleted = _deleted(store.pending_changes())
        again = _deleted(store.pending_changes())
        store.commit({})

        assert deleted == again == [b"a", b"b"]
        assert _deleted(store.pending_changes()) == []

    @pytest.mark.spec("TTL-5")
    def test_every_expired_key_is_deleted_in_the_end(
        self, timestamped_stores: TimestampedStores
    ) -> None:
        """The changes of a long life delete each key that it no longer holds."""
        store = timestamped_stores.open_with(_EVENT)
        log = self._live(store)
        for number in range(20):
            store.put(b"last", b"v", 10_000 + number)
            log.append(store.pending_changes())
            store.commit({})
        latest: dict[bytes, bytes | None] = {}
        for changes in log:
            latest.update(zip(changes.keys, changes.values, strict=True))

        assert [key for key, value in latest.items() if value is not None] == [b"last"]

    @pytest.mark.spec("TTL-6")
    def test_a_key_refreshed_in_the_same_commit_survives(
        self, timestamped_stores: TimestampedStores
    ) -> None:
        """Before the sweep looks, and after it has looked."""
        for name, asking in (("before", False), ("after", True)):
            store = timestamped_stores.open_with(_EVENT, name)
            _grow_old(store, [b"k", b"k2"])
            if asking:
                assert b"k" in _deleted(store.pending_changes())
            store.put(b"k", b"fresh", _TTL_MS)
            deleted = _deleted(store.pending_changes())
            store.commit({})

            assert deleted == [b"k2"]
            assert store.get(b"k") == store.read_only().get(b"k") == (b"fresh", _TTL_MS)

    @pytest.mark.spec("TTL-6")
    def test_siblings_are_left_alone(self, timestamped_stores: TimestampedStores) -> None:
        """Keys that begin with an expired one, or end earlier, live by their own timestamps."""
        siblings = [b"", b"k", b"k\x00", b"k\x00\x00", b"k\xff", b"k1", b"kk", b"\xff"]
        for expired in siblings:
            store = timestamped_stores.open_with(_EVENT, expired.hex() or "empty")
            for key in siblings:
                store.put(key, b"v", 0 if key == expired else 90)
            store.commit({})
            _grow_old(store, [])
            store.commit({})

            living = [key for key in siblings if store.get(key) is not None]
            assert living == [key for key in siblings if key != expired]

    @pytest.mark.spec("TTL-7", "COM-17", "COM-29", "COM-32")
    @pytest.mark.parametrize("seed", range(3))
    def test_a_replica_shows_what_the_original_shows(
        self, timestamped_stores: TimestampedStores, seed: int
    ) -> None:
        """However the log is cut, and replayed again from the middle."""
        dice = random.Random(seed)  # noqa: S311  # reproducible, not secret
        original = timestamped_stores.open_with(_EVENT, "original")
        copy = timestamped_stores.open_with(_EVENT, "copy")
        log = self._live(original)
        for changes in [*log, *log[dice.randrange(len(log)) :]]:
            for part in split(changes, *(dice.randrange(len(changes) + 1) for _ in range(2))):
                copy.replay(part)
                if dice.random() < 0.5:
                    copy.commit({})
        copy.commit({})

        assert list(copy.range()) == list(original.range())
        assert list(copy.read_only().range()) == list(original.read_only().range())
        assert copy.stream_time_ms == original.stream_time_ms

    @pytest.mark.spec("TTL-7")
    def test_a_replica_deletes_nothing_by_itself(
        self, timestamped_stores: TimestampedStores
    ) -> None:
        """Its rows are those of the changelog, so it can be taken over at any time."""
        replica = timestamped_stores.open_with(_EVENT)
        for number in range(50):
            batch = Changes([b"%d" % number], [b"v"], timestamps_ms=[1_000 * number])
            replica.replay(batch)
            pending = replica.pending_changes()
            replica.commit({})
            replica.commit({})

            assert list(pending.keys) == [b"%d" % number]
        assert [key for key, _ in replica.range()] == [b"49"]
        for number in range(80):
            replica.put(b"own-%d" % number, b"v", 60_000)
        taken_over = _deleted(replica.pending_changes())

        assert sorted(taken_over) == sorted(b"%d" % number for number in range(50))

    @pytest.mark.spec("TTL-10", "COM-20")
    def test_the_committed_content_is_what_lives(
        self, timestamped_stores: TimestampedStores
    ) -> None:
        """So no snapshot and no export brings back what is gone, and a copy goes on likewise."""
        original = timestamped_stores.open_with(_EVENT, "original")
        copy = timestamped_stores.open_with(_EVENT, "copy")
        self._live(original)
        content = [key for changes in original.committed_changes() for key in changes.keys]
        load_all(original, copy)

        assert content == [key for key, _ in original.range()] == [key for key, _ in copy.range()]
        for store in (original, copy):
            store.put(b"z", b"v", 1_850)
        assert list(copy.range()) == list(original.range())
