"""The conformance suite: one class and one line prove a backend.

In the top ``conftest.py`` (or by ``addopts = ["-p", "statestores_conformance"]``)::

    pytest_plugins = ["statestores_conformance"]

and in any test module::

    class TestLMDB(BackendTests):
        @pytest.fixture
        def open_engine(self) -> OpenEngine:
            return LMDBEngine.open

The package itself is the plugin, so that pytest rewrites the assertions of all its modules. Read
`engine` first, then `commit`, `key_value` and `versioned`.
"""

from statestores_conformance.engine import EngineTests
from statestores_conformance.engines import OpenEngine
from statestores_conformance.plugin import pytest_configure, pytest_terminal_summary

__all__ = [
    "EngineTests",
    "OpenEngine",
    "pytest_configure",
    "pytest_terminal_summary",
]
