"""The stores over a PostgreSQL server. Collected in soak runs only: see `conftest`.

What they do with an engine, the tests of SQLite show in less time; and to collect 2,200 tests in
each worker, only to skip them, cost every run half a minute.
"""

import pytest

from statestores_conformance import BackendTests, EngineTests, OpenEngine

sqlite = pytest.importorskip(
    "statestores_sqlite", reason="the driver of the sqlite backend is not installed"
)


@pytest.mark.soak
class TestStoresOnPostgreSQL(BackendTests):
    """Every kind of store, with a table for each directory."""

    class TestEngine(EngineTests):
        """Proved by `test_postgresql_conformance`, in every run."""

        __test__ = False

    @pytest.fixture
    def open_engine(self, postgresql_url: str) -> OpenEngine:
        """Open an engine on the server."""
        opened: OpenEngine = sqlite.PostgreSQLEngine.open
        return opened
