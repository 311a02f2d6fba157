"""The SQLite engine keeps the contract of engines on a PostgreSQL server as well."""

import shutil
from pathlib import Path

import pytest

from statestores.errors import StoreLockedError
from statestores.spi import Durability, Engine
from statestores_conformance import EngineTests, OpenEngine
from statestores_conformance.engine.disk.damage import EngineDamageTests
from statestores_conformance.engine.lifecycle.unclosed import EngineUnclosedTests
from statestores_conformance.subjects.engines import Engines

sqlite = pytest.importorskip(
    "statestores_sqlite", reason="the driver of the sqlite backend is not installed"
)


@pytest.mark.long
class TestPostgreSQL(EngineTests):
    """With a table for each directory."""

    @pytest.fixture
    def open_engine(self, postgresql_url: str) -> OpenEngine:
        """Open an engine on the server, which it finds in the environment."""
        opened: OpenEngine = sqlite.PostgreSQLEngine.open
        return opened

    class TestDamage(EngineDamageTests):
        """The files of this engine name a table, and hold no pairs."""

        @pytest.mark.spec("ENG-1")
        def test_a_copy_of_a_living_engine_opens_at_a_whole_batch(
            self,
            engines: Engines,
            persistent_engine: Engine,
            open_engine: OpenEngine,
            tmp_path: Path,
        ) -> None:
            """A copied directory is the same engine, locked while the first is open."""
            persistent_engine.apply({b"k": b"v"}, Durability.PROCESS_CRASH)
            shutil.copytree(engines.path(), tmp_path / "left")
            with pytest.raises(StoreLockedError):
                open_engine(tmp_path / "left")
            persistent_engine.close()
            with open_engine(tmp_path / "left") as opened:
                assert opened.get(b"k") == b"v"

    class TestUnclosed(EngineUnclosedTests):
        """Two of these look into copies of a directory, which are this very engine, as above."""

        test_a_child_that_ends_takes_nothing_from_its_parent = None  # type: ignore[assignment]
        test_an_engine_that_is_dropped_loses_nothing = None  # type: ignore[assignment]
