"""A view of a RocksDB engine frozen at one instant."""

from threading import Lock

from rocksdict import Snapshot

from statestores.errors import StoreClosedError
from statestores.spi import EngineSnapshot
from statestores_rocksdb.failures import fail
from statestores_rocksdb.frozen_view import FrozenView
from statestores_rocksdb.iterators import OpenIterators
from statestores_rocksdb.view_reads import ViewReads


class RocksDBSnapshot(ViewReads, EngineSnapshot):
    """A driver's snapshot for point reads, and the view of the same instant for the rest.

    Both pin what they show: an open snapshot keeps deleted and overwritten pairs on disk.
    """

    def __init__(self, path: str, view: FrozenView, frozen: Snapshot, lock: Lock) -> None:
        """Requires: *view* and *frozen* were taken under one hold of the engine's *lock*."""
        self._path = path
        self.view: FrozenView | None = view
        """The engine also reads through it while nothing is applied; ``None`` when closed."""
        self._frozen: Snapshot | None = frozen
        self._lock = lock
        self._iterators = OpenIterators(f"the snapshot of {path!r}")

    def get(self, key: bytes) -> bytes | None:
        if self._frozen is None:
            raise self._closed()
        try:
            value: bytes = self._frozen[key]
        except Exception as error:  # noqa: BLE001  # the driver raises the class itself
            if error.args == ("key not found",):
                return None
            fail(error, f"read {key!r}")
        return value

    def close(self) -> None:
        with self._lock:
            self.view = None
            self._frozen = None
        self._iterators.close()

    def _present_view(self) -> FrozenView:
        if self.view is None:
            raise self._closed()
        return self.view

    def _closed(self) -> StoreClosedError:
        return StoreClosedError(f"the snapshot of {self._path!r} is closed; take a new one")
