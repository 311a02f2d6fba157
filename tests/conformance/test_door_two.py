"""A store that is not ours, proved at door two."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from statestores.errors import CapabilityNotSupportedError
from statestores.spi import Capabilities, Durability
from statestores_conformance import KeyValueStoreTests, OpenKeyValueStore
from statestores_conformance.runner.subject import StoreSubject, probe

_KIT = Path(__file__).parent / "kit"

pytestmark = pytest.mark.usefixtures("examples_of_a_quick_run")


def _load(name: str) -> ModuleType:
    """Import a module that lies beside this one; tests are not a package."""
    spec = importlib.util.spec_from_file_location(name, _KIT / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_store_promises_the_durability_that_it_gives() -> None:
    """It was taken for durable because it persists, and reached a level that it has not earned."""
    dict_store = _load("dict_store").DictStore

    class HastyStore(dict_store):  # type: ignore[misc, valid-type]  # it is loaded by its path
        persistent = True

        def commit(self, offsets: object, *, durability: Durability | None = None) -> None:
            if durability is Durability.POWER_LOSS:
                raise CapabilityNotSupportedError("no commit waits for a disk")

    found = probe(StoreSubject("hasty", lambda path, specification: HastyStore(specification)))

    assert found == Capabilities(persistent=True, durable_commit=False)


class TestDictStore(KeyValueStoreTests):
    @pytest.fixture
    def open_key_value_store(self) -> OpenKeyValueStore:
        """Open a store of dicts; the directory means nothing to it."""
        store = _load("dict_store").DictStore
        return lambda path, specification: store(specification)
