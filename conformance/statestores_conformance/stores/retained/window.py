"""All tests of a window store, at either door. Read this as the table of contents."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from statestores_conformance.models.retained_tests import WindowModelTests
from statestores_conformance.relations import Subject, WindowKind
from statestores_conformance.relations.suites import WindowRelations
from statestores_conformance.stores.every_kind.suite import AnyKindTests
from statestores_conformance.stores.retained.many import WindowManyTests
from statestores_conformance.stores.retained.window_commits import WindowCommitTests
from statestores_conformance.stores.retained.window_reads import (
    WindowExpiryTests,
    WindowReadTests,
    WindowReopeningTests,
)
from statestores_conformance.stores.retained.window_writes import (
    WindowBulkTests,
    WindowDuplicateTests,
    WindowPutTests,
    WindowSpecificationTests,
)
from statestores_conformance.subjects.retained_stores import OpenWindowStore, WindowStores
from statestores_conformance.subjects.store_fixtures import closed_at_the_end
from statestores_conformance.vectors.retained_tests import WindowVectorTests


class WindowStoreTests(AnyKindTests):
    """Everything that chapters 2, 5 and 13 of the specification require of a window store.

    Give it one fixture, ``open_window_store``, as for `KeyValueStoreTests`.
    """

    kind_chapters = frozenset({"WIN"})

    TestPuts = WindowPutTests
    TestBulkPuts = WindowBulkTests
    TestManyRows = WindowManyTests
    TestSpecification = WindowSpecificationTests
    TestDuplicates = WindowDuplicateTests
    TestReads = WindowReadTests
    TestExpiry = WindowExpiryTests
    TestReopening = WindowReopeningTests
    TestModel = WindowModelTests
    TestRelations = WindowRelations
    TestVectors = WindowVectorTests
    TestCommittedWindows = WindowCommitTests

    @pytest.fixture
    def window_stores(
        self, open_window_store: OpenWindowStore, tmp_path: Path
    ) -> Iterator[WindowStores]:
        """Open any number of window stores; each is closed at the end."""
        yield from closed_at_the_end(WindowStores(tmp_path, open_window_store))

    @pytest.fixture
    def stores(self, window_stores: WindowStores) -> WindowStores:
        """Give the tests that hold for every kind this one."""
        return window_stores

    @pytest.fixture
    def subject(self, open_window_store: OpenWindowStore, tmp_path: Path) -> Subject:
        """Give the relations this kind."""
        return Subject(WindowKind(), open_window_store, tmp_path)
