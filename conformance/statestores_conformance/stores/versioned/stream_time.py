"""Stream time and what it decides: what is late, and what survives reopening."""

from collections.abc import Callable

import pytest

from statestores.errors import (
    StoreMismatchError,
)
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.subjects.stores import RETENTION_MS, VersionedStores
from statestores_conformance.subjects.versioned_fixtures import (
    FORTY,
    NOT_ACCEPTED,
    TEN,
    TWENTY,
    Record,
    Store,
    VersionedStoreFixtures,
    accepted,
)


class VersionedStreamTimeTests(VersionedStoreFixtures):
    """Stream time, the horizon, and what comes too late."""

    @pytest.mark.spec("VRS-3")
    def test_stream_time_is_the_highest_time_accepted(self, store: Store) -> None:
        """Of any key, by puts and by deletions; ``None`` before the first."""
        times = [store.stream_time_ms]
        for key, value, timestamp_ms in (
            (b"a", b"1", 0),
            (b"b", b"1", 50),
            (b"a", b"2", 20),
            (b"x", None, 70),
        ):
            store.put(key, value, timestamp_ms)
            times.append(store.stream_time_ms)
        store.delete(b"y", 80)
        times.append(store.stream_time_ms)

        assert times == [None, 0, 50, 50, 70, 80]

    @pytest.mark.spec("VRS-3")
    def test_a_rollback_takes_stream_time_back(self, store: Store) -> None:
        """Writes that are forgotten have moved nothing."""
        store.put(b"k", b"v", 10)
        store.commit({})
        store.put(b"k", b"v", 10 + 2 * RETENTION_MS)
        store.rollback()

        assert store.stream_time_ms == 10
        assert store.put(b"k", b"w", 5) == accepted(10)

    @pytest.mark.spec("VRS-2")
    def test_a_put_at_the_horizon_is_accepted(self, store: Store) -> None:
        """The boundary itself is not late."""
        store.put(b"x", b"v", 5_000)

        assert store.put(b"k", b"v", 5_000 - RETENTION_MS) == accepted()
        assert store.get(b"k") == Record(b"v", 5_000 - RETENTION_MS, None)

    @pytest.mark.spec("VRS-2")
    @pytest.mark.parametrize("commit", [False, True], ids=["pending", "committed"])
    def test_a_put_below_the_horizon_changes_nothing(self, store: Store, *, commit: bool) -> None:
        """No version, no stream time, nothing pending: nothing in the changelog."""
        store.put(b"x", b"v", 5_000)
        if commit:
            store.commit({})
        before = (store.uncommitted_bytes, len(store.pending_changes()))
        late = 5_000 - RETENTION_MS - 1
        results = [store.put(b"k", b"v", late), store.put(b"x", None, late)]

        assert results == [NOT_ACCEPTED, NOT_ACCEPTED]
        assert store.get(b"k") is None
        assert store.get(b"x") == Record(b"v", 5_000, None)
        assert store.stream_time_ms == 5_000
        assert (store.uncommitted_bytes, len(store.pending_changes())) == before

    @pytest.mark.spec("VRS-2", "VRS-7")
    def test_a_delete_below_the_horizon_changes_nothing(self, store: Store) -> None:
        """It returns ``None``, whatever was valid then, and the key keeps its value."""
        store.put(b"k", b"v", 10)
        store.put(b"x", b"v", 5_000)

        assert store.delete(b"k", 5_000 - RETENTION_MS - 1) is None
        assert store.get(b"k") == Record(b"v", 10, None)
        assert store.delete(b"k", 5_000 - RETENTION_MS) == Record(b"v", 10, None)
        assert store.get(b"k") is None

    @pytest.mark.spec("VRS-29")
    def test_without_retention_only_the_latest_is_readable(
        self, versioned_stores: VersionedStores, commit_between: Callable[[Store], None]
    ) -> None:
        """With a retention of 0, a put must not be below stream time."""
        store = versioned_stores.open(history_retention_ms=0).store
        results = []
        for value, timestamp_ms in ((b"1", 10), (b"2", 10), (b"3", 20), (b"4", 19)):
            results.append(store.put(b"k", value, timestamp_ms))
            commit_between(store)

        assert results == [accepted(), accepted(), accepted(), NOT_ACCEPTED]
        assert store.get(b"k") == store.get(b"k", 20) == Record(b"3", 20, None)
        assert store.get(b"k", 19) is None
        assert list(store.history(b"k")) == [Record(b"3", 20, None)]

    @pytest.mark.spec("COM-13", "COM-27")
    def test_another_retention_is_refused_at_opening(
        self, versioned_stores: VersionedStores
    ) -> None:
        """A longer one would promise history that is gone, a shorter one drop what was kept."""
        with versioned_stores.open().store as store:
            skip_unless_promised("persistent", made=store.persistent)
            store.put(b"k", b"v", 10)
            store.commit({})
        with pytest.raises(StoreMismatchError, match="history_retention_ms"):
            versioned_stores.open(history_retention_ms=RETENTION_MS * 2)

        assert versioned_stores.open().store.get(b"k") == Record(b"v", 10, None)


@pytest.mark.level("durable")
class VersionedReopeningTests(VersionedStoreFixtures):
    """What a versioned store still knows after it was closed."""

    @pytest.mark.spec("VRS-13")
    def test_history_survives_reopening(self, versioned_stores: VersionedStores) -> None:
        """All versions and deletions are there, for reads and for out-of-order puts alike."""
        with versioned_stores.open().store as store:
            skip_unless_promised("persistent", made=store.persistent)
            store.put_many([b"k"] * 4, [b"10", b"20", None, b"40"], [10, 20, 30, 40])
            store.commit({})
        reopened = versioned_stores.open().store

        assert list(reopened.history(b"k")) == [TEN, TWENTY, FORTY]
        assert reopened.put(b"k", b"15", 15).valid_to_ms == 20
        assert reopened.put(b"k", b"25", 25).valid_to_ms == 30
        assert reopened.get(b"k", 29) == Record(b"25", 25, 30)

    @pytest.mark.spec("VRS-13", "VRS-2")
    def test_stream_time_survives_reopening(self, versioned_stores: VersionedStores) -> None:
        """What was late before is still late: the horizon does not start again."""
        with versioned_stores.open().store as store:
            skip_unless_promised("persistent", made=store.persistent)
            store.put_many([b"k", b"k", b"x"], [b"1", b"2", b"v"], [10, 20, 10_000])
            store.delete(b"x", 10_001)
            store.commit({})
        reopened = versioned_stores.open().store

        assert reopened.stream_time_ms == 10_001
        assert not reopened.put(b"k", b"late", 10_000 - RETENTION_MS).accepted
        assert reopened.put(b"k", b"3", 10_001 - RETENTION_MS).accepted
        assert reopened.get(b"k", 15) is None
