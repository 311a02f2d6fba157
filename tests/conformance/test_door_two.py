"""A store that is not ours, proved at door two."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from statestores_conformance import KeyValueStoreTests, OpenKeyValueStore

_KIT = Path(__file__).parent / "kit"


def _load(name: str) -> ModuleType:
    """Import a module that lies beside this one; tests are not a package."""
    spec = importlib.util.spec_from_file_location(name, _KIT / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestDictStore(KeyValueStoreTests):
    @pytest.fixture
    def open_key_value_store(self) -> OpenKeyValueStore:
        """Open a store of dicts; the directory means nothing to it."""
        store = _load("dict_store").DictStore
        return lambda path, specification: store(specification)
