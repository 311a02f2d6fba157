"""The built-in backends, proved by the suite on the road that a stranger takes."""

from typing import ClassVar

import pytest

from statestores.errors import MissingDriverError
from statestores.registry import load_backend
from statestores_conformance import BackendTests, OpenEngine


class BuiltInBackendTests(BackendTests):
    """The suite for a backend that is registered under a name."""

    name: ClassVar[str]

    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        """Open the engine with its default options; skip when its driver is not installed."""
        try:
            return load_backend(self.name).open
        except MissingDriverError as error:
            pytest.skip(str(error))


class TestMemory(BuiltInBackendTests):
    name = "memory"


class TestRocksDB(BuiltInBackendTests):
    name = "rocksdb"


class TestLevelDB(BuiltInBackendTests):
    name = "leveldb"


class TestSQLite(BuiltInBackendTests):
    name = "sqlite"
