"""What is special about replaying and loading versions."""

import pytest

from statestores.spi import Changes
from statestores_conformance.stores.every_kind.replay import load_all
from statestores_conformance.subjects.stores import RETENTION_MS, VersionedStores
from statestores_conformance.subjects.versioned_fixtures import (
    Record,
    Store,
    VersionedStoreFixtures,
)


class VersionedReplayTests(VersionedStoreFixtures):
    """Time order, lateness, and stream time."""

    @pytest.mark.spec("COM-41")
    def test_pending_changes_are_in_time_order(self, store: Store) -> None:
        """Whatever the order of the puts, so that none is late when it is replayed."""
        for timestamp_ms in (500, 100, 900, 300, 700):
            store.put(b"%d" % (timestamp_ms % 7), b"v", timestamp_ms)
        changes = store.pending_changes()

        assert list(changes.times_ms or ()) == [100, 300, 500, 700, 900]

    @pytest.mark.spec("COM-40")
    def test_a_late_change_is_not_taken(self, store: Store) -> None:
        """A replayed change is judged like a put; one at the horizon is taken."""
        store.put(b"x", b"v", 5_000)
        store.commit({})
        horizon = 5_000 - RETENTION_MS
        store.replay(Changes([b"k", b"j"], [b"late", b"v"], [horizon - 1, horizon]))

        assert store.get(b"k") is None
        assert store.get(b"j") == Record(b"v", horizon, None)

    @pytest.mark.spec("COM-40", "COM-29")
    def test_a_change_is_judged_by_the_changes_before_it(self, store: Store) -> None:
        """Kafka judges a batch by its last record (VER-25): what comes before it could be lost."""
        times_ms = [1_015, 1_010, 1_020, 9_000]
        store.replay(Changes([b"k", b"k", b"j", b"x"], [None, b"v", b"u", b"w"], times_ms))
        store.commit({})

        assert store.get(b"k") is None
        assert store.get(b"j") == Record(b"u", 1_020, None)

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
        """Even when the deletion that moved it is long forgotten."""
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
