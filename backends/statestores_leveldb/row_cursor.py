"""One scan: rows fetched from plyvel's iterator in chunks, safe against a close in another thread.

plyvel's own iterator has three traps, each of which we have met:

* closing the database while another thread is inside ``next`` frees the memory that it reads;
* where a damaged block is the last thing in the range, it ends as if the data were over;
* backwards, it leaves out the row at ``start`` when that is the only row of the range.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from threading import Lock
from typing import Protocol

from statestores_leveldb.failures import DRIVER_ERRORS, closed, translated

_FIRST_CHUNK_ROWS = 4
_CHUNK_GROWTH = 4
_LARGEST_CHUNK_ROWS = 128


class DriverIterator(Protocol):
    """The part of ``plyvel.Iterator`` that is used."""

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]: ...
    def __next__(self) -> tuple[bytes, bytes]: ...
    def seek(self, target: bytes) -> None:
        """Go to before the first row at or above *target*."""

    def seek_to_start(self) -> None:
        """Go back to before the first row."""

    def close(self) -> None:
        """Release the view; every call afterwards raises ``RuntimeError``."""


class RowCursor:
    """The state of one scan, known to the engine so that `close` can end it.

    Invariant: plyvel's iterator is touched only under the lock. A chunk is handed out row by row
    without it; `close` empties the chunk, so the next step comes back to the lock and fails.
    """

    __slots__ = ("__weakref__", "_chunk", "_closed", "_iterator", "_lock", "_path", "_verify_empty")

    def __init__(
        self, iterator: DriverIterator, path: str, verify_empty: Callable[[], None]
    ) -> None:
        self._iterator = iterator
        self._path = path
        self._verify_empty = verify_empty
        self._lock = Lock()
        self._chunk: list[tuple[bytes, bytes]] = []
        self._closed = False

    def rows(self, lowest: bytes, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the rows. *lowest* ends a scan in reverse, whose iterator may go below."""
        size = _FIRST_CHUNK_ROWS
        found = False
        try:
            while True:
                chunk = self._fetch(size, lowest if reverse else b"")
                ended = len(chunk) < size
                found = found or bool(chunk)
                yield from chunk
                # A chunk that is used up and one that `close` has emptied look alike here.
                if self._closed:
                    raise closed(self._path)
                if ended:
                    self._verify_end(found=found, reverse=reverse)
                    return
                size = min(size * _CHUNK_GROWTH, _LARGEST_CHUNK_ROWS)
        finally:
            self.close()

    def close(self) -> None:
        """End the scan; a step that is under way in another thread finishes first. Idempotent."""
        with self._lock:
            self._closed = True
            self._iterator.close()
            self._chunk.clear()

    def _fetch(self, size: int, lowest: bytes) -> list[tuple[bytes, bytes]]:
        """Return the next rows, fewer than *size* only at the end of the range."""
        with self._lock:
            try:
                self._chunk = chunk = list(islice(self._iterator, size))
            except DRIVER_ERRORS as error:
                raise translated(error, self._path) from error
        while chunk and chunk[-1][0] < lowest:
            chunk.pop()
        return chunk

    def _verify_end(self, *, found: bool, reverse: bool) -> None:
        """Raise when the range ended at damage rather than at its end.

        LevelDB skips a damaged block and remembers that it did; plyvel asks only after a step that
        arrives at a row. Backwards, every step asks. Forwards, going back to the first row asks.
        Where no row was found, there is none to go back to: other means look at the range.
        """
        if not found:
            self._verify_empty()
        elif not reverse:
            with self._lock:
                try:
                    self._iterator.seek_to_start()
                    next(iter(self._iterator))
                except DRIVER_ERRORS as error:
                    raise translated(error, self._path) from error
