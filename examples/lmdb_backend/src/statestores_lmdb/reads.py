"""Reads: of the engine, as of its last commit, and of its snapshots, as of theirs."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence

import lmdb
from statestores.spi import EngineReader

from statestores_lmdb.database import Database, View
from statestores_lmdb.failures import translated
from statestores_lmdb.layers import find
from statestores_lmdb.walks import ascending, descending

_FIRST_CHUNK_ROWS = 8
_CHUNK_GROWTH = 4
_LARGEST_CHUNK_ROWS = 256
_LARGEST_CHUNK_BYTES = 1024 * 1024


class LMDBReads(EngineReader):
    """The reading half. Invariant: the driver is only called under the gate."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @abstractmethod
    def _check_open(self) -> None:
        """Raise `StoreClosedError` when this engine or snapshot can no longer be read."""

    @abstractmethod
    def _view(self) -> View:
        """Return what is read, or raise `StoreClosedError`. Requires: the gate."""

    def get(self, key: bytes) -> bytes | None:
        return self.get_many((key,))[0]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._check_open()
        with self._database.gate:
            transaction, tables = self._view().transaction, self._database.tables
            try:
                return [find(transaction, tables, key) for key in keys]
            except lmdb.Error as error:
                raise translated(error, self._database.path) from error

    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        return self._edge(start, stop, reverse=False)

    def last(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        return self._edge(start, stop, reverse=True)

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        self._check_open()
        with self._database.gate:
            view = self._view()  # taken at the call, not at the first step
        return self._rows(view, start, stop, reverse=reverse)

    def _edge(
        self, start: bytes, stop: bytes | None, *, reverse: bool
    ) -> tuple[bytes, bytes] | None:
        self._check_open()
        with self._database.gate:
            walk = self._walk(self._view(), start, stop, reverse=reverse)
            try:
                return next(walk, None)
            except lmdb.Error as error:
                raise translated(error, self._database.path) from error

    def _rows(
        self, view: View, start: bytes, stop: bytes | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the range; *view* is held for as long as the iterator is."""
        walk = self._walk(view, start, stop, reverse=reverse)
        size = _FIRST_CHUNK_ROWS
        while chunk := self._fetch(walk, size):
            for pair in chunk:
                # Also what was read ahead is not given out by a closed engine.
                self._check_open()
                yield pair
            size = min(size * _CHUNK_GROWTH, _LARGEST_CHUNK_ROWS)

    def _fetch(self, walk: Iterator[tuple[bytes, bytes]], size: int) -> list[tuple[bytes, bytes]]:
        """Return the next pairs, at most *size*; none only at the end."""
        chunk: list[tuple[bytes, bytes]] = []
        taken = 0
        self._check_open()
        with self._database.gate:
            self._check_open()
            try:
                for pair in walk:
                    chunk.append(pair)
                    taken += len(pair[0]) + len(pair[1])
                    if len(chunk) == size or taken > _LARGEST_CHUNK_BYTES:
                        break
            except lmdb.Error as error:
                raise translated(error, self._database.path) from error
        return chunk

    def _walk(
        self, view: View, start: bytes, stop: bytes | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        walk = descending if reverse else ascending
        return walk(view.transaction, self._database.tables, start, stop)
