"""Fixtures for the test classes of stores.

The author gives `open_key_value_store` or `open_versioned_store`, or for an engine both at once by
`open_engine`. Tests of every kind take ``stores``, and run for each of the class's `kinds`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.stores import (
    KeyValueStores,
    OpenKeyValueStore,
    OpenVersionedStore,
    Stores,
    StoreUnderTest,
    VersionedStores,
)


class KeyValueFixtures:
    """What the tests of key-value stores are given."""

    @pytest.fixture
    def open_key_value_store(self) -> OpenKeyValueStore:
        """Give the function that opens a store; the author overrides this."""
        pytest.fail(
            "the test class has no key-value store; give it a fixture `open_key_value_store` that "
            "returns a function from a directory and a `KeyValue` to an open store"
        )

    @pytest.fixture
    def key_value_stores(
        self, open_key_value_store: OpenKeyValueStore, tmp_path: Path
    ) -> Iterator[KeyValueStores]:
        """Open any number of key-value stores; each is closed at the end."""
        yield from _closed_at_the_end(KeyValueStores(tmp_path, open_key_value_store))


class VersionedFixtures:
    """What the tests of versioned stores are given."""

    @pytest.fixture
    def open_versioned_store(self) -> OpenVersionedStore:
        """Give the function that opens a store; the author overrides this."""
        pytest.fail(
            "the test class has no versioned store; give it a fixture `open_versioned_store` that "
            "returns a function from a directory and a `Versioned` to an open store"
        )

    @pytest.fixture
    def versioned_stores(
        self, open_versioned_store: OpenVersionedStore, tmp_path: Path
    ) -> Iterator[VersionedStores]:
        """Open any number of versioned stores; each is closed at the end."""
        yield from _closed_at_the_end(VersionedStores(tmp_path, open_versioned_store))


class StoreFixtures:
    """What the tests of every kind are given."""

    kinds: ClassVar[tuple[str, ...]] = ()
    """The kinds of store that the class opens."""

    @pytest.fixture
    def stores(self, request: pytest.FixtureRequest) -> Stores:
        """Open stores of one kind; the test runs for each of the class's kinds."""
        stores: Stores = request.getfixturevalue(_FIXTURES[request.param])
        return stores

    @pytest.fixture
    def persistent_stores(self, stores: Stores) -> Stores:
        """Open stores of one kind whose content survives closing."""
        with stores.open("probe").store as probe:
            skip_unless_promised("persistent", made=probe.persistent)
        return stores

    @pytest.fixture
    def opened(self, stores: Stores) -> StoreUnderTest:
        """Open one empty store."""
        return stores.open()


_FIXTURES = {"key-value": "key_value_stores", "versioned": "versioned_stores"}


def _closed_at_the_end[S: Stores](stores: S) -> Iterator[S]:
    """Give *stores*, close what the test left open, and look for files left open."""
    try:
        yield stores
    finally:
        stores.close()

    assert stores.files_left_open() == []


def run_for_each_kind(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes ``stores`` once for each kind that its class opens."""
    kinds = getattr(metafunc.cls, "kinds", None)
    if kinds and "stores" in metafunc.fixturenames:
        metafunc.parametrize("stores", kinds, indirect=True)
