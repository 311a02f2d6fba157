"""All tests of a timestamped key-value store, at either door. The table of contents."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from statestores.spi import KeyValueStore, TimestampedKeyValue
from statestores_conformance.models.timestamped_tests import TimestampedModelTests
from statestores_conformance.relations import Subject, TimestampedKind
from statestores_conformance.relations.suites import TimestampedRelations
from statestores_conformance.stores.every_kind.suite import AnyKindTests
from statestores_conformance.stores.key_value.many import KeyValueManyTests
from statestores_conformance.stores.key_value.reads import (
    KeyValueFacadeTests,
    KeyValueIteratorTests,
    KeyValueReadTests,
)
from statestores_conformance.stores.key_value.updates import KeyValueUpdateTests
from statestores_conformance.stores.key_value.writes import KeyValueWriteTests
from statestores_conformance.stores.timestamped.time_to_live_changes import TimeToLiveChangeTests
from statestores_conformance.stores.timestamped.time_to_live_reads import (
    TimeToLiveReadTests,
    WallClockTests,
)
from statestores_conformance.stores.timestamped.timestamps import (
    TimestampedBulkTests,
    TimestampTests,
)
from statestores_conformance.stores.timestamped.updates import (
    ExpiringUpdateTests,
    TimestampedUpdateTests,
)
from statestores_conformance.subjects.store_fixtures import closed_at_the_end
from statestores_conformance.subjects.stores import KeyValueStores
from statestores_conformance.subjects.timestamped_stores import (
    LONG_MS,
    OpenTimestampedStore,
    TimestampedStores,
    WithoutTimestamps,
    with_its_own_clock,
)


class TimestampedKeyValueStoreTests(AnyKindTests):
    """Everything that chapters 2, 3, 5 and 15 require of a key-value store with timestamps.

    Give it one fixture::

        class TestRedis(TimestampedKeyValueStoreTests):
            @pytest.fixture
            def open_timestamped_store(self) -> OpenTimestampedStore:
                return lambda path, specification, clock: RedisStore.open(path.name, specification)
    """

    kind_chapters = frozenset({"KVS", "TKV", "TTL"})

    TestWrites = KeyValueWriteTests
    TestBulkWrites = TimestampedBulkTests
    TestManyRows = KeyValueManyTests
    TestUpdates = KeyValueUpdateTests
    TestReads = KeyValueReadTests
    TestIterators = KeyValueIteratorTests
    TestReadsOfFacades = KeyValueFacadeTests
    TestTimestamps = TimestampTests
    TestStampedUpdates = TimestampedUpdateTests

    @pytest.fixture
    def timestamped_stores(
        self, open_timestamped_store: OpenTimestampedStore, tmp_path: Path
    ) -> Iterator[TimestampedStores]:
        """Open any number of timestamped stores; each is closed at the end."""
        yield from closed_at_the_end(TimestampedStores(tmp_path, open_timestamped_store))

    @pytest.fixture
    def key_value_stores(
        self, open_timestamped_store: OpenTimestampedStore, tmp_path: Path
    ) -> Iterator[KeyValueStores]:
        """Open the same as key-value stores without timestamps."""

        def open_store(path: Path, specification: Any) -> KeyValueStore[bytes, bytes]:
            stamped = TimestampedKeyValue(specification.name, ttl_ms=LONG_MS)
            return WithoutTimestamps(open_timestamped_store(path, stamped, None), specification)

        yield from closed_at_the_end(KeyValueStores(tmp_path, open_store))

    @pytest.fixture
    def stores(self, timestamped_stores: TimestampedStores) -> TimestampedStores:
        """Give the tests that hold for every kind this one."""
        return timestamped_stores


class TimeToLiveTests:
    """Everything that chapter 15 requires of values that expire. The fixture is the same."""

    kind_chapters = frozenset({"KVS", "TKV", "TTL"})

    TestReads = TimeToLiveReadTests
    TestWallClock = WallClockTests
    TestChanges = TimeToLiveChangeTests
    TestUpdates = ExpiringUpdateTests
    TestModel = TimestampedModelTests
    TestRelations = TimestampedRelations

    @pytest.fixture
    def timestamped_stores(
        self, open_timestamped_store: OpenTimestampedStore, tmp_path: Path
    ) -> Iterator[TimestampedStores]:
        """Open any number of timestamped stores; each is closed at the end."""
        yield from closed_at_the_end(TimestampedStores(tmp_path, open_timestamped_store))

    @pytest.fixture
    def subject(self, open_timestamped_store: OpenTimestampedStore, tmp_path: Path) -> Subject:
        """Give the relations this kind."""
        return Subject(TimestampedKind(), with_its_own_clock(open_timestamped_store), tmp_path)
