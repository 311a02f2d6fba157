"""The built-in backends, proved by the suite on the road that a stranger takes."""

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import pytest
from shared_examples import fewer_examples

from statestores.errors import MissingDriverError
from statestores.registry import load_backend
from statestores_conformance import BackendTests, OpenEngine
from statestores_conformance.relations.options import OptionSets


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


class OnDiskTests(BuiltInBackendTests):
    """The same for an engine below which the stores are the same code again."""

    @pytest.fixture(autouse=True)
    def _fewer_examples(self) -> Iterator[None]:
        """Try random workloads half as often: those of memory have tried the stores themselves."""
        with fewer_examples():
            yield


class TestRocksDB(OnDiskTests):
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


class TestLevelDB(OnDiskTests):
    name = "leveldb"
    other_options: ClassVar = {
        "small and slow": {
            "write_buffer_bytes": "65536",
            "block_bytes": "1024",
            "bloom_bits": "0",
            "max_open_files": "74",
        },
    }


class TestSQLite(OnDiskTests):
    name = "sqlite"
    other_options: ClassVar = {"small": {"cache_bytes": "65536", "wal_bytes": "65536"}}
