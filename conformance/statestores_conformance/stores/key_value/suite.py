"""All tests of a key-value store, at either door. Read this as the table of contents."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from statestores_conformance.models.tests import KeyValueModelTests
from statestores_conformance.relations import KeyValueKind, Subject
from statestores_conformance.relations.suites import KeyValueRelations
from statestores_conformance.stores.every_kind.suite import AnyKindTests
from statestores_conformance.stores.key_value.many import KeyValueManyTests
from statestores_conformance.stores.key_value.reads import (
    KeyValueFacadeTests,
    KeyValueIteratorTests,
    KeyValueReadTests,
)
from statestores_conformance.stores.key_value.updates import KeyValueUpdateTests
from statestores_conformance.stores.key_value.writes import KeyValueBulkTests, KeyValueWriteTests
from statestores_conformance.subjects.adversaries import KeyValueAdversaryTests
from statestores_conformance.subjects.store_fixtures import closed_at_the_end
from statestores_conformance.subjects.stores import KeyValueStores, OpenKeyValueStore
from statestores_conformance.vectors.tests import KeyValueVectorTests


class KeyValueStoreTests(AnyKindTests):
    """Everything that chapters 2, 3 and 5 of the specification require of a key-value store.

    Give it one fixture::

        class TestRedis(KeyValueStoreTests):
            @pytest.fixture
            def open_key_value_store(self) -> OpenKeyValueStore:
                return lambda path, specification: RedisStore.open(path.name, specification)
    """

    kind_chapters = frozenset({"KVS"})

    TestWrites = KeyValueWriteTests
    TestBulkWrites = KeyValueBulkTests
    TestManyRows = KeyValueManyTests
    TestUpdates = KeyValueUpdateTests
    TestReads = KeyValueReadTests
    TestIterators = KeyValueIteratorTests
    TestReadsOfFacades = KeyValueFacadeTests
    TestModel = KeyValueModelTests
    TestRelations = KeyValueRelations
    TestAdversaries = KeyValueAdversaryTests
    TestVectors = KeyValueVectorTests

    @pytest.fixture
    def key_value_stores(
        self, open_key_value_store: OpenKeyValueStore, tmp_path: Path
    ) -> Iterator[KeyValueStores]:
        """Open any number of key-value stores; each is closed at the end."""
        yield from closed_at_the_end(KeyValueStores(tmp_path, open_key_value_store))

    @pytest.fixture
    def stores(self, key_value_stores: KeyValueStores) -> KeyValueStores:
        """Give the tests that hold for every kind this one."""
        return key_value_stores

    @pytest.fixture
    def subject(self, open_key_value_store: OpenKeyValueStore, tmp_path: Path) -> Subject:
        """Give the relations this kind."""
        return Subject(KeyValueKind(), open_key_value_store, tmp_path)
