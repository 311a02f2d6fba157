"""The conformance suite: one class and one line prove a backend.

In the top ``conftest.py`` (or by ``addopts = ["-p", "statestores_conformance"]``)::

    pytest_plugins = ["statestores_conformance"]

and in any test module::

    class TestLMDB(BackendTests):
        @pytest.fixture
        def open_engine(self) -> OpenEngine:
            return LMDBEngine.open

The package itself is the plugin, so that pytest rewrites the assertions of all its modules. Read
`backend` first: each class names the parts that it is made of.
"""

import statestores_conformance.loading  # noqa: F401  # before what takes a second to load

# isort: split
from statestores_conformance.backend import BackendTests
from statestores_conformance.engine.suite import EngineTests
from statestores_conformance.faults.store_crash_tests import StoreCrashTests
from statestores_conformance.plugin import (
    open_engine,
    open_key_value_store,
    open_session_store,
    open_timestamped_store,
    open_versioned_store,
    open_window_store,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_terminal_summary,
)
from statestores_conformance.relations.options import OptionSets
from statestores_conformance.stores.key_value.suite import KeyValueStoreTests
from statestores_conformance.stores.retained.session import SessionStoreTests
from statestores_conformance.stores.retained.window import WindowStoreTests
from statestores_conformance.stores.timestamped.suite import (
    TimestampedKeyValueStoreTests,
    TimeToLiveTests,
)
from statestores_conformance.stores.versioned.suite import VersionedStoreTests
from statestores_conformance.subjects.engines import OpenEngine
from statestores_conformance.subjects.retained_stores import OpenSessionStore, OpenWindowStore
from statestores_conformance.subjects.stores import OpenKeyValueStore, OpenVersionedStore
from statestores_conformance.subjects.timestamped_stores import OpenTimestampedStore

__all__ = [
    "BackendTests",
    "EngineTests",
    "KeyValueStoreTests",
    "OpenEngine",
    "OpenKeyValueStore",
    "OpenSessionStore",
    "OpenTimestampedStore",
    "OpenVersionedStore",
    "OpenWindowStore",
    "OptionSets",
    "SessionStoreTests",
    "StoreCrashTests",
    "TimeToLiveTests",
    "TimestampedKeyValueStoreTests",
    "VersionedStoreTests",
    "WindowStoreTests",
    "open_engine",
    "open_key_value_store",
    "open_session_store",
    "open_timestamped_store",
    "open_versioned_store",
    "open_window_store",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_terminal_summary",
]
