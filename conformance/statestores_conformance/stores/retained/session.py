"""All tests of a session store, at either door. Read this as the table of contents."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from statestores_conformance.models.retained_tests import SessionModelTests
from statestores_conformance.relations import SessionKind, Subject
from statestores_conformance.relations.suites import SessionRelations
from statestores_conformance.stores.every_kind.suite import AnyKindTests
from statestores_conformance.stores.retained.many import SessionManyTests
from statestores_conformance.stores.retained.session_reads import (
    SessionExpiryTests,
    SessionReadTests,
    SessionReopeningTests,
)
from statestores_conformance.stores.retained.session_writes import (
    SessionBulkTests,
    SessionPutTests,
    SessionSpecificationTests,
)
from statestores_conformance.subjects.retained_stores import OpenSessionStore, SessionStores
from statestores_conformance.subjects.store_fixtures import closed_at_the_end
from statestores_conformance.vectors.retained_tests import SessionVectorTests


class SessionStoreTests(AnyKindTests):
    """Everything that chapters 2, 5 and 14 of the specification require of a session store.

    Give it one fixture, ``open_session_store``, as for `KeyValueStoreTests`.
    """

    kind_chapters = frozenset({"SES"})

    TestPuts = SessionPutTests
    TestBulkPuts = SessionBulkTests
    TestManyRows = SessionManyTests
    TestSpecification = SessionSpecificationTests
    TestReads = SessionReadTests
    TestExpiry = SessionExpiryTests
    TestReopening = SessionReopeningTests
    TestModel = SessionModelTests
    TestRelations = SessionRelations
    TestVectors = SessionVectorTests

    @pytest.fixture
    def session_stores(
        self, open_session_store: OpenSessionStore, tmp_path: Path
    ) -> Iterator[SessionStores]:
        """Open any number of session stores; each is closed at the end."""
        yield from closed_at_the_end(SessionStores(tmp_path, open_session_store))

    @pytest.fixture
    def stores(self, session_stores: SessionStores) -> SessionStores:
        """Give the tests that hold for every kind this one."""
        return session_stores

    @pytest.fixture
    def subject(self, open_session_store: OpenSessionStore, tmp_path: Path) -> Subject:
        """Give the relations this kind."""
        return Subject(SessionKind(), open_session_store, tmp_path)
