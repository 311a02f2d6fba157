"""Everything that the contract of statestores asks of a backend, proved of this one."""

import pytest
from statestores_conformance import BackendTests, OpenEngine
from statestores_conformance.engine.disk.damage import EngineDamageTests
from statestores_conformance.engine.disk.shortages import EngineShortageTests
from statestores_conformance.engine.lifecycle.unclosed import EngineUnclosedTests
from statestores_conformance.engine.suite import EngineTests

from statestores_duckdb import DuckDBEngine

_ends_the_process = pytest.mark.skip(
    reason="DuckDB ends the process when the system refuses it a file"
)
"""Nobody is left to raise an error (ENG-28)."""


class _ShortageTests(EngineShortageTests):
    @_ends_the_process
    def test_a_shortage_loses_nothing(self) -> None:  # type: ignore[override]
        """The process is lost."""

    @_ends_the_process
    def test_a_close_and_an_opening_in_a_shortage_lose_nothing(self) -> None:  # type: ignore[override]
        """The process is lost."""


_misses_no_log = pytest.mark.skip(
    reason="DuckDB's log is gone as well whenever it has been moved to the file"
)


class _DamageTests(EngineDamageTests):
    @_misses_no_log
    def test_a_file_that_a_living_engine_lost_is_never_a_hole(self) -> None:  # type: ignore[override]
        """Nothing in the file says which of the two it is (ENG-48)."""

    @_misses_no_log
    def test_a_file_that_was_lost_after_a_long_read_is_never_a_hole(self) -> None:  # type: ignore[override]
        """Nor then."""


class _UnclosedTests(EngineUnclosedTests):
    @_misses_no_log
    def test_a_file_that_is_lost_after_an_end_is_never_a_hole(self) -> None:  # type: ignore[override]
        """Nor then."""


class _EngineTests(EngineTests):
    TestDamage = _DamageTests
    TestShortages = _ShortageTests
    TestUnclosed = _UnclosedTests


class TestDuckDB(BackendTests):
    """The engine as users open it."""

    TestEngine = _EngineTests

    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        """Open the engine with its default options."""
        return DuckDBEngine.open
