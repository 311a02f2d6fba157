"""Everything that the contract of statestores asks of a backend, proved of this one."""

import pytest
from statestores_conformance import BackendTests, OpenEngine

from statestores_duckdb import DuckDBEngine


class TestDuckDB(BackendTests):
    """The engine as users open it."""

    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        """Open the engine with its default options."""
        return DuckDBEngine.open
