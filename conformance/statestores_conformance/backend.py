"""All tests of a backend: its engine, and every kind of store over it."""

import pytest

from statestores_conformance.crash_tests import EngineCrashTests
from statestores_conformance.engine import EngineTests
from statestores_conformance.engine_disk_waits import DiskWaitTests
from statestores_conformance.engine_lifetimes import EngineLifetimeTests, ForkTests
from statestores_conformance.engine_stores import EngineRetentionTests, EngineStoreTests
from statestores_conformance.engine_time_to_live import EngineTimeToLiveTests
from statestores_conformance.engines import OpenEngine
from statestores_conformance.fault_tests import FaultTests
from statestores_conformance.history_tests import HistoryTests
from statestores_conformance.key_value import KeyValueStoreTests
from statestores_conformance.openers import StoreOnEngine
from statestores_conformance.option_relations import OptionRelationTests, OptionSets
from statestores_conformance.retained_removal import SessionRemovalTests, WindowRemovalTests
from statestores_conformance.retained_stores import OpenSessionStore, OpenWindowStore
from statestores_conformance.session import SessionStoreTests
from statestores_conformance.stores import OpenKeyValueStore, OpenVersionedStore
from statestores_conformance.timestamped import TimestampedKeyValueStoreTests, TimeToLiveTests
from statestores_conformance.timestamped_stores import OpenTimestampedStore
from statestores_conformance.versioned import VersionedStoreTests
from statestores_conformance.window import WindowStoreTests


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
        """Give openers of the engine with other options; an author who has some replaces this."""
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
