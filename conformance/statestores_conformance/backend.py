"""All tests of a backend: its engine, and every kind of store over it."""

import pytest

from statestores_conformance.engine.disk.waits import DiskWaitTests
from statestores_conformance.engine.lifecycle.forks import ForkTests
from statestores_conformance.engine.lifecycle.lifetimes import EngineLifetimeTests
from statestores_conformance.engine.stores import EngineRetentionTests, EngineStoreTests
from statestores_conformance.engine.suite import EngineTests
from statestores_conformance.engine.time_to_live import EngineTimeToLiveTests
from statestores_conformance.faults.crash_tests import EngineCrashTests
from statestores_conformance.faults.fault_tests import FaultTests
from statestores_conformance.histories.history_tests import HistoryTests
from statestores_conformance.relations.options import OptionRelationTests, OptionSets
from statestores_conformance.stores.key_value.suite import KeyValueStoreTests
from statestores_conformance.stores.retained.removal import SessionRemovalTests, WindowRemovalTests
from statestores_conformance.stores.retained.session import SessionStoreTests
from statestores_conformance.stores.retained.window import WindowStoreTests
from statestores_conformance.stores.timestamped.suite import (
    TimestampedKeyValueStoreTests,
    TimeToLiveTests,
)
from statestores_conformance.stores.versioned.suite import VersionedStoreTests
from statestores_conformance.subjects.engines import OpenEngine
from statestores_conformance.subjects.openers import StoreOnEngine
from statestores_conformance.subjects.retained_stores import OpenSessionStore, OpenWindowStore
from statestores_conformance.subjects.stores import OpenKeyValueStore, OpenVersionedStore
from statestores_conformance.subjects.timestamped_stores import OpenTimestampedStore


class BackendTests:
    """Everything that can be proved of a backend, from one fixture.

    ::

        class TestLMDB(BackendTests):
            @pytest.fixture
            def open_engine(self) -> OpenEngine:
                return LMDBEngine.open
    """

    TestEngine = EngineTests
    TestKeyValueStore = KeyValueStoreTests
    TestTimestampedKeyValueStore = TimestampedKeyValueStoreTests
    TestTimeToLive = TimeToLiveTests
    TestTimeToLiveOnEngine = EngineTimeToLiveTests
    TestVersionedStore = VersionedStoreTests
    TestWindowStore = WindowStoreTests
    TestSessionStore = SessionStoreTests
    TestWindowRemoval = WindowRemovalTests
    TestSessionRemoval = SessionRemovalTests
    TestStoresOnEngine = EngineStoreTests
    TestRetentionOnEngine = EngineRetentionTests
    TestOptions = OptionRelationTests
    TestDiskWaits = DiskWaitTests
    TestCrashes = EngineCrashTests
    TestFaults = FaultTests
    TestForks = ForkTests
    TestHistories = HistoryTests
    TestLifetimes = EngineLifetimeTests

    @pytest.fixture
    def option_sets(self) -> OptionSets:
        """Give openers of the engine with other options; an author who has some overrides this."""
        return {}

    @pytest.fixture
    def open_key_value_store(self, open_engine: OpenEngine) -> OpenKeyValueStore:
        """Open key-value stores over the engine."""
        return StoreOnEngine(open_engine)

    @pytest.fixture
    def open_timestamped_store(self, open_engine: OpenEngine) -> OpenTimestampedStore:
        """Open timestamped key-value stores over the engine."""
        return StoreOnEngine(open_engine)

    @pytest.fixture
    def open_versioned_store(self, open_engine: OpenEngine) -> OpenVersionedStore:
        """Open versioned stores over the engine."""
        return StoreOnEngine(open_engine)

    @pytest.fixture
    def open_window_store(self, open_engine: OpenEngine) -> OpenWindowStore:
        """Open window stores over the engine."""
        return StoreOnEngine(open_engine)

    @pytest.fixture
    def open_session_store(self, open_engine: OpenEngine) -> OpenSessionStore:
        """Open session stores over the engine."""
        return StoreOnEngine(open_engine)
