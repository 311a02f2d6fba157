"""The module that the child process gives to pytest: one class over the suite, for the subject.

This is what a stranger writes, but for the name of the backend, which comes from the environment.
"""

from pathlib import Path
from typing import Any

import pytest

from statestores.spi import KeyValue, Versioned
from statestores_conformance.backend import BackendTests
from statestores_conformance.engines import OpenEngine
from statestores_conformance.key_value import KeyValueStoreTests
from statestores_conformance.runner.subject import (
    EngineSubject,
    StoreSubject,
    load_subject,
    opens,
    requested,
)
from statestores_conformance.stores import OpenKeyValueStore, OpenVersionedStore
from statestores_conformance.versioned import VersionedStoreTests

_subject = load_subject(*requested())


class _EngineSuite(BackendTests):
    """The whole suite, over an engine."""

    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        assert isinstance(_subject, EngineSubject)
        return _subject.open


class _KeyValueSuite(KeyValueStoreTests):
    """The tests of key-value stores, at door two."""

    @pytest.fixture
    def open_key_value_store(self) -> OpenKeyValueStore:
        opener: OpenKeyValueStore = _opener()
        return opener


class _VersionedSuite(VersionedStoreTests):
    """The tests of versioned stores, at door two."""

    @pytest.fixture
    def open_versioned_store(self) -> OpenVersionedStore:
        opener: OpenVersionedStore = _opener()
        return opener


def _opener() -> Any:
    """Return the function under test; which kinds it opens was probed."""
    assert isinstance(_subject, StoreSubject)
    opened = _subject.open
    return lambda path, specification: opened(Path(path), specification)


# pytest collects the names that begin with "Test".
if isinstance(_subject, EngineSubject):
    TestBackend = _EngineSuite
else:
    if opens(_subject, KeyValue("probe")):
        TestKeyValueStore = _KeyValueSuite
    if opens(_subject, Versioned("probe", history_retention_ms=0)):
        TestVersionedStore = _VersionedSuite
