"""One scan: rows fetched from the driver in chunks, until they end or the engine is closed."""

import weakref
from collections.abc import Callable, Iterator, Sequence
from threading import Lock

from statestores.errors import StateStoreError, StoreClosedError
from statestores_sqlite.readers import DriverRows

_FIRST_CHUNK_ROWS = 8
_CHUNK_GROWTH = 4
_LARGEST_CHUNK_ROWS = 128


class RowCursor:
    """The state of one scan, known to its engine or snapshot, so that closing either can end it.

    Invariant: the driver is called only under the lock. A chunk is handed out row by row without
    it; `close` empties the chunk, so the next step finds that the scan is closed.
    """

    def __init__(
        self,
        rows: DriverRows,
        lock: Lock,
        finish: Callable[[], None],
        closed: Callable[[], StoreClosedError],
    ) -> None:
        """Take over *rows*. *finish* is called once, even when the scan is merely forgotten."""
        self._rows = rows
        self._lock = lock
        self._closed = closed
        self._is_closed = False
        self._chunk: list[tuple[bytes, bytes]] = []
        self._finish = weakref.finalize(self, finish)
        self._finish.atexit = False

    def rows(
        self,
        errors: tuple[type[Exception], ...],
        translated: Callable[[Exception], StateStoreError],
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the rows; the driver's *errors* are *translated*."""
        size = _FIRST_CHUNK_ROWS
        try:
            while True:
                try:
                    chunk = self._fetch(size)
                except errors as error:
                    raise translated(error) from error
                ended = len(chunk) < size
                yield from chunk
                # A chunk that is used up and one that `close` has emptied look alike here.
                if self._is_closed:
                    raise self._closed()
                if ended:
                    return
                size = min(size * _CHUNK_GROWTH, _LARGEST_CHUNK_ROWS)
        finally:
            self.close()

    def close(self) -> None:
        """End the scan; a step that is under way in another thread finishes first. Idempotent."""
        with self._lock:
            self._is_closed = True
            self._chunk.clear()
            self._finish()

    def _fetch(self, size: int) -> Sequence[tuple[bytes, bytes]]:
        with self._lock:
            if self._is_closed:
                raise self._closed()
            self._chunk = chunk = list(self._rows.fetchmany(size))
        return chunk
