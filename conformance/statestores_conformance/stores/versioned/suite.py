"""All tests of a versioned store, at either door. Read this as the table of contents."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from statestores_conformance.models.tests import VersionedModelTests
from statestores_conformance.relations import Subject, VersionedKind
from statestores_conformance.relations.suites import VersionedRelations
from statestores_conformance.stores.every_kind.suite import AnyKindTests
from statestores_conformance.stores.versioned.many import VersionedManyTests
from statestores_conformance.stores.versioned.reads import (
    VersionedHistoryTests,
    VersionedPointReadTests,
)
from statestores_conformance.stores.versioned.replay import VersionedReplayTests
from statestores_conformance.stores.versioned.scans import (
    VersionedFacadeTests,
    VersionedIteratorTests,
    VersionedScanTests,
)
from statestores_conformance.stores.versioned.stream_time import (
    VersionedReopeningTests,
    VersionedStreamTimeTests,
)
from statestores_conformance.stores.versioned.writes import VersionedBulkTests, VersionedPutTests
from statestores_conformance.subjects.adversaries import VersionedAdversaryTests
from statestores_conformance.subjects.store_fixtures import closed_at_the_end
from statestores_conformance.subjects.stores import OpenVersionedStore, VersionedStores
from statestores_conformance.vectors.tests import VersionedVectorTests


class VersionedStoreTests(AnyKindTests):
    """Everything that chapters 2, 4 and 5 of the specification require of a versioned store.

    Give it one fixture, ``open_versioned_store``, as for `KeyValueStoreTests`.
    """

    kind_chapters = frozenset({"VRS"})

    TestPuts = VersionedPutTests
    TestStreamTime = VersionedStreamTimeTests
    TestBulkPuts = VersionedBulkTests
    TestPointReads = VersionedPointReadTests
    TestHistory = VersionedHistoryTests
    TestScans = VersionedScanTests
    TestManyVersions = VersionedManyTests
    TestIterators = VersionedIteratorTests
    TestReopening = VersionedReopeningTests
    TestReplayOfVersions = VersionedReplayTests
    TestReadsOfFacades = VersionedFacadeTests
    TestModel = VersionedModelTests
    TestRelations = VersionedRelations
    TestAdversaries = VersionedAdversaryTests
    TestVectors = VersionedVectorTests

    @pytest.fixture
    def versioned_stores(
        self, open_versioned_store: OpenVersionedStore, tmp_path: Path
    ) -> Iterator[VersionedStores]:
        """Open any number of versioned stores; each is closed at the end."""
        yield from closed_at_the_end(VersionedStores(tmp_path, open_versioned_store))

    @pytest.fixture
    def stores(self, versioned_stores: VersionedStores) -> VersionedStores:
        """Give the tests that hold for every kind this one."""
        return versioned_stores

    @pytest.fixture
    def subject(self, open_versioned_store: OpenVersionedStore, tmp_path: Path) -> Subject:
        """Give the relations this kind."""
        return Subject(VersionedKind(), open_versioned_store, tmp_path)
