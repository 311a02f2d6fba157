"""A frozen view of a LevelDB database."""

from threading import RLock
from typing import Protocol

from statestores.spi import EngineSnapshot
from statestores_leveldb.reads import LevelDBReads, Source


class DriverSnapshot(Source, Protocol):
    """The part of ``plyvel.Snapshot`` that is used."""

    def close(self) -> None:
        """Let LevelDB forget what only this snapshot still needs."""


class LevelDBSnapshot(LevelDBReads, EngineSnapshot):
    """What the engine held at `LevelDBEngine.snapshot`; costs nothing but the space of old rows."""

    def __init__(self, snapshot: DriverSnapshot, path: str) -> None:
        super().__init__(snapshot, path)
        self._snapshot = snapshot
        self._closing = RLock()

    def close(self) -> None:
        # A reader may finish with it at the moment when the engine is closed. LevelDB would free
        # the snapshot twice, or after its database, and that ends the process.
        with self._closing:
            self._stop_reads()
            self._snapshot.close()
