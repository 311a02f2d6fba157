"""SQLite keeps the contract of engines."""

import pytest

from statestores.registry import load_backend
from statestores_conformance import BackendTests, OpenEngine

pytest.importorskip("sqlalchemy", reason="the driver of the sqlite backend is not installed")


class TestSQLite(BackendTests):
    """With the default options."""

    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        """Open SQLite, found as any backend is."""
        return load_backend("sqlite").open
