"""LevelDB keeps the contract of engines."""

import pytest

from statestores.registry import load_backend
from statestores_conformance import BackendTests, OpenEngine

pytest.importorskip("plyvel", reason="the driver of the leveldb backend is not installed")


class TestLevelDB(BackendTests):
    """With the default options."""

    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        """Open LevelDB, found as any backend is."""
        return load_backend("leveldb").open
