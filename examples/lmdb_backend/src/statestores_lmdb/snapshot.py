"""A frozen view of an LMDB environment."""

from statestores.spi import EngineSnapshot

from statestores_lmdb.database import Database, View
from statestores_lmdb.failures import closed
from statestores_lmdb.reads import LMDBReads


class LMDBSnapshot(LMDBReads, EngineSnapshot):
    """What the engine held at `LMDBEngine.snapshot`.

    It costs the space of what has been replaced since, which LMDB uses again once it is closed.
    """

    def __init__(self, database: Database, view: View) -> None:
        super().__init__(database)
        self._held: View | None = view

    def close(self) -> None:
        self._held = None

    def _check_open(self) -> None:
        self._view()

    def _view(self) -> View:
        self._database.check_open()
        held = self._held
        if held is None:
            raise closed(self._database.path)
        return held
