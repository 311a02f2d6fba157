"""A view of a RocksDB engine frozen at one instant."""

from collections.abc import Iterator
from threading import Lock

from rocksdict import Snapshot

from statestores.errors import StoreClosedError
from statestores.spi import EngineSnapshot
from statestores_rocksdb.failures import fail
from statestores_rocksdb.frozen_view import FrozenView
from statestores_rocksdb.iterators import OpenIterators, Pair


class RocksDBSnapshot(EngineSnapshot):
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

    def first(self, start: bytes, stop: bytes | None = None) -> Pair | None:
        with self._lock:
            return self._open_view().first(start, stop)

    def last(self, start: bytes, stop: bytes | None = None) -> Pair | None:
        with self._lock:
            return self._open_view().last(start, stop)

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        with self._lock:
            return self._open_view().scan(start, stop, self._iterators, reverse=reverse)

    def scan_ahead(
        self, start: bytes, stop: bytes | None, limit: int, *, reverse: bool = False
    ) -> tuple[list[Pair], Iterator[Pair] | None]:
        with self._lock:
            return self._open_view().scan_ahead(
                start, stop, limit, self._iterators, reverse=reverse
            )

    def close(self) -> None:
        with self._lock:
            self.view = None
            self._frozen = None
        self._iterators.close()

    def _open_view(self) -> FrozenView:
        """Return the view. Requires: the lock, until no reference to it is left."""
        if self.view is None:
            raise self._closed()
        return self.view

    def _closed(self) -> StoreClosedError:
        return StoreClosedError(f"the snapshot of {self._path!r} is closed; take a new one")
