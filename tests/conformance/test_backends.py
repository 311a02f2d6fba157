"""The built-in backends, proved by the suite on the road that a stranger takes."""

from functools import partial
from typing import ClassVar

import pytest

from statestores.errors import MissingDriverError
from statestores.registry import load_backend
from statestores_conformance import BackendTests, OpenEngine
from statestores_conformance.relations.options import OptionSets

pytestmark = pytest.mark.usefixtures("examples_of_a_quick_run")


class BuiltInBackendTests(BackendTests):
    """The suite for a backend that is registered under a name."""

    name: ClassVar[str]
    other_options: ClassVar[dict[str, dict[str, str]]] = {}

    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        """Open the engine with its default options; skip when its driver is not installed."""
        try:
            return load_backend(self.name).open
        except MissingDriverError as error:
            pytest.skip(str(error))

    @pytest.fixture
    def option_sets(self, open_engine: OpenEngine) -> OptionSets:
        """Open the engine with options that are far from its defaults."""
        return {
            what: partial(load_backend(self.name).open, options=options)
            for what, options in self.other_options.items()
        }


class TestMemory(BuiltInBackendTests):
    name = "memory"


class TestRocksDB(BuiltInBackendTests):
    name = "rocksdb"
    other_options: ClassVar = {
        "small and slow": {
            "write_buffer_bytes": "65536",
            "block_bytes": "1024",
            "block_cache_bytes": "0",
            "bloom_bits_per_key": "0",
            "compression": "none",
            "max_open_files": "16",
        },
    }


class TestLevelDB(BuiltInBackendTests):
    name = "leveldb"
    other_options: ClassVar = {
        "small and slow": {
            "write_buffer_bytes": "65536",
            "block_bytes": "1024",
            "bloom_bits": "0",
            "max_open_files": "74",
        },
    }


class TestSQLite(BuiltInBackendTests):
    name = "sqlite"
    other_options: ClassVar = {
        "small": {"cache_bytes": "65536", "wal_bytes": "65536"},
        "without checksums": {"checksums": "false"},
    }
