"""Everything that the contract of statestores asks of a backend, proved of this one."""

import pytest
from statestores_conformance import BackendTests, OpenEngine

from statestores_lmdb import LMDBEngine


class TestLMDB(BackendTests):
    """The engine as users open it."""

    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        """Open the engine with its default options."""
        return LMDBEngine.open
