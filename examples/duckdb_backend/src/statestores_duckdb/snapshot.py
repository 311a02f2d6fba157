"""A frozen view of a DuckDB file."""

from statestores.spi import EngineSnapshot

from statestores_duckdb.database import Database, Hold
from statestores_duckdb.reads import DuckDBReads
from statestores_duckdb.views import View


class DuckDBSnapshot(DuckDBReads, EngineSnapshot):
    """What the engine held at `DuckDBEngine.snapshot`.

    While it is open the log grows: DuckDB moves nothing into the file under a transaction that may
    see what was there before.
    """

    def __init__(self, database: Database, hold: Hold) -> None:
        super().__init__(database)
        self._held = hold

    def close(self) -> None:
        self._held.close()

    def _check_open(self) -> None:
        self._held.view()

    def _take(self) -> View:
        return self._held.view()

    def _give(self, view: View, *, failed: bool) -> None:
        """Nothing is to be done: the snapshot keeps its view."""

    def _hold(self) -> Hold:
        self._held.view()
        return self._held
