"""The reads of ranges that an engine and its snapshots answer from a view, under one lock."""

from abc import abstractmethod
from collections.abc import Iterator
from threading import Lock

from statestores.spi import EngineReader
from statestores_rocksdb.frozen_view import FrozenView, beyond
from statestores_rocksdb.iterators import OpenIterators, Pair


class ViewReads(EngineReader):
    """An engine, or a snapshot of one."""

    _lock: Lock
    _iterators: OpenIterators

    @abstractmethod
    def _present_view(self) -> FrozenView:
        """Return the view to read. Requires: the lock, until no reference to it is left."""

    def first(self, start: bytes, stop: bytes | None = None) -> Pair | None:
        with self._lock:
            return self._present_view().first(start, stop)

    def last(self, start: bytes, stop: bytes | None = None) -> Pair | None:
        with self._lock:
            return self._present_view().last(start, stop)

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        with self._lock:
            return self._present_view().scan(start, stop, self._iterators, reverse=reverse)

    def scan_ahead(
        self, start: bytes, stop: bytes | None, limit: int, *, reverse: bool = False
    ) -> tuple[list[Pair], Iterator[Pair] | None]:
        with self._lock:
            view = self._present_view()
            pairs = view.read(start, stop, limit, reverse=reverse)
            if len(pairs) < limit:
                return pairs, None
            start, stop = beyond(pairs[-1], start, stop, reverse=reverse)
            return pairs, view.scan(start, stop, self._iterators, reverse=reverse)
